//! Which tiles of queries a block of keys visits, and in which order blocks of keys add to dq.
//!
//! Every thread block has one block of keys and visits the tiles of queries that see some of them.
//! A tile of queries is visited by several blocks of keys, all of which add to its dq.
//! Floating-point additions give the same bits every run only in the same order, so each waits for
//! its turn.
//!
//! Of the query heads that share keys a thread block has some, or all ([`heads_together`]). If it
//! has some, thread blocks add to the keys' dk and dv in turns too, in the order of the heads.
//!
//! Thread blocks take the blocks of keys in order. They visit tiles of queries from the last to the
//! first, and all heads of each tile. They add to a tile in the order of their numbers:
//!
//! - A thread block waits only for thread blocks with lower numbers. These started before it, so
//!   however few fit at a time, there is always one that need not wait.
//! - Without a mask, and with a causal one, thread blocks that start together reach the same tiles
//!   at the same time. Each is one addition behind the one before it. That is lost once a launch if
//!   those that follow start as far apart. They do where the blocks of as many heads as run at a
//!   time alternate ([`beside`]). Blocks of the same rank end together, and make room for others of
//!   the same rank. With a causal mask they are lost again and again, and few of a head run at a
//!   time.
//! - With a causal mask the first blocks of keys have the most tiles. They start first, so that
//!   short ones are left for the end.
//! - Thread blocks that add to the same dk and dv are all key heads of the launch apart
//!   ([`heads`]), and so end apart: hardly any waits for its turn.

use crate::attention::mask::{KeyBlocks, Mask};
use crate::attention::sm90::divided;

/// Tiles of queries `first..end`; empty if `first == end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryTiles {
    /// The first.
    pub first: u32,
    /// One beyond the last.
    pub end: u32,
}

impl QueryTiles {
    /// Number of tiles.
    #[inline(always)]
    pub const fn len(&self) -> u32 {
        self.end.wrapping_sub(self.first)
    }

    /// Whether there is none.
    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        self.end == self.first
    }
}

/// A block of keys' turn to add to a tile of queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddOrder {
    /// Number of blocks of keys that have added before.
    pub index: u32,
    /// Whether none comes after it.
    pub is_last: bool,
}

/// The order of a sequence and a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// The mask.
    pub mask: Mask,
    /// Queries of a tile; a power of two.
    pub tile_m: u32,
    /// Keys of a block; a power of two.
    pub tile_n: u32,
}

impl Order {
    /// The tiles of queries that visit a block of keys: those of which some query sees some key.
    #[inline(always)]
    pub const fn query_tiles(&self, key_block: u32) -> QueryTiles {
        const NONE: QueryTiles = QueryTiles { first: 0, end: 0 };
        let Mask {
            seqlen_q, seqlen_k, ..
        } = self.mask;
        // Query i sees key j if `mask.first <= j - i < mask.end`.
        let first_key = key_block as i64 * self.tile_n as i64;
        let end_key = least(first_key + self.tile_n as i64, seqlen_k as i64);
        let first = first_key - self.mask.end as i64 + 1;
        let end = least(end_key - self.mask.first as i64, seqlen_q as i64);
        let first = if first < 0 { 0 } else { first };
        if first >= end || first_key >= end_key {
            return NONE;
        }
        let log2 = self.tile_m.trailing_zeros() & 31;
        QueryTiles {
            first: (first >> log2) as u32,
            end: (((end - 1) >> log2) + 1) as u32,
        }
    }

    /// The blocks of keys that visit a tile of queries.
    #[inline(always)]
    pub const fn key_blocks(&self, query_tile: u32) -> KeyBlocks {
        let first = query_tile.wrapping_mul(self.tile_m);
        let end = first.wrapping_add(self.tile_m);
        self.mask.key_blocks(first, end, self.tile_n)
    }

    /// The turn of a block of keys among those that visit a tile of queries; it is one of them.
    #[inline(always)]
    pub const fn add_order(&self, key_block: u32, query_tile: u32) -> AddOrder {
        let KeyBlocks { first, end, .. } = self.key_blocks(query_tile);
        AddOrder {
            index: key_block.wrapping_sub(first),
            is_last: key_block.wrapping_add(1) == end,
        }
    }
}

