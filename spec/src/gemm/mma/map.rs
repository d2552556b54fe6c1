//! How operands lie in shared memory.

use crate::swizzle::CHUNK_BYTES;

/// How an operand's tile lies in shared memory: rows of chunks of 16 bytes, the chunks of a row
/// permuted by the row.
///
/// K-major rows are the operand's rows (A) or columns (B), with `tile_k_bytes` of k; the others are
/// those of one k, with `tile_mn` elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OperandMap {
    /// True where k is the contiguous extent.
    pub k_major: bool,
    /// Bytes of an element.
    pub size_bytes: u32,
    /// Rows of A or columns of B.
    pub tile_mn: u32,
    /// Bytes of k that would lie together in a K-major tile.
    pub tile_k_bytes: u32,
}

impl OperandMap {
    /// Elements of k.
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

    /// What a row's chunks are xored with.
    ///
    /// 8 rows of one chunk lie in different banks, for `ldmatrix`; where elements of other sizes
    /// than 2 lie MN-major, fragments are loads of 4 bytes instead: of 4 rows (every fourth, for 1
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

    /// Byte offset of the element `mn`, `k`.
    #[inline(always)]
    pub const fn element_offset(&self, mn: u32, k: u32) -> u32 {
        let (row, column) = if self.k_major { (mn, k) } else { (k, mn) };
        let byte = column * self.size_bytes;
        self.chunk_offset(row, byte / CHUNK_BYTES) + byte % CHUNK_BYTES
    }
}
