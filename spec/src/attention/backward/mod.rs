//! Attention, backward: the gradients of q, k and v.
//!
//! | file | what |
//! |---|---|
//! | [`order`] | which tiles of queries a block of keys visits, and when it adds to dq |
//! | `params` | extents, strides and scalars of a launch |
//! | [`sm90`] | kernels by TMA and `wgmma` |

pub mod order;
mod params;
pub mod sm90;

pub use params::FlashBwdParams;
