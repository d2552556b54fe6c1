//! The matrix descriptor of `wgmma`: 64 bits that say where a matrix is in shared memory, and its
//! layout.
//!
//! | bits | what |
//! |---|---|
//! | 0..14 | start address / 16 |
//! | 16..30 | leading byte offset / 16 |
//! | 32..46 | stride byte offset / 16 |
//! | 49..52 | base offset: 0 if the swizzle pattern starts at a multiple of its length |
//! | 62..64 | swizzle: 0 none, 1 128 B, 2 64 B, 3 32 B |
//!
//! A matrix is made of core matrices: 8 rows of 16 bytes. [`Layout`] states what the two offsets
//! mean for the layouts in use, and [`Layout::offset_bytes`] where each element must be. A TMA load
//! writes it there, or a hand-written store has to.

use crate::swizzle::Swizzle;

/// Which of a matrix's two extents is contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Major {
    /// K: rows of k, as A of a row-major GEMM.
    K,
    /// M or N; `wgmma` takes it for 16-bit types only.
    Mn,
}

impl Major {
    /// The instruction's `imm-trans-a` or `imm-trans-b`.
    pub const fn transposed(self) -> bool {
        matches!(self, Self::Mn)
    }
}

/// The address bits that a descriptor keeps: 256 KiB, more than a block has.
const ADDRESS_MASK: u32 = 0x3_ffff;
/// Largest offset that fits 14 bits.
const OFFSET_BYTES_MAX: u32 = 0x3fff * 16;

/// A descriptor. [`advanced`](Self::advanced) steps it along k.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Descriptor(u64);

impl Descriptor {
    /// The matrix at shared address `address`, a multiple of 16.
    ///
    /// # Panics
    /// If an offset is not a multiple of 16, or does not fit its 14 bits.
    #[inline(always)]
    pub const fn new(address: u32, layout: Layout) -> Self {
        // The layout's part is computed at compile time if the layout is a constant.
        Self(layout.bits() | ((address & ADDRESS_MASK) >> 4) as u64)
    }

    /// The value that the instruction takes.
    #[inline(always)]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The same matrix `bytes` (a multiple of 16) further on: the next k step, or another tile of
    /// the same layout. The address must stay within its 18 bits.
    #[inline(always)]
    pub const fn advanced(self, bytes: u32) -> Self {
        Self(self.0 + (bytes >> 4) as u64)
    }

    /// The start address, modulo 256 KiB.
    pub const fn address(self) -> u32 {
        ((self.0 & 0x3fff) << 4) as u32
    }

    /// The leading byte offset.
    pub const fn leading_bytes(self) -> u32 {
        ((self.0 >> 16 & 0x3fff) << 4) as u32
    }

    /// The stride byte offset.
    pub const fn stride_bytes(self) -> u32 {
        ((self.0 >> 32 & 0x3fff) << 4) as u32
    }

    /// The swizzle.
    pub const fn swizzle(self) -> Swizzle {
        match self.0 >> 62 {
            0 => Swizzle::None,
            1 => Swizzle::B128,
            2 => Swizzle::B64,
            _ => Swizzle::B32,
        }
    }
}

/// The layout of an `MN × K` matrix in shared memory.
///
/// - [`Major::K`], swizzled: rows of `span` bytes of k; the pattern has 8 rows. `stride_bytes` is
///   from one group of 8 rows to the next (`8 * span` if packed); `leading_bytes` is ignored.
/// - [`Major::K`], not swizzled: core matrices of 8 rows × 16 bytes, 128 bytes each.
///   `leading_bytes` is from one to the next along k, `stride_bytes` along the rows.
/// - [`Major::Mn`], swizzled: rows of `span` bytes of mn, one for each k; the pattern has 8 k.
///   `stride_bytes` is from one group of 8 k to the next, `leading_bytes` from one box of `span`
///   bytes of mn to the next.
/// - [`Major::Mn`], not swizzled: core matrices of 8 k × 16 bytes of mn. `leading_bytes` is from
///   one to the next along k, `stride_bytes` along mn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Which extent is contiguous.
    pub major: Major,
    /// The swizzle.
    pub swizzle: Swizzle,
    /// Leading byte offset.
    pub leading_bytes: u32,
    /// Stride byte offset.
    pub stride_bytes: u32,
}

