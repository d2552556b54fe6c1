//! The tiles of queries that a block visits.

use cuda_std::thread;
use spec::attention::backward::FlashBwdParams;
use spec::attention::backward::order::Order;
use spec::attention::backward::sm90::BwdTile;
use spec::attention::sm90::divided;

/// A block's keys, and the tiles of queries that see some of them, from the last to the first, each of
/// all heads that share the keys. All roles go through the same tiles.
#[derive(Clone, Copy)]
pub(super) struct Walk {
    pub(super) order: Order,
    /// The block of keys.
    pub(super) key_block: u32,
    /// Its key head.
    pub(super) head_kv: u32,
    /// Its sequence.
    pub(super) batch: u32,
    /// Query heads that share the keys.
    first_head: u32,
    end_head: u32,
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
        let (key_block, of_beside) = divided(thread::block_idx_x(), beside);
        let tiles = order.query_tiles(key_block);
        let head = thread::block_idx_y() * beside + of_beside;
        let (batch, head_kv) = divided(head, params.fwd.heads_kv);
        let heads = params.fwd.heads_per_kv();
        Self {
            order,
            key_block,
            head_kv,
            batch,
            first_head: head_kv * heads,
            end_head: (head_kv + 1) * heads,
            head: head_kv * heads,
            tile: tiles.end.wrapping_sub(1),
            left: tiles.len() * heads,
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
        self.head += 1;
        if self.head == self.end_head {
            self.head = self.first_head;
            self.tile = self.tile.wrapping_sub(1);
        }
    }
}
