//! Attention, backward: dq, dk and dv; see [`spec::attention::backward`] for the formulas.
//!
//! | module | kernel | from |
//! |---|---|---|
//! | `sm90` | warp-specialised, by TMA and `wgmma` | sm_90a |
//! | `simt` | by fused multiply-adds, without tensor cores; and delta, which every other kernel needs | sm_75 |

mod simt;
pub mod sm90;

pub use simt::*;
pub use sm90::*;
