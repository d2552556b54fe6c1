//! Layout of operands in shared memory.

use crate::swizzle::CHUNK_BYTES;

/// Layout of an operand's tile in shared memory: rows of 16-byte chunks, with the chunks of a row
/// permuted (swizzled) by the row.
///
/// If the operand is K-major, rows are those of A or columns of B, with `tile_k_bytes` of k.
/// Otherwise a row is one k, with `tile_mn` elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OperandMap {
    /// Whether k is the contiguous extent.
    pub k_major: bool,
    /// Bytes of an element.
    pub size_bytes: u32,
    /// Rows of A or columns of B in the tile.
    pub tile_mn: u32,
    /// Bytes of k in the tile, as in a row of a K-major one.
    pub tile_k_bytes: u32,
}

impl OperandMap {
    /// Elements of k in the tile.
    pub const fn tile_k(&self) -> u32 {
        self.tile_k_bytes / self.size_bytes
    }

    /// Rows.
    pub const fn rows(&self) -> u32 {
        if self.k_major {
            self.tile_mn
        } else {
            self.tile_k()
        }
    }

    /// Bytes of a row.
    pub const fn row_bytes(&self) -> u32 {
        if self.k_major {
            self.tile_k_bytes
        } else {
            self.tile_mn * self.size_bytes
        }
    }

    /// Chunks of a row.
    pub const fn row_chunks(&self) -> u32 {
        self.row_bytes() / CHUNK_BYTES
    }

    /// What a row's chunk indices are xored with.
    ///
    /// The same chunk of 8 rows then lies in different banks, for `ldmatrix`. MN-major elements of
    /// other sizes than 2 are read by 4-byte loads instead: from 4 rows (every fourth row, if 1
    /// byte) by 2 chunks.
    #[inline(always)]
    pub const fn swizzle(&self, row: u32) -> u32 {
        match (self.k_major, self.size_bytes) {
            (true, _) if self.tile_k_bytes == 64 => row / 2 % 4,
            (true, _) | (false, 2) => row % 8,
            (false, 1) => row / 4 % 4 * 2,
            (false, _) => row % 4 * 2,
        }
    }

    /// Rows after which the permutation repeats.
    pub const fn swizzle_period(&self) -> u32 {
        match (self.k_major, self.size_bytes) {
            (false, 1) => 16,
            (false, 4) => 4,
            _ => 8,
        }
    }

    /// Byte offset of a chunk.
    #[inline(always)]
    pub const fn chunk_offset(&self, row: u32, chunk: u32) -> u32 {
        row * self.row_bytes() + (chunk ^ self.swizzle(row)) * CHUNK_BYTES
    }

    /// Byte offset of element (`mn`, `k`).
    #[inline(always)]
    pub const fn element_offset(&self, mn: u32, k: u32) -> u32 {
        let (row, column) = if self.k_major { (mn, k) } else { (k, mn) };
        let byte = column * self.size_bytes;
        self.chunk_offset(row, byte / CHUNK_BYTES) + byte % CHUNK_BYTES
    }
}
