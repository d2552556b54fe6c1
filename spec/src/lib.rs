//! What device and host must agree on, written once: dtypes, tile configurations, the parameter
//! structs that cross the launch, entry names.
//!
//! `no_std`, no dependencies. Kernels compile against it, the host launches by it.
#![no_std]
#![forbid(unsafe_code)]

pub mod attention;
mod dtype;
pub mod elementwise;
pub mod gemm;
pub mod reduce;
pub mod rows;
pub mod scan;
pub mod swizzle;
pub mod tensor_core;

pub use dtype::DType;