/// Sequence, key head and part for `index`, in the order of all parts of a launch with `batch`
/// sequences of `heads_kv` key heads. A part is some of the query heads that share a key head.
#[inline(always)]
pub const fn heads(index: u32, batch: u32, heads_kv: u32) -> [u32; 3] {
    let (part, key_head) = divided(index, batch.wrapping_mul(heads_kv));
    let (batch_idx, head_kv) = divided(key_head, heads_kv);
    [batch_idx, head_kv, part]
}

/// Query heads of a thread block, of a `group` that shares keys. At most 4, as a block adds dk and
/// dv to memory once. Fewer where the launch would have less than `blocks` blocks; with one head
/// each, it has `blocks_of_one`. More of them are in use longer, and their tiles leave L2 before
/// the next block of keys comes to them.
pub const fn heads_together(group: u32, blocks_of_one: u64, blocks: u64) -> u32 {
    const MOST: u32 = 4;
    let mut together = if group < MOST { group } else { MOST };
    while together > 1
        && (!group.is_multiple_of(together) || blocks_of_one / (together as u64) < blocks)
    {
        together -= 1;
    }
    if together == 0 { 1 } else { together }
}

/// How many of `parts` are side by side, whose thread blocks alternate: a divisor of their number.
/// A part is the query heads of a thread block, `heads_together` of them, with all `key_blocks`.
///
/// Thread blocks of a part that start together wait for each other once, the last one longest.
/// Without a mask all of a part's run at a time on `multiprocessors`, and keep their distance. With
/// one they end at different times, so that distances are lost: few of a part's run at a time.
pub const fn beside(
    (parts, heads_together): (u32, u32),
    key_blocks: u32,
    multiprocessors: u32,
    is_masked: bool,
) -> u32 {
    let at_a_time = match (is_masked, key_blocks / 4) {
        (false, _) => key_blocks,
        (true, 0..=2) => 2,
        (true, 8..) => 8,
        (true, quarter) => quarter,
    };
    let room = multiprocessors.checked_div(at_a_time.wrapping_mul(heads_together));
    let mut beside = match room {
        Some(room) if room < parts => room,
        _ => parts,
    };
    while beside > 1 && !parts.is_multiple_of(beside) {
        beside -= 1;
    }
    if beside == 0 { 1 } else { beside }
}

