//! Asynchronous copies: what is done at issue, and what when they land.

mod memory;
mod shape;
mod tensor;
mod tile;
mod transfer;

use super::cluster::Cluster;
use super::fault::{Checked, Fault};
use super::mbarrier::{Place, misuse};
use crate::check::{Operation, Stamp};

/// Who issued an operation, and where.
#[derive(Clone, Debug)]
pub(crate) struct Issuer {
    pub(crate) rank: u32,
    /// Warp in the block.
    pub(crate) warp: u32,
    pub(crate) lane: u32,
    pub(crate) pc: u32,
    /// The operation's part in happens-before.
    pub(crate) operation: Operation,
}

impl Issuer {
    /// Says of a fault who ran into it.
    #[cold]
    pub(crate) fn blame(&self, mut fault: Box<Fault>) -> Box<Fault> {
        (fault.rank, fault.warp, fault.pc) = (self.rank, self.warp, self.pc);
        fault.lane = Some(self.lane);
        fault
    }

    /// Counts bytes that have come, at the mbarrier that waits for them.
    fn complete(&self, cluster: &Cluster, at: Place, bytes: u64) -> Checked<()> {
        let stamp: Stamp = cluster.order.borrow().finish(&self.operation);
        let mut table = cluster.mbarriers.borrow_mut();
        let done = table
            .get(at)
            .and_then(|barrier| barrier.complete(bytes as u32, &stamp));
        match done {
            Ok(_) => Ok(()),
            Err(why) => {
                let message = format!(
                    "a copy ends at the mbarrier at 0x{:x} of rank {}: {why}",
                    at.offset, at.rank
                );
                Err(self.blame(misuse(None, message).at(at.offset)))
            }
        }
    }
}
