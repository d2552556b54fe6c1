//! The tiles of columns that a block visits, and their copies.

use abi::attention::KeyBlocks;
use cuda_std::cp_async::{cp_async_commit_group, cp_async_wait_group};
use cuda_std::hint::opaque;
use cuda_std::thread::sync_threads;

use super::kernel::{Block, Gradients, Results};
use super::moments::Source;
use super::products::{Factors, scores};
use super::tile::Columns;
use super::vectors::{self, BOTH, FIRST, Operands, SECOND};
use crate::attention::sm80::element::Half;
use crate::attention::sparse::is_sparse;

/// The next tile of a block: all tiles of a query head, then those of the next head.
#[derive(Clone, Copy)]
struct TileScheduler<'a> {
    block: &'a Block<'a>,
    tiles: &'a KeyBlocks,
    head_idx: u32,
    end_head: u32,
    idx: u32,
}

impl<'a> TileScheduler<'a> {
    #[inline(always)]
    fn new<G: Gradients, const COLUMNS: usize>(block: &'a Block<'_>, tiles: &'a KeyBlocks) -> Self {
        let head_idx = block.head_idx;
        let (head_idx, end_head) = if G::KEYS {
            let group = block.arguments.params.fwd.heads_per_kv();
            (head_idx * group, head_idx * group + group)
        } else {
            (head_idx, head_idx + 1)
        };
        let mut scheduler = Self {
            block,
            tiles,
            head_idx: if tiles.is_empty() { end_head } else { head_idx },
            end_head,
            idx: tiles.first,
        };
        scheduler.skip::<G, COLUMNS>();
        scheduler
    }

    #[inline(always)]
    fn is_over(&self) -> bool {
        self.head_idx >= self.end_head
    }

    #[inline(always)]
    fn advance<G: Gradients, const COLUMNS: usize>(&mut self) {
        self.idx += 1;
        if self.idx == self.tiles.end {
            self.idx = self.tiles.first;
            self.head_idx += 1;
        }
        self.skip::<G, COLUMNS>();
    }

    /// Goes on to the next tile that a block mask shows.
    #[inline(always)]
    fn skip<G: Gradients, const COLUMNS: usize>(&mut self) {
        if !is_sparse() {
            return;
        }
        while !self.is_over() {
            let (head, idx) = (self.head_idx, self.idx);
            (self.idx, _) = if G::KEYS {
                self.block.line::<true>(head, COLUMNS).behind(idx)
            } else {
                self.block.line::<false>(head, COLUMNS).behind(idx)
            };
            if self.idx < self.tiles.end {
                return;
            }
            self.idx = self.tiles.first;
            self.head_idx += 1;
        }
    }

    /// Tile `idx` of a query head, of so many columns.
    #[inline(always)]
    fn tile(&self, (idx, head_idx): (u32, u32), columns: usize) -> Columns {
        Columns {
            head_idx,
            start: idx * columns as u32,
            masked: self.tiles.is_masked(idx),
        }
    }
}

