//! Exact arithmetic on unpacked numbers, with one rounding at the end, to any format.
//!
//! A finite number is `±significand * 2^exponent` with 128 bits of significand. Products of two
//! 53-bit numbers are exact in it. Sums, quotients and roots keep at least 64 leading bits, and set
//! the last bit (sticky bit) if anything nonzero was cut off. A rounding to 53 bits or fewer gives
//! the same as for the exact value. So each result is rounded once, as IEEE 754 requires, in every
//! mode.
//!
//! Cost: tens of nanoseconds. Used where no native operation is exact: f64 in directed rounding
//! modes, and conversions off the common path.

use super::Rounding;

/// A binary floating-point format of at most 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Bits of the significand, including the hidden one.
    pub precision: u32,
    /// Bits of the exponent field.
    pub exponent_bits: u32,
    /// False for e4m3, whose topmost exponent holds numbers, and NaN only with an all-ones
    /// fraction.
    pub has_infinity: bool,
}

impl Format {
    /// binary64
    pub const F64: Self = Self::ieee(53, 11);
    /// binary32
    pub const F32: Self = Self::ieee(24, 8);
    /// binary16
    pub const F16: Self = Self::ieee(11, 5);
    /// bfloat16
    pub const BF16: Self = Self::ieee(8, 8);
    /// tf32, in 19 bits; stored in 32 with 13 zeros below.
    pub const TF32: Self = Self::ieee(11, 8);
    /// fp8 with 5 exponent bits.
    pub const E5M2: Self = Self::ieee(3, 5);
    /// fp8 with 4 exponent bits, largest value 448, no infinity.
    pub const E4M3: Self = Self {
        precision: 4,
        exponent_bits: 4,
        has_infinity: false,
    };

    const fn ieee(precision: u32, exponent_bits: u32) -> Self {
        Self {
            precision,
            exponent_bits,
            has_infinity: true,
        }
    }

    const fn bias(self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    pub(super) const fn sign_bit(self) -> u64 {
        1 << (self.precision - 1 + self.exponent_bits)
    }

    /// Exponent of the last place (ulp) of subnormal numbers.
    const fn least_exponent(self) -> i32 {
        2 - self.bias() - self.precision as i32
    }

    /// Bits of `+inf`, or of e4m3's NaN: one more than those of the largest finite number.
    #[must_use]
    pub const fn past_largest(self) -> u64 {
        if self.has_infinity {
            ((1 << self.exponent_bits) - 1) << (self.precision - 1)
        } else {
            self.sign_bit() - 1
        }
    }

    /// Decodes `bits`.
    #[inline]
    #[must_use]
    pub fn unpack(self, bits: u64) -> Number {
        let negative = bits & self.sign_bit() != 0;
        let magnitude = bits & (self.sign_bit() - 1);
        if magnitude >= self.past_largest() {
            return if self.has_infinity && magnitude == self.past_largest() {
                Number::Infinite { negative }
            } else {
                Number::Nan
            };
        }
        let field = (magnitude >> (self.precision - 1)) as i32;
        let fraction = magnitude & ((1 << (self.precision - 1)) - 1);
        let hidden = if field == 0 {
            0
        } else {
            1 << (self.precision - 1)
        };
        Number::Finite(Exact {
            negative,
            exponent: self.least_exponent() + field.max(1) - 1,
            significand: u128::from(hidden | fraction),
        })
    }

    /// Rounds `value` to this format and encodes it. Overflow gives infinity or the largest finite
    /// number, as IEEE 754 says; always the largest number with `satfinite`, or if the format has
    /// no infinity.
    #[inline]
    #[must_use]
    pub fn round(self, value: Exact, rounding: Rounding, satfinite: bool) -> u64 {
        let sign = if value.negative { self.sign_bit() } else { 0 };
        if value.significand == 0 {
            return sign;
        }
        let length = 128 - value.significand.leading_zeros() as i32;
        let top = value.exponent + length - 1;
        let magnitude = if top > self.bias() + 1 {
            self.past_largest()
        } else {
            // The exponent of the last place kept, and its distance from the last bit of the
            // significand.
            let last = (top + 1 - self.precision as i32).max(self.least_exponent());
            let kept = shift_and_round(value, last - value.exponent, rounding) as u64;
            (((last - self.least_exponent()) as u64) << (self.precision - 1)) + kept
        };
        if magnitude < self.past_largest() {
            return sign | magnitude;
        }
        let away = match rounding {
            Rounding::NearestEven | Rounding::NearestAway => true,
            Rounding::TowardZero => false,
            Rounding::Down => value.negative,
            Rounding::Up => !value.negative,
        };
        let finite = satfinite || !away || !self.has_infinity;
        sign | (self.past_largest() - u64::from(finite))
    }
}

/// `value.significand / 2^shift`, rounded to an integer.
#[inline]
fn shift_and_round(value: Exact, shift: i32, rounding: Rounding) -> u128 {
    if shift <= 0 {
        return value.significand << -shift;
    }
    let shift = shift as u32;
    let significand = value.significand;
    let kept = significand.checked_shr(shift).unwrap_or(0);
    // In 64 bits with a sticky last bit, twice the remainder compares with one whole unit.
    let rest = if shift > 128 {
        1
    } else {
        let at_top = significand << (128 - shift);
        (at_top >> 64) as u64 | u64::from(at_top as u64 != 0)
    };
    let half = 1 << 63;
    let up = match rounding {
        Rounding::NearestEven => rest > half || rest == half && kept & 1 == 1,
        Rounding::NearestAway => rest >= half,
        Rounding::TowardZero => false,
        Rounding::Down => rest != 0 && value.negative,
        Rounding::Up => rest != 0 && !value.negative,
    };
    kept + u128::from(up)
}

/// A decoded floating-point value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// Any NaN.
    Nan,
    /// An infinity.
    Infinite {
        /// Its sign.
        negative: bool,
    },
    /// A number, zeros included.
    Finite(Exact),
}

