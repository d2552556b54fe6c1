//! The tile scheduler: which tiles a block computes, in which order, and which keys each of them
//! visits.
//!
//! One warp runs the [`TileScheduler`], a little ahead of the loader, and hands out
//! [`Ticket`](super::ticket::Ticket)s. Finding out what a tile is takes some thousand cycles, but
//! nobody waits for that. Any other order (dynamic, from a list) would only change the walk.

use core::ops::Range;

use abi::attention::sm90::divided;
use abi::attention::sm90::{FwdLaunch, TileIndex, TileOrder, tiles_of};
use abi::attention::{FlashFwdLengths, FlashFwdParams, Mask, Positions, Sequence};
use abi::gemm::sm90::MMA_M;
use cuda_std::atomic::{Order, Scope, atom_add, atom_exch};
use cuda_std::hint::opaque;
use cuda_std::thread;
use cuda_std::warp::uniform;

use super::kernel::Config;
use super::load::is_leader;
use super::rows::RowMap;
use crate::attention::lengths::sequence;
use crate::attention::packed_order::Count;
use crate::attention::sparse::{Line, is_sparse};

/// A tile of queries, and the keys that it visits.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    pub(super) sequence: Sequence,
    /// Head, counted as [`RowMap`] counts tiles' heads.
    pub(super) head: u32,
    /// Its first query, in the sequence.
    pub(super) row: u32,
    /// Which split of the keys.
    pub(super) split: u32,
    /// Blocks of keys to visit, from the last to the first: `first..end`, at least one.
    pub(super) first: u32,
    pub(super) end: u32,
}

/// A block's walk through the tiles: first the tile of its own index, then always the next one that
/// nobody has.
pub(super) struct TileScheduler<'a, C: Config> {
    rows: C::Rows,
    params: &'a FlashFwdParams,
    lengths: &'a FlashFwdLengths,
    launch: FwdLaunch,
    /// If sequences differ in their number of queries: [`Count::through`].
    through: u32,
    /// Index of the current tile.
    index: u32,
}

impl<'a, C: Config> TileScheduler<'a, C> {
    /// # Safety
    /// A warp of the block calls it, converged; the lengths are those of a launch.
    #[inline(always)]
    pub(super) unsafe fn new(
        params: &'a FlashFwdParams,
        lengths: &'a FlashFwdLengths,
        launch: FwdLaunch,
        rows: C::Rows,
    ) -> Self {
        let mut scheduler = Self {
            rows,
            params,
            lengths,
            launch,
            through: 0,
            index: thread::block_idx_x(),
        };
        if scheduler.is_counted() {
            // SAFETY: the caller's promise.
            scheduler.through = unsafe { scheduler.counted().through() };
        }
        scheduler
    }

    /// Number of tiles of the launch, those of all splits.
    ///
    /// # Safety
    /// As for [`new`](Self::new).
    #[inline(always)]
    unsafe fn count(&self) -> u32 {
        let params = self.params;
        let tiles = if self.is_counted() {
            // SAFETY: the caller's promise.
            unsafe { self.counted().all(self.through) }
        } else {
            self.order(params.batch, params.seqlen_q).count
        };
        tiles * self.rows.splits()
    }

    /// Queries a tile.
    #[inline(always)]
    fn queries(&self) -> u32 {
        C::TILE.tile_m / MMA_M * self.rows.queries()
    }

    /// Whether sequences may differ in their number of queries.
    #[inline(always)]
    fn is_counted(&self) -> bool {
        !(self.lengths.cu_seqlens_q.is_null() && self.lengths.seqused_q.is_null())
    }

