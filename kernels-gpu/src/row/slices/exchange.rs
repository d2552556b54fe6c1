//! What the warps of a thread group exchange: a slot for each, in the shared memory of every block.

use super::{LANES, ThreadGroup};
use crate::row::group::Group;
use crate::row::words::{of_words, words};
use abi::rows::{BARRIER_BYTES, VECTOR_BYTES};
use cuda_std::shared::SharedAddr;
use cuda_std::warp::Words;
use cuda_std::{cluster, mem, thread};

impl<const ANY: bool> ThreadGroup<ANY> {
    /// Number of warps of the thread group in this block.
    #[inline(always)]
    pub(crate) fn warps(&self) -> u32 {
        warps(&self.group)
    }

    /// Number of slots of the exchange: one for every warp of every block.
    #[inline(always)]
    pub(crate) fn slots(&self) -> u32 {
        warps(&self.group) * self.group.blocks
    }

    #[inline(always)]
    fn slot_at(&self, slot: u32) -> SharedAddr {
        self.base.add_bytes(BARRIER_BYTES + slot * VECTOR_BYTES)
    }

    /// Writes the warp's value, the same in all its lanes, to a slot in all blocks.
    ///
    /// # Safety
    /// All warps call it, once, converged, each for a slot of its own.
    #[inline(always)]
    pub(crate) unsafe fn post<S: Words>(&self, slot: u32, value: S) {
        // SAFETY: passed on to the caller.
        unsafe {
            if self.group.blocks > 1 {
                self.send(slot, value);
            } else {
                self.keep(slot, value);
            }
        }
    }

    /// Writes the warp's value, the same in all its lanes, to a slot in this block.
    ///
    /// # Safety
    /// The warp calls it, converged, for a slot of its own.
    #[inline(always)]
    pub(crate) unsafe fn keep<S: Words>(&self, slot: u32, value: S) {
        if self.group.own.is_multiple_of(LANES) {
            // SAFETY: passed on to the caller.
            unsafe { mem::st_shared_v4_u32(self.slot_at(slot), words(value)) };
        }
    }

    /// Sends the warp's value, the same in all its lanes, to a slot in all blocks of the cluster.
    ///
    /// # Safety
    /// The warp calls it, converged; nobody else writes the slot, and the message is one of those
    /// expected.
    #[inline(always)]
    pub(crate) unsafe fn send<S: Words>(&self, slot: u32, value: S) {
        let (lane, own) = (self.group.own % LANES, self.slot_at(slot));
        if lane < self.group.blocks {
            // SAFETY: passed on to the caller; other blocks have not exited, as they wait for this
            // message.
            unsafe {
                let there = cluster::mapa_shared_cluster(own, lane);
                let barrier = self.exchanged().of_rank(lane);
                cluster::st_async_shared_cluster_v4_u32(there, words(value), barrier);
            }
        }
    }

    /// Waits until all warps have written their slots.
    ///
    /// # Safety
    /// All threads of the block call it, once, converged, after [`ThreadGroup::post`].
    #[inline(always)]
    pub(crate) unsafe fn posted(&self) {
        // SAFETY: passed on to the caller; the barrier has one phase.
        unsafe {
            if self.group.blocks > 1 {
                self.exchanged().wait_parity(0);
            } else {
                thread::sync_threads();
            }
        }
    }

    /// Posts the warp's value, and waits until all have.
    ///
    /// # Safety
    /// All threads of the thread group call it, once; warps are converged.
    #[inline(always)]
    pub(crate) unsafe fn post_own<S: Words>(&self, value: S) {
        let group = &self.group;
        // SAFETY: passed on to the caller; each warp of each block has a slot.
        unsafe {
            self.post(group.rank * warps(group) + group.own / LANES, value);
            self.posted();
        }
    }

    /// The value in a slot. `like` only gives the type.
    ///
    /// # Safety
    /// After [`ThreadGroup::posted`]; there is such a slot.
    #[inline(always)]
    pub(crate) unsafe fn slot<S: Words>(&self, slot: u32, like: S) -> S {
        // SAFETY: passed on to the caller.
        of_words(unsafe { mem::ld_shared_v4_u32(self.slot_at(slot)) }, like)
    }

    /// The value in the slot that lies `after` the lane's first.
    ///
    /// # Safety
    /// After [`ThreadGroup::post_own`].
    #[inline(always)]
    pub(crate) unsafe fn own_slot<S: Words>(&self, after: u32, like: S) -> S {
        let first = self.group.own & (self.slots().min(LANES) - 1);
        // SAFETY: passed on to the caller.
        unsafe { self.slot(first + after, like) }
    }
}

/// Warps of a thread group in one block.
#[inline(always)]
pub(super) fn warps(group: &Group) -> u32 {
    group.threads.div_ceil(LANES)
}
