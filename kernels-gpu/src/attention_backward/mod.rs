//! Attention, backward: dq, dk and dv; see [`spec::attention::backward`] for the formulas.
//!
//! | module | kernel | from |
//! |---|---|---|
//! | `simt` | by fused multiply-adds, without tensor cores; and delta, which every other kernel needs | sm_75 |

mod simt;

pub use simt::*;
