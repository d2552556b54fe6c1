//! Elements in vectors of 16 bytes, and keys: unsigned integers in the order of the results.

use cuda_std::convert;
use half::{bf16, f16};

/// An element type.
pub(super) trait Value {
    /// Bytes of an element.
    const SIZE: u32;
    /// Elements of a vector.
    const LANES: usize = 16 / Self::SIZE as usize;
    /// An element's bits. Of up to 32, these are the upper ones, whatever its size.
    type Bits: Copy;
    /// The pair of an element and its index.
    type Pair: Pair;
    /// Element `v` of a vector.
    fn of(raw: [u32; 4], v: usize) -> Self::Bits;
    /// The element at `at`.
    ///
    /// # Safety
    /// It is readable.
    unsafe fn read(at: *const u8) -> Self::Bits;
    /// The pair of an element. No pair is 0.
    fn pair(bits: Self::Bits, index: u32, pairing: &Pairing) -> Self::Pair;
}

/// An element type of up to 32 bits.
pub(super) trait Narrow: Value<Bits = u32, Pair = u64> {
    /// The bits of an element.
    const LAST: u32;
    /// A word of least elements.
    const LEAST_WORD: u32;
    /// The sign bits of a word.
    const SIGNS: u32;
    /// The key of an element: larger where the element comes earlier. `turn` is the sign bit if the
    /// smallest comes first, else 0. NaN is above everything, so it comes last among the smallest.
    fn key(bits: u32, turn: u32) -> u32;
}

/// A float of up to 32 bits.
pub(super) trait Float: Narrow {
    /// The value of these bits, exactly.
    fn float(bits: u32) -> f32;
}

macro_rules! of_words {
    () => {
        const SIZE: u32 = 4;
        type Bits = u32;
        type Pair = u64;

        #[inline(always)]
        fn of(raw: [u32; 4], v: usize) -> u32 {
            raw[v]
        }
        #[inline(always)]
        unsafe fn read(at: *const u8) -> u32 {
            // SAFETY: passed on to the caller.
            unsafe { at.cast::<u32>().read() }
        }
    };
}

macro_rules! of_halves {
    () => {
        const SIZE: u32 = 2;
        type Bits = u32;
        type Pair = u64;

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
    };
}

macro_rules! of_wide {
    () => {
        const SIZE: u32 = 8;
        type Bits = u64;
        type Pair = u128;

        #[inline(always)]
        fn of(raw: [u32; 4], v: usize) -> u64 {
            u64::from(raw[2 * v + 1]) << 32 | u64::from(raw[2 * v])
        }
        #[inline(always)]
        unsafe fn read(at: *const u8) -> u64 {
            // SAFETY: passed on to the caller.
            unsafe { at.cast::<u64>().read() }
        }
    };
}

macro_rules! pair_of_narrow {
    () => {
        #[inline(always)]
        fn pair(bits: u32, index: u32, pairing: &Pairing) -> u64 {
            let key = Self::key(bits, pairing.turn) >> (32 - 8 * Self::SIZE);
            u64::from(key) << pairing.index_bits | u64::from(pairing.most() - index)
        }
    };
}

macro_rules! pair_of_wide {
    () => {
        #[inline(always)]
        fn pair(bits: u64, index: u32, pairing: &Pairing) -> u128 {
            let key = Self::key(bits, pairing.turn);
            u128::from(key) << pairing.index_bits | u128::from(pairing.most() - index)
        }
    };
}

/// The key of a float: sign and magnitude to two's complement, which has one zero, and up by half of
/// the range. `turn` is as wide as the bits, and `last` is the largest key.
macro_rules! key_of_float {
    ($ty:ty, $signed:ty, $bits:ident, $turn:expr, $is_nan:expr, $last:expr) => {{
        let turned = $bits ^ $turn;
        let sign = (turned as $signed >> (<$ty>::BITS - 1)) as $ty;
        let number = (turned & (<$ty>::MAX >> 1) ^ sign).wrapping_sub(sign);
        let of_nan = if $turn == 0 { $last } else { 0 };
        match $is_nan {
            true => of_nan,
            false => number.wrapping_add(1 << (<$ty>::BITS - 1)),
        }
    }};
}

