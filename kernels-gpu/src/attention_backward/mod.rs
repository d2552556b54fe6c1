//! Attention, backward: the gradients of q, k and v.
//!
//! | module | kernel | from |
//! |---|---|---|
//! | `sm90` | warp-specialised, by TMA and `wgmma` | sm_90a |

pub mod sm90;
