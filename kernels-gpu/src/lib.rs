//! warpsmith's own GPU kernels: the entries, one module a family. The host launches them as `spec`
//! describes; cuda_builder compiles this crate to the PTX in `ptx/`.
//!
//! The feature `entries` (on by default) can be turned off by a crate that only wants the parts to
//! build kernels of its own from. Then there are no entries, only [`gemm::sm90::Gemm`] and what
//! belongs to it.
#![cfg_attr(
    target_arch = "nvptx64",
    no_std,
    feature(abi_ptx, asm_experimental_arch)
)]

#[cfg(feature = "entries")]
pub mod attention;
#[cfg(feature = "entries")]
pub mod attention_backward;
#[cfg(feature = "entries")]
pub mod elementwise;
#[cfg(feature = "entries")]
mod entry;
#[cfg(feature = "entries")]
pub mod fragments;
#[cfg(feature = "entries")]
pub mod gather;
pub mod gemm;
#[cfg(feature = "entries")]
pub mod norm;
#[cfg(feature = "entries")]
pub mod reduce;
#[cfg(feature = "entries")]
pub mod rotary;
#[cfg(feature = "entries")]
pub mod scan;
#[cfg(feature = "entries")]
pub mod scatter;
#[cfg(feature = "entries")]
mod simt;
#[cfg(feature = "entries")]
pub mod softmax;
#[cfg(feature = "entries")]
pub mod topk;

#[cfg(feature = "entries")]
mod row;
