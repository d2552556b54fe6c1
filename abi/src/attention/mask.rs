//! The mask: which keys a query sees.
//!
//! All masks here are bands: query i sees the keys from `i + first` up to, but not including,
//! `i + end`, as far as they exist. The left window sets the first bound, the right window (causal:
//! 0) the second, and the alignment shifts both. For seqlen_q = 2 and 3, causal (1 = visible):
//!
//! ```text
//! bottom-right, 2 queries, 5 keys:    top-left:       bottom-right, 3 queries, 2 keys:   top-left:
//!     1 1 1 1 0                       1 0 0 0 0           0 0                            1 0
//!     1 1 1 1 1                       1 1 0 0 0           1 0                            1 1
//!                                                         1 1                            1 1
//! ```

/// A window without a bound.
pub const UNLIMITED: i32 = i32::MAX;

/// Keys `first..end`; empty if `first >= end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyRange {
    /// The first.
    pub first: u32,
    /// One beyond the last.
    pub end: u32,
}

impl KeyRange {
    /// The first `end` keys.
    #[inline(always)]
    pub const fn up_to(end: u32) -> Self {
        Self { first: 0, end }
    }

    /// The same keys, counted from key `start`; those before it are left out.
    #[inline(always)]
    pub const fn from(&self, start: u32) -> Self {
        Self {
            first: self.first.saturating_sub(start),
            end: self.end.saturating_sub(start),
        }
    }

    /// Whether it has no key.
    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        self.first >= self.end
    }
}

/// The mask of one sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mask {
    /// Number of queries.
    pub seqlen_q: u32,
    /// Number of keys.
    pub seqlen_k: u32,
    /// Query i sees key j if `first <= j - i < end`; the difference always fits 32 bits. At least
    /// -seqlen_q, which excludes no key for any query.
    pub first: i32,
    /// See `first`. At most seqlen_k, which excludes no key for any query.
    pub end: i32,
}

/// Blocks of keys that a tile of queries visits: `first..end`; of these, `full_first..full_end`
/// need no mask. `first <= full_first <= full_end <= end` always holds, so loops over
/// `full_end..end`, `full_first..full_end` and `first..full_first` visit each block once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyBlocks {
    /// The first block in which some query sees a key.
    pub first: u32,
    /// The first block all of whose keys every query sees.
    pub full_first: u32,
    /// One beyond the last such block.
    pub full_end: u32,
    /// One beyond the last block in which some query sees a key.
    pub end: u32,
}

impl KeyBlocks {
    /// Number of blocks that are visited.
    #[inline(always)]
    pub const fn len(&self) -> u32 {
        self.end - self.first
    }

    /// Whether no query of the tile sees a key.
    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        self.first == self.end
    }

    /// Whether some query may not see all keys of the block.
    #[inline(always)]
    pub const fn is_masked(&self, n_block_idx: u32) -> bool {
        n_block_idx < self.full_first || n_block_idx >= self.full_end
    }
}

impl Mask {
    /// The mask of `window` to the left and to the right ([`UNLIMITED`]: no bound; negative counts
    /// as 0), aligned to the top-left or the bottom-right corner. Lengths are below 2^31.
    #[inline(always)]
    pub const fn new(seqlen_q: u32, seqlen_k: u32, window: (i32, i32), top_left: bool) -> Self {
        let (queries, keys) = (seqlen_q as i64, seqlen_k as i64);
        let shift = if top_left { 0 } else { keys - queries };
        let (left, right) = (positive(window.0) as i64, positive(window.1) as i64);
        let first = if left == UNLIMITED as i64 {
            -queries
        } else {
            clamp(shift - left, -queries, keys)
        };
        let end = if right == UNLIMITED as i64 {
            keys
        } else {
            clamp(shift + right + 1, -queries, keys)
        };
        Self {
            seqlen_q,
            seqlen_k,
            first: first as i32,
            end: end as i32,
        }
    }

    /// Keys that query `query_idx` sees. An empty range may lie anywhere among the keys.
    #[inline(always)]
    pub const fn visible_keys(&self, query_idx: u32) -> KeyRange {
        let first = query_idx as i64 + self.first as i64;
        let end = query_idx as i64 + self.end as i64;
        KeyRange {
            first: clamp(first, 0, self.seqlen_k as i64) as u32,
            end: clamp(end, 0, self.seqlen_k as i64) as u32,
        }
    }

