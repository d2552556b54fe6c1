//! Attention, forward: `o = softmax(softmax_scale * q @ k^T + mask) @ v`.
//!
//! | module | kernel | from |
//! |---|---|---|
//! | `sm90` | warp-specialised and persistent, by TMA and `wgmma` | sm_90a |
//! | `sm80` | by `mma.sync` | sm_80; f16 also sm_75 |
//! | `simt` | by fused multiply-adds, without tensor cores | sm_75 |
//! | `merge` | merges the results of two calls | sm_75 |
//! | `blocks` | builds block masks | sm_75 |
//! | `merge_splits` | merges the results of split-KV | sm_75 |

#[cfg(feature = "attention")]
mod blocks;
pub(crate) mod dropout;
pub(crate) mod lengths;
#[cfg(feature = "attention")]
mod merge;
#[cfg(feature = "attention")]
mod merge_splits;
pub(crate) mod packed_order;
pub(crate) mod pages;
pub(crate) mod score;
pub(crate) mod simt;
pub(crate) mod sm80;
pub mod sm90;
mod softmax;
pub(crate) mod sparse;

#[cfg(feature = "attention")]
pub use blocks::*;
#[cfg(feature = "attention")]
pub use merge::attention_merge;
#[cfg(feature = "attention")]
pub use merge_splits::attention_merge_splits;
#[cfg(feature = "attention")]
pub use simt::*;
#[cfg(feature = "attention")]
pub use sm80::*;
