//! Uses of the shared memory of another block of the cluster: the block must not exit before them.

use std::collections::HashMap;

use super::order::Order;
use crate::exec::fault::Fault;
use crate::report::FaultKind;

/// A use of a block's shared memory by a thread of another block.
#[derive(Clone, Copy, Debug)]
struct Use {
    epoch: u32,
    pc: u32,
    lane: u32,
    offset: u64,
    /// Whether the warp has arrived at the cluster's barrier since.
    arrived: bool,
}

/// The last use of each block's memory by each warp of another block.
#[derive(Debug, Default)]
pub(super) struct Peers(HashMap<(u32, u32), Use>);

impl Peers {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

impl Order {
    /// A warp (index in the cluster) uses the memory of the block of rank `rank`, if that is another
    /// one.
    #[inline(always)]
    pub(crate) fn use_peer(&mut self, warp: u32, rank: u32, (pc, lane): (u32, u32), offset: u64) {
        if rank == warp / self.warps_per_block {
            return;
        }
        if let Some(own) = self.warps.get(warp as usize) {
            let epoch = own.epoch;
            let used = Use {
                epoch,
                pc,
                lane,
                offset,
                arrived: false,
            };
            self.peers.0.insert((rank, warp), used);
        }
    }

    /// A warp arrives at the cluster's barrier, even if that orders nothing else: it has issued its
    /// uses before.
    pub(crate) fn arrive_after_uses(&mut self, warp: u32) {
        let uses = self.peers.0.iter_mut();
        let own = uses.filter(|((_, user), _)| *user == warp);
        own.for_each(|(_, used)| used.arrived = true);
    }

    /// All threads of the cluster have arrived: no exit after that is early for what they used.
    pub(crate) fn complete_uses(&mut self) {
        self.peers.0.retain(|_, used| !used.arrived);
    }

    /// The fault of a block that exits, although nothing orders the use of its memory by another
    /// block before the exit of its last thread.
    pub(crate) fn exit(&self, rank: u32) -> Option<Box<Fault>> {
        if self.peers.0.is_empty() {
            return None;
        }
        let own = rank * self.warps_per_block..(rank + 1) * self.warps_per_block;
        let is_known = |warp: u32, epoch: u32| {
            own.clone().any(|thread| {
                let clock = &self.warps[thread as usize].clock.generic;
                clock
                    .get(warp as usize)
                    .is_some_and(|known| *known >= epoch)
            })
        };
        let uses = self.peers.0.iter();
        let open = uses.filter(|((used, warp), at)| *used == rank && !is_known(*warp, at.epoch));
        let ((_, warp), at) = open.min_by_key(|((_, warp), _)| *warp)?;
        let message = format!(
            "0x{:x} is in the shared memory of the block of rank {rank}, and nothing orders this \
             use before the exit of that block",
            at.offset
        );
        let fault = Fault::new(FaultKind::UseAfterFree, Some(at.lane), message);
        let mut fault = fault.at(at.offset).note(
            "barrier.cluster after the use would order it before the exit, or a release after it \
             that a thread of the other block acquires"
                .to_owned(),
        );
        fault.rank = warp / self.warps_per_block;
        fault.warp = warp % self.warps_per_block;
        (fault.pc, fault.placed) = (at.pc, true);
        Some(fault)
    }
}
