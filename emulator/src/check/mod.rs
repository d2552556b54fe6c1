//! Happens-before: who knows of whose accesses, and which two accesses race.
//!
//! Agents are the warps of a cluster and virtual ones for asynchronous work, one for each
//! [`Channel`]. Each carries a [`Stamp`]: what it knows to have happened. Barriers, mbarriers and
//! flags take up the stamps of those that arrive and hand them to those that wait.

mod order;
mod stamp;

pub(crate) use order::{Actor, Channel, Operation, Order, Proxy, Target};
pub(crate) use stamp::Stamp;
