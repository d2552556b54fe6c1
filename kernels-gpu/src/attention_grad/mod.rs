//! Attention, backward: dq, dk, dv and those of sinks; see [`abi::attention_grad`] for the
//! formulas.
//!
//! | module | kernel | from |
//! |---|---|---|
//! | `sm90` | warp-specialised, by TMA and `wgmma` | sm_90a |
//! | `sm80` | by `mma.sync` | sm_80 |
//! | `simt` | by fused multiply-adds, without tensor cores; delta, which every other kernel needs; and sinks' gradients, for all of them | sm_75 |

mod simt;
mod sm80;
pub mod sm90;

pub use simt::*;
pub use sm80::*;
pub use sm90::*;
