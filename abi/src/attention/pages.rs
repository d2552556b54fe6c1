//! Paged keys and values: pools of pages, and which page has which positions of a sequence.
//!
//! k and v are `[pages, page_size, heads_kv, ..]`: their batch strides step from page to page.
//! Position j of sequence b is position `j % page_size` of page `table[b][j / page_size]`. Entries
//! of the table for positions that a sequence does not have are not read. Whatever an entry holds,
//! it is clamped to the pool: one that no page has means the last page.
//!
//! `seqlen_k` of [`FlashFwdParams`](super::FlashFwdParams) is then at most the positions that a row
//! of the table has room for; there are neither packed keys nor left padding.

use super::params::BshStrides;
use crate::division::Division;
use crate::kernel_param;

kernel_param! {
    /// The table of one launch, and the extents of its pools.
    #[derive(Debug, PartialEq, Eq)]
    pub struct FlashFwdPages {
        /// Pages of each sequence; null if keys and values are not paged.
        pub table: *const i32,
        /// Elements from a sequence's pages to those of the next.
        pub row: i64,
        /// Pages of the pools; at least 1 if there is a key.
        pub pages: u32,
        /// By the positions of a page.
        pub page_size: Division,
    }
}

/// Where a position is in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagePosition {
    /// Index in the pool.
    pub page_idx: u32,
    /// Index in the page.
    pub position: u32,
}

impl FlashFwdPages {
    /// Keys and values are not paged.
    pub const NONE: Self = Self {
        table: core::ptr::null(),
        row: 0,
        pages: 0,
        page_size: Division::ONE,
    };

    /// The page that an entry of the table names.
    #[inline(always)]
    pub const fn page_idx(&self, entry: i32) -> u32 {
        let last = self.pages.wrapping_sub(1);
        if (entry as u32) < last {
            entry as u32
        } else {
            last
        }
    }
}

impl PagePosition {
    /// Offset in a pool of the position, of head 0.
    #[inline(always)]
    pub const fn offset(&self, strides: &BshStrides) -> i64 {
        strides.offset(self.page_idx, self.position, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_no_page_has_are_the_last_page() {
        let pages = FlashFwdPages {
            pages: 5,
            ..FlashFwdPages::NONE
        };
        for (entry, page_idx) in [
            (0, 0),
            (4, 4),
            (5, 4),
            (i32::MAX, 4),
            (-1, 4),
            (i32::MIN, 4),
        ] {
            assert_eq!(pages.page_idx(entry), page_idx, "of {entry}");
        }
    }

    #[test]
    fn positions_lie_by_page_and_in_it() {
        let strides = BshStrides {
            batch: 1 << 33,
            seq: 24,
            head: 8,
        };
        let at = PagePosition {
            page_idx: 3,
            position: 2,
        };
        assert_eq!(at.offset(&strides), 3 * (1 << 33) + 48);
    }
}
