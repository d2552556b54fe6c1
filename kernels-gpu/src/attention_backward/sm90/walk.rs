//! The tiles of queries that a block visits.

use cuda_std::thread;
use spec::attention::backward::FlashBwdParams;
use spec::attention::backward::order::{Order, QueryTiles};
use spec::attention::backward::sm90::BwdTile;
use spec::attention::sm90::divided;

/// A block's keys, and the tiles of queries that see some of them, of all heads that share the keys:
/// head by head, each from the first tile to the last. All roles go through the same tiles.
#[derive(Clone, Copy)]
pub(super) struct Walk {
    pub(super) order: Order,
    /// The block of keys.
    pub(super) key_block: u32,
    /// Its key head.
    pub(super) head_kv: u32,
    /// Its sequence.
    pub(super) batch: u32,
    tiles: QueryTiles,
    /// Query head and tile where the walk is.
    pub(super) head: u32,
    /// See `head`.
    pub(super) tile: u32,
    /// Tiles that are still to be visited, this one included.
    pub(super) left: u32,
}

impl Walk {
    /// The block's walk, at its first tile, if there is one.
    #[inline(always)]
    pub(super) fn new(params: &FlashBwdParams, tile: &BwdTile) -> Self {
        let order = tile.order(&params.fwd);
        let key_blocks = tile.key_blocks(params.fwd.seqlen_k);
        let (beside, _) = divided(thread::grid_dim_x(), key_blocks);
        let (rank, of_beside) = divided(thread::block_idx_x(), beside);
        let key_block = Order::key_block(rank, key_blocks);
        let tiles = order.query_tiles(key_block);
        let head = thread::block_idx_y() * beside + of_beside;
        let (batch, head_kv) = divided(head, params.fwd.heads_kv);
        Self {
            order,
            key_block,
            head_kv,
            batch,
            tiles,
            head: head_kv * params.fwd.heads_per_kv(),
            tile: tiles.first,
            left: tiles.len() * params.fwd.heads_per_kv(),
        }
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
        self.tile += 1;
        if self.tile == self.tiles.end {
            self.tile = self.tiles.first;
            self.head += 1;
        }
    }
}
