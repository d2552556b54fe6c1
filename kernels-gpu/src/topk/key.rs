//! Elements in vectors of 16 bytes, and keys: unsigned integers in the order of the results.

use cuda_std::convert;
use half::{bf16, f16};

/// An element type. Its bits are handled as the upper bits of a `u32`, whatever its size.
pub(super) trait Value {
    /// Bytes of an element.
    const SIZE: u32;
    /// Elements of a vector.
    const LANES: usize = 16 / Self::SIZE as usize;
    /// The bits of infinity.
    const INFINITY: u32;
    /// Element `v` of a vector.
    fn of(raw: [u32; 4], v: usize) -> u32;
    /// The element at `at`.
    ///
    /// # Safety
    /// It is readable.
    unsafe fn read(at: *const u8) -> u32;
    /// The value of these bits, exactly.
    fn float(bits: u32) -> f32;
}

impl Value for f32 {
    const SIZE: u32 = 4;
    const INFINITY: u32 = 0x7f80_0000;

    #[inline(always)]
    fn of(raw: [u32; 4], v: usize) -> u32 {
        raw[v]
    }
    #[inline(always)]
    unsafe fn read(at: *const u8) -> u32 {
        // SAFETY: passed on to the caller.
        unsafe { at.cast::<u32>().read() }
    }
    #[inline(always)]
    fn float(bits: u32) -> f32 {
        f32::from_bits(bits)
    }
}

macro_rules! halves {
    ($($ty:ty: $infinity:literal, $float:expr;)*) => {$(
        impl Value for $ty {
            const SIZE: u32 = 2;
            const INFINITY: u32 = $infinity;

            #[inline(always)]
            fn of(raw: [u32; 4], v: usize) -> u32 {
                match v % 2 {
                    0 => raw[v / 2] << 16,
                    _ => raw[v / 2] & 0xffff_0000,
                }
            }
            #[inline(always)]
            unsafe fn read(at: *const u8) -> u32 {
                // SAFETY: passed on to the caller.
                u32::from(unsafe { at.cast::<u16>().read() }) << 16
            }
            #[inline(always)]
            fn float(bits: u32) -> f32 {
                $float(bits)
            }
        }
    )*};
}

halves! {
    f16: 0x7c00_0000, |bits| convert::f16_to_f32((bits >> 16) as u16);
    bf16: 0x7f80_0000, f32::from_bits;
}

/// The key of an element: larger where the element comes earlier. `turn` is the sign bit if the
/// smallest comes first, else 0. NaN is above everything, so it comes last among the smallest.
#[inline(always)]
pub(super) fn key<T: Value>(bits: u32, turn: u32) -> u32 {
    let magnitude = bits & 0x7fff_ffff;
    let of_nan = if turn == 0 { u32::MAX } else { 0 };
    // Both zeros are the positive one.
    let turned = if magnitude == 0 { 0 } else { bits ^ turn };
    let flipped = turned ^ ((turned as i32 >> 31) as u32 | 1 << 31);
    if magnitude > T::INFINITY {
        of_nan
    } else {
        flipped
    }
}

/// The least number whose key, as that of an f32, has these upper bits, or one below it.
#[inline(always)]
pub(super) fn float_of(key: u32) -> f32 {
    let is_negative = key >> 31 == 0;
    f32::from_bits(if is_negative { !key } else { key ^ 1 << 31 })
}

/// How an element and its index make a pair.
#[derive(Clone, Copy)]
pub(super) struct Pairing {
    pub(super) turn: u32,
    pub(super) key_bits: u32,
    pub(super) index_bits: u32,
}

impl Pairing {
    /// Bits of a pair.
    #[inline(always)]
    pub(super) fn bits(&self) -> u32 {
        self.key_bits + self.index_bits
    }

    #[inline(always)]
    fn most(&self) -> u32 {
        u32::MAX >> (32 - self.index_bits)
    }

    /// The pair of an element. No pair is 0.
    #[inline(always)]
    pub(super) fn pair<T: Value>(&self, bits: u32, index: u32) -> u64 {
        let key = key::<T>(bits, self.turn) >> (32 - 8 * T::SIZE);
        u64::from(key) << self.index_bits | u64::from(self.most() - index)
    }

    /// The index in a pair.
    #[inline(always)]
    pub(super) fn index(&self, pair: u64) -> u32 {
        self.most() - (pair as u32 & self.most())
    }
}
