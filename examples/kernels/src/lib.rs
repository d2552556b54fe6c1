//! Kernels of the examples, a module each; each becomes one PTX file.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]

pub mod block_calls;
pub mod contracts;
pub mod cooperative;
pub mod globals;
pub mod hopper_attention;
pub mod hopper_gemm;
pub mod lower_triangle;
pub mod reverse;
pub mod row_norms;
pub mod safe;
pub mod scores;
pub mod soft_clip;
pub mod swish_gate;
pub mod twins;
pub mod vector_add;
