//! The loaders: one of q, k, v and d_o, by TMA, and one of lse and delta.

use abi::attention::Positions;
use cuda_std::hint::opaque;
use cuda_std::mem::st_shared_v2_f32;
use cuda_std::panels::{PanelRing, PanelShape};
use cuda_std::pipeline::Slot;
use cuda_std::shared::SharedAddr;
use cuda_std::thread;
use cuda_std::tma::{
    TensorMap, cp_async_bulk_tensor_4d_shared_cluster_global,
    cp_async_bulk_tensor_4d_shared_cluster_global_multicast_cluster,
    cp_async_bulk_tensor_5d_shared_cluster_global,
    cp_async_bulk_tensor_5d_shared_cluster_global_multicast_cluster,
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

/// The rows that a box holds. Others of its rows, which no sequence has, are 0.
#[derive(Clone, Copy)]
struct Rows {
    /// How many there are.
    count: u32,
    /// The first one's position in the tensor.
    position: u32,
    head: u32,
    batch: u32,
}

/// Issues the loads of the panels `first..end` of some rows of a matrix to `to`, one after the
/// other. If `is_shared`, both thread blocks of a pair get them.
///
/// # Safety
/// A warp calls it; the slot is this warp's to fill and its bytes have been announced; the map's
/// boxes are one panel of `S`.
#[inline(always)]
unsafe fn load_panels<C: Config, S: PanelShape>(
    to: SharedAddr,
    map: *const TensorMap,
    rows: Rows,
    slot: &Slot,
    ([first, end], is_shared): ([u32; 2], bool),
) {
    if !is_leader() {
        return;
    }
    let Rows {
        count,
        position,
        head,
        batch,
    } = rows;
    let barrier = slot.barrier();
    let mut panel = first;
    while panel < end {
        let column = panel * PanelRing::<C::Element, S>::PANEL_COLUMNS;
        let to = to.add_bytes((panel - first) * PanelRing::<C::Element, S>::PANEL_BYTES);
        let at = [column, position, head, batch].map(|coordinate| coordinate as i32);
        let of_box = [column, S::ROWS - count, head, position + count, batch];
        let of_box = of_box.map(|coordinate| coordinate as i32);
        // SAFETY: passed on to the caller.
        unsafe {
            match (C::HAS_LENGTHS, is_shared) {
                (false, false) => {
                    cp_async_bulk_tensor_4d_shared_cluster_global(to, map, at, barrier);
                }
                (false, true) => cp_async_bulk_tensor_4d_shared_cluster_global_multicast_cluster(
                    to, map, at, barrier, 0b11,
                ),
                (true, false) => {
                    cp_async_bulk_tensor_5d_shared_cluster_global(to, map, of_box, barrier);
                }
                (true, true) => cp_async_bulk_tensor_5d_shared_cluster_global_multicast_cluster(
                    to, map, of_box, barrier, 0b11,
                ),
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
        let fwd = &self.call.params.fwd;
        let batch_idx = scheduler.sequence.batch_idx;
        // The map of a packed tensor has a batch of one.
        let batch = |total| match C::HAS_LENGTHS && total != 0 {
            true => 0,
            false => batch_idx,
        };
        let keys_of = |rank| {
            let first_key = scheduler.first_key() + rank * C::TILE.keys();
            let Positions { first, len } = scheduler.sequence.k;
            let left = len.saturating_sub(first_key);
            Rows {
                count: left.min(C::TILE.keys()),
                position: first + first_key,
                head: scheduler.head_kv,
                batch: batch(fwd.total_k),
            }
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
            load_panels::<C, C::Kv>(to, map_k, keys_of(rank), &slot, whole);
            let bytes = k_bytes + C::TILE.peer_bytes();
            let slot = kv.acquire_by_warp(self.pipeline_kv, bytes, is_leader());
            let to = self.kv.at_index(1, 0);
            load_panels::<C, C::Kv>(to, map_v, keys_of(rank), &slot, whole);
            if Self::CTAS > 1 {
                let (keys, to) = (keys_of(rank ^ 1), self.peer().at_index(0, 0));
                let columns = (Self::panels_of_dq(), false);
                load_panels::<C, C::Kv>(to, map_k, keys, &slot, columns);
            }
            while scheduler.left > 0 {
                let Positions { first: begin, len } = scheduler.sequence.q;
                let first_query = scheduler.first_query();
                let at = Rows {
                    count: (len - first_query).min(C::TILE.tile_m),
                    position: begin + first_query,
                    head: scheduler.head,
                    batch: batch(fwd.total_q),
                };
                let slot = queries.acquire_by_warp(self.pipeline_q, q_bytes, is_leader());
                queries.advance();
                let to = self.q.at_index(slot.index(), first);
                load_panels::<C, C::Q>(to, map_q, at, &slot, share);
                let slot = grads.acquire_by_warp(self.pipeline_d_o, q_bytes, is_leader());
                grads.advance();
                let to = self.d_o.at_index(slot.index(), first);
                load_panels::<C, C::Q>(to, map_d_o, at, &slot, share);
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
        let (sequence, head) = (&scheduler.sequence, scheduler.head);
        let of_head = params.lse_offset(sequence, head) as usize;
        let (mut lse, mut delta) = ([f32::NEG_INFINITY; 2], [0.0; 2]);
        let mut i = 0;
        while i < 2 {
            let row = row + i as u32;
            if row < sequence.q.len {
                let at = of_head + row as usize;
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
