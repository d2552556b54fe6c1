//! Heads that share keys and values, side by side in a tile of queries; and keys in several parts.
//!
//! Each of a warpgroup's 64 rows is a query and one of `heads` heads, head by head: row r is head `r %
//! heads` of query `r / heads`. The keys of a tile may be taken in parts, by a block each, whose results
//! are merged ([`merge`](super::merge)).

use crate::gemm::sm90::MMA_M;

/// Most parts of keys.
pub const MOST_SPLITS: u32 = 128;

/// Most heads side by side: a warpgroup's rows.
pub const MOST_PACKED_HEADS: u32 = MMA_M;

/// Of `group` heads that share keys and values, how many lie side by side: the most that divide them and
/// have room in a warpgroup's rows. 1 where that is none but one.
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

/// One launch of a packed kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FwdPacking {
    /// Heads side by side: of those that share a key head, as many or a divisor of that; up to 64.
    pub heads: u32,
    /// Queries of a warpgroup's rows: as many as have room for all heads. Rows that are left over are
    /// idle.
    pub queries: u32,
    /// 2^16 / heads, rounded up.
    reciprocal: u32,
    /// Parts that the keys of a tile are taken in, by a block each; not 0. Where there are several, o is
    /// of f32 and both o and lse have a place for each part, and a merge follows.
    pub splits: u32,
    /// Elements from o of a part to that of the next.
    pub o_split: u64,
    /// The same of lse.
    pub lse_split: u64,
}

impl FwdPacking {
    /// `heads` side by side, keys in one part; `None` where a warpgroup has not as many rows, or for no
    /// head.
    pub const fn new(heads: u32) -> Option<Self> {
        if heads == 0 || heads > MOST_PACKED_HEADS {
            return None;
        }
        Some(Self {
            heads,
            queries: MMA_M / heads,
            reciprocal: (1u32 << 16).div_ceil(heads),
            splits: 1,
            o_split: 0,
            lse_split: 0,
        })
    }

    /// The query and the head of a warpgroup's row, less than 64.
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
            let packing = FwdPacking::new(heads).expect("they have room");
            assert!(packing.queries * heads <= MMA_M);
            assert!((packing.queries + 1) * heads > MMA_M);
            for row in 0..MMA_M {
                assert_eq!(packing.row(row), (row / heads, row % heads));
            }
        }
        assert_eq!(FwdPacking::new(0), None);
        assert_eq!(FwdPacking::new(MMA_M + 1), None);
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