/// `±significand * 2^exponent`; a zero keeps its sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exact {
    /// Sign.
    pub negative: bool,
    /// Exponent of the significand's last bit.
    pub exponent: i32,
    /// Magnitude.
    pub significand: u128,
}

impl Exact {
    /// The integer `value`.
    #[inline]
    #[must_use]
    pub fn from_integer(value: i128) -> Self {
        Self {
            negative: value < 0,
            exponent: 0,
            significand: value.unsigned_abs(),
        }
    }

    /// A finite f64; `None` for infinities and NaN.
    #[inline]
    #[must_use]
    pub fn from_f64(value: f64) -> Option<Self> {
        match Format::F64.unpack(value.to_bits()) {
            Number::Finite(exact) => Some(exact),
            Number::Nan | Number::Infinite { .. } => None,
        }
    }

    /// Rounds to f64.
    #[inline]
    #[must_use]
    pub fn to_f64(self, rounding: Rounding) -> f64 {
        f64::from_bits(Format::F64.round(self, rounding, false))
    }

    /// Rounds to an integer, clamped to the range of i128.
    #[inline]
    #[must_use]
    pub fn to_integer(self, rounding: Rounding) -> i128 {
        let length = 128 - self.significand.leading_zeros() as i32;
        if self.significand != 0 && self.exponent + length > 127 {
            return if self.negative { i128::MIN } else { i128::MAX };
        }
        let magnitude = if self.significand == 0 {
            0
        } else {
            shift_and_round(self, -self.exponent, rounding) as i128
        };
        if self.negative { -magnitude } else { magnitude }
    }

    /// The value with the opposite sign.
    #[inline]
    #[must_use]
    pub fn negated(self) -> Self {
        Self {
            negative: !self.negative,
            ..self
        }
    }

    /// The product; both significands must have at most 64 bits.
    #[inline]
    #[must_use]
    pub fn times(self, other: Self) -> Self {
        Self {
            negative: self.negative ^ other.negative,
            exponent: self.exponent + other.exponent,
            significand: self.significand * other.significand,
        }
    }

    /// The sum. `rounding` gives the sign of an exact zero: negative under `Down`, unless both
    /// operands are positive zeros.
    #[inline]
    #[must_use]
    pub fn plus(self, other: Self, rounding: Rounding) -> Self {
        let zero = Self {
            negative: if self.negative == other.negative {
                self.negative
            } else {
                rounding == Rounding::Down
            },
            exponent: 0,
            significand: 0,
        };
        match (self.significand, other.significand) {
            (0, 0) => return zero,
            (0, _) => return other,
            (_, 0) => return self,
            _ => {}
        }
        let (a, b) = (self.with_top_at(125), other.with_top_at(125));
        let a_first = (a.exponent, a.significand) >= (b.exponent, b.significand);
        let (large, small) = if a_first { (a, b) } else { (b, a) };
        let moved = shift_right_sticky(small.significand, (large.exponent - small.exponent) as u32);
        if large.negative == small.negative {
            Self {
                significand: large.significand + moved,
                ..large
            }
        } else if large.significand == moved {
            zero
        } else {
            Self {
                significand: large.significand - moved,
                ..large
            }
        }
    }

    /// The quotient of nonzero numbers; the divisor's significand must have at most 64 bits.
    #[inline]
    #[must_use]
    pub fn over(self, divisor: Self) -> Self {
        let a = self.with_top_at(127);
        let quotient = a.significand / divisor.significand;
        let inexact = quotient * divisor.significand != a.significand;
        Self {
            negative: self.negative ^ divisor.negative,
            exponent: a.exponent - divisor.exponent,
            significand: quotient | u128::from(inexact),
        }
    }

    /// The square root of a positive number.
    #[inline]
    #[must_use]
    pub fn square_root(self) -> Self {
        let mut a = self.with_top_at(127);
        if a.exponent & 1 != 0 {
            a.exponent += 1;
            a.significand >>= 1;
        }
        let root = a.significand.isqrt();
        let inexact = root * root != a.significand;
        Self {
            negative: false,
            exponent: a.exponent / 2,
            significand: root | u128::from(inexact),
        }
    }

    /// The same nonzero value, shifted so that its leading one is bit `place`.
    #[inline]
    fn with_top_at(self, place: i32) -> Self {
        let shift = place - (127 - self.significand.leading_zeros() as i32);
        let significand = if shift >= 0 {
            self.significand << shift
        } else {
            shift_right_sticky(self.significand, shift.unsigned_abs())
        };
        Self {
            significand,
            exponent: self.exponent - shift,
            ..self
        }
    }
}

/// `value / 2^shift`, with the last bit set if anything nonzero was cut off (sticky bit).
#[inline]
fn shift_right_sticky(value: u128, shift: u32) -> u128 {
    match value.checked_shr(shift) {
        Some(kept) => kept | u128::from(kept << shift != value),
        None => u128::from(value != 0),
    }
}
