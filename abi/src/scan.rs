//! Scans (running sums, products, extremes and logsumexps) of rows, in one pass over memory.
//!
//! If a row fits the threads of a block, it is shared by as many of them as it needs, and a block
//! has several short rows. Longer rows are cut into tiles, which blocks take in order by a counter.
//! A block scans its tile and publishes the tile's total. If it has room for two tiles, it then
//! takes the next one first. It finds what comes before a tile by looking back (Merrill and
//! Garland, "Single-pass parallel prefix scan with decoupled look-back", 2016).
//!
//! The order of association does not depend on time, so results have the same bits every time.
//! Tiles form groups of [`GROUP`]. What comes before a tile is combined from left to right of:
//! 1. the published total of everything up to the end of the group that is as many groups before as
//!    a block has warps but one;
//! 2. the totals of the groups since, each combined by a tree from the totals of its tiles;
//! 3. the totals of the tiles before it in its own group, combined by a tree.
//!
//! | entry | parameters |
//! |---|---|
//! | `scan_<dtype>`, `scan_lse_<dtype>`, `scan_sm80_bf16` | `(x: *const T, y: *mut T, status: *mut u64, params: ScanParams)` |
//!
//! `<dtype>` is f32, f16, bf16 (computed in f32), f64 (in f64), i32 and i64 (in i64, wrapping).
//! `lse` stands for [`ScanOp::Logsumexp`], which has entries of its own, of floats.
//! `status` is [`ScanPlan::status_words`] words of 0; it may be null if rows have one tile.
//!
//! `scan_marks`, with `(x: *const u8, values: *const u8, marks: *mut i64, params: MarkParams)`, takes
//! rows and their running maxima or minima, of any dtype. It writes the position of each element that is
//! equal to the extreme up to it, or NaN, and -1 for the others. The running maxima of these are the
//! indices of the extremes, the last one among equals.

use crate::DType;
use crate::entry::{Parts, entries};
use crate::kernel_param;

/// Threads of a block.
pub const THREADS: u32 = 256;

/// Vectors of 16 bytes of a tile that a thread has.
pub const VECTORS: usize = 8;

/// Bytes of shared memory through which threads exchange numbers.
pub const SCRATCH_BYTES: u32 = 224;

/// Bytes of shared memory for a tile.
pub const TILE_BYTES: u32 = THREADS * VECTORS as u32 * 16;

/// Tiles of a group.
pub const GROUP: u64 = 32;

/// A scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScanOp {
    /// Running sums.
    Sum,
    /// Running products.
    Prod,
    /// Running maxima; NaN from the first NaN on.
    Max,
    /// Running minima; NaN from the first NaN on.
    Min,
    /// Running ln Σ exp(x) of floats.
    Logsumexp,
}

impl ScanOp {
    /// All operations.
    pub const ALL: [Self; 5] = [Self::Sum, Self::Prod, Self::Max, Self::Min, Self::Logsumexp];

    /// Name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Prod => "prod",
            Self::Max => "max",
            Self::Min => "min",
            Self::Logsumexp => "logsumexp",
        }
    }

    /// Its code in [`ScanParams::kind`].
    pub const fn kind(self) -> u32 {
        match self {
            Self::Sum => crate::reduce::KIND_SUM,
            Self::Prod => crate::reduce::KIND_PRODUCT,
            Self::Max => crate::reduce::KIND_LARGEST,
            Self::Min => crate::reduce::KIND_SMALLEST,
            Self::Logsumexp => crate::reduce::KIND_LOG_SUM,
        }
    }

    /// Whether it takes elements of this dtype, one of [`DTYPES`](crate::reduce::DTYPES).
    pub const fn takes(self, dtype: DType) -> bool {
        !matches!((self, dtype), (Self::Logsumexp, DType::I32 | DType::I64))
    }
}

/// One kernel; displays as its entry name: `scan_f32`, `scan_sm80_bf16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScanEntry {
    name: &'static str,
    /// Element type of input and output: one of [`DTYPES`](crate::reduce::DTYPES).
    pub dtype: DType,
    /// Whether it computes [`ScanOp::Logsumexp`], and not the others.
    pub is_lse: bool,
    /// Whether it rounds by an instruction of compute capability 8.0. For bf16, which is otherwise
    /// limited by instruction throughput. The bits are the same.
    pub is_sm80: bool,
}

impl ScanEntry {
    /// The entry of a name `scan[_lse][_sm80]_<dtype>`.
    pub const fn read(name: &'static str) -> Self {
        let mut parts = Parts::of(name);
        parts.expect("scan");
        let is_lse = parts.take("lse");
        let is_sm80 = parts.take("sm80");
        let dtype = parts.expect_dtype();
        parts.end();
        Self {
            name,
            dtype,
            is_lse,
            is_sm80,
        }
    }

    /// The entry for a dtype, if there is one.
    pub fn of(dtype: DType, is_lse: bool, is_sm80: bool) -> Option<Self> {
        let wanted = (dtype, is_lse, is_sm80);
        Self::find(|entry| (entry.dtype, entry.is_lse, entry.is_sm80) == wanted)
    }
}

