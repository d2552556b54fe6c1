//! The loaders: one of q, k, v and d_o, by TMA, and one of lse and delta.

use cuda_std::hint::opaque;
use cuda_std::mem::st_shared_v2_f32;
use cuda_std::panels::{PanelRing, PanelShape};
use cuda_std::pipeline::Slot;
use cuda_std::shared::SharedAddr;
use cuda_std::thread;
use cuda_std::tile::OperandElement;
use cuda_std::tma::{
    TensorMap, cp_async_bulk_tensor_4d_shared_cluster_global,
    cp_async_bulk_tensor_4d_shared_cluster_global_multicast_cluster,
};
use cuda_std::warp::{FULL_MASK, bar_warp_sync};

use super::kernel::{Backward, Config};
use super::schedule::TileScheduler;

/// Queries whose lse and delta a lane brings at a time, and a warp.
const ROWS_OF_LANE: u32 = 2;
const ROWS_OF_WARP: u32 = ROWS_OF_LANE * thread::WARP_THREADS;
/// How often it does so for the largest tile.
const PARTS_MAX: usize = 2;

/// Whether this is the lane that issues everything. Recomputed at each use: a loader has few
/// registers.
#[inline(always)]
pub(super) fn is_leader() -> bool {
    opaque(thread::thread_idx_x()).is_multiple_of(thread::WARP_THREADS)
}

/// Issues the loads of the panels `first..end` of a matrix whose first row is `position` of `head`
/// and `batch` to `to`, one after the other. If `is_shared`, both thread blocks of a pair get them.
///
/// # Safety
/// A warp calls it; the slot is this warp's to fill and its bytes have been announced; the map's
/// boxes are one panel of `S`.
#[inline(always)]
unsafe fn load_panels<E: OperandElement, S: PanelShape>(
    to: SharedAddr,
    map: *const TensorMap,
    [position, head, batch]: [u32; 3],
    slot: &Slot,
    ([first, end], is_shared): ([u32; 2], bool),
) {
    if !is_leader() {
        return;
    }
    let mut panel = first;
    while panel < end {
        let column = panel * PanelRing::<E, S>::PANEL_COLUMNS;
        let at = [column, position, head, batch].map(|coordinate| coordinate as i32);
        let to = to.add_bytes((panel - first) * PanelRing::<E, S>::PANEL_BYTES);
        // SAFETY: passed on to the caller.
        unsafe {
            if is_shared {
                cp_async_bulk_tensor_4d_shared_cluster_global_multicast_cluster(
                    to,
                    map,
                    at,
                    slot.barrier(),
                    0b11,
                );
            } else {
                cp_async_bulk_tensor_4d_shared_cluster_global(to, map, at, slot.barrier());
            }
        }
        panel += 1;
    }
}

