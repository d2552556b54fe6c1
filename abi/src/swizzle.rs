//! Swizzles: permutations of a tile in shared memory, with which neither rows nor columns of 16-byte
//! chunks have bank conflicts.
//!
//! TMA, `wgmma` and hand-written accesses use the same permutation. Within 8 rows of the span's
//! length, chunk `c` of row `r` is where chunk `c ^ r` would be without a swizzle. (This is the
//! swizzle of 128 B; the narrower ones use fewer bits of the row.) In terms of the byte address,
//! bits 4.. are xored with bits 7.., so a swizzled tile must start at a multiple of
//! [`Swizzle::align_bytes`].

/// Bytes of a chunk, which the permutation does not break up.
pub const CHUNK_BYTES: u32 = 16;

/// A swizzle, named by its span: the bytes of a row of its pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Swizzle {
    /// None; 8 rows of 16 bytes are contiguous.
    None,
    /// Span of 32 bytes: 1 bit is xored.
    B32,
    /// Span of 64 bytes: 2 bits.
    B64,
    /// Span of 128 bytes: 3 bits.
    B128,
}

impl Swizzle {
    /// All, narrowest first.
    pub const ALL: [Self; 4] = [Self::None, Self::B32, Self::B64, Self::B128];

    /// Bytes of a row of the pattern; the inner extent of a TMA box is at most this.
    pub const fn span_bytes(self) -> u32 {
        match self {
            Self::None => 16,
            Self::B32 => 32,
            Self::B64 => 64,
            Self::B128 => 128,
        }
    }

    /// The swizzle with that span: 16, 32, 64 or 128 bytes.
    pub const fn of_span(span_bytes: u32) -> Self {
        match span_bytes {
            16 => Self::None,
            32 => Self::B32,
            64 => Self::B64,
            128 => Self::B128,
            _ => panic!("no swizzle has such rows"),
        }
    }

    /// Bytes after which the pattern repeats, to which a swizzled tile is aligned.
    pub const fn align_bytes(self) -> u32 {
        8 * self.span_bytes()
    }

    /// Number of bits that are xored.
    pub const fn bits(self) -> u32 {
        match self {
            Self::None => 0,
            Self::B32 => 1,
            Self::B64 => 2,
            Self::B128 => 3,
        }
    }

    /// Offset in the swizzled tile of the byte at `offset_bytes` of the plain one. The function is
    /// its own inverse.
    #[inline(always)]
    pub const fn apply(self, offset_bytes: u32) -> u32 {
        let mask = (1 << self.bits()) - 1;
        offset_bytes ^ ((offset_bytes >> 7 & mask) << 4)
    }

    /// Offset of byte `column_bytes` of `row`, in a tile whose rows are as long as the span.
    #[inline(always)]
    pub const fn offset_bytes(self, row: u32, column_bytes: u32) -> u32 {
        self.apply(row * self.span_bytes() + column_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_swizzle_is_its_own_inverse_and_keeps_chunks_whole() {
        for swizzle in Swizzle::ALL {
            assert_eq!(Swizzle::of_span(swizzle.span_bytes()), swizzle);
            let mut seen = [false; 1024];
            for offset in 0..swizzle.align_bytes() {
                let moved = swizzle.apply(offset);
                assert_eq!(swizzle.apply(moved), offset);
                assert_eq!(moved % CHUNK_BYTES, offset % CHUNK_BYTES);
                assert!(!core::mem::replace(&mut seen[moved as usize], true));
            }
            let repeats = swizzle.apply(5 * swizzle.align_bytes() + 48);
            assert_eq!(repeats, 5 * swizzle.align_bytes() + swizzle.apply(48));
        }
    }

    #[test]
    fn the_128_byte_swizzle_xors_the_chunk_with_the_row() {
        for row in 0..64 {
            for chunk in 0..8 {
                let want = row * 128 + (chunk ^ (row % 8)) * 16;
                assert_eq!(Swizzle::B128.offset_bytes(row, chunk * 16), want);
            }
        }
        // The narrower swizzles change the chunk every 2 and every 4 rows.
        assert_eq!(Swizzle::B64.offset_bytes(1, 0), 64);
        assert_eq!(Swizzle::B64.offset_bytes(2, 0), 128 + 16);
        assert_eq!(Swizzle::B32.offset_bytes(3, 0), 96);
        assert_eq!(Swizzle::B32.offset_bytes(4, 0), 128 + 16);
    }

    #[test]
    fn eight_rows_of_a_chunk_column_lie_in_different_banks() {
        // What `ldmatrix` and `stmatrix` access at once: 8 rows of 16 bytes, in 32 banks of 4.
        for swizzle in Swizzle::ALL {
            for chunk in 0..swizzle.span_bytes() / CHUNK_BYTES {
                let mut banks = 0_u32;
                for row in 0..8 {
                    let offset = swizzle.offset_bytes(row, chunk * CHUNK_BYTES);
                    banks |= 0xf << (offset / 4 % 32);
                }
                assert_eq!(banks, u32::MAX, "{swizzle:?}, chunk {chunk}");
            }
        }
    }
}
