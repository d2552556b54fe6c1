//! Row maps: which query of which head each row of a consumer's 64 rows is.
//!
//! The rows are 64 queries of one head ([`OneHead`]) or, with GQA packing, queries of several heads
//! that share keys and values ([`Packed`]). Then row r is head `r % heads` of query `r / heads`.
//! Masks and lengths depend on the query, results and sinks on both. No other part of the kernel
//! depends on it.

use abi::attention::sm90::divided;
use abi::attention::{FlashFwdParams, FwdPacking};
use abi::gemm::sm90::MMA_M;
use cuda_std::fence::fence_proxy_async_shared_cta;
use cuda_std::mbarrier::Mbarrier;
use cuda_std::mem::st_shared_v4_u32;
use cuda_std::shared::SharedAddr;
use cuda_std::thread;
use cuda_std::tile::SPAN_BYTES;
use cuda_std::tma::{self, TensorMap};

/// One of a warpgroup's rows.
#[derive(Clone, Copy)]
pub(super) struct Row {
    /// Its query, in the sequence.
    pub(super) query: u32,
    /// Its head, among the tile's.
    pub(super) head: u32,
    /// False if the row is idle: it has no query.
    pub(super) is_there: bool,
}

/// A row that other rows are counted from.
#[derive(Clone, Copy)]
pub(super) struct First {
    query: u32,
    row: u32,
}

/// Coordinates from which a panel of queries is loaded: column, query, head (as tiles count heads),
/// batch.
pub(super) type At = [u32; 4];

/// A row map.
pub(super) trait RowMap: Copy {
    /// Whether some rows may be idle. They are zeroed at the start, and stay so.
    const HAS_IDLE: bool;

    /// Queries of a warpgroup's rows.
    fn queries(self) -> u32;
    /// Number of heads, as tiles count them: packed heads count as one.
    fn tile_heads(self, params: &FlashFwdParams) -> u32;
    /// The first query head of the tiles' head `tile_head`.
    fn first_head(self, tile_head: u32) -> u32;
    /// A thread's first row. `query` is the warpgroup's first query in the sequence; the row within
    /// the warpgroup is the sum of `of_warpgroup`.
    fn first(self, query: u32, of_warpgroup: [u32; 2]) -> First;
    /// The row `further` rows on.
    fn row(self, first: First, further: u32) -> Row;
    /// Number of splits of a tile's keys, each of which is a tile of its own.
    fn splits(self) -> u32;
    /// Offset of the results of split `split` from those of the first, in elements of o and of lse.
    fn results_of(self, split: u32) -> (i64, u64);
    /// Bytes that the loads of a warpgroup's queries have; `bytes` is their number without idle
    /// rows.
    fn copied_bytes(self, bytes: u32) -> u32;

    /// Issues the TMA load of a panel.
    ///
    /// # Safety
    /// As [`load_panels`](super::load::load_panels).
    unsafe fn copy_panel(to: SharedAddr, map: *const TensorMap, at: At, barrier: Mbarrier);
}

/// All rows are queries of one head.
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

/// GQA packing: consecutive rows are the heads of one query, then those of the next query.
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

/// Zeros the idle rows, which no load writes, of all queries' `panels`.
///
/// # Safety
/// All threads of the block call it, before any load; the panels are at `base`.
#[inline(always)]
pub(super) unsafe fn clear_idle<R: RowMap>(rows: R, base: SharedAddr, panels: u32, threads: u32) {
    const CHUNK_BYTES: u32 = 16;
    let first = rows.copied_bytes(MMA_M * SPAN_BYTES);
    let mut panel = 0;
    while panel < panels {
        let mut at = first + thread::thread_idx_x() * CHUNK_BYTES;
        while at < MMA_M * SPAN_BYTES {
            let to = base.add_bytes(panel * MMA_M * SPAN_BYTES + at);
            // SAFETY: inside the panel; the swizzle permutes bytes within rows only.
            unsafe { st_shared_v4_u32(to, [0; 4]) };
            at += threads * CHUNK_BYTES;
        }
        panel += 1;
    }
    fence_proxy_async_shared_cta();
}
