//! How a reduction is cut into items, and how threads share these.

mod columns;
mod cut;
mod rows;
#[cfg(test)]
mod tests;

use self::columns::{COLUMNS_ACROSS, columns_across, columns_parts};
use self::cut::{at_least_one, capped, cut, wanted};
pub use self::rows::{SHORT_ROWS_OF_THREAD, SMALL_VECTORS_OF_THREAD};
use super::{BATCH, Family, MAX_BLOCKS, ReduceEntry, ReduceView, THREADS, Variant};

/// How one reduction is split into work items and launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReducePlan {
    /// Threads of an item along the reduced axis.
    pub along: u32,
    /// Threads of an item across `inner`, each with the elements of one vector.
    pub across: u32,
    /// Whether the lanes of a vector lie across `inner`; false if they lie along the axis.
    pub is_across: bool,
    /// Layout of the rows: one of `ROWS_..`.
    pub rows: u32,
    /// Variant of the kernel.
    pub variant: Variant,
    /// Number of chunks of a segment.
    pub chunks: u64,
    /// Number of elements of a chunk.
    pub chunk_len: u64,
    /// Number of outputs of an item.
    pub width: u64,
    /// Number of groups of items that share outputs.
    pub groups: u64,
    /// Number of parts of an output's axis, one per item: the chunks of all segments.
    pub parts: u64,
    /// Number of neighbouring parts that are merged first, by whichever block is last of them. Only
    /// [`Variant::Long`] has fewer than all parts here.
    pub section: u64,
    /// Number of blocks of the grid.
    pub blocks: u32,
}

/// Items that keep all SMs of a large GPU busy to the end: two for each block that runs at the same
/// time.
const ITEMS: u64 = 528;

/// The same for items with many columns each, whose parts cost more to merge.
const WIDE_ITEMS: u64 = 264;

/// Most blocks if warps or threads finish items by themselves: with more, there would only be more
/// block starts.
const OWN_BLOCKS: u32 = 528;

/// Fewest vectors of a thread for which another block is worth it; with fewer, merging costs more.
const LEAST_VECTORS: u64 = BATCH as u64;

/// [`ReducePlan::rows`]: nothing is known.
pub const ROWS_ANY: u32 = 0;
/// Rows are contiguous, whole vectors; they are aligned if the tensor is.
pub const ROWS_WHOLE: u32 = 1;

/// Vectors of 128 bytes, a line of the L2 cache: parts in clusters begin where a line does, if the row
/// does.
const LINE_VECTORS: u64 = 8;

/// Longest columns that a thread has whole, if there are enough columns to fill a large GPU twice.
const WHOLE_COLUMN: u64 = 64;

/// See [`WHOLE_COLUMN`].
const WHOLE_COLUMNS: u64 = 528 * THREADS as u64;

impl ReducePlan {
    /// The plan of the general kernel for a view, with vectors of `lanes` elements. It depends on
    /// nothing else, so results do not either.
    pub const fn new(view: &ReduceView, lanes: u64) -> Self {
        let is_across =
            view.inner > 1 && view.inner_stride.unsigned_abs() < view.axis_stride.unsigned_abs();
        if is_across {
            return Self::across(view, lanes);
        }
        Self::along(view, lanes)
    }

    /// The plan for an entry, or for another variant of it; other forms need a tensor aligned to 16
    /// bytes. See [`ReduceEntry::for_plan`].
    pub fn of(entry: ReduceEntry, view: &ReduceView, is_aligned: bool) -> Self {
        let lanes = entry.lanes();
        if is_aligned && view.n > 0 {
            let is_rows = known_of_rows(view, lanes) == ROWS_WHOLE;
            if is_rows
                && entry.with(Variant::Small).is_some()
                && let Some(plan) = Self::small(view, lanes)
            {
                return plan;
            }
            if is_rows
                && entry.with(Variant::Long).is_some()
                && let Some(plan) = Self::long(view, lanes, batches(entry.family))
            {
                return plan;
            }
            if is_rows
                && entry.with(Variant::Short).is_some()
                && let Some(plan) = Self::short(view, lanes)
            {
                return plan;
            }
            if entry.with(Variant::Columns).is_some()
                && let Some(plan) = Self::columns(view, lanes)
            {
                return plan;
            }
        }
        Self::new(view, lanes)
    }

