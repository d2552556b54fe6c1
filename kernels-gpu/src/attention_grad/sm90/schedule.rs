//! The tiles of queries that a block visits.

use abi::attention::sm90::divided;
use abi::attention_grad::AttentionGradParams;
use abi::attention_grad::order::{self, AddOrder, Order};
use abi::attention_grad::sm90::Sm90GradTile;
use cuda_std::hint::opaque;
use cuda_std::thread;

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
    pub(super) batch: u32,
    /// Its query heads.
    first_head: u32,
    end_head: u32,
    /// The block's turn to add to dk and dv, if it has not all heads that share the keys.
    pub(super) add_order: AddOrder,
    /// Query head and tile where the walk is.
    pub(super) head: u32,
    /// See `head`.
    pub(super) tile: u32,
    /// Tiles that are still to be visited, this one included.
    pub(super) left: u32,
}

impl TileScheduler {
    /// The block's walk, at its first tile, if there is one. Each call computes it anew: there are
    /// no registers to keep all of it.
    #[inline(always)]
    pub(super) fn new(params: &AttentionGradParams, tile: &Sm90GradTile) -> Self {
        let fwd = &params.fwd;
        let [x, y, heads_kv] =
            [thread::block_idx_x(), thread::block_idx_y(), fwd.heads_kv].map(opaque);
        let order = tile.order(fwd);
        let (x, _) = divided(x, tile.ctas());
        let (clusters, _) = divided(thread::grid_dim_x(), tile.ctas());
        let (beside, _) = divided(clusters, tile.key_blocks(fwd.seqlen_k));
        let (key_block, of_beside) = divided(x, beside);
        let index = y * beside + of_beside;
        let [batch, head_kv, part] = order::heads(index, fwd.batch, heads_kv);
        let first_head = head_kv * fwd.heads_per_kv() + part * params.heads_together;
        let tiles = order.query_tiles(key_block);
        let mut scheduler = Self {
            order,
            key_block,
            head_kv,
            batch,
            first_head,
            end_head: first_head + params.heads_together,
            add_order: AddOrder {
                index: part,
                is_last: part + 1 == params.adders(),
            },
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

    /// The line of query tiles of the block's keys. A block mask is the same for all heads of a block.
    #[inline(always)]
    fn line(&self) -> Line<true> {
        Line {
            batch: self.batch,
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
                batch: self.batch,
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
