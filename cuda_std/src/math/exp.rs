//! Exponentials and logarithms.
//!
//! Exponentials: x = k·ln 2 + r with |r| ≤ ln 2 / 2; the result is a polynomial in r times 2^k.
//! Logarithms: x = 2^k·(1 + f) with √½ ≤ 1 + f < √2; the result is a polynomial in f plus k·ln 2.
//! Coefficients are weighted minimax fits made for this file.

use super::ieee::reciprocal;
use super::{fma, horner, mul_rn, rint};

/// Adding it to an x with |x| < 2^22 rounds x to an integer, which is then in the sum's low bits.
pub(super) const ROUND: f32 = 12_582_912.0;
const LOG2_E: f32 = core::f32::consts::LOG2_E;
/// log2 e - LOG2_E.
const LOG2_E_LO: f32 = 1.925_963e-8;
const LN_2: f32 = core::f32::consts::LN_2;
/// ln 2 - LN_2.
const LN_2_LO: f32 = -1.904_654_2e-9;

/// ln 2 rounded to 15 bits, and the remainder.
const LN_2_15: f32 = 0.693_359_4;
const LN_2_15_LO: f32 = -2.121_944_4e-4;

/// p · 2^k for |k| ≤ 160, rounded once.
#[inline(always)]
pub(super) fn scale(p: f32, k: i32) -> f32 {
    let half = k >> 1;
    let power = |k: i32| f32::from_bits((k.wrapping_add(127) as u32) << 23);
    mul_rn(p * power(half), power(k.wrapping_sub(half)))
}

/// The integer that adding [`ROUND`] left in `rounded`.
#[inline(always)]
fn low_integer(rounded: f32) -> i32 {
    rounded.to_bits().wrapping_sub(ROUND.to_bits()) as i32
}

/// (2^f - 1) / f for |f| ≤ ½.
const EXP2: [f32; 6] = [
    0.693_147_2,
    0.240_226_51,
    0.055_503_28,
    0.009_618_004,
    0.001_340_027,
    0.000_154_762_72,
];

/// 2^x, at most 1 ulp.
#[inline(always)]
pub fn exp2(x: f32) -> f32 {
    let x = if x > 129.0 { 129.0 } else { x };
    let x = if x < -152.0 { -152.0 } else { x };
    let rounded = x + ROUND;
    let f = x - (rounded - ROUND);
    scale(fma(horner(f, EXP2), f, 1.0), low_integer(rounded))
}

/// 2^t for t in -152..=129 in f64: only the fraction of t is rounded to f32, not t itself.
#[inline(always)]
pub(super) fn exp2_of_parts(t: f64) -> f32 {
    let whole = rint(t as f32);
    // The difference is exact in f64, and |f| exceeds ½ by very little.
    let f = (t - f64::from(whole)) as f32;
    let rounded = whole + ROUND;
    scale(fma(horner(f, EXP2), f, 1.0), low_integer(rounded))
}

/// e^x, at most 1.1 ulp.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -104.5 { -104.5 } else { x };
    let (p, rounded) = expm1_parts(x);
    scale(p + 1.0, low_integer(rounded))
}

/// e^-a for a ≥ 0, with the same bits as [`exp`].
#[inline(always)]
pub(super) fn exp_neg(a: f32) -> f32 {
    exp_neg_to_106(if a > 104.5 { 104.5 } else { a })
}

/// As [`exp_neg`], for a up to 106.
#[inline(always)]
pub(super) fn exp_neg_to_106(a: f32) -> f32 {
    /// 2^-64, and the exponent bias that makes up for it.
    const SMALL: f32 = 5.421_010_862_427_522e-20;
    const BIAS: i32 = 127 + 64;
    let (p, rounded) = expm1_parts(-a);
    // The power is 2^64 times too large, so that it is never out of range. The result is rounded
    // once, by the second product.
    let power = f32::from_bits((low_integer(rounded).wrapping_add(BIAS) as u32) << 23);
    mul_rn((p + 1.0) * power, SMALL)
}