    /// Keys that some of the queries `first_query..end_query` see; queries beyond the sequence do not
    /// count. An empty range may lie anywhere among the keys.
    #[inline(always)]
    pub const fn keys_of_tile(&self, first_query: u32, end_query: u32) -> KeyRange {
        let end_query = if end_query < self.seqlen_q {
            end_query
        } else {
            self.seqlen_q
        };
        // Both bounds ascend with the query, by at most 1, so there is no gap between two ranges.
        KeyRange {
            first: self.visible_keys(first_query).first,
            end: self.visible_keys(end_query.saturating_sub(1)).end,
        }
    }

    /// Whether query `query_idx` sees key `key_idx`.
    #[inline(always)]
    pub const fn sees(&self, query_idx: u32, key_idx: u32) -> bool {
        let KeyRange { first, end } = self.visible_keys(query_idx);
        first <= key_idx && key_idx < end
    }

    /// The mask with queries and keys exchanged: its query j sees its key i if query i sees key j. So
    /// its [`key_blocks`](Self::key_blocks) are the blocks of queries that see some of a tile's keys.
    #[inline(always)]
    pub const fn transposed(&self) -> Self {
        Self {
            seqlen_q: self.seqlen_k,
            seqlen_k: self.seqlen_q,
            first: 1i32.saturating_sub(self.end),
            end: 1i32.saturating_sub(self.first),
        }
    }

    /// The blocks of `tile_n` keys that the queries `first_query..end_query` visit; queries beyond
    /// the sequence do not count. `tile_n` is a power of two.
    #[inline(always)]
    pub const fn key_blocks(&self, first_query: u32, end_query: u32, tile_n: u32) -> KeyBlocks {
        let end_query = if end_query < self.seqlen_q {
            end_query
        } else {
            self.seqlen_q
        };
        if first_query >= end_query {
            return NO_BLOCKS;
        }
        // Both bounds ascend with the query. So the first query sees the first key that any of them
        // sees, and its range ends with the last key that all of them see.
        let top = self.visible_keys(first_query);
        let bottom = self.visible_keys(end_query - 1);
        if top.first >= bottom.end {
            return NO_BLOCKS;
        }
        let log2 = tile_n.trailing_zeros() & 31;
        let below = (1u32 << log2) - 1;
        let first = top.first >> log2;
        let end = (bottom.end.wrapping_add(below)) >> log2;
        let full_first = bottom.first.wrapping_add(below) >> log2;
        let full_end = top.end >> log2;
        if full_first >= full_end {
            return KeyBlocks {
                first,
                full_first: first,
                full_end: first,
                end,
            };
        }
        KeyBlocks {
            first,
            full_first,
            full_end,
            end,
        }
    }
}

const NO_BLOCKS: KeyBlocks = KeyBlocks {
    first: 0,
    full_first: 0,
    full_end: 0,
    end: 0,
};

const fn positive(window: i32) -> i32 {
    if window < 0 { 0 } else { window }
}

