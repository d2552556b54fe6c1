//! Vectors of a head in global memory, and the loads of the chunks that a thread stages.

use abi::attention::BshStrides;

use crate::attention::simt::elements::{Chunk, ElementType};
use crate::simt::element::CHUNK;

/// Positions of one head: `count` vectors of `extent` elements.
#[derive(Clone, Copy)]
pub(super) struct Vectors {
    base: *const u8,
    /// Bytes between them.
    ld_bytes: i64,
    count: u32,
    pub(super) extent: u32,
    aligned: bool,
}

impl Vectors {
    /// No vectors.
    pub(super) const NONE: Self = Self {
        base: core::ptr::null(),
        ld_bytes: 0,
        count: 0,
        extent: 0,
        aligned: false,
    };

    /// The vectors of a head whose first is `offset` elements behind `base`.
    #[inline(always)]
    pub(super) fn new(
        (base, element): (*const u8, ElementType),
        strides: &BshStrides,
        offset: i64,
        (count, extent): (u32, u32),
    ) -> Self {
        let size_bytes = element.size_bytes() as i64;
        let base = base.wrapping_offset((offset * size_bytes) as isize);
        let ld_bytes = strides.seq * size_bytes;
        let chunk_bytes = CHUNK as i64 * size_bytes;
        Self {
            base,
            ld_bytes,
            count,
            extent,
            aligned: (base.addr() as i64 | ld_bytes) & (chunk_bytes - 1) == 0,
        }
    }

    /// One of two.
    #[inline(always)]
    pub(super) fn select(of: &[Self; 2], second: bool) -> Self {
        let pick = |x: &Self, y: &Self| if second { *y } else { *x };
        pick(&of[0], &of[1])
    }

    /// Four elements of a vector from `first` on; 0 beyond its end, and if there is no such vector.
    ///
    /// # Safety
    /// All elements of all vectors can be read, and nothing writes them while the kernel runs.
    #[inline(always)]
    pub(super) unsafe fn chunk(&self, element: ElementType, position: u32, first: u32) -> Chunk {
        let left = if position < self.count {
            self.extent.saturating_sub(first)
        } else {
            0
        };
        let bytes =
            i64::from(position) * self.ld_bytes + i64::from(first) * element.size_bytes() as i64;
        let from = self.base.wrapping_offset(bytes as isize);
        if self.aligned && left >= CHUNK as u32 {
            // SAFETY: the caller's promise; the chunk is inside and aligned.
            unsafe { element.load_chunk(from) }
        } else {
            // SAFETY: the caller's promise; only elements inside are read.
            unsafe { element.load_first(from, left) }
        }
    }
}
