//! Race detection by happens-before: which agent knows of which accesses, and which two accesses
//! race.
//!
//! Two accesses to the same bytes race if different threads make them, at least one is a write, and
//! neither happens before the other. Two strong accesses (volatile, relaxed or stronger, or atomic)
//! do not race. Happens-before is kept as vector clocks. The agents are the warps of a cluster, and
//! virtual agents for asynchronous work, one for each [`Channel`] and issuing warp. A warp carries
//! a [`Stamp`], the vector clock of what it knows to have happened. Barriers, mbarriers and flags
//! collect the stamps of those that arrive and hand them to those that wait. [`shadow`] memory
//! holds the last accesses to each byte with their epochs.
//!
//! The lanes of a warp share a clock. What one lane acquires or releases counts for all of them,
//! which may hide a race but never reports a false one. Among themselves, lanes are ordered by
//! `bar.warp.sync` and by barriers of the block.

mod access;
mod cell;
mod conflict;
mod flags;
mod grid;
mod grid_plane;
mod knowledge;
mod order;
mod peers;
mod shadow;
mod stamp;
mod steps;
mod visits;

pub(crate) use access::Values;
pub(crate) use cell::{Kind, MOST_INSTRUCTIONS};
pub(crate) use conflict::across;
pub(crate) use flags::FlagUse;
pub(crate) use grid::{GridOrder, Touched};
pub(crate) use order::{Actor, Channel, Operation, Order, Proxy, Target};
pub(crate) use stamp::Stamp;
