//! Attention on Hopper, by TMA and `wgmma`. `kernel.rs` explains how it works.
//!
//! | file | what |
//! |---|---|
//! | `kernel` | roles, barriers, the loader's and the scheduler's loops |
//! | `consume` | the consumers' loops |
//! | `schedule` | which tiles a block computes, in which order |
//! | `ticket` | what the scheduler tells the others about a tile |
//! | `rows` | which query and head a row is (GQA packing) |
//! | `load` | TMA loads |
//! | `order_barrier` | the order in which consumers issue `wgmma`s |
//! | `mask`, `softmax`, `clear` | what is done to scores and values |
//! | `store` | o and lse |
//! | `wide` | a kernel of its own for heads above 256 |

mod change;
mod clear;
mod consume;
#[cfg(feature = "attention")]
mod entries;
mod kernel;
mod load;
mod mask;
mod order_barrier;
mod rows;
mod schedule;
mod softmax;
mod store;
mod ticket;
mod wide;

#[cfg(feature = "attention")]
pub use entries::*;
pub(crate) use mask::below;