impl Layout {
    /// K-major, in packed rows of the swizzle's span: what a TMA load of a box of `span × rows`
    /// writes.
    pub const fn k_major(swizzle: Swizzle) -> Self {
        let stride_bytes = swizzle.align_bytes();
        // Without swizzle: columns of core matrices, 16 bytes of k wide, which the caller packs.
        Self {
            major: Major::K,
            swizzle,
            leading_bytes: 0,
            stride_bytes,
        }
    }

    /// MN-major, in packed boxes of the swizzle's span by `k`: what TMA loads of boxes of
    /// `span × k` write one after the other.
    pub const fn mn_major(swizzle: Swizzle, k: u32) -> Self {
        Self {
            major: Major::Mn,
            swizzle,
            leading_bytes: k * swizzle.span_bytes(),
            stride_bytes: swizzle.align_bytes(),
        }
    }

    /// The descriptor, without the address.
    const fn bits(self) -> u64 {
        assert!(self.leading_bytes.is_multiple_of(16) && self.leading_bytes <= OFFSET_BYTES_MAX);
        assert!(self.stride_bytes.is_multiple_of(16) && self.stride_bytes <= OFFSET_BYTES_MAX);
        let swizzle = match self.swizzle {
            Swizzle::None => 0,
            Swizzle::B128 => 1,
            Swizzle::B64 => 2,
            Swizzle::B32 => 3,
        };
        (self.leading_bytes as u64 >> 4) << 16
            | (self.stride_bytes as u64 >> 4) << 32
            | swizzle << 62
    }

    /// Offset of element `(mn, k)` of `size_bytes`, from the tile's first byte. The tile is aligned
    /// to the swizzle's pattern.
    ///
    /// If K-major and swizzled, a row's k must be within the span: wider tiles are several
    /// matrices.
    pub const fn offset_bytes(self, mn: u32, k: u32, size_bytes: u32) -> u32 {
        let (row, column_bytes) = match self.major {
            Major::K => (mn, k * size_bytes),
            Major::Mn => (k, mn * size_bytes),
        };
        let span = self.swizzle.span_bytes();
        let (group, row, column, within) =
            (row / 8, row % 8, column_bytes / span, column_bytes % span);
        let plain_mn = matches!((self.major, self.swizzle), (Major::Mn, Swizzle::None));
        let (group_bytes, column_stride) = if plain_mn {
            (self.leading_bytes, self.stride_bytes)
        } else {
            (self.stride_bytes, self.leading_bytes)
        };
        self.swizzle
            .apply(group * group_bytes + column * column_stride + row * span + within)
    }

