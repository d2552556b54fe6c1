//! Functions of f64, with the same bits on host, emulator and GPU.
//!
//! The methods are those of [`super`] for f32: the argument is reduced by a power of two, then a
//! series is evaluated in fused multiply-adds. Errors are at most 2 ulp unless a function says more;
//! the tests compare with the host's own functions, or with values of 60 digits.

mod gated;

#[cfg(target_arch = "nvptx64")]
use core::f64::math as target;

pub use gated::{gelu, gelu_tanh, sigmoid, silu, tanh};

/// The host's own operations, as free functions.
#[cfg(not(target_arch = "nvptx64"))]
mod target {
    pub(super) use f64 as F;

    pub(super) fn mul_add(a: f64, b: f64, c: f64) -> f64 {
        F::mul_add(a, b, c)
    }
    pub(super) fn sqrt(x: f64) -> f64 {
        F::sqrt(x)
    }
    pub(super) fn floor(x: f64) -> f64 {
        F::floor(x)
    }
    pub(super) fn ceil(x: f64) -> f64 {
        F::ceil(x)
    }
    pub(super) fn trunc(x: f64) -> f64 {
        F::trunc(x)
    }
    pub(super) fn round_ties_even(x: f64) -> f64 {
        F::round_ties_even(x)
    }
}

/// a · b + c, rounded once.
#[inline(always)]
pub fn fma(a: f64, b: f64, c: f64) -> f64 {
    target::mul_add(a, b, c)
}

/// √x, correctly rounded.
#[inline(always)]
pub fn sqrt(x: f64) -> f64 {
    target::sqrt(x)
}

/// 1 / x, correctly rounded.
#[inline(always)]
pub fn rcp(x: f64) -> f64 {
    1.0 / x
}

/// 1 / √x: two correctly rounded operations, at most 1.5 ulp.
#[inline(always)]
pub fn rsqrt(x: f64) -> f64 {
    1.0 / sqrt(x)
}

/// Largest integer not above x.
#[inline(always)]
pub fn floor(x: f64) -> f64 {
    target::floor(x)
}

/// Least integer not below x.
#[inline(always)]
pub fn ceil(x: f64) -> f64 {
    target::ceil(x)
}

/// The integer part of x.
#[inline(always)]
pub fn trunc(x: f64) -> f64 {
    target::trunc(x)
}

/// Nearest integer, ties to even.
#[inline(always)]
pub fn rint(x: f64) -> f64 {
    target::round_ties_even(x)
}

/// The larger of the two; NaN if either is NaN.
#[inline(always)]
pub fn max_nan(a: f64, b: f64) -> f64 {
    if a > b || a.is_nan() { a } else { b }
}

/// The smaller of the two; NaN if either is NaN.
#[inline(always)]
pub fn min_nan(a: f64, b: f64) -> f64 {
    if a < b || a.is_nan() { a } else { b }
}

/// ln 2 rounded to 32 bits, and the remainder.
const LN_2_HIGH: f64 = 6.931_471_803_691_238e-1;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// Adding it to an x with |x| < 2^51 rounds x to an integer, which is then in the sum's low bits.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// 1 / i!: fourteen terms are enough for |r| < 0.35.
const INVERSE_FACTORIALS: [f64; 14] = [
    1.0,
    1.0,
    1.0 / 2.0,
    1.0 / 6.0,
    1.0 / 24.0,
    1.0 / 120.0,
    1.0 / 720.0,
    1.0 / 5040.0,
    1.0 / 40_320.0,
    1.0 / 362_880.0,
    1.0 / 3_628_800.0,
    1.0 / 39_916_800.0,
    1.0 / 479_001_600.0,
    1.0 / 6_227_020_800.0,
];

/// 1 / (2 i + 3).
const INVERSE_ODDS: [f64; 11] = [
    1.0 / 3.0,
    1.0 / 5.0,
    1.0 / 7.0,
    1.0 / 9.0,
    1.0 / 11.0,
    1.0 / 13.0,
    1.0 / 15.0,
    1.0 / 17.0,
    1.0 / 19.0,
    1.0 / 21.0,
    1.0 / 23.0,
];

/// Σ coefficients\[i\] · x^i by Horner's rule, in fused multiply-adds.
#[inline(always)]
fn horner<const N: usize>(x: f64, coefficients: [f64; N]) -> f64 {
    let mut sum = coefficients[N - 1];
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        sum = fma(sum, x, coefficients[i]);
    }
    sum
}

