//! Products of i8: `D[m, n] = epilogue(op(A)[m, k] @ op(B)[k, n])`, batched; see
//! [`abi::gemm::integer`].
//!
//! `product` is the portable kernel; `ending` makes results of sums, for it, for `finish` and for the
//! kernel of `mma.sync`, which is that of other types. Hopper's kernel has the epilogue of its own family.
//!
//! # Numerics
//! Sums in i32, which wrap: no order of additions shows, so all kernels give the same bits. Then either
//! one rounding to f32 and the epilogue in f32, or all in i32.

mod ending;
mod entries;
mod finish;
mod product;

pub(super) use ending::{Ending, WIDTH};
pub use entries::*;
