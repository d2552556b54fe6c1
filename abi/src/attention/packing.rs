//! GQA packing, where a tile of queries has several heads that share keys and values; and split-KV.
//!
//! With GQA packing, each row of a tile is one query of one of `heads` heads: row r is head `r %
//! heads` of query `r / heads`. A tile has 64 rows of a warpgroup, or 16 or 32 rows of
//! [decoding](super::decode). With split-KV, the keys of a tile are divided among several blocks,
//! whose results are merged ([`merge`](super::merge)).

use crate::gemm::sm90::MMA_M;
use crate::kernel_param;

/// Most splits of the keys.
pub const MOST_SPLITS: u32 = 128;

/// Most packed heads: a warpgroup's rows.
pub const MOST_PACKED_HEADS: u32 = MMA_M;

/// How many of `group` heads that share keys and values are packed together: the largest divisor of
/// `group` that fits a warpgroup's rows. 1 means no packing.
pub const fn packed_heads(group: u32) -> u32 {
    let mut heads = if group < MOST_PACKED_HEADS {
        group
    } else {
        MOST_PACKED_HEADS
    };
    while heads > 1 && !group.is_multiple_of(heads) {
        heads -= 1;
    }
    if heads == 0 { 1 } else { heads }
}

kernel_param! {
    /// One launch of a packed kernel.
    #[derive(Debug, PartialEq, Eq, Hash)]
    pub struct FwdPacking {
        /// Packed heads: those that share a key head, or a divisor of their number; up to the number of
        /// rows.
        pub heads: u32,
        /// Queries of the rows: as many as fit with all heads of each. Rows that are left over are idle.
        pub queries: u32,
        /// 2^16 / heads, rounded up.
        reciprocal: u32,
        /// Splits of a tile's keys, each computed by one block; not 0. If there are several, o is f32,
        /// o and lse have room for each split, and a merge follows.
        pub splits: u32,
        /// Elements from o of one split to that of the next.
        pub o_split: u64,
        /// The same for lse.
        pub lse_split: u64,
    }
}

impl FwdPacking {
    /// `heads` heads packed in `rows` rows, keys in one part; `None` if there are no heads, or more
    /// than `rows`, or more rows than [`MOST_PACKED_HEADS`].
    pub const fn new(heads: u32, rows: u32) -> Option<Self> {
        if heads == 0 || heads > rows || rows > MOST_PACKED_HEADS {
            return None;
        }
        Some(Self {
            heads,
            queries: rows / heads,
            reciprocal: (1u32 << 16).div_ceil(heads),
            splits: 1,
            o_split: 0,
            lse_split: 0,
        })
    }

    /// The query and the head of a row; `row` is less than 64.
    #[inline(always)]
    pub const fn row(&self, row: u32) -> (u32, u32) {
        let query = row.wrapping_mul(self.reciprocal) >> 16;
        (query, row.wrapping_sub(query.wrapping_mul(self.heads)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_is_a_query_and_a_head_of_its_own() {
        for heads in 1..=MMA_M {
            let packing = FwdPacking::new(heads, MMA_M).expect("they have room");
            assert!(packing.queries * heads <= MMA_M);
            assert!((packing.queries + 1) * heads > MMA_M);
            for row in 0..MMA_M {
                assert_eq!(packing.row(row), (row / heads, row % heads));
            }
        }
        assert_eq!(FwdPacking::new(0, MMA_M), None);
        assert_eq!(FwdPacking::new(MMA_M + 1, MMA_M), None);
    }

    #[test]
    fn as_many_heads_as_have_room_lie_side_by_side() {
        for (group, heads) in [
            (0, 1),
            (1, 1),
            (7, 7),
            (8, 8),
            (64, 64),
            (128, 64),
            (71, 1),
            (96, 48),
        ] {
            assert_eq!(packed_heads(group), heads, "of {group}");
        }
    }
}