    /// How far to [`advance`](Descriptor::advanced) a descriptor to the next k step of `wgmma`,
    /// which is 32 bytes of k, within the same tile.
    pub const fn k_step_bytes(self, size_bytes: u32) -> u32 {
        let step = 32 / size_bytes;
        match (self.major, self.swizzle) {
            (Major::K, Swizzle::None) => 2 * self.leading_bytes,
            (Major::K, _) => 32,
            (Major::Mn, Swizzle::None) => step / 8 * self.leading_bytes,
            (Major::Mn, _) => step / 8 * self.stride_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_gives_back_what_it_was_made_of() {
        for swizzle in Swizzle::ALL {
            for address in (0..256 * 1024).step_by(16) {
                let layout = Layout {
                    major: Major::K,
                    swizzle,
                    leading_bytes: address % (OFFSET_BYTES_MAX + 16),
                    stride_bytes: OFFSET_BYTES_MAX - address % (OFFSET_BYTES_MAX + 16),
                };
                let descriptor = Descriptor::new(address, layout);
                assert_eq!(descriptor.address(), address);
                assert_eq!(descriptor.leading_bytes(), layout.leading_bytes);
                assert_eq!(descriptor.stride_bytes(), layout.stride_bytes);
                assert_eq!(descriptor.swizzle(), swizzle);
            }
        }
    }

    #[test]
    fn the_bits_are_where_the_hardware_looks() {
        let k_major = Descriptor::new(0x1_2340, Layout::k_major(Swizzle::B128));
        assert_eq!(k_major.bits(), 0x4000_0040_0000_1234);
        let mn_major = Descriptor::new(0x400, Layout::mn_major(Swizzle::B128, 128));
        assert_eq!(mn_major.bits(), 0x4000_0040_0400_0040);
        assert_eq!(k_major.advanced(32).bits(), k_major.bits() + 2);
        assert_eq!(mn_major.advanced(2048).bits(), mn_major.bits() + 128);
    }

    #[test]
    #[should_panic(expected = "OFFSET_BYTES_MAX")]
    fn an_offset_that_does_not_fit_is_refused() {
        let layout = Layout {
            stride_bytes: 1 << 18,
            ..Layout::k_major(Swizzle::B128)
        };
        Descriptor::new(0, layout);
    }

    /// Checks that every element of a tile has an offset of its own.
    fn is_one_to_one(layout: Layout, mn: u32, k: u32, size_bytes: u32) {
        let mut seen = [false; 1 << 15];
        for (mn, k) in (0..mn).flat_map(|mn| (0..k).map(move |k| (mn, k))) {
            let offset = layout.offset_bytes(mn, k, size_bytes) as usize;
            assert!(offset.is_multiple_of(size_bytes as usize));
            for byte in &mut seen[offset..offset + size_bytes as usize] {
                assert!(!core::mem::replace(byte, true), "{layout:?} ({mn}, {k})");
            }
        }
        let bytes = (mn * k * size_bytes) as usize;
        assert!(
            seen[..bytes].iter().all(|seen| *seen),
            "{layout:?} has holes"
        );
    }

    #[test]
    fn tiles_have_no_holes_and_no_overlaps() {
        for swizzle in Swizzle::ALL {
            for size_bytes in [1, 2, 4] {
                let k = swizzle.span_bytes() / size_bytes;
                is_one_to_one(Layout::k_major(swizzle), 64, k, size_bytes);
            }
            // Boxes of the span, 128 bytes of mn and 64 of k.
            if swizzle != Swizzle::None {
                is_one_to_one(Layout::mn_major(swizzle, 64), 64, 64, 2);
            }
        }
        let plain = |major, leading_bytes, stride_bytes| Layout {
            major,
            swizzle: Swizzle::None,
            leading_bytes,
            stride_bytes,
        };
        is_one_to_one(plain(Major::K, 128, 1024), 64, 64, 2);
        is_one_to_one(plain(Major::K, 1024, 128), 64, 64, 2);
        is_one_to_one(plain(Major::Mn, 128, 1024), 64, 64, 2);
        is_one_to_one(plain(Major::Mn, 1024, 128), 64, 64, 2);
    }

    #[test]
    fn the_next_k_step_is_where_its_first_element_lies() {
        // The hardware adds the step's offset to the address, then swizzles.
        let plain = |layout: Layout, mn, k, size_bytes| {
            layout.swizzle.apply(layout.offset_bytes(mn, k, size_bytes))
        };
        for swizzle in Swizzle::ALL {
            for size_bytes in [1, 2, 4] {
                let layout = Layout {
                    leading_bytes: 4096,
                    ..Layout::k_major(swizzle)
                };
                let step = 32 / size_bytes;
                let steps = (swizzle.span_bytes() / 32).max(2);
                for index in 0..steps {
                    if swizzle == Swizzle::B32 && index > 0 {
                        continue;
                    }
                    let want = plain(layout, 0, index * step, size_bytes);
                    assert_eq!(index * layout.k_step_bytes(size_bytes), want);
                }
            }
            let layout = Layout {
                leading_bytes: 8192,
                ..Layout::mn_major(swizzle, 64)
            };
            for index in 0..4 {
                let want = plain(layout, 0, index * 16, 2);
                assert_eq!(index * layout.k_step_bytes(2), want, "{layout:?}");
            }
        }
    }
}
