//! The 8-bit floating-point formats of the OCP specification (OFP8), stored as their bits.

use std::fmt;

/// An 8-bit float of 4 exponent and 3 mantissa bits (OCP `E4M3`): up to ±448, NaN, no infinity.
///
/// Two are equal where their bits are: a NaN is itself, and 0 is not -0. [`to_f32`](Self::to_f32)
/// gives the number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct E4m3(pub u8);

/// An 8-bit float of 5 exponent and 2 mantissa bits (OCP `E5M2`): up to ±57344, infinities, NaN.
///
/// Equality is that of bits, as of [`E4m3`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct E5m2(pub u8);

/// Parameters of an 8-bit format.
struct Format {
    mantissa_bits: i32,
    /// Exponent of the smallest normal number.
    min_exponent: i32,
    /// Bits of the largest finite number, without a sign.
    largest: u8,
    /// Bits of infinity, where there is one.
    infinity: Option<u8>,
}

const E4M3: Format = Format {
    mantissa_bits: 3,
    min_exponent: -6,
    largest: 0x7e,
    infinity: None,
};

const E5M2: Format = Format {
    mantissa_bits: 2,
    min_exponent: -14,
    largest: 0x7b,
    infinity: Some(0x7c),
};

/// A NaN of both formats.
const NAN: u8 = 0x7f;

impl Format {
    /// Rounds to nearest, ties to even, and saturates to the largest finite number.
    fn round(&self, x: f64) -> u8 {
        if x.is_nan() {
            return NAN;
        }
        let sign = if x.is_sign_negative() { 0x80 } else { 0 };
        let largest = self.value(self.largest);
        let magnitude = x.abs();
        if magnitude >= largest {
            return sign | self.largest;
        }
        // Subnormals have the spacing of the smallest normal numbers.
        let biased = ((magnitude.to_bits() >> 52) & 0x7ff) as i32;
        let exponent = (biased - 1023).max(self.min_exponent);
        let spacing = f64::from(exponent - self.mantissa_bits).exp2();
        let steps = (magnitude / spacing).round_ties_even() as i32;
        // The leading bit of a normal number's mantissa adds one to the exponent field, and so
        // does a carry of the rounding.
        let bits = ((exponent - self.min_exponent) << self.mantissa_bits) + steps;
        sign | (bits as u8).min(self.largest)
    }

    /// The value of `bits`, exactly.
    fn value(&self, bits: u8) -> f64 {
        let sign = if bits & 0x80 == 0 { 1.0 } else { -1.0 };
        let code = bits & 0x7f;
        if Some(code) == self.infinity {
            return sign * f64::INFINITY;
        }
        if code > self.largest {
            return f64::NAN;
        }
        let field = i32::from(code >> self.mantissa_bits);
        let fraction = f64::from(code) - f64::from(field << self.mantissa_bits);
        let (leading, exponent) = match field {
            0 => (0.0, self.min_exponent),
            field => (
                f64::from(1 << self.mantissa_bits),
                field - 1 + self.min_exponent,
            ),
        };
        sign * (leading + fraction) * f64::from(exponent - self.mantissa_bits).exp2()
    }
}

macro_rules! conversions {
    ($($ty:ident: $format:ident;)*) => {$(
        impl $ty {
            /// The nearest value, ties to even, as `cvt.rn.satfinite` computes it: magnitudes
            /// beyond the largest finite value, infinities included, become that value. A NaN
            /// stays NaN.
            pub fn from_f32(x: f32) -> Self {
                Self::from_f64(f64::from(x))
            }

            /// As [`from_f32`](Self::from_f32), with a single rounding from f64.
            pub fn from_f64(x: f64) -> Self {
                Self($format.round(x))
            }

            /// The value in f32, exactly.
            pub fn to_f32(self) -> f32 {
                // Every value is one of f32's.
                $format.value(self.0) as f32
            }
        }

        impl From<$ty> for f32 {
            fn from(x: $ty) -> Self {
                x.to_f32()
            }
        }

        impl fmt::Display for $ty {
            /// The number.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.to_f32().fmt(f)
            }
        }
    )*};
}

conversions! {
    E4m3: E4M3;
    E5m2: E5M2;
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::f16;

    #[test]
    fn every_value_is_its_own_rounding() {
        for bits in 0..=u8::MAX {
            let (e4m3, e5m2) = (E4m3(bits).to_f32(), E5m2(bits).to_f32());
            match e4m3.is_nan() {
                true => assert_eq!(bits & 0x7f, 0x7f),
                false => assert_eq!(E4m3::from_f32(e4m3).0, bits),
            }
            // As the upper byte of an f16.
            let of_f16 = f16::from_bits(u16::from(bits) << 8).to_f32();
            assert!(e5m2 == of_f16 || (e5m2.is_nan() && of_f16.is_nan()));
            if e5m2.is_finite() {
                assert_eq!(E5m2::from_f32(e5m2).0, bits);
            }
        }
    }

    #[test]
    fn they_print_as_the_number() {
        assert_eq!(format!("{:.2}", E4m3::from_f32(1.75)), "1.75");
        assert_eq!(E5m2::from_f32(-57344.0).to_string(), "-57344");
        assert_eq!(f32::from(E4m3::from_f32(0.5)), 0.5);
    }

    #[test]
    fn values_between_go_to_the_nearer_and_ties_to_even() {
        for code in 0..0x7e_u8 {
            let (low, high) = (E4m3(code).to_f32(), E4m3(code + 1).to_f32());
            let middle = (low + high) / 2.0;
            let even = if code % 2 == 0 { code } else { code + 1 };
            assert_eq!(E4m3::from_f32(middle).0, even);
            assert_eq!(E4m3::from_f32(middle.next_down()).0, code);
            assert_eq!(E4m3::from_f32(middle.next_up()).0, code + 1);
            assert_eq!(E4m3::from_f32(-middle.next_up()).0, 0x80 | (code + 1));
        }
    }

    #[test]
    fn what_is_too_large_becomes_the_largest_and_nan_stays() {
        assert_eq!(E4m3::from_f32(f32::INFINITY).to_f32(), 448.0);
        assert_eq!(E4m3::from_f32(-1e9).to_f32(), -448.0);
        assert_eq!(E5m2::from_f32(f32::NEG_INFINITY).to_f32(), -57344.0);
        assert!(E4m3::from_f32(f32::NAN).to_f32().is_nan());
        assert!(E5m2::from_f32(f32::NAN).to_f32().is_nan());
        assert_eq!(E4m3::from_f32(-0.0).0, 0x80);
        assert_eq!(E4m3::from_f32(f32::from_bits(1)).0, 0);
    }
}
