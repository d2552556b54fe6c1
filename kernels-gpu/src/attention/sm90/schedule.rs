//! The tile scheduler: which tiles a block computes, in which order, and which keys each of them
//! visits.
//!
//! One warp runs the [`Walk`], a little ahead of the loader, and hands out
//! [`Ticket`](super::ticket::Ticket)s. Finding out what a tile is takes some thousand cycles, but
//! nobody waits for that. Any other order (dynamic, from a list) would only change the walk.

use abi::attention::sm90::divided;
use abi::attention::sm90::{FwdLaunch, TileIndex, TileOrder};
use abi::attention::{FlashFwdLengths, FlashFwdParams, Mask, Positions, Sequence};
use abi::gemm::sm90::MMA_M;
use cuda_std::atomic::{Order, Scope, atom_add, atom_exch};
use cuda_std::hint::opaque;
use cuda_std::thread;
use cuda_std::warp::uniform;

use super::load::is_leader;
use super::packed_order::Count;
use super::rows::RowMap;
use crate::attention::lengths::sequence;

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
pub(super) struct Walk<'a, R> {
    rows: R,
    params: &'a FlashFwdParams,
    lengths: &'a FlashFwdLengths,
    launch: FwdLaunch,
    /// If sequences differ in their number of queries: [`Count::through`].
    through: u32,
    /// Index of the current tile.
    index: u32,
}

impl<'a, R: RowMap> Walk<'a, R> {
    /// # Safety
    /// A warp of the block calls it, converged; the lengths are those of a launch.
    #[inline(always)]
    pub(super) unsafe fn new<const TILE_M: u32>(
        params: &'a FlashFwdParams,
        lengths: &'a FlashFwdLengths,
        launch: FwdLaunch,
        rows: R,
    ) -> Self {
        let mut walk = Self {
            rows,
            params,
            lengths,
            launch,
            through: 0,
            index: thread::block_idx_x(),
        };
        let counted = walk.counted::<TILE_M>();
        if counted.is_needed() {
            // SAFETY: the caller's promise.
            walk.through = unsafe { counted.through() };
        }
        walk
    }

    /// Number of tiles of the launch, those of all splits.
    ///
    /// # Safety
    /// As for [`new`](Self::new).
    #[inline(always)]
    unsafe fn count<const TILE_M: u32>(&self) -> u32 {
        let params = self.params;
        let tiles = if self.counted::<TILE_M>().is_needed() {
            // SAFETY: the caller's promise.
            unsafe { Count::all(self.through) }
        } else {
            self.order::<TILE_M>(params.batch, params.seqlen_q).count
        };
        tiles * self.rows.splits()
    }

    /// Queries a tile.
    #[inline(always)]
    fn queries<const TILE_M: u32>(&self) -> u32 {
        TILE_M / MMA_M * self.rows.queries()
    }

    #[inline(always)]
    fn counted<const TILE_M: u32>(&self) -> Count<'a> {
        Count {
            lengths: self.lengths,
            params: self.params,
            queries: self.queries::<TILE_M>(),
            heads: self.rows.tile_heads(self.params),
        }
    }

    /// The order of tiles of `batch` sequences with the same number of queries. Opaque, so that
    /// nothing derived from it is kept in registers across tiles.
    #[inline(always)]
    fn order<const TILE_M: u32>(&self, batch: u32, queries: u32) -> TileOrder {
        let heads = self.rows.tile_heads(self.params);
        let tile_m = self.queries::<TILE_M>();
        TileOrder::new(tile_m, batch, heads, opaque(queries), self.launch.section)
    }

    /// False once there are no more tiles.
    ///
    /// # Safety
    /// As for [`new`](Self::new).
    #[inline(always)]
    pub(super) unsafe fn is_at_tile<const TILE_M: u32>(&self) -> bool {
        // SAFETY: the caller's promise.
        self.index < unsafe { self.count::<TILE_M>() }
    }

    /// The current tile, which has at least one query.
    ///
    /// # Safety
    /// As for [`new`](Self::new), and [`is_at_tile`](Self::is_at_tile) holds.
    #[inline(always)]
    pub(super) unsafe fn tile<const TILE_M: u32, const TILE_N: u32>(&self) -> Tile {
        let (params, rows) = (self.params, self.rows);
        // SAFETY: the caller's promise.
        unsafe {
            let (tile_index, split) = divided(self.index, rows.splits());
            let at = self.at::<TILE_M>(tile_index);
            let mut sequence = sequence(self.lengths, params, at.batch);
            sequence.q = in_all_lanes(sequence.q);
            sequence.k = in_all_lanes(sequence.k);
            let queries = self.queries::<TILE_M>();
            let row = at.m * queries;
            let mask = params.mask(&sequence);
            let blocks = key_blocks::<TILE_N>(&mask, row, row + queries);
            let (first, end) = part(blocks, split, rows.splits());
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
    pub(super) unsafe fn advance<const TILE_M: u32>(&mut self) {
        let counter = self.launch.counter;
        if counter.is_null() {
            self.index += thread::grid_dim_x();
            return;
        }
        let mut turn = 0;
        // SAFETY: the caller's promise. Relaxed, as no data is passed along with the counter.
        unsafe {
            let count = self.count::<TILE_M>();
            if is_leader() {
                turn = atom_add(counter, 1, Order::Relaxed, Scope::Gpu);
                if turn == count.wrapping_sub(1) {
                    // The last request of the launch, which has as many as tiles: resets the
                    // counter for the next launch.
                    atom_exch(counter, 0, Order::Relaxed, Scope::Gpu);
                }
            }
            self.index = uniform(turn) + thread::grid_dim_x();
        }
    }

    /// The coordinates of the tile at an index.
    ///
    /// # Safety
    /// As for [`new`](Self::new).
    #[inline(always)]
    unsafe fn at<const TILE_M: u32>(&self, index: u32) -> TileIndex {
        let counted = self.counted::<TILE_M>();
        if !counted.is_needed() {
            let order = self.order::<TILE_M>(self.params.batch, self.params.seqlen_q);
            return order.at(index);
        }
        // SAFETY: the caller's promise.
        let found = unsafe { counted.find(self.through, index) };
        TileIndex {
            batch: found.batch_idx,
            ..self.order::<TILE_M>(1, found.queries).at(found.index)
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

/// The blocks of keys in which some query of `first_row..end_row` sees a key. If there is none, one
/// block, all of it masked, so that the mainloop has no special case.
#[inline(always)]
fn key_blocks<const TILE_N: u32>(mask: &Mask, first_row: u32, end_row: u32) -> (u32, u32) {
    let end_row = if end_row < mask.seqlen_q {
        end_row
    } else {
        mask.seqlen_q
    };
    let (first, _) = divided(mask.visible_keys(first_row).first, TILE_N);
    let end_key = mask.visible_keys(end_row.wrapping_sub(1)).end;
    let (end, _) = divided(end_key.wrapping_add(TILE_N - 1), TILE_N);
    if first < end {
        (first, end)
    } else {
        (first, first + 1)
    }
}

/// Part `split` of `splits` of the blocks of keys. If there are fewer blocks than splits, the
/// surplus splits get one block behind the last, of which no query sees anything.
#[inline(always)]
fn part((first, end): (u32, u32), split: u32, splits: u32) -> (u32, u32) {
    if splits == 1 {
        return (first, end);
    }
    let (each, _) = divided(end - first + splits - 1, splits);
    let part = first + split * each;
    if part >= end {
        return (end, end + 1);
    }
    let part_end = part + each;
    (part, if part_end < end { part_end } else { end })
}
