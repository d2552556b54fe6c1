//! Counters of a launch: exact, and independent of the number of host threads.
//!
//! A `Tally` counts for the blocks that one host thread runs, and adds its counts to the launch's
//! `Collector` when it is dropped. Everything it holds is a sum or a union, so the order does not
//! matter. Without [`EmulatorConfig::profile`](crate::EmulatorConfig) it holds nothing.
//!
//! Nothing here is a time, and caches are not modelled: a sector counts each time it is accessed.
//!
//! | figure | rule |
//! |---|---|
//! | global sectors | distinct 32-byte sectors that one warp's access (or one row of a copy) touches, summed over the accesses |
//! | distinct bytes | bytes that the launch reads (or writes) at least once |
//! | shared wavefronts | passes over 32 banks of 4 bytes each; lanes that access the same word share it; 8-byte accesses go in two half-warps, 16-byte accesses in four quarter-warps |
//! | bank conflicts | wavefronts beyond one for each part of the warp (whole, half or quarter) that has active lanes |

mod banks;
mod counters;
mod kind;
mod occupancy;
mod registers;
mod resources;
mod tally;
mod touched;

pub use counters::{
    Copies, Counters, Flops, GlobalTraffic, HotLine, Issued, Moved, SharedTraffic, TensorFlops,
    Traffic, Waits,
};
pub use occupancy::{Occupancy, OccupancyLimit};
pub use ptx_syntax::isa::Class;
pub use resources::Resources;

pub(crate) use kind::Kind;
pub use tally::Waited;
pub(crate) use tally::{Collector, Copied, Tally, TensorInput, Touch};
