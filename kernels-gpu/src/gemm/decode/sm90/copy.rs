//! The producer warp: TMA loads and L2 prefetch.

use abi::gemm::decode::sm90::{MMA_WEIGHTS, SPAN_BYTES};
use abi::gemm::raster::divided;
use abi::tensor_core::descriptor::Major;
use cuda_std::mbarrier::Mbarrier;
use cuda_std::shared::SharedAddr;
use cuda_std::tile::OperandMajor;
use cuda_std::tma::{
    CachePolicy, cp_async_bulk_prefetch_tensor_3d_l2_global,
    cp_async_bulk_tensor_3d_shared_cluster_global,
    cp_async_bulk_tensor_3d_shared_cluster_global_l2_cache_hint,
    cp_async_bulk_tensor_3d_shared_cluster_global_multicast_cluster,
    createpolicy_fractional_l2_evict_first,
};

use super::Block;
use crate::gemm::decode::ring::RingState;

/// A block prefetches an eighth of its weights into L2 while it may not read them yet, but at least
/// so many bytes. At most it prefetches 5/3 of that, which is what memory can give meanwhile.
/// Measured, as are the bounds: docs/decisions/0011.
const PREFETCHED_BYTES: u32 = 96 << 10;

impl Block {
    /// Prefetches the first weights into L2 while the preceding launch may still run. If that
    /// launch writes them it does so in L2 too, and what is loaded from there later is what it
    /// wrote.
    ///
    /// # Safety
    /// One thread; the caller's operands.
    #[inline(always)]
    pub(super) unsafe fn prefetch<W: OperandMajor>(&self) {
        let least = divided(PREFETCHED_BYTES, self.tile_n * SPAN_BYTES).0;
        let eighth = (self.k_tile_end - self.k_tile_first) / 8;
        let tiles = eighth.min(least * 5 / 3).max(least);
        let end = self.k_tile_end.min(self.k_tile_first + tiles);
        let batch = self.batch[1];
        let mut k_tile = self.k_tile_first;
        while k_tile < end {
            let k = (k_tile * self.tile_k) as i32;
            let mut weight = 0;
            while weight < self.tile_n {
                let column = (self.column + weight) as i32;
                let at = match W::MAJOR {
                    Major::K => [k, column, batch],
                    Major::Mn => [column, k, batch],
                };
                // SAFETY: passed on to the caller.
                unsafe { cp_async_bulk_prefetch_tensor_3d_l2_global(self.map_b, at) };
                weight += match W::MAJOR {
                    Major::K => self.tile_n,
                    Major::Mn => MMA_WEIGHTS,
                };
            }
            k_tile += 1;
        }
    }

    /// The producer's work.
    ///
    /// # Safety
    /// One thread; the caller's operands.
    #[inline(always)]
    pub(super) unsafe fn produce<W: OperandMajor, const TILE_M: u32>(&self) {
        // Weights are read once, so L2 may evict them first.
        let policy = createpolicy_fractional_l2_evict_first(1.0);
        let mut state = RingState::default();
        let mut k_tile = self.k_tile_first;
        while k_tile < self.k_tile_end {
            let stage = self.ring.stage(state.stage_idx);
            let landed = self.ring.landed(state.stage_idx);
            let k = (k_tile * self.tile_k) as i32;
            // SAFETY: the stage is free after the wait, and all of its bytes are announced to the
            // barrier.
            unsafe {
                self.ring
                    .free(state.stage_idx)
                    .wait_parity(state.parity ^ 1);
                landed.arrive_expect_tx(self.ring.stage_bytes);
                self.copy_weights::<W>(stage, k, landed, policy);
                let tokens = stage.add_bytes(self.tile_n * SPAN_BYTES);
                self.copy_tokens::<TILE_M>(tokens, k, landed);
            }
            state.advance(self.ring.count);
            k_tile += 1;
        }
        if self.sharers > 1 {
            // SAFETY: as above.
            unsafe { self.drain(state) };
        }
    }

    /// Waits until every stage is free; the next one is at `state`. Then nobody multicasts into
    /// this block or arrives at its barriers any more, and what it has loaded has landed in all
    /// sharers.
    ///
    /// # Safety
    /// The producer's thread.
    #[inline(always)]
    unsafe fn drain(&self, mut state: RingState) {
        let mut stages = self.ring.count;
        while stages > 0 {
            // SAFETY: the barriers exist. One that was never waited for counts as free.
            unsafe {
                self.ring
                    .free(state.stage_idx)
                    .wait_parity(state.parity ^ 1)
            };
            state.advance(self.ring.count);
            stages -= 1;
        }
    }

    /// Issues the loads of a k tile of B.
    ///
    /// # Safety
    /// As for [`produce`](Self::produce).
    #[inline(always)]
    unsafe fn copy_weights<W: OperandMajor>(
        &self,
        to: SharedAddr,
        k: i32,
        landed: Mbarrier,
        policy: CachePolicy,
    ) {
        let (column, batch) = (self.column as i32, self.batch[1]);
        let map = self.map_b;
        // SAFETY: passed on to the caller.
        unsafe {
            if matches!(W::MAJOR, Major::K) {
                let at = [k, column, batch];
                cp_async_bulk_tensor_3d_shared_cluster_global_l2_cache_hint(
                    to, map, at, landed, policy,
                );
                return;
            }
            let mut weight = 0;
            while weight < self.tile_n {
                let at = [column + weight as i32, k, batch];
                let to = to.add_bytes(weight / MMA_WEIGHTS * (self.tile_k * SPAN_BYTES));
                cp_async_bulk_tensor_3d_shared_cluster_global_l2_cache_hint(
                    to, map, at, landed, policy,
                );
                weight += MMA_WEIGHTS;
            }
        }
    }

    /// Issues the loads of a k tile of A: this block's part, to all sharers.
    ///
    /// # Safety
    /// As for [`produce`](Self::produce).
    #[inline(always)]
    unsafe fn copy_tokens<const TILE_M: u32>(&self, to: SharedAddr, k: i32, landed: Mbarrier) {
        let (map, batch) = (self.map_a, self.batch[0]);
        // SAFETY: passed on to the caller. When this block's stage is free, so are the other
        // sharers': warpgroups free a stage for all sharers at once.
        unsafe {
            if self.sharers == 1 {
                let at = [k, self.row as i32, batch];
                cp_async_bulk_tensor_3d_shared_cluster_global(to, map, at, landed);
                return;
            }
            let row = self.cta_rank * (TILE_M >> self.sharers.trailing_zeros());
            let all = ((1 << self.sharers) - 1) << self.first_rank;
            cp_async_bulk_tensor_3d_shared_cluster_global_multicast_cluster(
                to.add_bytes(row * SPAN_BYTES),
                map,
                [k, (self.row + row) as i32, batch],
                landed,
                all as u16,
            );
        }
    }
}