    /// Lanes of a vector lie along the axis.
    const fn along(view: &ReduceView, lanes: u64) -> Self {
        let outputs = view.outer.saturating_mul(view.inner);
        let vectors = view.n.div_ceil(lanes);
        let rows = outputs.saturating_mul(view.segments);
        // If there are enough rows to keep all warps busy, it is cheapest to finish each within a
        // warp.
        let of_warp = if rows >= 4 * ITEMS { 8192 } else { 128 };
        let along = if vectors > of_warp || view.segments > 1 {
            THREADS as u64
        } else {
            let threads = vectors.div_ceil(BATCH as u64).next_power_of_two();
            if threads > 32 { 32 } else { threads }
        };
        let (chunks, chunk_len) = if along < THREADS as u64 {
            (1, at_least_one(view.n))
        } else {
            cut(view.n, along * LEAST_VECTORS * lanes, wanted(ITEMS, rows))
        };
        let parts = view.segments.saturating_mul(chunks);
        let per_block = THREADS as u64 / along;
        Self {
            along: along as u32,
            across: 1,
            is_across: false,
            rows: known_of_rows(view, lanes),
            variant: Variant::General,
            chunks,
            chunk_len,
            width: 1,
            groups: outputs,
            parts,
            section: at_least_one(parts),
            blocks: match along {
                ..=32 => capped(outputs.div_ceil(per_block), OWN_BLOCKS),
                _ => capped(outputs.saturating_mul(parts), MAX_BLOCKS),
            },
        }
    }

    /// Columns of whole vectors side by side.
    const fn columns(view: &ReduceView, lanes: u64) -> Option<Self> {
        let is_whole = view.inner.is_multiple_of(lanes)
            && view.axis_stride.unsigned_abs().is_multiple_of(lanes)
            && view.outer_stride.unsigned_abs().is_multiple_of(lanes);
        let vectors = view.inner / lanes;
        let is_column = view.inner_stride == 1 && view.segments == 1;
        if !is_whole || !is_column || vectors < COLUMNS_ACROSS || view.outer == 0 {
            return None;
        }
        let is_whole_column =
            view.n <= WHOLE_COLUMN && view.outer.saturating_mul(vectors) >= WHOLE_COLUMNS;
        let across = if is_whole_column {
            THREADS as u64
        } else {
            columns_across(view, vectors)
        };
        let along = THREADS as u64 / across;
        let tiles = view.outer.saturating_mul(vectors.div_ceil(across));
        let (chunks, chunk_len) = if is_whole_column {
            (1, view.n)
        } else {
            cut(view.n, along * BATCH as u64, columns_parts(tiles))
        };
        let blocks = tiles.saturating_mul(chunks);
        if blocks > i32::MAX as u64 {
            return None;
        }
        Some(Self {
            along: along as u32,
            across: across as u32,
            is_across: true,
            rows: ROWS_ANY,
            variant: Variant::Columns,
            chunks,
            chunk_len,
            width: across * lanes,
            groups: tiles,
            parts: chunks,
            section: chunks,
            blocks: blocks as u32,
        })
    }