impl<C: Config> Backward<'_, C> {
    /// Loads the block's keys and values, then q and d_o of every tile.
    ///
    /// # Safety
    /// A warp calls it, converged. Its first lane issues everything; the others go along so that
    /// counters are in uniform registers.
    #[inline(always)]
    pub(super) unsafe fn load(&self, mut scheduler: TileScheduler) {
        let [map_q, map_k, map_v, map_d_o] = self.call.maps;
        let mut kv = self.pipeline_kv.producer();
        let mut queries = self.pipeline_q.producer();
        let mut grads = self.pipeline_d_o.producer();
        let (k_bytes, q_bytes) = (C::TILE.k_bytes(), C::TILE.q_bytes());
        let keys_of = |rank| {
            let first_key = scheduler.first_key() + rank * C::TILE.keys();
            [first_key, scheduler.head_kv, scheduler.batch]
        };
        let whole = ([0, C::TILE.panels()], false);
        // Each thread block of a pair loads half of what both need.
        let share = match Self::CTAS {
            1 => whole,
            _ => (Self::panels_of_dq(), true),
        };
        let first = share.0[0];
        // SAFETY: slots are empty when loaded into, and the loads' bytes are those announced.
        unsafe {
            let slot = kv.acquire_by_warp(self.pipeline_kv, k_bytes, is_leader());
            kv.advance();
            let (rank, to) = (Self::rank(), self.kv.at_index(0, 0));
            load_panels::<C::Element, C::Kv>(to, map_k, keys_of(rank), &slot, whole);
            let bytes = k_bytes + C::TILE.peer_bytes();
            let slot = kv.acquire_by_warp(self.pipeline_kv, bytes, is_leader());
            let to = self.kv.at_index(1, 0);
            load_panels::<C::Element, C::Kv>(to, map_v, keys_of(rank), &slot, whole);
            if Self::CTAS > 1 {
                let (keys, to) = (keys_of(rank ^ 1), self.peer().at_index(0, 0));
                let columns = (Self::panels_of_dq(), false);
                load_panels::<C::Element, C::Kv>(to, map_k, keys, &slot, columns);
            }
            while scheduler.left > 0 {
                let at = [scheduler.first_query(), scheduler.head, scheduler.batch];
                let slot = queries.acquire_by_warp(self.pipeline_q, q_bytes, is_leader());
                queries.advance();
                let to = self.q.at_index(slot.index(), first);
                load_panels::<C::Element, C::Q>(to, map_q, at, &slot, share);
                let slot = grads.acquire_by_warp(self.pipeline_d_o, q_bytes, is_leader());
                grads.advance();
                let to = self.d_o.at_index(slot.index(), first);
                load_panels::<C::Element, C::Q>(to, map_d_o, at, &slot, share);
                scheduler.advance();
            }
        }
    }

    /// Brings lse and delta of every tile into shared memory, in the form in which they are used.
    /// This is `-lse * log2(e)`, and -inf where there is no query or it sees no key, so that every
    /// probability is 0.
    ///
    /// # Safety
    /// A warp calls it, converged.
    #[inline(always)]
    pub(super) unsafe fn load_rows(&self, mut scheduler: TileScheduler) {
        let mut rows = self.pipeline_rows.producer();
        let first = ROWS_OF_LANE * (thread::thread_idx_x() % thread::WARP_THREADS);
        // SAFETY: a slot is written while it is empty, and all lanes have written theirs before the
        // leader arrives.
        unsafe {
            while scheduler.left > 0 {
                // Read before the wait for a slot, so that they are there when there is one.
                let (mut lse, mut delta) = ([[0.0; 2]; PARTS_MAX], [[0.0; 2]; PARTS_MAX]);
                let mut part = 0;
                while part < C::TILE.tile_m / ROWS_OF_WARP {
                    let row = scheduler.first_query() + part * ROWS_OF_WARP + first;
                    (lse[part as usize], delta[part as usize]) = self.rows_of(&scheduler, row);
                    part += 1;
                }
                let slot = rows.acquire_by_warp(self.pipeline_rows, 0, false);
                rows.advance();
                let to = self.rows_at(slot.index()).add_bytes(4 * first);
                let mut part = 0;
                while part < C::TILE.tile_m / ROWS_OF_WARP {
                    let to = to.add_bytes(4 * part * ROWS_OF_WARP);
                    st_shared_v2_f32(to, lse[part as usize]);
                    st_shared_v2_f32(to.add_bytes(4 * C::TILE.tile_m), delta[part as usize]);
                    part += 1;
                }
                bar_warp_sync(FULL_MASK);
                if is_leader() {
                    slot.barrier().arrive();
                }
                scheduler.advance();
            }
        }
    }

    /// What [`load_rows`](Self::load_rows) brings of the queries `row` and `row + 1`.
    ///
    /// # Safety
    /// The head is one of the launch's.
    #[inline(always)]
    unsafe fn rows_of(&self, scheduler: &TileScheduler, row: u32) -> ([f32; 2], [f32; 2]) {
        let params = &self.call.params.fwd;
        let head = scheduler.batch * params.heads_q + scheduler.head;
        let head = head as usize * params.seqlen_q as usize;
        let (mut lse, mut delta) = ([f32::NEG_INFINITY; 2], [0.0; 2]);
        let mut i = 0;
        while i < 2 {
            let row = row + i as u32;
            if row < params.seqlen_q {
                let at = head + row as usize;
                // SAFETY: an element of a query that there is.
                unsafe {
                    let of = *self.call.lse.add(at);
                    if of != f32::NEG_INFINITY {
                        lse[i] = -core::f32::consts::LOG2_E * of;
                    }
                    delta[i] = *self.call.delta.add(at);
                }
            }
            i += 1;
        }
        (lse, delta)
    }
}
