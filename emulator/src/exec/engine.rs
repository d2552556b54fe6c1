//! Asynchronous operations in flight: they land when the scheduler says so.

use std::fmt::Debug;

use super::cluster::Cluster;
use super::fault::{Checked, Fault};

/// An operation that was issued and has not happened yet.
pub(crate) trait Landing: Debug {
    /// Does what was asked for: moves the data, completes the transaction, ends its group.
    fn land(self: Box<Self>, cluster: &Cluster) -> Checked<()>;

    /// The warp whose `cp.async` this is.
    fn copies_of(&self) -> Option<u32> {
        None
    }

    /// The warp whose `cp.async` issued before must land before this.
    fn comes_after(&self) -> Option<u32> {
        None
    }

    /// The fault of a block that exits while this is in flight; `None` if it may.
    fn left_behind(&self, _rank: u32) -> Option<Box<Fault>> {
        None
    }
}

/// The operations in flight in one cluster, in the order of their issue.
#[derive(Debug, Default)]
pub(crate) struct Engine {
    flying: Vec<Box<dyn Landing>>,
}

impl Engine {
    /// Takes up an operation.
    pub(crate) fn issue(&mut self, operation: Box<dyn Landing>) {
        self.flying.push(operation);
    }

    /// The fault of a block that exits before an operation in flight has come to its end.
    pub(crate) fn left_behind(&self, rank: u32) -> Option<Box<Fault>> {
        self.flying
            .iter()
            .find_map(|flight| flight.left_behind(rank))
    }

    /// Operations in flight.
    pub(crate) fn len(&self) -> usize {
        self.flying.len()
    }

    /// Takes out the operation at `index`, or one that it waits for, which lands next. It is not landed here, because landing
    /// needs the cluster, of which the engine is a part.
    pub(crate) fn take(&mut self, index: usize) -> Box<dyn Landing> {
        let before = self.flying[index].comes_after().and_then(|warp| {
            let mut earlier = self.flying[..index].iter();
            earlier.position(|flight| flight.copies_of() == Some(warp))
        });
        self.flying.remove(before.unwrap_or(index))
    }
}
