//! Block masks: which blocks of keys a tile of queries visits, and the other way round.
//!
//! A mask is a matrix for each batch and head, of *cells* of [`CELL`] queries and keys. A cell is one
//! byte: 0 if it hides all of its pairs, [`PARTIAL`] if a function says which, [`FULL`] if it hides
//! none. Bits above are free. Rows of cells begin at multiples of 4 bytes.
//!
//! Kernels read *lines*. A line is what a tile of queries (or keys) sees of the blocks of keys (or
//! queries), one u32 for each block, in three planes `[batch, head, line, block]`:
//!
//! | plane | word of block i |
//! |---|---|
//! | before | 1 + the last visited block up to i, 0 if there is none |
//! | behind | the first visited block from i on, the number of blocks if there is none |
//! | through | number of visited blocks up to i |
//!
//! In the first two, [`IS_PARTIAL`] is set if that block is partial: if some cell of it is not full.
//! A block is visited if some cell is not 0. Lines and blocks have a power of two of cells.
//!
//! | entry | parameters |
//! |---|---|
//! | `attention_blocks_mark` | `(indices: *const i32, cells: *mut u32, params: BlockMarkParams)`: sets the cells of blocks by their indices; those out of range are left out |
//! | `attention_blocks_show` | `(cells: *mut u8, params: ShowParams)`: sets all cells by a mask, which fills the hole `shown` |
//! | `attention_blocks_lines` | `(cells: *const u8, planes: *mut u32, params: LineParams)` |
//!
//! Blocks have [`THREADS`] threads. Each warp has a line of indices, a cell, or a line.

use crate::kernel_param;
pub use crate::single::{BLOCKS_LINES, BLOCKS_MARK, BLOCKS_SHOW};

/// Queries and keys of a cell.
pub const CELL: u32 = 64;
/// A cell of which a function says what it hides.
pub const PARTIAL: u32 = 1;
/// A cell that hides nothing.
pub const FULL: u32 = 2;
/// Bit of a word of a plane.
pub const IS_PARTIAL: u32 = 1 << 31;
/// Threads of a block.
pub const THREADS: u32 = 128;
/// Warps of a block.
pub const WARPS: u32 = THREADS / 32;

kernel_param! {
    /// Extents of a launch of `attention_blocks_mark`.
    #[derive(Debug, PartialEq, Eq)]
    pub struct BlockMarkParams {
        /// Lines of indices, of all batches and heads.
        pub lines: u32,
        /// Lines of a batch and head: blocks of queries.
        pub q_blocks: u32,
        /// Indices of a line.
        pub count: u32,
        /// Blocks of keys.
        pub k_blocks: u32,
        /// Cells of a block, queries and keys.
        pub q_cells: u32,
        /// See `q_cells`.
        pub k_cells: u32,
        /// Rows and columns of cells.
        pub rows: u32,
        /// See `rows`.
        pub columns: u32,
        /// Bytes of a row of cells.
        pub pitch: u32,
        /// [`PARTIAL`] or [`FULL`].
        pub value: u32,
    }
}

kernel_param! {
    /// Extents of a launch of `attention_blocks_show`.
    #[derive(Debug, PartialEq, Eq)]
    pub struct ShowParams {
        /// Batches and heads of the mask.
        pub batch: u32,
        /// See `batch`.
        pub heads: u32,
        /// Queries and keys.
        pub seqlen_q: u32,
        /// See `seqlen_q`.
        pub seqlen_k: u32,
        /// Rows and columns of cells.
        pub rows: u32,
        /// See `rows`.
        pub columns: u32,
        /// Bytes of a row of cells.
        pub pitch: u32,
    }
}

kernel_param! {
    /// Extents of a launch of `attention_blocks_lines`.
    #[derive(Debug, PartialEq, Eq)]
    pub struct LineParams {
        /// Batches times heads.
        pub matrices: u32,
        /// Lines of a matrix, and their blocks.
        pub lines: u32,
        /// See `lines`.
        pub blocks: u32,
        /// Cells of a line, and of a block.
        pub line_cells: u32,
        /// See `line_cells`.
        pub block_cells: u32,
        /// Cells of a matrix along lines' index, and along blocks' index.
        pub rows: u32,
        /// See `rows`.
        pub columns: u32,
        /// Bytes from cell to cell along lines' index, and along blocks' index.
        pub row_bytes: u32,
        /// See `row_bytes`.
        pub column_bytes: u32,
        /// Bytes of a matrix's cells.
        pub matrix_bytes: u32,
    }
}
