//! The holes of block masks: which blocks a tile visits, by tables in device memory
//! ([`abi::attention::blocks`]). As those of [`score`](super::score), they cost nothing unfilled.
//!
//! | hole | values | filled with |
//! |---|---|---|
//! | `is_sparse` | a flag | 1 |
//! | `is_changed` | a flag, from whether the block is partial | 1 if all scores are changed, 0 if none are, else that |
//! | `block_before`, `block_behind` | a block of a tile's line; a flag | the last visited block up to it (-1 if there is none), the first from it on (one beyond all); whether it is partial |
//! | `blocks_through` | a block | the number of visited ones up to it |
//!
//! Each is told batch, query head, the tile's first row, and log2 of a block's extent. Lines are
//! queries, and blocks are of keys. In holes that end in `_of_keys` it is the other way round.

use cuda_std::hint::opaque;
use cuda_std::hole;

/// Whether there is a block mask: see [`is_scored`](super::score::is_scored).
#[inline(always)]
pub(crate) fn is_sparse() -> bool {
    let flag: u32;
    hole!("is_sparse", [flag] <- []);
    opaque(flag) != 0
}

/// Whether the scores of a block are changed, if it is `partial`.
#[inline(always)]
pub(crate) fn is_changed(partial: u32) -> bool {
    let flag: u32;
    hole!("is_changed", [flag] <- [partial]);
    opaque(flag) != 0
}

/// The line of blocks of a tile. Its rows are queries, or, with `KEYS`, keys.
#[derive(Clone, Copy)]
pub(crate) struct Line<const KEYS: bool> {
    pub(crate) batch: u32,
    /// Query head.
    pub(crate) head: u32,
    /// The tile's first row.
    pub(crate) row: u32,
    /// Queries or keys of a block; a power of two.
    pub(crate) extent: u32,
}

impl<const KEYS: bool> Line<KEYS> {
    /// The last visited block up to `block`, -1 if there is none; and whether it is partial.
    #[inline(always)]
    pub(crate) fn before(self, mut block: u32) -> (u32, u32) {
        let (batch, head, row, log2) = self.place();
        let mut partial = 0;
        if KEYS {
            hole!(through "block_before_of_keys", [block, partial] <- [batch, head, row, log2]);
        } else {
            hole!(through "block_before", [block, partial] <- [batch, head, row, log2]);
        }
        (block, partial)
    }

    /// The same, but at least `first`: the first visited block, or one in the place of all.
    #[inline(always)]
    pub(crate) fn before_from(self, block: u32, first: u32) -> (u32, u32) {
        let (found, partial) = self.before(block);
        let is_behind = found as i32 >= first as i32;
        (if is_behind { found } else { first }, partial)
    }

    /// The first visited block from `block` on, or one beyond all; and whether it is partial.
    #[inline(always)]
    pub(crate) fn behind(self, mut block: u32) -> (u32, u32) {
        let (batch, head, row, log2) = self.place();
        let mut partial = 0;
        if KEYS {
            hole!(through "block_behind_of_keys", [block, partial] <- [batch, head, row, log2]);
        } else {
            hole!(through "block_behind", [block, partial] <- [batch, head, row, log2]);
        }
        (block, partial)
    }

    /// The range without the blocks before the first and behind the last visited one: `end..end` if
    /// none is.
    #[inline(always)]
    pub(crate) fn visited(self, first: u32, end: u32) -> (u32, u32) {
        if first >= end {
            return (end, end);
        }
        let (last, _) = self.before(end - 1);
        if (last as i32) < first as i32 {
            return (end, end);
        }
        (self.behind(first).0, last + 1)
    }

    /// The number of visited blocks in `first..end`.
    #[inline(always)]
    pub(crate) fn visits(self, first: u32, end: u32) -> u32 {
        let through = |end: u32| match end {
            0 => 0,
            _ => self.through(end - 1),
        };
        if first < end {
            through(end) - through(first)
        } else {
            0
        }
    }

    /// The number of visited blocks up to `block`.
    #[inline(always)]
    fn through(self, mut block: u32) -> u32 {
        let (batch, head, row, log2) = self.place();
        if KEYS {
            hole!(through "blocks_through_of_keys", [block] <- [batch, head, row, log2]);
        } else {
            hole!(through "blocks_through", [block] <- [batch, head, row, log2]);
        }
        block
    }

    #[inline(always)]
    const fn place(self) -> (u32, u32, u32, u32) {
        let log2 = self.extent.trailing_zeros();
        (self.batch, self.head, self.row, log2)
    }
}
