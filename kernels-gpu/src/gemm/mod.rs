//! GEMMs: `D = epilogue(op(A) @ op(B))`.
//!
//! | module | kernel | from |
//! |---|---|---|
//! | `sm90` | warp-specialised and persistent, by TMA and `wgmma` | sm_90a |
//! | `mma` | multistage, by `cp.async` and `mma.sync` | sm_80; f16 also sm_75 |
//! | `decode` | at most 64 rows (128 on Hopper), bound by memory bandwidth | sm_80, another for sm_90a |
//! | `simt` | f32 by fused multiply-adds, without tensor cores | sm_75 |
//! | `double` | f64, by multiply-adds or by `mma.sync` of f64, with an epilogue of its own | sm_75; sm_80, sm_90a |
//! | `integer` | i8 with sums in i32, by `dp4a`; what becomes of such sums | sm_75 |
//! | `grouped` | rows in groups, each with its own B, f32 without tensor cores | sm_75 |
//! | `finish` | sums up split-K partial results and applies the epilogue | sm_75 |
//!
//! `fused` is the epilogue that all but `double` share, and `integer` where results are floats; `store` writes the results of `simt`, `stored`
//! those whose type a launch says.
#![expect(
    clippy::needless_range_loop,
    reason = "iterators and closures over arrays are not always inlined, and cost local memory then"
)]

#[cfg(feature = "gemm")]
pub mod decode;
#[cfg(feature = "gemm")]
mod double;
#[cfg(feature = "gemm")]
mod entries;
#[cfg(feature = "gemm")]
mod finish;
#[cfg(feature = "gemm")]
mod fused;
#[cfg(feature = "gemm")]
mod grouped;
#[cfg(feature = "gemm")]
mod integer;
#[cfg(feature = "gemm")]
mod mma;
#[cfg(feature = "gemm")]
mod simt;
pub mod sm90;
#[cfg(feature = "gemm")]
mod store;
#[cfg(feature = "gemm")]
mod stored;

#[cfg(feature = "gemm")]
pub use double::*;
#[cfg(feature = "gemm")]
pub use entries::*;
#[cfg(feature = "gemm")]
pub use finish::*;
#[cfg(feature = "gemm")]
pub use grouped::*;
#[cfg(feature = "gemm")]
pub use integer::*;
#[cfg(feature = "gemm")]
pub use mma::*;