/// e^x, at most 2 ulp.
#[inline(always)]
pub fn exp(x: f64) -> f64 {
    let x = if x > 710.0 { 710.0 } else { x };
    let x = if x < -746.0 { -746.0 } else { x };
    let (r, k) = reduced(x);
    scaled(horner(r, INVERSE_FACTORIALS), k)
}

/// (r, k) with x = k ln 2 + r and |r| ≤ ln 2 / 2, for |x| < 2^20.
#[inline(always)]
fn reduced(x: f64) -> (f64, i64) {
    let rounded = fma(x, core::f64::consts::LOG2_E, ROUND);
    let k = rounded - ROUND;
    let r = fma(k, -LN_2_LOW, fma(k, -LN_2_HIGH, x));
    let k = rounded.to_bits().wrapping_sub(ROUND.to_bits()) as i64;
    (r, k)
}

/// p · 2^k for |k| < 2040, rounded once if p is between ½ and 2.
#[inline(always)]
fn scaled(p: f64, k: i64) -> f64 {
    let half = k >> 1;
    let power = |k: i64| f64::from_bits((k.wrapping_add(1023) as u64) << 52);
    (p * power(half)) * power(k.wrapping_sub(half))
}

/// ln x, at most 2 ulp; -inf at ±0, NaN for negative x.
#[inline(always)]
pub fn log(x: f64) -> f64 {
    const SQRT_HALF_BITS: u64 = 0x3fe6_a09e_667f_3bcd;
    if !(x > 0.0 && x < f64::INFINITY) {
        return if x == 0.0 {
            f64::NEG_INFINITY
        } else if x < 0.0 {
            f64::NAN
        } else {
            x
        };
    }
    let subnormal = x < f64::MIN_POSITIVE;
    let bits = if subnormal {
        x * 18_014_398_509_481_984.0
    } else {
        x
    }
    .to_bits();
    let k = (bits.wrapping_sub(SQRT_HALF_BITS) as i64) >> 52;
    let f = f64::from_bits(bits.wrapping_sub((k as u64) << 52)) - 1.0;
    let k = if subnormal { k - 54 } else { k } as f64;
    // ln(1 + f) = f - (f²/2 - s(f²/2 + R)), s = f / (2 + f), R = 2 Σ s^(2i) / (2i + 1).
    let s = f / (2.0 + f);
    let z = s * s;
    let rest = 2.0 * z * horner(z, INVERSE_ODDS);
    let half_square = 0.5 * f * f;
    let ln = f - (half_square - fma(s, half_square + rest, k * LN_2_LOW));
    fma(k, LN_2_HIGH, ln)
}

#[cfg(test)]
mod tests {
    use super::{exp, log};

    fn ulps(got: f64, want: f64) -> f64 {
        if got == want {
            return 0.0;
        }
        (got - want).abs() / (want.abs().max(f64::MIN_POSITIVE) * f64::EPSILON)
    }

    #[test]
    fn exponentials_and_logarithms_are_within_two_ulps() {
        let mut x = 1.0_f64;
        for i in 0..200_000 {
            // A sequence that visits every magnitude.
            x = f64::from_bits(x.to_bits().wrapping_mul(6_364_136_223_846_793_005) ^ i);
            let small = (x.to_bits() >> 11) as f64 / (1_u64 << 53) as f64;
            let e = (small - 0.5) * 1400.0;
            assert!(ulps(exp(e), e.exp()) <= 2.0, "exp({e:e})");
            let positive = f64::from_bits(x.to_bits() & !(1 << 63));
            if positive > 0.0 && positive < f64::INFINITY {
                assert!(
                    ulps(log(positive), positive.ln()) <= 2.0,
                    "ln({positive:e})"
                );
            }
            let near = 1.0 + (small - 0.5) * 0.1;
            assert!(ulps(log(near), near.ln()) <= 2.0, "ln({near:e})");
        }
    }

    #[test]
    fn ends_are_those_of_the_functions() {
        let inf = f64::INFINITY;
        assert_eq!((exp(0.0), exp(-inf), exp(inf)), (1.0, 0.0, inf));
        assert_eq!((log(0.0), log(1.0), log(inf)), (-inf, 0.0, inf));
        assert!(exp(f64::NAN).is_nan() && log(f64::NAN).is_nan() && log(-1.0).is_nan());
    }
}
