//! warpsmith's own GPU kernels: entries, one module a family. The host launches them by what
//! `spec` says; `ptx/` holds what cuda_builder makes of them.
//!
//! Without the feature `entries` (on by default) there are none, only what kernels of your own can be
//! made of: [`gemm::sm90::Gemm`].
#![cfg_attr(
    target_arch = "nvptx64",
    no_std,
    feature(abi_ptx, asm_experimental_arch)
)]

#[cfg(feature = "entries")]
pub mod attention;
#[cfg(feature = "entries")]
pub mod elementwise;
#[cfg(feature = "entries")]
pub mod fragments;
pub mod gemm;
#[cfg(feature = "entries")]
pub mod norm;
#[cfg(feature = "entries")]
pub mod reduce;
#[cfg(feature = "entries")]
pub mod scan;
#[cfg(feature = "entries")]
mod simt;
#[cfg(feature = "entries")]
pub mod softmax;

#[cfg(feature = "entries")]
mod row;
