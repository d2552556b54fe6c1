//! Numbered examples, one program each:
//!
//! | example | shows |
//! |---|---|
//! | `01_vector_add` | your own kernel, from Rust to the GPU |
//! | `02_gemm` | a GEMM of the library |
//! | `03_attention` | causal attention with grouped heads |
//! | `04_your_reduction` | shared memory and barriers, next to the library's operations |
//! | `05_find_the_bug` | the emulator as a debugger |
//! | `06_your_epilogue` | a GEMM with an epilogue of your own |
//! | `07_your_function` | a function of your own over tensors |
//! | `08_hopper_gemm` | a tensor-core GEMM of your own, from TMA loads to stores, in a page |
//!
//! `cargo run --release --example 01_vector_add` runs the first. The kernels of 01 and 04 to 08 are
//! in the crate `examples/kernels`. Its PTX is committed, so running needs no device toolchain.
//! After a change there, run `cargo run --release -- build examples/kernels`.
#![forbid(unsafe_code)]