macro_rules! floats {
    ($($ty:ty: $layout:ident, $last:literal, $least:literal, $signs:literal, $float:expr, $is_nan:expr;)*) => {$(
        impl Value for $ty {
            $layout!();
            pair_of_narrow!();
        }

        impl Narrow for $ty {
            const LAST: u32 = $last;
            const LEAST_WORD: u32 = $least;
            const SIGNS: u32 = $signs;

            #[inline(always)]
            fn key(bits: u32, turn: u32) -> u32 {
                key_of_float!(u32, i32, bits, turn, $is_nan(bits), Self::LAST)
            }
        }

        impl Float for $ty {
            #[inline(always)]
            fn float(bits: u32) -> f32 {
                $float(bits)
            }
        }
    )*};
}

floats! {
    f32: of_words, 0xffff_ffff, 0xff80_0000, 0x8000_0000, f32::from_bits,
        |bits| f32::from_bits(bits).is_nan();
    f16: of_halves, 0xffff_0000, 0xfc00_fc00, 0x8000_8000,
        |bits: u32| convert::f16_to_f32((bits >> 16) as u16), |bits| bits & 0x7fff_ffff > 0x7c00_0000;
    bf16: of_halves, 0xffff_0000, 0xff80_ff80, 0x8000_8000, f32::from_bits,
        |bits| f32::from_bits(bits).is_nan();
}

impl Value for i32 {
    of_words!();
    pair_of_narrow!();
}

impl Narrow for i32 {
    const LAST: u32 = u32::MAX;
    const LEAST_WORD: u32 = 1 << 31;
    const SIGNS: u32 = 1 << 31;

    #[inline(always)]
    fn key(bits: u32, turn: u32) -> u32 {
        let key = bits ^ 1 << 31;
        if turn == 0 { key } else { !key }
    }
}

impl Value for i64 {
    of_wide!();
    pair_of_wide!();
}

impl Value for f64 {
    of_wide!();
    pair_of_wide!();
}

/// An element type of 64 bits.
trait Wide {
    /// As [`Narrow::key`].
    fn key(bits: u64, turn: u32) -> u64;
}

impl Wide for i64 {
    #[inline(always)]
    fn key(bits: u64, turn: u32) -> u64 {
        let key = bits ^ 1 << 63;
        if turn == 0 { key } else { !key }
    }
}

impl Wide for f64 {
    #[inline(always)]
    fn key(bits: u64, turn: u32) -> u64 {
        let turn = u64::from(turn) << 32;
        let is_nan = f64::from_bits(bits).is_nan();
        key_of_float!(u64, i64, bits, turn, is_nan, u64::MAX)
    }
}

/// A pair, or another integer among which a bound is looked for.
pub(super) trait Pair: Copy + Ord {
    /// No pair.
    const NONE: Self;
    /// The byte at this bit.
    fn byte(self, shift: u32) -> u32;
    /// With this byte at this bit, where it had 0.
    fn with_byte(self, byte: u32, shift: u32) -> Self;
    /// Whether it is `other` but for the lowest `bits` bits, of which there are some.
    fn is_like(self, other: Self, bits: u32) -> bool;
    /// The lowest bits.
    fn low(self) -> u32;
}

macro_rules! pairs {
    ($($ty:ty)*) => {$(
        impl Pair for $ty {
            const NONE: Self = 0;

            #[inline(always)]
            fn byte(self, shift: u32) -> u32 {
                (self >> shift) as u32 & 0xff
            }
            #[inline(always)]
            fn with_byte(self, byte: u32, shift: u32) -> Self {
                self | <$ty>::from(byte) << shift
            }
            #[inline(always)]
            fn is_like(self, other: Self, bits: u32) -> bool {
                self ^ other <= <$ty>::MAX >> (<$ty>::BITS - bits)
            }
            #[inline(always)]
            fn low(self) -> u32 {
                self as u32
            }
        }
    )*};
}

pairs! { u64 u128 }

/// The key of no f32 below negative infinity.
const LEAST: u32 = 0x0080_0000;

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

    /// The index in a pair.
    #[inline(always)]
    pub(super) fn index(&self, pair: impl Pair) -> u32 {
        self.most() - (pair.low() & self.most())
    }
}
