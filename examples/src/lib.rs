//! Numbered examples, each a program:
//!
//! | example | shows |
//! |---|---|
//! | `01_vector_add` | your own kernel, from Rust to the GPU |
//! | `02_gemm` | a matrix product of the library |
//! | `03_attention` | causal attention with grouped heads |
//! | `04_your_reduction` | shared memory and barriers, next to the library's operations |
//! | `05_find_the_bug` | the emulator as a debugger |
//! | `06_your_epilogue` | a product with an epilogue of your own |
//! | `07_your_function` | a function of your own over tensors |
//!
//! `cargo run --release --example 01_vector_add` runs the first. The kernels of 01, 04 to 07 are
//! the crate in `examples/kernels`; its PTX is committed, so running needs no device toolchain.
//! After a change there: `cargo run --release -- build examples/kernels`.
#![forbid(unsafe_code)]
