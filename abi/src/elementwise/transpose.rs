//! Transposes of a batch of matrices, tile by tile through shared memory.

use super::MAX_RANK;
use crate::division::Division;
use crate::entry::{Parts, entries};
use crate::kernel_param;

kernel_param! {
    /// A launch of `transpose`: y\[batch.., j, i\] = x\[batch.., i, j\], where x has stride 1 along j
    /// and y along i. Strides are in elements.
    #[derive(Debug, PartialEq)]
    pub struct TransposeParams {
        /// Extent of i: rows of x.
        pub rows: u32,
        /// Extent of j: columns of x.
        pub columns: u32,
        /// Number of dimensions of the batch.
        pub batch_rank: u32,
        /// Bit 0: the rows of x are aligned to 16 bytes; bit 1: those of y.
        pub aligned: u32,
        /// Elements from one i to the next in x.
        pub x_stride: i64,
        /// Elements from one j to the next in y.
        pub y_stride: i64,
        /// Number of tiles along i, and along j. Blocks are ordered by i, then j, then the batch.
        pub tiles: [Division; 2],
        /// Extents of the batch, innermost first.
        pub batch: [Division; MAX_RANK - 2],
        /// Strides of the batch in x.
        pub x_batch: [i64; MAX_RANK - 2],
        /// Strides of the batch in y.
        pub y_batch: [i64; MAX_RANK - 2],
    }
}

/// One kernel; displays as its entry name: `transpose_b16`, for elements of 1, 2, 4 or 8 bytes of
/// any dtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TransposeEntry {
    name: &'static str,
    /// Bytes of an element.
    pub size_bytes: usize,
}

impl TransposeEntry {
    /// The entry of a name `transpose_b<bits>`.
    pub const fn read(name: &'static str) -> Self {
        let mut parts = Parts::of(name);
        parts.expect("transpose");
        let size_bytes = parts.number("b") as usize / 8;
        parts.end();
        Self { name, size_bytes }
    }

    /// The entry for elements of this size, if there is one.
    pub const fn of(size_bytes: usize) -> Option<Self> {
        let mut i = 0;
        while i < Self::ALL.len() {
            if Self::ALL[i].size_bytes == size_bytes {
                return Some(Self::ALL[i]);
            }
            i += 1;
        }
        None
    }

    /// Threads of a block: each moves four chunks of 16 bytes, or two.
    pub const fn threads(self) -> u32 {
        match self.size_bytes {
            2 | 4 => 512,
            _ => 256,
        }
    }

    /// Rows and columns of a tile.
    pub const fn tile(self) -> u32 {
        match self.size_bytes {
            1 | 2 => 128,
            4 => 64,
            _ => 32,
        }
    }
}

entries! { $ TransposeEntry(TransposeParams) {
    /// Bytes of an element, elements that are moved together, and words of shared memory.
    transpose_tiles {
        transpose_b8(1, 1, 4096);
        transpose_b16(2, 2, 8192);
        transpose_b32(4, 2, 4096);
        transpose_b64(8, 2, 2048);
    }
} }