const fn clamp(x: i64, low: i64, high: i64) -> i64 {
    if x < low {
        low
    } else if x > high {
        high
    } else {
        x
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    /// Rows of the mask, one number a key, the first key first.
    fn rows(seqlen_q: u32, seqlen_k: u32, window: (i32, i32), top_left: bool) -> Vec<Vec<u8>> {
        let mask = Mask::new(seqlen_q, seqlen_k, window, top_left);
        let row = |i| (0..seqlen_k).map(|j| u8::from(mask.sees(i, j))).collect();
        (0..seqlen_q).map(row).collect()
    }

    const CAUSAL: (i32, i32) = (UNLIMITED, 0);

    #[test]
    fn causal_starts_in_the_corner_it_is_aligned_to() {
        assert_eq!(
            rows(2, 5, CAUSAL, false),
            [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
        );
        assert_eq!(rows(2, 5, CAUSAL, true), [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0]]);
        assert_eq!(rows(3, 2, CAUSAL, false), [[0, 0], [1, 0], [1, 1]]);
        assert_eq!(rows(3, 2, CAUSAL, true), [[1, 0], [1, 1], [1, 1]]);
        for top_left in [false, true] {
            let square = rows(3, 3, CAUSAL, top_left);
            assert_eq!(square, [[1, 0, 0], [1, 1, 0], [1, 1, 1]]);
            assert_eq!(rows(2, 3, (UNLIMITED, UNLIMITED), top_left), [[1; 3]; 2]);
        }
    }

    #[test]
    fn windows_bound_what_lies_left_and_right_of_the_diagonal() {
        assert_eq!(
            rows(4, 4, (1, 0), false),
            [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
        );
        assert_eq!(
            rows(2, 5, (1, 1), false),
            [[0, 0, 1, 1, 1], [0, 0, 0, 1, 1]]
        );
        assert_eq!(rows(2, 5, (0, 1), true), [[1, 1, 0, 0, 0], [0, 1, 1, 0, 0]]);
        assert_eq!(
            rows(5, 2, (0, 0), true),
            [[1, 0], [0, 1], [0, 0], [0, 0], [0, 0]]
        );
        assert_eq!(
            rows(5, 2, (0, 0), false),
            [[0, 0], [0, 0], [0, 0], [1, 0], [0, 1]]
        );
        assert_eq!(
            rows(2, 2, (UNLIMITED - 1, UNLIMITED - 1), false),
            [[1; 2]; 2]
        );
    }

    #[test]
    fn lengths_up_to_2_to_the_31_do_not_overflow() {
        let most = i32::MAX as u32;
        for window in [(UNLIMITED, 0), (7, 9), (UNLIMITED - 1, UNLIMITED - 1)] {
            for top_left in [false, true] {
                let mask = Mask::new(most, most, window, top_left);
                assert!(mask.sees(most - 1, most - 1) && mask.sees(0, 0));
                assert!(mask.key_blocks(most - 128, most, 128).end == 1 << 24);
                let none = Mask::new(most, 0, window, top_left);
                assert!(none.key_blocks(0, most, 128).is_empty());
            }
        }
    }

    #[test]
    fn block_ranges_are_what_a_count_of_visible_keys_gives() {
        let windows = [0, 1, 3, 9, UNLIMITED];
        for (seqlen_q, seqlen_k) in [(1, 1), (5, 17), (17, 5), (16, 16), (9, 0), (12, 33)] {
            for left in windows {
                for right in windows {
                    for top_left in [false, true] {
                        let mask = Mask::new(seqlen_q, seqlen_k, (left, right), top_left);
                        check_transposed(&mask);
                        for tile_m in [1, 4, 8] {
                            check_blocks(&mask, tile_m, 4);
                        }
                    }
                }
            }
        }
    }

    fn check_transposed(mask: &Mask) {
        let transposed = mask.transposed();
        for i in 0..mask.seqlen_q {
            for j in 0..mask.seqlen_k {
                assert_eq!(transposed.sees(j, i), mask.sees(i, j), "{mask:?}, {i}, {j}");
            }
        }
        for tile_m in [2, 8] {
            check_blocks(&transposed, tile_m, 4);
        }
    }

    fn check_blocks(mask: &Mask, tile_m: u32, tile_n: u32) {
        for first_query in (0..mask.seqlen_q).step_by(tile_m as usize) {
            let end_query = first_query + tile_m;
            let queries = first_query..end_query.min(mask.seqlen_q);
            let KeyRange { first, end } = mask.keys_of_tile(first_query, end_query);
            for key in 0..mask.seqlen_k {
                let is_seen = queries.clone().any(|i| mask.sees(i, key));
                assert_eq!((first..end).contains(&key), is_seen, "{mask:?}, key {key}");
            }
            let blocks = mask.key_blocks(first_query, end_query, tile_n);
            let KeyBlocks {
                first,
                full_first,
                full_end,
                end,
            } = blocks;
            assert!(first <= full_first && full_first <= full_end && full_end <= end);
            let mut visits = 0;
            for n_block_idx in 0..mask.seqlen_k.div_ceil(tile_n) + 1 {
                let keys = || (n_block_idx * tile_n..).take(tile_n as usize);
                let seen = |i| keys().filter(|&j| mask.sees(i, j)).count();
                let is_seen = queries.clone().any(|i| seen(i) > 0);
                let is_full = queries.clone().all(|i| seen(i) == tile_n as usize);
                let visited = (first..end).contains(&n_block_idx);
                assert!(visited || !is_seen, "{mask:?}, block {n_block_idx}");
                if visited {
                    visits += 1;
                    assert_eq!(blocks.is_masked(n_block_idx), !is_full, "{mask:?}");
                }
            }
            assert_eq!(visits, blocks.len());
            let ends_are_seen = |j: u32| {
                let mut keys = (j * tile_n..).take(tile_n as usize);
                keys.any(|j| queries.clone().any(|i| mask.sees(i, j)))
            };
            assert!(blocks.is_empty() || (ends_are_seen(first) && ends_are_seen(end - 1)));
        }
    }
}
