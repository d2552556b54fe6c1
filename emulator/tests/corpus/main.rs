//! Kernels that nvrtc and Triton compiled, unchanged, against references in f64 or integers.
//! The sources and their PTX are in `tests/corpus`; `scripts/corpus` compiles them.

mod atomics;
mod bits;
mod calls;
mod harness;
mod library;
mod math;
mod norms;
mod plain;
mod triton;
mod warps;
