//! Floating-point formats: unit roundoffs, smallest and largest numbers, and rounding.

use abi::DType;
use ndarray::{Array, ArrayView, Dimension};

/// Unit roundoff of f32, `2^-24`: half the distance from 1 to the next number.
pub const U32: f64 = 1.0 / 16_777_216.0;

/// Smallest positive subnormal f32, `2^-149`.
pub const ETA32: f64 = 1.401_298_464_324_817e-45;

/// Smallest positive normal f32, `2^-126`. An implementation of `exp` may return 0 below it.
pub const TINY32: f64 = f32::MIN_POSITIVE as f64;

/// Widening of every bound for the f64 arithmetic behind it (see the crate's documentation).
pub const SLACK: f64 = 1.0 + 1.0 / 1_048_576.0;

/// `n u / (1 - n u)` for f32: an upper bound of the relative error of `n` roundings in a row.
/// Infinite from `n = 2^24` on, where there is no such bound.
pub fn gamma(n: usize) -> f64 {
    let nu = n as f64 * U32;
    if nu < 1.0 {
        nu / (1.0 - nu)
    } else {
        f64::INFINITY
    }
}

/// Parameters of a binary floating-point format.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Format {
    /// Bits of the significand without the leading one.
    pub mantissa_bits: i32,
    /// Exponent of the smallest normal number.
    pub min_exponent: i32,
    /// Largest finite number.
    pub max: f64,
    /// Whether values above `max` round to `max` instead of infinity (e4m3 has no infinity).
    pub saturates: bool,
}

impl Format {
    /// The format of a float dtype; `None` for integers.
    pub fn of(dtype: DType) -> Option<Self> {
        let (mantissa_bits, min_exponent, max) = match dtype {
            DType::F64 => (52, -1022, f64::MAX),
            DType::F32 => (23, -126, f64::from(f32::MAX)),
            DType::F16 => (10, -14, 65504.0),
            DType::Bf16 => (7, -126, (2.0 - 1.0 / 128.0) * 2f64.powi(127)),
            DType::E4m3 => (3, -6, 448.0),
            DType::E5m2 => (2, -14, 57344.0),
            DType::I8 | DType::I16 | DType::I32 | DType::I64 => return None,
            DType::U8 | DType::U16 | DType::U32 | DType::U64 => return None,
        };
        Some(Self {
            mantissa_bits,
            min_exponent,
            max,
            saturates: dtype == DType::E4m3,
        })
    }

    /// Half the distance from 1 to the next number.
    pub fn unit_roundoff(self) -> f64 {
        2f64.powi(-self.mantissa_bits - 1)
    }

    /// Half the smallest positive number: the largest rounding error of a subnormal result.
    pub fn half_subnormal(self) -> f64 {
        // The exponent stays above -1075, so f64 can represent it.
        2f64.powi(self.min_exponent) * self.unit_roundoff()
    }

    /// Smallest magnitude that rounds to infinity; infinite for formats that saturate, and for f64.
    pub fn overflow(self) -> f64 {
        if self.saturates || self.mantissa_bits >= 52 {
            return f64::INFINITY;
        }
        // The largest number is 2^e (2 - 2u). Half a unit in the last place above it is
        // 2^e (2 - u), a tie that rounds to infinity.
        let u = self.unit_roundoff();
        self.max * (2.0 - u) / (2.0 - 2.0 * u)
    }

    /// `x` rounded to nearest, ties to even.
    pub fn round(self, x: f64) -> f64 {
        if !x.is_finite() || x == 0.0 || self.mantissa_bits >= 52 {
            return x;
        }
        let exponent = exponent_of(x).max(self.min_exponent);
        let ulp = exponent - self.mantissa_bits;
        // Scaling by a power of two is exact: every f64 this small still has its full precision
        // after being scaled up, and ulp >= -149.
        let rounded = (x * 2f64.powi(-ulp)).round_ties_even() * 2f64.powi(ulp);
        if rounded.abs() <= self.max {
            rounded
        } else if self.saturates {
            self.max.copysign(x)
        } else {
            f64::INFINITY.copysign(x)
        }
    }
}

