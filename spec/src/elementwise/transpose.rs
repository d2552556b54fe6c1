//! Transposition: a batch of matrices, each tile through shared memory.

use super::{Division, MAX_RANK};

/// Threads of a block.
pub const TRANSPOSE_THREADS: u32 = 256;

/// A launch of `transpose`: y\[batch.., j, i\] = x\[batch.., i, j\], where x steps by 1 along j and y
/// by 1 along i. Strides are in elements.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TransposeParams {
    /// Extent of i: rows of x.
    pub rows: u32,
    /// Extent of j: columns of x.
    pub columns: u32,
    /// Dimensions of the batch in use.
    pub batch_rank: u32,
    /// Bit 0: the rows of x are aligned to 16 bytes; bit 1: those of y.
    pub aligned: u32,
    /// Blocks count so many tiles along i first, as a power of two: see [`group_shift`].
    pub group_shift: u32,
    /// Keeps the size a multiple of the alignment.
    pub reserved: u32,
    /// Elements from one i to the next in x.
    pub x_stride: i64,
    /// Elements from one j to the next in y.
    pub y_stride: i64,
    /// Tiles along j, and groups of tiles along i: blocks count the tiles of a group, then the former,
    /// then the groups, then the batch.
    pub tiles: [Division; 2],
    /// Extents of the batch, innermost first.
    pub batch: [Division; MAX_RANK - 2],
    /// Strides of the batch in x.
    pub x_batch: [i64; MAX_RANK - 2],
    /// Strides of the batch in y.
    pub y_batch: [i64; MAX_RANK - 2],
}

/// Tiles along i, as a power of two, that blocks count first: what runs together then writes rows of
/// y in pieces of 2 kB, not of 256 bytes, and still reads whole rows of x. Only where there are many
/// tiles: a group that ends behind the matrix has empty blocks.
pub const fn group_shift(tiles_along_i: u32) -> u32 {
    const MANY: u32 = 64;
    if tiles_along_i >= MANY { 3 } else { 0 }
}

/// Names an entry: `transpose_b16`, for elements of 1, 2, 4 or 8 bytes of any dtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TransposeEntry {
    /// Bytes of an element.
    pub size_bytes: usize,
}

impl TransposeEntry {
    /// Rows and columns of a tile.
    pub const fn tile(self) -> u32 {
        match self.size_bytes {
            1 | 2 => 128,
            4 => 64,
            _ => 32,
        }
    }
}

impl core::fmt::Display for TransposeEntry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "transpose_b{}", self.size_bytes * 8)
    }
}
