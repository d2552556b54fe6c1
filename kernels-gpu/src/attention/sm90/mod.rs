//! Attention by tensor copies and wgmma.

mod clear;
mod consume;
mod entries;
mod kernel;
mod load;
mod mask;
mod packed_order;
mod rows;
mod schedule;
mod softmax;
mod store;
mod ticket;
mod turns;

pub use entries::*;