entries! { $ ScanEntry(ScanParams) {
    /// For every GPU: the element type, elements of a vector, and blocks of an SM.
    scan_portable {
        scan_f32(f32, 4, 4);
        scan_f16(f16, 8, 4);
        scan_bf16(bf16, 8, 4);
        scan_f64(f64, 2, 3);
        scan_i32(i32, 4, 3);
        scan_i64(i64, 2, 3);
    }
    /// Logsumexps, for every GPU.
    scan_lse {
        scan_lse_f32(f32, 4, 4);
        scan_lse_f16(f16, 8, 4);
        scan_lse_bf16(bf16, 8, 4);
        scan_lse_f64(f64, 2, 2);
    }
    /// From sm_80 on.
    scan_sm80 {
        scan_sm80_bf16(bf16, 8, 4);
    }
} }

pub use crate::single::SCAN_MARKS;

/// Threads of a block of `scan_marks`.
pub const MARK_THREADS: u32 = 256;

kernel_param! {
    /// Extents and strides of a launch of `scan_marks`. Blocks go on to what is left of a row (x), and to
    /// further rows (y).
    #[derive(Debug, PartialEq, Eq)]
    pub struct MarkParams {
        /// Number of rows.
        pub rows: u64,
        /// Elements of a row. Values and marks have no gaps between rows.
        pub n: u64,
        /// Elements between rows of x.
        pub x_stride: i64,
        /// The bits of a float but its sign; all bits of an integer.
        pub magnitude: u64,
        /// The largest magnitude that is not NaN.
        pub largest: u64,
        /// Log2 of the bytes of an element.
        pub size_log2: u32,
        /// Zeros.
        pub padding: u32,
    }
}

impl MarkParams {
    /// Those for rows of this dtype.
    pub const fn new(dtype: DType, rows: u64, n: u64, x_stride: i64) -> Self {
        let bytes = dtype.size_bytes();
        let all = u64::MAX >> (64 - 8 * bytes);
        let (magnitude, largest) = match crate::sort::largest(dtype) {
            Some(largest) => (all / 2, largest),
            None => (all, all),
        };
        Self {
            rows,
            n,
            x_stride,
            magnitude,
            largest,
            size_log2: bytes.trailing_zeros(),
            padding: 0,
        }
    }
}

/// How rows are cut into tiles. The host decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanPlan {
    /// Threads of a row: a power of two.
    pub along: u32,
    /// Elements of a tile.
    pub tile_len: u64,
    /// Tiles of a row.
    pub tiles: u64,
    /// Groups of tiles of a row.
    pub groups: u64,
    /// Blocks.
    pub blocks: u32,
}

impl ScanPlan {
    /// 64-bit words of a published number, each of which has 32 bits of it.
    pub const fn words(dtype: DType) -> u64 {
        match dtype {
            DType::F32 | DType::F16 | DType::Bf16 => 1,
            _ => 2,
        }
    }

    /// 64-bit words of `status`: the counter, the totals of tiles, and those of groups.
    pub const fn status_words(&self, rows: u64, dtype: DType) -> u64 {
        1 + rows * (self.tiles + self.groups) * Self::words(dtype)
    }

    /// Bytes of shared memory of a block; `is_late` as in [`ScanParams`].
    pub const fn shared_bytes(is_late: bool) -> u32 {
        SCRATCH_BYTES + if is_late { 2 * TILE_BYTES } else { TILE_BYTES }
    }

    /// Most roundings on one element's way into a running sum. They happen within the vector before
    /// it and its own, over lanes, vectors and warps, with what comes before the tile, within a
    /// group, and once for each group before.
    pub const fn additions(&self) -> u64 {
        8 + 8 + 5 + VECTORS as u64 + 8 + 2 + 9 + self.groups
    }
}

kernel_param! {
    /// Extents and strides of one launch.
    #[derive(Debug, PartialEq, Eq)]
    pub struct ScanParams {
        /// Number of rows.
        pub rows: u64,
        /// Elements of a row, which are contiguous.
        pub n: u64,
        /// Elements between rows of x.
        pub x_row_stride: i64,
        /// Elements between rows of y.
        pub y_row_stride: i64,
        /// [`ScanPlan::tiles`].
        pub tiles: u64,
        /// [`ScanPlan::groups`].
        pub groups: u64,
        /// Distance in rows and tiles from a tile to the one that its block prefetches.
        pub ahead_rows: u64,
        /// See `ahead_rows`.
        pub ahead_tiles: u64,
        /// Log2 of [`ScanPlan::along`].
        pub along_log2: u32,
        /// `KIND_..` of [`crate::reduce`].
        pub kind: u32,
        /// 1 if a result leaves out its own element.
        pub is_exclusive: u32,
        /// 1 if a block takes the next tile before it looks back for the last one.
        pub is_late: u32,
    }
}