    /// Lanes of a vector lie along `inner`.
    const fn across(view: &ReduceView, lanes: u64) -> Self {
        let across = view.inner.div_ceil(lanes).next_power_of_two();
        let across = if across > 32 { 32 } else { across };
        let width = across * lanes;
        let groups = view.outer.saturating_mul(view.inner.div_ceil(width));
        let most = THREADS as u64 / across;
        let items = groups.saturating_mul(view.segments);
        // Threads along the axis: few enough that each has several batches, but more if there are
        // few blocks.
        let per_thread = if items >= ITEMS { 64 } else { 8 };
        let along = if view.segments > 1 || view.n / per_thread >= most {
            most
        } else {
            at_least_one(view.n / per_thread + 1).next_power_of_two() / 2
        };
        let along = at_least_one(along);
        let (chunks, chunk_len) = if along < most {
            (1, at_least_one(view.n))
        } else {
            cut(view.n, along * 2 * LEAST_VECTORS, wanted(WIDE_ITEMS, items))
        };
        let parts = view.segments.saturating_mul(chunks);
        let per_block = most / along;
        Self {
            along: along as u32,
            across: across as u32,
            is_across: true,
            rows: ROWS_ANY,
            variant: Variant::General,
            chunks,
            chunk_len,
            width,
            groups,
            parts,
            section: at_least_one(parts),
            blocks: match along {
                1 => capped(groups.div_ceil(per_block), OWN_BLOCKS),
                _ => capped(groups.saturating_mul(parts).div_ceil(per_block), MAX_BLOCKS),
            },
        }
    }

    /// Threads of a block.
    pub const fn threads(&self) -> u32 {
        match self.variant {
            Variant::Small => self.along,
            _ => THREADS,
        }
    }

    /// Whether items write partial results, which are then combined.
    pub const fn is_cut(&self) -> bool {
        self.parts > 1
    }

    /// Number of sections of an output's parts.
    pub const fn sections(&self) -> u64 {
        self.parts.div_ceil(self.section)
    }

    /// Number of partial results of a launch: of parts and, if there are several, of sections.
    pub const fn partials(&self) -> u64 {
        self.groups
            .saturating_mul(self.parts.saturating_add(self.of_sections()))
            .saturating_mul(self.width)
    }

    /// Number of tickets of a launch: one for each section and, if there are several, for each
    /// output.
    pub const fn tickets(&self) -> u64 {
        self.groups
            .saturating_mul(self.sections() + (self.of_sections() > 0) as u64)
    }

    /// Partial results of an output's sections: none if there is only one.
    const fn of_sections(&self) -> u64 {
        match self.sections() {
            0 | 1 => 0,
            several => several,
        }
    }

    /// Most roundings on one element's way into a sum, for error bounds: a batch's tree, the
    /// thread's pair of numbers for a lane (2, as what it loses is of second order), elements
    /// outside vectors, lanes, threads, and parts.
    pub const fn additions(&self) -> u64 {
        const TREES: u64 = 3 + 2 + 16 + 3 + 5 + 30;
        // A thread merges only some of the parts, or sections, of a column.
        let threads = THREADS as u64 / self.width;
        let parts = match self.is_cut() {
            true => self.section.div_ceil(threads) + 30,
            false => 0,
        };
        let sections = match self.of_sections() {
            0 => 0,
            several => several.div_ceil(threads) + 30,
        };
        TREES + parts + sections
    }

    /// Most elements that a thread accumulates into one lane, one after the other, in operations
    /// without a pair of numbers: logarithms of sums, and, by batches, variances.
    pub const fn chain(&self) -> u64 {
        // Of a short row's threads, fewer than half may have no vector.
        let threads = match self.variant {
            Variant::Short => self.along as u64 / 2 + 1,
            _ => self.along as u64,
        };
        self.chunk_len.div_ceil(threads)
    }
}

/// What is known of the rows of a view.
const fn known_of_rows(view: &ReduceView, lanes: u64) -> u32 {
    let is_row = view.axis_stride == 1 && view.inner == 1 && view.segments == 1;
    let is_whole =
        view.n.is_multiple_of(lanes) && view.outer_stride.unsigned_abs().is_multiple_of(lanes);
    if is_row && is_whole {
        ROWS_WHOLE
    } else {
        ROWS_ANY
    }
}

/// Batches of a part of a long row. A part of moments has three numbers, and one of indices three
/// words, which take longer to merge.
const fn batches(family: Family) -> u64 {
    match family {
        Family::Moments | Family::Arg => 2,
        _ => 1,
    }
}
