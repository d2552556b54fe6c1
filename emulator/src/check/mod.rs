//! Happens-before: who knows of whose accesses, and which two accesses race.
//!
//! Two accesses of the same bytes race when different threads make them, at least one writes, not
//! both are strong (volatile, relaxed or stronger, atomic), and nothing orders them. What orders is
//! kept as vector clocks: agents are the warps of a cluster and virtual ones for asynchronous work,
//! one for each [`Channel`] and issuing warp. Each carries a [`Stamp`]: what it knows to have
//! happened. Barriers, mbarriers and flags take up the stamps of those that arrive and hand them
//! to those that wait. [`shadow`] remembers the last accesses to each byte with their epochs.
//!
//! Lanes of a warp share a clock: what one lane acquires or releases counts for all of them, which
//! may hide a race and never invents one. Among themselves they are ordered by `bar.warp.sync`
//! and by barriers of the block.

mod access;
mod conflict;
mod flags;
mod grid;
mod grid_plane;
mod knowledge;
mod order;
mod shadow;
mod stamp;

pub(crate) use access::Values;
pub(crate) use conflict::across;
pub(crate) use flags::FlagUse;
pub(crate) use grid::{GridOrder, Touched};
pub(crate) use order::{Actor, Channel, Operation, Order, Proxy, Target};
pub(crate) use shadow::{Kind, MOST_INSTRUCTIONS};
pub(crate) use stamp::Stamp;
