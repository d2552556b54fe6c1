//! warpsmith's own GPU kernels: the entries, one module a family. The host launches them as `abi`
//! describes; cuda_builder compiles this crate to the PTX in `ptx/`.
//!
//! Each family has a feature, all on by default; `families` is all of them. A crate that only wants
//! the parts to build kernels of its own from turns the default off. Then there are no entries, only
//! [`gemm::sm90::Gemm`] and what belongs to it.
#![cfg_attr(
    target_arch = "nvptx64",
    no_std,
    feature(abi_ptx, asm_experimental_arch)
)]
// One family uses a part of the code that families share.
#![cfg_attr(not(feature = "families"), allow(dead_code, unused_imports))]

#[cfg(any(feature = "attention", feature = "attention_grad"))]
pub mod attention;
#[cfg(feature = "attention_grad")]
pub mod attention_grad;
#[cfg(feature = "elementwise")]
pub mod elementwise;
mod entry;
#[cfg(feature = "fragments")]
pub mod fragments;
#[cfg(feature = "gather")]
pub mod gather;
pub mod gemm;
#[cfg(feature = "norm")]
pub mod norm;
#[cfg(any(feature = "reduce", feature = "scan", feature = "scatter_add"))]
pub mod reduce;
#[cfg(feature = "rotary")]
pub mod rotary;
#[cfg(feature = "scan")]
pub mod scan;
#[cfg(feature = "scatter_add")]
pub mod scatter_add;
#[cfg(any(feature = "attention", feature = "attention_grad", feature = "gemm"))]
mod simt;
#[cfg(feature = "softmax")]
pub mod softmax;
#[cfg(feature = "sort")]
pub mod sort;
#[cfg(feature = "topk")]
pub mod topk;

#[cfg(any(feature = "scatter_add", feature = "sort"))]
mod rank;
#[cfg(any(
    feature = "elementwise",
    feature = "gemm",
    feature = "norm",
    feature = "softmax"
))]
mod realign;
#[cfg(any(feature = "norm", feature = "softmax"))]
mod row;
