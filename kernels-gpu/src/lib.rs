//! warpsmith's own GPU kernels: entries, one module a family. The host launches them by what
//! `spec` says; `ptx/` holds what cuda_builder makes of them.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]

pub mod attention;
pub mod elementwise;
pub mod gemm;
pub mod reduce;
mod simt;
pub mod softmax;

mod online;
mod rows;
