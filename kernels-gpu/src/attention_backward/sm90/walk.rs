//! The tiles of queries that a block visits.

use cuda_std::hint::opaque;
use cuda_std::thread;
use spec::attention::backward::FlashBwdParams;
use spec::attention::backward::order::{self, Order, Turn};
use spec::attention::backward::sm90::BwdTile;
use spec::attention::sm90::divided;

/// A block's keys, and the tiles of a head's queries that see some of them, from the last to the first.
/// All roles go through the same tiles.
#[derive(Clone, Copy)]
pub(super) struct Walk {
    pub(super) order: Order,
    /// The block of keys.
    pub(super) key_block: u32,
    /// Its key head.
    pub(super) head_kv: u32,
    /// Its sequence.
    pub(super) batch: u32,
    /// Its query head.
    pub(super) head: u32,
    /// The block's turn to add to dk and dv, among those of the heads that share the keys.
    pub(super) turn: Turn,
    /// Where the walk is.
    pub(super) tile: u32,
    /// Tiles that are still to be visited, this one included.
    pub(super) left: u32,
}

impl Walk {
    /// The block's walk, at its first tile, if there is one. Each call computes it anew: there are no
    /// registers to keep all of it.
    #[inline(always)]
    pub(super) fn new(params: &FlashBwdParams, tile: &BwdTile) -> Self {
        let fwd = &params.fwd;
        let [x, y, heads_kv] =
            [thread::block_idx_x(), thread::block_idx_y(), fwd.heads_kv].map(opaque);
        let order = tile.order(fwd);
        let (beside, _) = divided(thread::grid_dim_x(), tile.key_blocks(fwd.seqlen_k));
        let (key_block, of_beside) = divided(x, beside);
        let place = y * beside + of_beside;
        let [batch, head_kv, of_group] = order::head(place, fwd.batch, heads_kv);
        let group = fwd.heads_per_kv();
        let tiles = order.query_tiles(key_block);
        Self {
            order,
            key_block,
            head_kv,
            batch,
            head: head_kv * group + of_group,
            turn: Turn {
                index: of_group,
                is_last: of_group + 1 == group,
            },
            tile: tiles.end.wrapping_sub(1),
            left: tiles.len(),
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
        self.tile = self.tile.wrapping_sub(1);
    }
}