    /// Counts the tiles of all heads.
    #[inline(always)]
    fn counted(&self) -> Count<'a, impl Fn(&Sequence) -> u32> {
        let (queries, heads) = (self.queries(), self.rows.tile_heads(self.params));
        Count {
            lengths: self.lengths,
            params: self.params,
            tiles: move |sequence: &Sequence| tiles_of(sequence.q.len, queries) * heads,
        }
    }

    /// The order of tiles of `batch` sequences with the same number of queries. Opaque, so that
    /// nothing derived from it is kept in registers across tiles.
    #[inline(always)]
    fn order(&self, batch: u32, queries: u32) -> TileOrder {
        let heads = self.rows.tile_heads(self.params);
        let tile_m = self.queries();
        TileOrder::new(tile_m, batch, heads, opaque(queries), self.launch.section)
    }

    /// False once there are no more tiles.
    ///
    /// # Safety
    /// As for [`new`](Self::new).
    #[inline(always)]
    pub(super) unsafe fn is_at_tile(&self) -> bool {
        // SAFETY: the caller's promise.
        self.index < unsafe { self.count() }
    }

    /// The current tile, which has at least one query.
    ///
    /// # Safety
    /// As for [`new`](Self::new), and [`is_at_tile`](Self::is_at_tile) holds.
    #[inline(always)]
    pub(super) unsafe fn tile(&self) -> Tile {
        let (params, rows) = (self.params, self.rows);
        // SAFETY: the caller's promise.
        unsafe {
            let (tile_index, split) = divided(self.index, rows.splits());
            let at = self.at(tile_index);
            let mut sequence = sequence(self.lengths, params, at.batch);
            sequence.q = in_all_lanes(sequence.q);
            sequence.k = in_all_lanes(sequence.k);
            let queries = self.queries();
            let row = at.m * queries;
            let (_, mask) = params.seen(&sequence);
            let mut blocks = key_blocks(&mask, C::TILE.tile_n, row..row + queries);
            if is_sparse() {
                let line = Line::<false> {
                    batch: at.batch,
                    head: at.head,
                    row,
                    extent: C::TILE.tile_n,
                };
                blocks = line.visited(blocks.0, blocks.1);
                if blocks.0 == blocks.1 {
                    // One block behind all keys, as in `split_range`.
                    let (end, _) = divided(sequence.k.len + C::TILE.tile_n - 1, C::TILE.tile_n);
                    blocks = (end, end + 1);
                }
            }
            let (first, end) = split_range(blocks, split, rows.splits());
            Tile {
                sequence,
                head: at.head,
                row,
                split,
                first,
                end,
            }
        }
    }

    /// Advances to the next tile.
    ///
    /// # Safety
    /// As for [`tile`](Self::tile). The counter is a launch's.
    #[inline(always)]
    pub(super) unsafe fn advance(&mut self) {
        let counter = self.launch.counter;
        if counter.is_null() {
            self.index += thread::grid_dim_x();
            return;
        }
        let mut ticket = 0;
        // SAFETY: the caller's promise. Relaxed, as no data is passed along with the counter.
        unsafe {
            let count = self.count();
            if is_leader() {
                ticket = atom_add(counter, 1, Order::Relaxed, Scope::Gpu);
                if ticket == count.wrapping_sub(1) {
                    // The last request of the launch, which has as many as tiles: resets the
                    // counter for the next launch.
                    atom_exch(counter, 0, Order::Relaxed, Scope::Gpu);
                }
            }
            self.index = uniform(ticket) + thread::grid_dim_x();
        }
    }

    /// The coordinates of the tile at an index.
    ///
    /// # Safety
    /// As for [`new`](Self::new).
    #[inline(always)]
    unsafe fn at(&self, index: u32) -> TileIndex {
        if !self.is_counted() {
            let order = self.order(self.params.batch, self.params.seqlen_q);
            return order.at(index);
        }
        // SAFETY: the caller's promise.
        let found = unsafe { self.counted().find(self.through, index) };
        TileIndex {
            batch: found.batch_idx,
            ..self.order(1, found.queries).at(found.index)
        }
    }
}

/// The same, made uniform for ptxas.
///
/// # Safety
/// The warp calls it, converged.
#[inline(always)]
unsafe fn in_all_lanes(positions: Positions) -> Positions {
    // SAFETY: passed on to the caller.
    unsafe {
        Positions {
            first: uniform(positions.first),
            len: uniform(positions.len),
        }
    }
}

/// The blocks of keys in which some query of `rows` sees a key. If there is none, one
/// block, all of it masked, so that the mainloop has no special case.
#[inline(always)]
fn key_blocks(mask: &Mask, tile_n: u32, rows: Range<u32>) -> (u32, u32) {
    let end_row = if rows.end < mask.seqlen_q {
        rows.end
    } else {
        mask.seqlen_q
    };
    let (first, _) = divided(mask.visible_keys(rows.start).first, tile_n);
    let end_key = mask.visible_keys(end_row.wrapping_sub(1)).end;
    let (end, _) = divided(end_key.wrapping_add(tile_n - 1), tile_n);
    if first < end {
        (first, end)
    } else {
        (first, first + 1)
    }
}

/// Part `split` of `splits` of the blocks of keys. If there are fewer blocks than splits, the
/// surplus splits get one block behind the last, of which no query sees anything.
#[inline(always)]
fn split_range((first, end): (u32, u32), split: u32, splits: u32) -> (u32, u32) {
    if splits == 1 {
        return (first, end);
    }
    let (each, _) = divided(end - first + splits - 1, splits);
    let begin = first + split * each;
    if begin >= end {
        return (end, end + 1);
    }
    let split_end = begin + each;
    (begin, if split_end < end { split_end } else { end })
}
