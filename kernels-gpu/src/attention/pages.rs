//! Finds a sequence's positions in pools of pages.

use abi::attention::{FlashFwdPages, PagePosition};
use cuda_std::mem::ld_global_nc_u32;

/// The pages of one sequence. By value: a reference to a kernel's parameter, or else to something
/// else, would be to a copy of it in local memory.
#[derive(Clone, Copy)]
pub(crate) struct Pages {
    all: FlashFwdPages,
    /// The sequence's row of the table.
    row: *const i32,
}

impl Pages {
    /// Keys and values are not paged.
    pub(crate) const NONE: Self = Self {
        all: FlashFwdPages::NONE,
        row: core::ptr::null(),
    };

    /// Those of sequence `batch_idx`.
    #[inline(always)]
    pub(crate) fn new(all: &FlashFwdPages, batch_idx: u32) -> Self {
        let first = i64::from(batch_idx) * all.row;
        Self {
            all: *all,
            row: all.table.wrapping_offset(first as isize),
        }
    }

    /// False if keys and values are not paged, and there is nothing to find.
    #[inline(always)]
    pub(crate) fn are_there(&self) -> bool {
        !self.all.table.is_null()
    }

    /// The entry of the table for position `position`.
    ///
    /// # Safety
    /// The sequence has this position, and the table is what the launch says.
    #[inline(always)]
    pub(crate) unsafe fn entry(&self, position: u32) -> i32 {
        let (column, _) = self.all.page_size.div_rem(position);
        // SAFETY: the caller's promise: its row has an entry for each of its positions.
        let [entry] = unsafe { ld_global_nc_u32(self.row.wrapping_add(column as usize).cast()) };
        entry as i32
    }

    /// Where position `position` is, whose entry is `entry`.
    #[inline(always)]
    pub(crate) fn locate(&self, entry: i32, position: u32) -> PagePosition {
        let (_, position) = self.all.page_size.div_rem(position);
        PagePosition {
            page_idx: self.all.page_idx(entry),
            position,
        }
    }

    /// Where position `position` is.
    ///
    /// # Safety
    /// As for [`entry`](Self::entry).
    #[inline(always)]
    pub(crate) unsafe fn find(&self, position: u32) -> PagePosition {
        // SAFETY: the caller's promise.
        let entry = unsafe { self.entry(position) };
        self.locate(entry, position)
    }
}
