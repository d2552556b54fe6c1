//! Attention's gradients on Hopper, by TMA and `wgmma`. `kernel.rs` explains how it works.
//!
//! | file | what |
//! |---|---|
//! | `kernel` | roles, barriers |
//! | `scheduler` | the tiles of queries that a block visits |
//! | `place` | which sequence a block of keys belongs to |
//! | `load` | the loader of q, k, v and d_o, and that of lse and delta |
//! | `consume` | the consumers' loop |
//! | `pair` | the consumers of a cluster of two, for head dimensions above 128 |
//! | `mask` | what of a tile is visible |
//! | `add` | the warps that add to dq |
//! | `finish` | what becomes of dk and dv |
//! | `adders` | adding to device memory in turns |
//! | `store` | accumulators, rounded, to rows of a tensor |
//! | `round` | the kernel that turns sums into gradients |

mod add;
mod consume;
mod entries;
mod finish;
mod kernel;
mod load;
mod mask;
mod ordered_add;
mod pair;
mod place;
mod round;
mod schedule;
mod store;

pub use entries::*;