const fn least(a: i64, b: i64) -> i64 {
    if a < b { a } else { b }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;
    use crate::attention::mask::UNLIMITED;

    /// Every order of small sequences: all windows, both alignments.
    fn orders() -> impl Iterator<Item = Order> {
        let lengths = [
            (1, 1),
            (5, 17),
            (17, 5),
            (16, 16),
            (9, 0),
            (12, 33),
            (40, 40),
        ];
        let windows = [0, 1, 3, 9, 30, UNLIMITED];
        let tiles = [(4, 8), (8, 8), (8, 4)];
        lengths.into_iter().flat_map(move |(seqlen_q, seqlen_k)| {
            windows.into_iter().flat_map(move |left| {
                windows.into_iter().flat_map(move |right| {
                    [false, true].into_iter().flat_map(move |top_left| {
                        tiles.into_iter().map(move |(tile_m, tile_n)| Order {
                            mask: Mask::new(seqlen_q, seqlen_k, (left, right), top_left),
                            tile_m,
                            tile_n,
                        })
                    })
                })
            })
        })
    }

    #[test]
    fn the_blocks_of_keys_that_visit_a_tile_of_queries_add_in_a_chain_by_block_index() {
        for order in orders() {
            let (m_tiles, blocks) = (
                order.mask.seqlen_q.div_ceil(order.tile_m),
                order.mask.seqlen_k.div_ceil(order.tile_n),
            );
            for query_tile in 0..m_tiles {
                // In the order in which thread blocks start.
                let adders: Vec<AddOrder> = (0..blocks)
                    .filter(|&key_block| {
                        let tiles = order.query_tiles(key_block);
                        (tiles.first..tiles.end).contains(&query_tile)
                    })
                    .map(|key_block| order.add_order(key_block, query_tile))
                    .collect();
                for (index, add_order) in adders.iter().enumerate() {
                    let want = AddOrder {
                        index: index as u32,
                        is_last: index + 1 == adders.len(),
                    };
                    assert_eq!(*add_order, want, "{order:?}, tile {query_tile}");
                }
                assert_eq!(adders.len() as u32, order.key_blocks(query_tile).len());
            }
        }
    }

    #[test]
    fn a_block_of_keys_visits_every_tile_that_sees_one_of_its_keys_and_no_tile_beyond() {
        for order in orders() {
            let mask = order.mask;
            for key_block in 0..mask.seqlen_k.div_ceil(order.tile_n) {
                let tiles = order.query_tiles(key_block);
                let keys = || (key_block * order.tile_n..mask.seqlen_k).take(order.tile_n as usize);
                let sees = |tile: u32| {
                    let mut queries =
                        (tile * order.tile_m..mask.seqlen_q).take(order.tile_m as usize);
                    queries.any(|i| keys().any(|j| mask.sees(i, j)))
                };
                for tile in 0..mask.seqlen_q.div_ceil(order.tile_m) {
                    let visits = (tiles.first..tiles.end).contains(&tile);
                    assert!(visits || !sees(tile), "{order:?}, {key_block}, {tile}");
                }
                assert!(tiles.is_empty() || sees(tiles.first) && sees(tiles.end - 1));
            }
        }
    }

    #[test]
    fn with_a_causal_mask_thread_blocks_visit_the_same_tiles_first_and_the_first_have_most() {
        let order = Order {
            mask: Mask::new(64, 64, (UNLIMITED, 0), false),
            tile_m: 4,
            tile_n: 8,
        };
        for key_block in 0..8 {
            let of = order.query_tiles(key_block);
            assert_eq!((of.first, of.end), (2 * key_block, 16));
        }
    }

    #[test]
    fn heads_that_share_keys_come_one_after_the_other() {
        let (batch, heads_kv, group) = (2, 3, 4);
        let of_indices: Vec<[u32; 3]> = (0..batch * heads_kv * group)
            .map(|index| heads(index, batch, heads_kv))
            .collect();
        for batch_idx in 0..batch {
            for head_kv in 0..heads_kv {
                let sharing = of_indices
                    .iter()
                    .filter(|head| head[..2] == [batch_idx, head_kv]);
                assert!(sharing.map(|head| head[2]).eq(0..group));
            }
        }
        assert!(
            of_indices
                .chunks(6)
                .all(|heads| heads.iter().all(|head| head[2] == heads[0][2]))
        );
    }

    #[test]
    fn without_a_mask_as_many_heads_are_side_by_side_as_run_at_a_time() {
        for (parts, key_blocks, want) in [
            (64, 32, 4),
            (64, 8, 16),
            (64, 200, 1),
            (24, 8, 12),
            (7, 1, 7),
            (13, 32, 1),
            (4, 0, 4),
        ] {
            let got = beside((parts, 1), key_blocks, 132, false);
            assert_eq!(got, want, "{parts}, {key_blocks}");
        }
    }

    #[test]
    fn with_a_mask_two_to_eight_blocks_of_a_head_run_at_a_time() {
        for (parts, key_blocks, together, want) in [
            (512, 4, 1, 64),
            (256, 8, 1, 64),
            (128, 16, 1, 32),
            (64, 32, 1, 16),
            (16, 128, 1, 16),
            (128, 16, 4, 8),
            (64, 32, 4, 4),
            (9, 16, 2, 9),
        ] {
            let got = beside((parts, together), key_blocks, 132, true);
            assert_eq!(got, want, "{parts}, {key_blocks}, {together}");
        }
    }

    #[test]
    fn a_block_has_up_to_four_heads_if_enough_blocks_are_left() {
        for (group, blocks_of_one, want) in [
            (1, 10_000, 1),
            (8, 10_000, 4),
            (6, 10_000, 3),
            (7, 10_000, 1),
            (8, 1_000, 1),
            (8, 1_100, 2),
            (2, 1_056, 2),
            (0, 0, 1),
        ] {
            let got = heads_together(group, blocks_of_one, 528);
            assert_eq!(got, want, "{group}, {blocks_of_one}");
        }
    }
}
