//! The tiles of queries that a block visits.

use abi::attention::sm90::divided;
use abi::attention::{Mask, Positions, Sequence};
use abi::attention_grad::order::{self, AddOrder, Order};
use cuda_std::hint::opaque;
use cuda_std::thread;

use super::kernel::{Backward, Config};
use crate::attention::sparse::{Line, is_sparse};

/// A block's keys, and the tiles of queries that see some of them, from the last to the first, each
/// of all heads of the block. All roles go through the same tiles. In a cluster, a block is both
/// thread blocks.
#[derive(Clone, Copy)]
pub(super) struct TileScheduler {
    pub(super) order: Order,
    /// The block of keys.
    pub(super) key_block: u32,
    /// Its key head.
    pub(super) head_kv: u32,
    /// Its sequence.
    pub(super) sequence: Sequence,
    /// Where the sequence's tiles of queries are among those of all sequences, and the block of keys.
    pub(super) slots: Slots,
    /// Its query heads.
    pub(super) first_head: u32,
    pub(super) end_head: u32,
    /// The block's turn to add to dk and dv, if it has not all heads that share the keys.
    pub(super) add_order: AddOrder,
    /// Query head and tile where the walk is.
    pub(super) head: u32,
    /// See `head`.
    pub(super) tile: u32,
    /// Tiles that are still to be visited, this one included.
    pub(super) left: u32,
}

/// Places among all sequences.
#[derive(Clone, Copy)]
pub(super) struct Slots {
    /// Of the sequence's first tile of queries.
    pub(super) first_query_tile: u32,
    /// Of the block of keys.
    pub(super) key_block: u32,
}

/// Where a thread block is in the grid.
pub(super) struct InGrid {
    /// Index of its block of keys: in a sequence, or in all of them.
    pub(super) index: u32,
    /// Sequence, key head and part.
    heads: [u32; 3],
}

impl<C: Config> Backward<'_, C> {
    /// Where the thread block is in the grid.
    #[inline(always)]
    pub(super) fn in_grid(&self) -> InGrid {
        let (fwd, tile) = (&self.call.params.fwd, C::TILE);
        let [x, y, heads_kv] =
            [thread::block_idx_x(), thread::block_idx_y(), fwd.heads_kv].map(opaque);
        let (x, _) = divided(x, tile.ctas());
        let (clusters, _) = divided(thread::grid_dim_x(), tile.ctas());
        let (key_blocks, batch) = match C::HAS_LENGTHS {
            true => (
                tile.key_slots(fwd.batch, fwd.seqlen_k, fwd.total_k) as u32,
                1,
            ),
            false => (tile.key_blocks(fwd.seqlen_k), fwd.batch),
        };
        let (beside, _) = divided(clusters, key_blocks);
        let (index, of_beside) = divided(x, beside);
        let heads = order::heads(y * beside + of_beside, batch, heads_kv);
        InGrid { index, heads }
    }

    /// The block's walk, at its first tile, if there is one. Each call computes it anew, or reads it:
    /// there are no registers to keep all of it.
    ///
    /// # Safety
    /// Whole warps call it, converged, after [`find_place`](Self::find_place).
    #[inline(always)]
    pub(super) unsafe fn scheduler(&self) -> TileScheduler {
        if C::HAS_LENGTHS {
            // SAFETY: passed on to the caller.
            return unsafe { self.place() };
        }
        let (fwd, tile) = (&self.call.params.fwd, C::TILE);
        let in_grid = self.in_grid();
        let batch_idx = in_grid.heads[0];
        let whole = |len| Positions { first: 0, len };
        let sequence = Sequence {
            batch_idx,
            q: whole(fwd.seqlen_q),
            k: whole(fwd.seqlen_k),
        };
        let slots = Slots {
            first_query_tile: batch_idx * tile.query_tiles(fwd.seqlen_q),
            key_block: batch_idx * tile.key_blocks(fwd.seqlen_k) + in_grid.index,
        };
        self.scheduler_of(&in_grid, (sequence, in_grid.index), slots)
    }

    /// The walk of a block of keys of a sequence.
    #[inline(always)]
    pub(super) fn scheduler_of(
        &self,
        in_grid: &InGrid,
        (sequence, key_block): (Sequence, u32),
        slots: Slots,
    ) -> TileScheduler {
        let params = self.call.params;
        let fwd = &params.fwd;
        let [_, head_kv, part] = in_grid.heads;
        let order = C::TILE.order(fwd.mask(&sequence));
        let first_head = head_kv * fwd.heads_per_kv() + part * params.heads_together;
        let tiles = order.query_tiles(key_block);
        let mut scheduler = TileScheduler {
            order,
            key_block,
            head_kv,
            sequence,
            slots,
            first_head,
            end_head: first_head + params.heads_together,
            add_order: self.add_order(part),
            head: first_head,
            tile: tiles.end.wrapping_sub(1),
            left: tiles.len() * params.heads_together,
        };
        if is_sparse() {
            let line = scheduler.line();
            let (first, end) = line.visited(tiles.first, tiles.end);
            scheduler.tile = end.wrapping_sub(1);
            scheduler.left = line.visits(first, end) * params.heads_together;
        }
        scheduler
    }

    /// The turn of a part of the heads that share keys.
    #[inline(always)]
    pub(super) fn add_order(&self, part: u32) -> AddOrder {
        AddOrder {
            index: part,
            is_last: part + 1 == self.call.params.adders(),
        }
    }
}

