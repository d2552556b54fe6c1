//! Attention's gradients on Hopper, by TMA and `wgmma`. `kernel.rs` explains how it works.
//!
//! | file | what |
//! |---|---|
//! | `kernel` | roles, barriers |
//! | `walk` | the tiles of queries that a block visits |
//! | `load` | the loader of q, k, v and d_o, and that of lse and delta |
//! | `consume` | the consumers' loop |
//! | `mask` | what of a tile is visible |
//! | `add` | the warp that adds to dq |
//! | `store` | accumulators, rounded, to rows of a tensor |
//! | `dq` | the kernel that turns sums into dq |

mod add;
mod consume;
mod dq;
mod entries;
mod kernel;
mod load;
mod mask;
mod store;
mod walk;

pub use entries::*;