impl Block<'_> {
    /// Adds all columns that the block's rows see to the results.
    ///
    /// # Safety
    /// The launch's; all threads of the block call it together.
    #[inline(always)]
    pub(super) unsafe fn visit<
        E: Half,
        G: Gradients,
        const CAP: usize,
        const ROWS: usize,
        const COLUMNS: usize,
        const M: usize,
        const N: usize,
        const K: usize,
        const D: usize,
    >(
        &self,
        results: &mut Results<M, D>,
        tiles: &KeyBlocks,
    ) {
        let mut next = TileScheduler::new::<G, COLUMNS>(self, tiles);
        let (mut at, mut stage, mut is_there) = ((0, 0), 1, 0);
        // SAFETY: the caller's promise; a stage is started when all threads have read what it held.
        unsafe {
            if !next.is_over() {
                self.start_rows::<E, G, CAP, ROWS>();
            }
            // A pass starts the copies of a tile and adds the one before: so that is in the code
            // once.
            loop {
                if !next.is_over() {
                    self.start_columns::<E, G, CAP, COLUMNS>(&next, BOTH, stage ^ 1);
                }
                cp_async_commit_group();
                if opaque(is_there) != 0 {
                    let tile = next.tile(at, COLUMNS);
                    self.add::<E, G, CAP, M, N, K, D>(results, stage, tile);
                }
                if next.is_over() {
                    break;
                }
                cp_async_wait_group::<0>();
                sync_threads(); // the stage has landed; the other is no longer read
                (at, is_there) = ((next.idx, next.head_idx), 1);
                stage ^= 1;
                next.advance::<G, COLUMNS>();
            }
        }
    }

    /// [`visit`](Self::visit) with one stage, whose two kinds of vectors are copied in turns: the
    /// second while scores and the product with dS are computed, the first while dP is.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    pub(super) unsafe fn visit_by_stages<
        E: Half,
        G: Gradients,
        const CAP: usize,
        const ROWS: usize,
        const COLUMNS: usize,
        const M: usize,
        const N: usize,
        const K: usize,
        const D: usize,
    >(
        &self,
        results: &mut Results<M, D>,
        tiles: &KeyBlocks,
    ) {
        let ([rows, second_rows], [first, second]) = (self.rows_at(), self.columns_at(0));
        let factors = |rows, columns| Factors { rows, columns };
        let mut next = TileScheduler::new::<G, COLUMNS>(self, tiles);
        let (mut at, mut is_there) = ((0, 0), 0);
        let mut dp = [[[0.0; 4]; N]; M];
        // SAFETY: the caller's promise; copies are started when all threads have read what was
        // there.
        unsafe {
            if !next.is_over() {
                self.start_rows::<E, G, CAP, ROWS>();
            }
            // As above; dP of the next tile is computed while its first vectors are on their way.
            loop {
                if !next.is_over() {
                    self.start_columns::<E, G, CAP, COLUMNS>(&next, SECOND, 0);
                }
                cp_async_commit_group();
                if opaque(is_there) != 0 {
                    let s = scores::<E, CAP, M, N>(factors(rows, first));
                    let tile = next.tile(at, COLUMNS);
                    self.add_pairs::<E, G, CAP, M, N, K, D>(results, [s, dp], (0, 0), tile);
                }
                if next.is_over() {
                    break;
                }
                sync_threads(); // the first vectors are no longer read
                self.start_columns::<E, G, CAP, COLUMNS>(&next, FIRST, 0);
                cp_async_commit_group();
                cp_async_wait_group::<1>();
                sync_threads(); // the second have landed
                dp = scores::<E, CAP, M, N>(factors(second_rows, second));
                cp_async_wait_group::<0>();
                sync_threads(); // the first have landed; the second are no longer read
                (at, is_there) = ((next.idx, next.head_idx), 1);
                next.advance::<G, COLUMNS>();
            }
        }
    }

    /// lse and delta of queries of a head in global memory.
    #[inline(always)]
    fn source(&self, head_idx: u32, first: u32) -> Source {
        let (arguments, fwd) = (self.arguments, &self.arguments.params.fwd);
        let at = fwd
            .lse_offset(&self.sequence, head_idx)
            .wrapping_add(first.into()) as usize;
        Source {
            lse: arguments.lse.wrapping_add(at),
            delta: arguments.delta.wrapping_add(at),
        }
    }

    /// Starts the copies of the rows.
    ///
    /// # Safety
    /// The launch's.
    #[inline(always)]
    unsafe fn start_rows<E: Half, G: Gradients, const CAP: usize, const ROWS: usize>(&self) {
        let of = (&self.sequence, self.head_idx);
        let start = self.start;
        // SAFETY: the caller's promise; nothing has been written there yet.
        unsafe {
            let operands = if G::DS { BOTH } else { FIRST };
            let to = self.rows_at();
            vectors::start::<E, CAP, ROWS>(self.arguments, of, (G::KEYS, operands), start, to);
            if !G::KEYS {
                let source = self.source(self.head_idx, start);
                let left = self.sequence.q.len - start;
                self.moments::<G>(0).start(self.tile.rows, &source, left);
            }
        }
    }

    /// Starts the copies of some kinds of a tile's vectors; lse and delta go with the first.
    ///
    /// # Safety
    /// The launch's; nobody uses the stage before the copies have been waited for.
    #[inline(always)]
    unsafe fn start_columns<E: Half, G: Gradients, const CAP: usize, const COLUMNS: usize>(
        &self,
        scheduler: &TileScheduler<'_>,
        operands: Operands,
        stage: u32,
    ) {
        let start = scheduler.idx * COLUMNS as u32;
        let head_idx = if G::KEYS {
            scheduler.head_idx
        } else {
            self.arguments.params.fwd.head_kv_idx(scheduler.head_idx)
        };
        let of = (&self.sequence, head_idx);
        // SAFETY: the caller's promise.
        unsafe {
            let to = self.columns_at(stage);
            vectors::start::<E, CAP, COLUMNS>(self.arguments, of, (!G::KEYS, operands), start, to);
            if G::KEYS && operands.first == 0 {
                let source = self.source(head_idx, start);
                let left = self.sequence.q.len - start;
                self.moments::<G>(stage)
                    .start(self.tile.columns, &source, left);
            }
        }
    }
}