impl<C: Config> Backward<'_, C> {
    /// The sequence's mask. Lengths are read again: consumers have no registers to keep them.
    #[inline(always)]
    pub(super) fn mask(&self, scheduler: &TileScheduler) -> Mask {
        match C::HAS_LENGTHS {
            true => self.place_mask(),
            false => scheduler.order.mask,
        }
    }

    /// The sequence's index. See [`mask`](Self::mask).
    #[inline(always)]
    pub(super) fn batch_idx(&self, scheduler: &TileScheduler) -> u32 {
        match C::HAS_LENGTHS {
            true => self.place_batch_idx(),
            false => scheduler.sequence.batch_idx,
        }
    }
}

impl TileScheduler {
    /// The line of query tiles of the block's keys. A block mask is the same for all heads of a block.
    #[inline(always)]
    fn line(&self) -> Line<true> {
        Line {
            batch: self.sequence.batch_idx,
            head: self.first_head,
            row: self.first_key(),
            extent: self.order.tile_m,
        }
    }

    /// The block's turn to add to the tile's dq.
    #[inline(always)]
    pub(super) fn turn(&self) -> AddOrder {
        if is_sparse() {
            let line = Line::<false> {
                batch: self.sequence.batch_idx,
                head: self.head,
                row: self.first_query(),
                extent: self.order.tile_n,
            };
            let blocks = self.order.key_blocks(self.tile);
            return AddOrder {
                index: line.visits(blocks.first, self.key_block),
                is_last: line.behind(self.key_block + 1).0 >= blocks.end,
            };
        }
        self.order.add_order(self.key_block, self.tile)
    }

    /// The block's first key.
    #[inline(always)]
    pub(super) fn first_key(&self) -> u32 {
        self.key_block * self.order.tile_n
    }

    /// The tile's first query.
    #[inline(always)]
    pub(super) fn first_query(&self) -> u32 {
        self.tile * self.order.tile_m
    }

    /// Goes on to the next tile.
    #[inline(always)]
    pub(super) fn advance(&mut self) {
        self.left -= 1;
        self.head += 1;
        if self.head == self.end_head {
            self.head = self.first_head;
            self.tile = self.tile.wrapping_sub(1);
            if is_sparse() && self.left > 0 {
                (self.tile, _) = self.line().before(self.tile);
            }
        }
    }
}
