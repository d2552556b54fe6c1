//! Element types as the portable kernels see them: f32 inside, chunks of four in memory.

use half::{bf16, f16};

/// Elements of a chunk.
pub(crate) const CHUNK: usize = 4;

/// Four f32, as a 16-byte access moves them.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub(crate) struct F32x4(pub(crate) [f32; CHUNK]);

/// Four 16-bit elements, as an 8-byte access moves them.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct B16x4<E>([E; CHUNK]);

/// `a * b + c`, rounded once.
#[inline(always)]
pub(crate) fn fma(a: f32, b: f32, c: f32) -> f32 {
    a * b + c
}

/// An element type that is loaded, widened to f32, and rounded once when a result is stored.
pub(crate) trait SimtElement: Copy {
    /// Four neighbours as they lie in memory, aligned to their size.
    type Chunk: Copy;
    /// Zero.
    const ZERO: Self;

    /// Four elements as a chunk.
    fn pack(elements: [Self; CHUNK]) -> Self::Chunk;
    /// The elements of a chunk.
    fn unpack(chunk: Self::Chunk) -> [Self; CHUNK];
    /// Exact.
    fn to_f32(self) -> f32;
    /// To nearest, ties to even.
    fn from_f32(value: f32) -> Self;

    /// The elements of a chunk in f32.
    #[inline(always)]
    fn widen(chunk: Self::Chunk) -> [f32; CHUNK] {
        Self::unpack(chunk).map(Self::to_f32)
    }

    /// A chunk of rounded values.
    #[inline(always)]
    fn narrow(values: [f32; CHUNK]) -> Self::Chunk {
        Self::pack(values.map(Self::from_f32))
    }
}

impl SimtElement for f32 {
    type Chunk = F32x4;
    const ZERO: Self = 0.0;

    #[inline(always)]
    fn pack(elements: [Self; CHUNK]) -> F32x4 {
        F32x4(elements)
    }
    #[inline(always)]
    fn unpack(chunk: F32x4) -> [Self; CHUNK] {
        chunk.0
    }
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self
    }
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        value
    }
}

macro_rules! half_elements {
    ($($half:ident, $widen:ident, $narrow:ident;)*) => {$(
        impl SimtElement for $half {
            type Chunk = B16x4<$half>;
            const ZERO: Self = $half::ZERO;

            #[inline(always)]
            fn pack(elements: [Self; CHUNK]) -> B16x4<$half> {
                B16x4(elements)
            }
            #[inline(always)]
            fn unpack(chunk: B16x4<$half>) -> [Self; CHUNK] {
                chunk.0
            }
            #[inline(always)]
            fn to_f32(self) -> f32 {
                $widen(self.to_bits())
            }
            #[inline(always)]
            fn from_f32(value: f32) -> Self {
                $half::from_bits($narrow(value))
            }
        }
    )*};
}

half_elements! {
    f16, widen_f16, narrow_f16;
    bf16, widen_bf16, narrow_bf16;
}

/// Exact: an f16 is scaled by a power of two.
#[inline(always)]
fn widen_f16(bits: u16) -> f32 {
    const SCALE: f32 = f32::from_bits((127 + 112) << 23); // 2^112: the exponents' biases differ by it
    let bits = u32::from(bits);
    let magnitude = f32::from_bits((bits & 0x7fff) << 13) * SCALE;
    let special = if bits & 0x7c00 == 0x7c00 {
        0x7f80_0000
    } else {
        0
    };
    f32::from_bits(magnitude.to_bits() | special | (bits & 0x8000) << 16)
}

/// To nearest, ties to even; NaN gives 0x7fff.
#[inline(always)]
fn narrow_f16(value: f32) -> u16 {
    const OVERFLOW: u32 = (127 + 16) << 23; // 2^16: beyond all f16, rounding included
    const NORMAL: u32 = (127 - 14) << 23; // 2^-14: the smallest normal f16
    const INFINITY: u32 = 0x7f80_0000;
    let bits = value.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    // Below 2^-14, adding 1/2 rounds at the last place of a subnormal f16.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits() - 0.5_f32.to_bits();
    let odd = (magnitude >> 13) & 1;
    let normal = magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + odd) >> 13;
    let rounded = if magnitude < NORMAL {
        subnormal
    } else {
        normal
    };
    let finite_or_infinite = if magnitude >= OVERFLOW {
        0x7c00
    } else {
        rounded
    };
    let sign = bits >> 16 & 0x8000;
    if magnitude > INFINITY {
        0x7fff
    } else {
        (finite_or_infinite | sign) as u16
    }
}

/// Exact: a bf16 is the upper half of an f32.
#[inline(always)]
fn widen_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// To nearest, ties to even; NaN gives 0x7fff.
#[inline(always)]
fn narrow_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let odd = bits >> 16 & 1;
    let rounded = bits.wrapping_add(0x7fff + odd) >> 16;
    if value.is_nan() {
        0x7fff
    } else {
        rounded as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_widen_as_another_implementation_says() {
        for bits in 0..=u16::MAX {
            let (f, b) = (f16::from_bits(bits), bf16::from_bits(bits));
            assert!(
                widen_f16(bits).to_bits() == f.to_f32().to_bits() || f.is_nan(),
                "{bits:#x}"
            );
            assert!(
                widen_bf16(bits).to_bits() == b.to_f32().to_bits() || b.is_nan(),
                "{bits:#x}"
            );
            assert_eq!(widen_f16(bits).is_nan(), f.is_nan(), "{bits:#x}");
        }
    }

    #[test]
    fn halves_narrow_as_another_implementation_says() {
        for upper in 0..=u16::MAX {
            for lower in [
                0, 1, 0x0fff, 0x1000, 0x1001, 0x2fff, 0x3000, 0x7fff, 0x8000, 0x8001,
            ] {
                let value = f32::from_bits(u32::from(upper) << 16 | lower);
                let (f, b) = if value.is_nan() {
                    (0x7fff, 0x7fff)
                } else {
                    (
                        f16::from_f32(value).to_bits(),
                        bf16::from_f32(value).to_bits(),
                    )
                };
                assert_eq!((narrow_f16(value), narrow_bf16(value)), (f, b), "{value:e}");
            }
        }
    }
}