/// Exponent of the leading bit of a finite `x != 0`.
fn exponent_of(x: f64) -> i32 {
    let biased = ((x.to_bits() >> 52) & 0x7ff) as i32;
    // A subnormal f64 is far below every narrower format: any small exponent will do.
    biased.max(1) - 1023
}

/// `x` rounded to `dtype`. For integer dtypes, `x` is returned unchanged.
pub fn round_to(dtype: DType, x: f64) -> f64 {
    Format::of(dtype).map_or(x, |format| format.round(x))
}

/// Every element rounded to `dtype`; see [`round_to`].
pub fn round_array<D: Dimension>(dtype: DType, array: &ArrayView<'_, f64, D>) -> Array<f64, D> {
    array.mapv(|x| round_to(dtype, x))
}

/// Upper bound of the distance from `x` to the next f32, which is what "1 ulp" means in the bounds:
/// `2 u |x|`, and `eta` for subnormals.
pub fn ulp32(x: f64) -> f64 {
    (2.0 * U32 * x.abs()).max(ETA32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};
    use proptest::prelude::*;

    #[test]
    fn gamma_is_the_bound_of_highams_lemma() {
        assert_eq!(gamma(0), 0.0);
        assert!(gamma(1) > U32 && gamma(1) < U32 * 1.000_001);
        assert!((1.0 + U32).powi(1000) - 1.0 <= gamma(1000));
        assert_eq!(gamma(1 << 24), f64::INFINITY);
    }

    #[test]
    fn format_limits_are_those_of_the_types() {
        let f32_format = Format::of(DType::F32).unwrap();
        assert_eq!(f32_format.unit_roundoff(), U32);
        assert_eq!(f32_format.half_subnormal() * 2.0, ETA32);
        assert_eq!(ETA32, f64::from(f32::from_bits(1)));
        assert_eq!(Format::of(DType::F16).unwrap().max, f16::MAX.to_f64());
        assert_eq!(Format::of(DType::Bf16).unwrap().max, bf16::MAX.to_f64());
        assert_eq!(Format::of(DType::F16).unwrap().overflow(), 65520.0);
        assert_eq!(Format::of(DType::I32), None);
    }

    #[test]
    fn rounding_overflows_where_ieee_says() {
        assert_eq!(round_to(DType::F16, 65519.99), 65504.0);
        assert_eq!(round_to(DType::F16, 65520.0), f64::INFINITY);
        assert_eq!(round_to(DType::E4m3, 1e9), 448.0);
        assert_eq!(round_to(DType::E5m2, -1e9), f64::NEG_INFINITY);
        assert!(round_to(DType::F16, f64::NAN).is_nan());
        assert_eq!(round_to(DType::F16, -0.0).to_bits(), (-0.0f64).to_bits());
    }

    proptest! {
        #[test]
        fn rounding_agrees_with_the_half_crate(bits in any::<u64>(), exponent in -160i32..140) {
            let mantissa = f64::from_bits((bits & !(0x7ff << 52)) | (1023 << 52));
            let x = mantissa * 2f64.powi(exponent);
            prop_assert_eq!(round_to(DType::F32, x), f64::from(x as f32));
            // `half` ignores the low 32 bits, which decide beside a tie.
            let x = f64::from_bits(x.to_bits() >> 32 << 32);
            prop_assert_eq!(round_to(DType::F16, x), f16::from_f64(x).to_f64());
            prop_assert_eq!(round_to(DType::Bf16, x), bf16::from_f64(x).to_f64());
        }
    }

    #[test]
    fn the_last_bit_decides_beside_a_tie() {
        for (dtype, ulp) in [(DType::F16, 2f64.powi(-10)), (DType::Bf16, 2f64.powi(-7))] {
            let tie = 1.0 + ulp / 2.0;
            assert_eq!(round_to(dtype, tie), 1.0, "{dtype}");
            assert_eq!(round_to(dtype, tie.next_up()), 1.0 + ulp, "{dtype}");
            assert_eq!(round_to(dtype, tie.next_down()), 1.0, "{dtype}");
            assert_eq!(round_to(dtype, -tie.next_up()), -1.0 - ulp, "{dtype}");
        }
    }
}
