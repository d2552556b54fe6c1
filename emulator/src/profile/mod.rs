//! Counters: what a launch did, exactly, whatever the number of host threads.
//!
//! A `Tally` belongs to the blocks that one host thread runs, and gives what it counted to the
//! launch's `Collector` when it goes away; everything it holds is a sum or a union, so the order
//! does not matter. Without [`EmulatorConfig::profile`](crate::EmulatorConfig) it holds nothing.
//!
//! | figure | rule |
//! |---|---|
//! | global sectors | distinct 32-byte sectors that one warp's access falls into, added up over accesses |
//! | distinct bytes | bytes that the launch reads (or writes) at least once |
//! | shared wavefronts | 32 banks of 4 bytes; lanes that want the same word share it; 8-byte accesses go in two half-warps, 16-byte ones in four quarters |
//! | bank conflicts | wavefronts beyond one for each part of the warp that has active lanes |

mod banks;
mod counters;
mod kind;
mod occupancy;
mod registers;
mod tally;
mod touched;

pub use counters::{
    Copies, Counters, Flops, GlobalTraffic, HotLine, Issued, Moved, SharedTraffic, TensorFlops,
    Traffic, Waits,
};
pub use occupancy::{Occupancy, OccupancyLimit};
pub use ptx_syntax::explain::Class;

pub(crate) use kind::Kind;
pub(crate) use tally::{Collector, Copied, Tally, TensorInput, Touch, Waited};
