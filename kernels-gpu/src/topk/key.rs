//! Elements in vectors of 16 bytes, and keys: unsigned integers in the order of the results.

use cuda_std::convert;
use half::{bf16, f16};

/// An element type. Its bits are handled as the upper bits of a `u32`, whatever its size.
pub(super) trait Value {
    /// Bytes of an element.
    const SIZE: u32;
    /// Elements of a vector.
    const LANES: usize = 16 / Self::SIZE as usize;
    /// The largest key.
    const LAST: u32;
    /// A word of negative infinities.
    const LEAST_WORD: u32;
    /// The sign bits of a word.
    const SIGNS: u32;
    /// Element `v` of a vector.
    fn of(raw: [u32; 4], v: usize) -> u32;
    /// The element at `at`.
    ///
    /// # Safety
    /// It is readable.
    unsafe fn read(at: *const u8) -> u32;
    /// The value of these bits, exactly.
    fn float(bits: u32) -> f32;
    /// Whether it is NaN.
    fn is_nan(bits: u32) -> bool;
}

impl Value for f32 {
    const SIZE: u32 = 4;
    const LAST: u32 = u32::MAX;
    const LEAST_WORD: u32 = 0xff80_0000;
    const SIGNS: u32 = 0x8000_0000;

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
    #[inline(always)]
    fn is_nan(bits: u32) -> bool {
        Self::float(bits).is_nan()
    }
}

macro_rules! halves {
    ($($ty:ty: $least:literal, $float:expr, $is_nan:expr;)*) => {$(
        impl Value for $ty {
            const SIZE: u32 = 2;
            const LAST: u32 = 0xffff_0000;
            const LEAST_WORD: u32 = $least;
            const SIGNS: u32 = 0x8000_8000;

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
            #[inline(always)]
            fn is_nan(bits: u32) -> bool {
                $is_nan(bits)
            }
        }
    )*};
}

halves! {
    f16: 0xfc00_fc00, |bits| convert::f16_to_f32((bits >> 16) as u16),
        |bits| bits & 0x7fff_ffff > 0x7c00_0000;
    bf16: 0xff80_ff80, f32::from_bits, |bits| f32::from_bits(bits).is_nan();
}

/// The key of no f32 below negative infinity.
const LEAST: u32 = 0x0080_0000;

/// The key of an element: larger where the element comes earlier. `turn` is the sign bit if the
/// smallest comes first, else 0. NaN is above everything, so it comes last among the smallest.
#[inline(always)]
pub(super) fn key<T: Value>(bits: u32, turn: u32) -> u32 {
    let turned = bits ^ turn;
    // Sign and magnitude to two's complement, which has one zero, and up by half of the range.
    let sign = (turned as i32 >> 31) as u32;
    let number = (turned & 0x7fff_ffff ^ sign).wrapping_sub(sign);
    let of_nan = if turn == 0 { T::LAST } else { 0 };
    match T::is_nan(bits) {
        true => of_nan,
        false => number.wrapping_add(1 << 31),
    }
}

/// The f32 with this key, or the least one if there is none.
#[inline(always)]
pub(super) fn float_of(key: u32) -> f32 {
    let key = if key > LEAST { key } else { LEAST };
    let is_negative = key >> 31 == 0;
    f32::from_bits(if is_negative {
        key.wrapping_neg()
    } else {
        key ^ 1 << 31
    })
}

/// How an element and its index make a pair.
#[derive(Clone, Copy)]
pub(super) struct Pairing {
    pub(super) turn: u32,
    pub(super) index_bits: u32,
}

impl Pairing {
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
