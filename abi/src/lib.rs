//! What device and host must agree on, written once: dtypes, tile configurations, the parameter
//! structs that are passed to kernels, and the names of kernels' entry points.
//!
//! Kernels compile against this crate, and the host launches by it. It is `no_std` and has no
//! dependencies.
//!
//! | module | what it has |
//! |---|---|
//! | [`gemm`], [`attention`], [`attention_grad`] | kernels' tiles, entries and parameters |
//! | [`reduce`], [`scan`] | views of tensors, and plans: how work is shared out over blocks |
//! | [`rows`] | softmax, norms and cross-entropy: where a row is held |
//! | [`sort`] | rows in order: digits, tiles and passes |
//! | [`topk`] | the first elements of rows in order: pairs of element and index, plans |
//! | [`gather`], [`scatter`], [`scatter_add`], [`rotary`] | selection by indices and its opposite, addition by indices, rotary position embedding |
//! | [`kv_append`] | new keys and values of a paged cache |
//! | [`elementwise`] | functions with their error bounds, the arithmetic of chains, skeletons |
//! | [`division`] | division by numbers that the host knows |
//! | [`swizzle`], [`tensor_core`] | layouts of shared memory and of tensor-core fragments |
#![no_std]
#![deny(unsafe_code)]

pub mod attention;
pub mod attention_grad;
pub mod division;
mod dtype;
pub mod elementwise;
pub mod entry;
pub mod gather;
pub mod gemm;
pub mod kv_append;
#[doc(hidden)]
pub mod param;
pub mod reduce;
pub mod rotary;
pub mod rows;
pub mod scan;
pub mod scatter;
pub mod scatter_add;
pub mod single;
pub mod sort;
pub mod swizzle;
pub mod tensor_core;
pub mod topk;

pub use dtype::{DType, OutputDType};
pub use param::{KernelParam, bytes_of};
pub use single::SingleEntry;
