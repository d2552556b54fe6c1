//! Which query, of which head, each row of a warpgroup's queries is.
//!
//! Either its 64 rows are 64 queries of one head ([`OneHead`]), or they are queries of several heads
//! that share keys and values ([`Packed`]): row r is head `r % heads` of query `r / heads`. Masks and
//! lengths go by the query, results and sinks by both. Nothing else in the kernel knows.

use cuda_std::fence::fence_proxy_async_shared_cta;
use cuda_std::mbarrier::Mbarrier;
use cuda_std::mem::st_shared_v4_u32;
use cuda_std::shared::SharedAddr;
use cuda_std::thread;
use cuda_std::tile::SPAN_BYTES;
use cuda_std::tma::{self, TensorMap};
use spec::attention::sm90::divided;
use spec::attention::{FlashFwdParams, FwdPacking};
use spec::gemm::sm90::MMA_M;

/// One row of a warpgroup's.
#[derive(Clone, Copy)]
pub(super) struct Row {
    /// Its query, of the sequence's.
    pub(super) query: u32,
    /// Its head, of those of the tile.
    pub(super) head: u32,
    /// False where nothing is to come of it.
    pub(super) is_there: bool,
}

/// A row that others are counted from.
#[derive(Clone, Copy)]
pub(super) struct First {
    query: u32,
    row: u32,
}

/// Where a panel of queries comes from: its first element, query, head of the tiles', batch.
pub(super) type At = [u32; 4];

/// What rows are.
pub(super) trait RowMap: Copy {
    /// Some rows may be of no query: they are 0 from the start, and stay so.
    const HAS_IDLE: bool;

    /// Queries of a warpgroup's rows.
    fn queries(self) -> u32;
    /// Heads that tiles are counted by.
    fn tile_heads(self, params: &FlashFwdParams) -> u32;
    /// The first query head of the one that tiles are counted by.
    fn first_head(self, tile_head: u32) -> u32;
    /// The first row of a thread, the sum of `of_warpgroup`, where `query` is the warpgroup's first of the
    /// sequence.
    fn first(self, query: u32, of_warpgroup: [u32; 2]) -> First;
    /// The row `further` on.
    fn row(self, first: First, further: u32) -> Row;
    /// Parts that a tile's keys are in, each a tile of its own.
    fn splits(self) -> u32;
    /// How far the results of part `split` are behind those of the first: elements of o, of lse.
    fn results_of(self, split: u32) -> (i64, u64);
    /// Bytes of a warpgroup's queries that are `bytes` with all rows.
    fn copied_bytes(self, bytes: u32) -> u32;

    /// Issues the copy of a panel.
    ///
    /// # Safety
    /// As [`load_panels`](super::load::load_panels).
    unsafe fn copy_panel(to: SharedAddr, map: *const TensorMap, at: At, barrier: Mbarrier);
}

/// Rows are queries of one head.
#[derive(Clone, Copy)]
pub(super) struct OneHead;

impl RowMap for OneHead {
    const HAS_IDLE: bool = false;

    #[inline(always)]
    fn queries(self) -> u32 {
        MMA_M
    }

    #[inline(always)]
    fn tile_heads(self, params: &FlashFwdParams) -> u32 {
        params.heads_q
    }

    #[inline(always)]
    fn first_head(self, tile_head: u32) -> u32 {
        tile_head
    }

    #[inline(always)]
    fn first(self, query: u32, [of_warp, of_lane]: [u32; 2]) -> First {
        First {
            query: query + of_warp + of_lane,
            row: 0,
        }
    }

    #[inline(always)]
    fn row(self, first: First, further: u32) -> Row {
        Row {
            query: first.query + further,
            head: 0,
            is_there: true,
        }
    }

    #[inline(always)]
    fn splits(self) -> u32 {
        1
    }

    #[inline(always)]
    fn results_of(self, _: u32) -> (i64, u64) {
        (0, 0)
    }

    #[inline(always)]
    fn copied_bytes(self, bytes: u32) -> u32 {
        bytes
    }

    #[inline(always)]
    unsafe fn copy_panel(
        to: SharedAddr,
        map: *const TensorMap,
        [column, query, head, batch]: At,
        barrier: Mbarrier,
    ) {
        let at = [column, query, head, batch].map(|coordinate| coordinate as i32);
        // SAFETY: passed on to the caller.
        unsafe { tma::cp_async_bulk_tensor_4d_shared_cluster_global(to, map, at, barrier) }
    }
}

/// Rows are queries of several heads, head by head.
#[derive(Clone, Copy)]
pub(super) struct Packed<'a>(pub(super) &'a FwdPacking);

impl RowMap for Packed<'_> {
    const HAS_IDLE: bool = true;

    #[inline(always)]
    fn queries(self) -> u32 {
        self.0.queries
    }

    #[inline(always)]
    fn tile_heads(self, params: &FlashFwdParams) -> u32 {
        divided(params.heads_q, self.0.heads).0
    }

    #[inline(always)]
    fn first_head(self, tile_head: u32) -> u32 {
        tile_head * self.0.heads
    }

    #[inline(always)]
    fn first(self, query: u32, [of_warp, of_lane]: [u32; 2]) -> First {
        First {
            query,
            row: of_warp + of_lane,
        }
    }

    #[inline(always)]
    fn row(self, first: First, further: u32) -> Row {
        let (query, head) = self.0.row(first.row + further);
        Row {
            query: first.query + query,
            head,
            is_there: query < self.0.queries,
        }
    }

    #[inline(always)]
    fn splits(self) -> u32 {
        self.0.splits
    }

    #[inline(always)]
    fn results_of(self, split: u32) -> (i64, u64) {
        let split = u64::from(split);
        let FwdPacking {
            o_split, lse_split, ..
        } = *self.0;
        ((split * o_split) as i64, split * lse_split)
    }

    #[inline(always)]
    fn copied_bytes(self, bytes: u32) -> u32 {
        bytes / MMA_M * (self.0.queries * self.0.heads)
    }

    #[inline(always)]
    unsafe fn copy_panel(
        to: SharedAddr,
        map: *const TensorMap,
        [column, query, head, batch]: At,
        barrier: Mbarrier,
    ) {
        let at = [column, 0, query, head, batch].map(|coordinate| coordinate as i32);
        // SAFETY: passed on to the caller.
        unsafe { tma::cp_async_bulk_tensor_5d_shared_cluster_global(to, map, at, barrier) }
    }
}

/// Makes the rows of all queries' `panels` that no copy writes 0.
///
/// # Safety
/// All threads of the block call it, before any copy; the panels are at `base`.
#[inline(always)]
pub(super) unsafe fn clear_idle<R: RowMap>(rows: R, base: SharedAddr, panels: u32, threads: u32) {
    const CHUNK_BYTES: u32 = 16;
    let first = rows.copied_bytes(MMA_M * SPAN_BYTES);
    let mut panel = 0;
    while panel < panels {
        let mut at = first + thread::thread_idx_x() * CHUNK_BYTES;
        while at < MMA_M * SPAN_BYTES {
            let to = base.add_bytes(panel * MMA_M * SPAN_BYTES + at);
            // SAFETY: inside of the panel, whose rows are a span each, in whatever order.
            unsafe { st_shared_v4_u32(to, [0; 4]) };
            at += threads * CHUNK_BYTES;
        }
        panel += 1;
    }
    fence_proxy_async_shared_cta();
}
