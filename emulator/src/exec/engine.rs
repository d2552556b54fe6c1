//! Asynchronous operations in flight; the scheduler decides when each lands.

use std::fmt::Debug;

use super::cluster::Cluster;
use super::fault::{Checked, Fault};
use crate::trace::Landed;

/// An operation that has been issued and has not landed yet.
pub(crate) trait Landing: Debug {
    /// Carries the operation out: moves the data, completes the mbarrier transaction or the group.
    fn land(self: Box<Self>, cluster: &Cluster) -> Checked<()>;

    /// For a trace: the copy that is over when this has landed.
    fn copy(&self) -> Option<Landed> {
        None
    }

    /// For a `cp.async`: the warp that issued it.
    fn copies_of(&self) -> Option<u32> {
        None
    }

    /// The warp whose earlier `cp.async` operations must land before this operation.
    fn comes_after(&self) -> Option<u32> {
        None
    }

    /// The fault of a block that exits while this is in flight; `None` if it may exit.
    fn left_behind(&self, _cluster: &Cluster, _rank: u32) -> Option<Box<Fault>> {
        None
    }
}

/// The operations in flight in one cluster, in the order of issue.
#[derive(Debug, Default)]
pub(crate) struct Engine {
    flying: Vec<Box<dyn Landing>>,
    /// The number of each, and of the next one.
    numbers: Vec<u64>,
    next: u64,
}

impl Engine {
    /// Adds an operation.
    pub(crate) fn issue(&mut self, operation: Box<dyn Landing>) {
        self.flying.push(operation);
        self.numbers.push(self.next);
        self.next += 1;
    }

    /// How many operations have been issued.
    pub(crate) fn issued(&self) -> u64 {
        self.next
    }

    /// The numbers of the operations that may land next.
    pub(crate) fn ready(&self) -> Vec<u64> {
        let all = self.numbers.iter().enumerate();
        let ready = all.filter(|(index, _)| self.first(*index) == *index);
        ready.map(|(_, number)| *number).collect()
    }

    /// The position of the operation with a number.
    pub(crate) fn position(&self, number: u64) -> Option<usize> {
        self.numbers.iter().position(|own| *own == number)
    }

    /// The fault of a block that exits while one of its operations is in flight.
    pub(crate) fn left_behind(&self, cluster: &Cluster, rank: u32) -> Option<Box<Fault>> {
        self.flying
            .iter()
            .find_map(|flight| flight.left_behind(cluster, rank))
    }

    /// Number of operations in flight.
    pub(crate) fn len(&self) -> usize {
        self.flying.len()
    }

    /// Takes out the operation at `index`, or an earlier one that has to land first. The caller
    /// lands it, because landing needs the cluster, which owns the engine.
    pub(crate) fn take(&mut self, index: usize) -> Box<dyn Landing> {
        let index = self.first(index);
        self.numbers.remove(index);
        self.flying.remove(index)
    }

    /// The operation at `index`, or an earlier one that has to land first.
    fn first(&self, index: usize) -> usize {
        let before = self.flying[index].comes_after().and_then(|warp| {
            let mut earlier = self.flying[..index].iter();
            earlier.position(|flight| flight.copies_of() == Some(warp))
        });
        before.unwrap_or(index)
    }
}
