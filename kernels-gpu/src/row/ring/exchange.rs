//! The exchange of a row's sums among its warps, and among the blocks of a cluster.

use super::{LANES, Ring};
use crate::row::words::{of_words, words};
use abi::rows::{RingLayout, VECTOR_BYTES};
use cuda_std::hint::opaque;
use cuda_std::shared::SharedAddr;
use cuda_std::warp::{FULL_MASK, Words, vote_any};
use cuda_std::{cluster, mem};

impl<const R: usize, const ANY: bool> Ring<R, ANY> {
    /// Posts the warp's sums of row `i`, the same in all lanes; in clusters, gathers them. In wide
    /// rings, whose blocks have one row at a time, the warp that is the last to do so sends them
    /// on.
    /// `whole` and `nothing` as for [`Ring::collect`].
    ///
    /// # Safety
    /// All warps call it for each row in turn, converged.
    #[inline(always)]
    pub(crate) unsafe fn post<S: Words>(
        &self,
        i: u32,
        value: S,
        nothing: S,
        whole: &impl Fn(S, u32) -> S,
    ) {
        let is_gathered = self.blocks > 1;
        let mut is_last = false;
        if self.lane == 0 {
            let (addr, barrier) = if is_gathered {
                (self.layout.gather(i, self.warp), self.gathered(i))
            } else {
                (self.layout.post(i, self.warp), self.posted(i))
            };
            // SAFETY: passed on to the caller; the warp's own place, free as explained above.
            unsafe {
                mem::st_shared_v4_u32(self.base.add_bytes(addr), words(value));
                if Self::IS_WIDE && is_gathered {
                    is_last = barrier.arrive_state().pending_count() == 1;
                } else {
                    barrier.arrive();
                }
            }
        }
        // SAFETY: passed on to the caller; of a block's warps one is the last.
        unsafe {
            if Self::IS_WIDE && vote_any(FULL_MASK, is_last) {
                self.send(i, nothing, whole);
            }
        }
    }

    /// The sums of row `i` over all its warps or blocks, once they are posted. `whole` reduces a
    /// value of each lane; `nothing` is its neutral element.
    ///
    /// # Safety
    /// All warps call it for each row in turn, converged, after they posted theirs.
    #[inline(always)]
    pub(crate) unsafe fn collect<S: Words>(
        &self,
        i: u32,
        nothing: S,
        whole: &impl Fn(S, u32) -> S,
    ) -> S {
        // SAFETY: passed on to the caller; the places have been written.
        unsafe {
            self.posted(i).wait_parity(self.layout.posted_parity(i));
            // Opaque: found anew for each row, as there is no register for it.
            let own = opaque(self.lane) & (self.width - 1);
            let addr = self.first_slot + self.layout.round_bytes(i) + own * VECTOR_BYTES;
            let value = at(self.base.add_bytes(addr), own < self.slots, nothing);
            whole(value, self.width)
        }
    }

    /// If it is the warp's turn, sends what the block's warps gathered of row `i` to all blocks; in
    /// wide rings [`Ring::post`] has done so.
    ///
    /// # Safety
    /// All warps call it for each row in turn, converged, after they gathered theirs.
    #[inline(always)]
    pub(crate) unsafe fn send_round<S: Words>(
        &self,
        i: u32,
        sender: u32,
        nothing: S,
        whole: &impl Fn(S, u32) -> S,
    ) {
        if Self::IS_WIDE || self.blocks == 1 || sender != self.warp {
            return;
        }
        // SAFETY: passed on to the caller.
        unsafe { self.send(i, nothing, whole) }
    }

    /// Sends what the block's warps gathered of row `i` to all blocks.
    ///
    /// # Safety
    /// One warp of each block of a cluster calls it for each row in turn, converged, after it
    /// gathered its own.
    #[inline(always)]
    unsafe fn send<S: Words>(&self, i: u32, nothing: S, whole: &impl Fn(S, u32) -> S) {
        // SAFETY: the places that are read have been written. Those of other blocks, which have not
        // exited, are free as explained above.
        unsafe {
            self.gathered(i).wait_parity(RingLayout::gathered_parity(i));
            let addr = self.base.add_bytes(self.layout.gather(i, self.lane));
            let value = whole(at(addr, self.lane < self.warps, nothing), LANES);
            if self.lane == 0 {
                self.posted(i).arrive_expect_tx(self.blocks * VECTOR_BYTES);
            }
            if self.lane < self.blocks {
                let addr = self.base.add_bytes(self.layout.post(i, self.rank));
                let there = cluster::mapa_shared_cluster(addr, self.lane);
                let barrier = self.posted(i).of_rank(self.lane);
                cluster::st_async_shared_cluster_v4_u32(there, words(value), barrier);
            }
        }
    }

    /// The warp whose turn it is to send, after `sender`'s.
    #[inline(always)]
    pub(crate) fn next_sender(&self, sender: u32) -> u32 {
        if sender + 1 < self.warps {
            sender + 1
        } else {
            0
        }
    }
}

/// The value at a place if it `is_there`, else `nothing`.
///
/// # Safety
/// If it is there, it has been written.
#[inline(always)]
unsafe fn at<S: Words>(addr: SharedAddr, is_there: bool, nothing: S) -> S {
    if !is_there {
        return nothing;
    }
    // SAFETY: passed on to the caller.
    of_words(unsafe { mem::ld_shared_v4_u32(addr) }, nothing)
}
