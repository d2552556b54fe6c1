//! Asynchronous copies: what happens at issue, and what when they land.

mod issue;
mod lanes;
mod memory;
mod reduce;
mod remote;
mod shape;
mod tensor_map;
mod tile;
mod transfer;
mod window;

use super::block::Block;
use super::cluster::Cluster;
use super::fault::{Checked, Fault};
use super::mbarrier::{self, Place, misuse};
use super::warp::Warp;
use crate::check::{Channel, Operation, Order, Proxy, Stamp};
use crate::explore::Mode;
use crate::trace::{CopyKind, Landed};

/// The lane that issued an operation, and the instruction.
#[derive(Clone, Debug)]
pub(crate) struct Issuer {
    pub(crate) rank: u32,
    /// Warp in the block.
    pub(crate) warp: u32,
    pub(crate) lane: u32,
    pub(crate) pc: u32,
    pub(crate) proxy: Proxy,
    /// The operation as the race check knows it.
    pub(crate) operation: Operation,
}

impl Issuer {
    fn new(
        warp: &Warp,
        block: &Block<'_>,
        index: usize,
        lane: usize,
        proxy: Proxy,
        channel: Channel,
    ) -> Self {
        let pc = warp.paths.list[index].pc;
        let agent = block.agent(warp.index);
        let mut order = block.cluster.order.borrow_mut();
        Self {
            rank: block.rank,
            warp: warp.index,
            lane: lane as u32,
            pc,
            proxy,
            operation: order.begin(agent, lane as u32, pc, channel),
        }
    }

    /// Fills in the issuer of the operation as the place of a fault.
    #[cold]
    pub(crate) fn blame(&self, mut fault: Box<Fault>) -> Box<Fault> {
        (fault.rank, fault.warp, fault.pc) = (self.rank, self.warp, self.pc);
        fault.lane = Some(self.lane);
        fault
    }

    /// The stamp that waiting for the end of the operation acquires.
    fn stamp(&self, cluster: &Cluster) -> Stamp {
        let order = cluster.order.borrow();
        order.finish(&self.operation).at(order.steps.latest())
    }

    /// The copy of `bytes` that this issued, for a trace.
    fn copy(&self, kind: CopyKind, bytes: u64) -> Landed {
        Landed {
            kind,
            bytes,
            rank: self.rank,
            pc: self.pc,
            issued: Order::issued(&self.operation),
        }
    }

    /// Completes `bytes` of a transaction at an mbarrier.
    fn complete(&self, cluster: &Cluster, at: Place, bytes: u64) -> Checked<()> {
        let stamp = self.stamp(cluster);
        let mut order = cluster.order.borrow_mut();
        order.visit_mbarrier((at.rank, at.offset), Mode::Arrive);
        drop(order);
        let mut table = cluster.mbarriers.borrow_mut();
        let done = table.get(at).and_then(|barrier| {
            if barrier.complete(bytes as u32, &stamp)? {
                cluster.record_phase(at, barrier, self.pc);
            }
            Ok(())
        });
        done.map_err(|why| self.at_mbarrier(at, &why))
    }

    /// The same for a copy into shared memory, for which somebody has to wait.
    fn complete_copy(
        &self,
        cluster: &Cluster,
        at: Place,
        (target, bytes): (Place, u64),
    ) -> Checked<()> {
        let landed = mbarrier::Landed {
            rank: self.rank,
            warp: self.warp,
            lane: self.lane,
            pc: self.pc,
            target,
            bytes,
        };
        if let Ok(found) = cluster.mbarriers.borrow_mut().get(at) {
            found.note_landed(landed);
        }
        self.complete(cluster, at, bytes)
    }

    #[cold]
    fn at_mbarrier(&self, at: Place, why: &str) -> Box<Fault> {
        let message = format!(
            "an asynchronous operation ends at the mbarrier at 0x{:x} of rank {}: {why}",
            at.offset, at.rank
        );
        self.blame(misuse(None, message).at(at.offset))
    }
}
