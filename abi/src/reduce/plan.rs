//! How a reduction is cut into items, and how threads share these. The host decides.

use super::{THREADS, Variant};

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

/// [`ReducePlan::rows`]: nothing is known.
pub const ROWS_ANY: u32 = 0;
/// Rows are contiguous, whole vectors; they are aligned if the tensor is.
pub const ROWS_WHOLE: u32 = 1;

/// Vectors that a thread has of a small row.
pub const SMALL_VECTORS_OF_THREAD: u64 = 4;

/// Most vectors of a short row.
pub const SHORT_VECTORS: u64 = 16;

/// Short rows whose vectors a thread has in flight at a time.
pub const SHORT_ROWS_OF_THREAD: u64 = 8;

/// Fewest short rows: as many as a warp takes at a time. The kernel of bf16 lets the last warp begin
/// further back, so that all of its rows are there.
pub const SHORT_ROWS: u64 = 32 * SHORT_ROWS_OF_THREAD;

/// Most vectors along `inner` of a block of columns.
pub const COLUMNS_ACROSS: u64 = 32;

impl ReducePlan {
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

    /// Most roundings on one element's way into a sum, for error bounds. They are those of a
    /// batch's tree and of the thread's pair of numbers for a lane (2, as its loss is of second
    /// order). Elements outside vectors, lanes, threads and parts add to them.
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