/// For |x| < 2^14 with x = k·ln 2 + r and |r| ≤ ln 2 / 2: e^r - 1, and k in the form that
/// [`low_integer`] takes.
#[inline(always)]
pub(super) fn expm1_parts(x: f32) -> (f32, f32) {
    const Q: [f32; 5] = [
        0.5,
        0.166_665_18,
        0.041_666_206,
        0.008_368_89,
        0.001_395_049,
    ];
    let rounded = fma(x, LOG2_E, ROUND);
    let k = rounded - ROUND;
    // k · LN_2_15 is exact in f32, so r is rounded once.
    let r = fma(k, -LN_2_15_LO, fma(k, -LN_2_15, x));
    (fma(r * r, horner(r, Q), r), rounded)
}

/// (ln(1 + f), k) for a positive finite x = 2^k · (1 + f) with √½ ≤ 1 + f < √2.
#[inline(always)]
fn log_parts(x: f32) -> (f32, f32) {
    const Q: [f32; 9] = [
        0.333_333_13,
        -0.250_000_1,
        0.200_021_2,
        -0.166_679_86,
        0.142_195_21,
        -0.124_057_53,
        0.118_885_88,
        -0.116_748_2,
        0.067_445_896,
    ];
    const SQRT_HALF_BITS: u32 = 0x3f35_04f3;
    let subnormal = x < f32::MIN_POSITIVE;
    let bits = if subnormal { x * 8_388_608.0 } else { x }.to_bits();
    let k = (bits.wrapping_sub(SQRT_HALF_BITS) as i32) >> 23;
    let f = f32::from_bits(bits.wrapping_sub((k as u32) << 23)) - 1.0;
    let k = if subnormal { k - 23 } else { k };
    let ln = fma(f * f, fma(f, horner(f, Q), -0.5), f);
    (ln, k as f32)
}

/// The value of a logarithm where x is not positive and finite.
#[inline(always)]
fn log_special(x: f32) -> f32 {
    if x == 0.0 {
        f32::NEG_INFINITY
    } else if x < 0.0 {
        f32::NAN
    } else {
        x
    }
}

/// ln x, at most 1 ulp; -inf at ±0, NaN for negative x.
#[inline(always)]
pub fn log(x: f32) -> f32 {
    if !(x > 0.0 && x < f32::INFINITY) {
        return log_special(x);
    }
    let (ln, k) = log_parts(x);
    fma(k, LN_2, fma(k, LN_2_LO, ln))
}

/// log2 x, at most 1.5 ulp; -inf at ±0, NaN for negative x.
#[inline(always)]
pub fn log2(x: f32) -> f32 {
    if !(x > 0.0 && x < f32::INFINITY) {
        return log_special(x);
    }
    let (ln, k) = log_parts(x);
    fma(ln, LOG2_E, fma(ln, LOG2_E_LO, k))
}

/// log10 x, at most 2 ulp; -inf at ±0, NaN for negative x.
#[inline(always)]
pub fn log10(x: f32) -> f32 {
    const LOG10_E: f32 = core::f32::consts::LOG10_E;
    /// log10 e - LOG10_E.
    const LOG10_E_LO: f32 = -1.010_305e-8;
    const LOG10_2: f32 = core::f32::consts::LOG10_2;
    /// log10 2 - LOG10_2.
    const LOG10_2_LO: f32 = -1.432_098_9e-8;
    if !(x > 0.0 && x < f32::INFINITY) {
        return log_special(x);
    }
    let (ln, k) = log_parts(x);
    let low = fma(ln, LOG10_E_LO, k * LOG10_2_LO);
    fma(k, LOG10_2, fma(ln, LOG10_E, low))
}

/// Hyperbolic tangent, at most 2 ulp.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    const Q: [f32; 5] = [
        -0.333_332_99,
        0.133_319_59,
        -0.053_786_684,
        0.020_805_381,
        -0.005_905_865,
    ];
    let a = x.abs();
    let z = a * a;
    let near = fma(mul_rn(z, horner(z, Q)), x, x);
    // e^(2a) as a power of two: the rounding error of the constant matters only where the quotient
    // is small. Beyond 10 the result is 1.
    let t = a.min(10.0);
    let rounded = fma(t, 2.0 * LOG2_E, ROUND);
    let f = fma(t, 2.0 * LOG2_E, -(rounded - ROUND));
    let p = fma(horner(f, EXP2), f, 1.0);
    let e = f32::from_bits(p.to_bits().wrapping_add(rounded.to_bits() << 23));
    let far = fma(-2.0, reciprocal(1.0 + e), 1.0);
    // For a NaN, `near` is NaN; for -0, it is +0.
    let value = if a >= 0.6 { far } else { near };
    value.copysign(x)
}
