//! Exponentials and logarithms.
//!
//! Method: x = k·ln 2 + r with |r| ≤ ln 2 / 2, a polynomial in r, times 2^k. Logarithms go the
//! other way, x = 2^k·(1 + f) with √½ ≤ 1 + f < √2. Coefficients are weighted minimax fits made
//! for this file.

use super::{fma, horner, mul_rn};

/// Adding it rounds an |x| < 2^22 to an integer, which stands in the low bits.
pub(super) const ROUND: f32 = 12_582_912.0;
const LOG2_E: f32 = core::f32::consts::LOG2_E;
/// log2 e - LOG2_E.
const LOG2_E_LO: f32 = 1.925_963e-8;
const LN_2: f32 = core::f32::consts::LN_2;
/// ln 2 - LN_2.
const LN_2_LO: f32 = -1.904_654_2e-9;

/// ln 2 to 15 bits, and the rest.
const LN_2_15: f32 = 0.693_359_4;
const LN_2_15_LO: f32 = -2.121_944_4e-4;

/// p · 2^k for |k| ≤ 160, rounded once.
#[inline(always)]
fn scale(p: f32, k: i32) -> f32 {
    let half = k >> 1;
    let power = |k: i32| f32::from_bits((k.wrapping_add(127) as u32) << 23);
    mul_rn(p * power(half), power(k.wrapping_sub(half)))
}

/// The integer that adding [`ROUND`] left in `rounded`.
#[inline(always)]
fn low_integer(rounded: f32) -> i32 {
    rounded.to_bits().wrapping_sub(ROUND.to_bits()) as i32
}

/// 2^x, at most 1 ulp.
#[inline(always)]
pub fn exp2(x: f32) -> f32 {
    const Q: [f32; 6] = [
        0.693_147_2,
        0.240_226_51,
        0.055_503_28,
        0.009_618_004,
        0.001_340_027,
        0.000_154_762_72,
    ];
    let x = if x > 129.0 { 129.0 } else { x };
    let x = if x < -152.0 { -152.0 } else { x };
    let rounded = x + ROUND;
    let f = x - (rounded - ROUND);
    scale(fma(horner(f, Q), f, 1.0), low_integer(rounded))
}

/// e^x, at most 1.1 ulp.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    const Q: [f32; 5] = [
        0.5,
        0.166_665_18,
        0.041_666_206,
        0.008_368_89,
        0.001_395_049,
    ];
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -104.5 { -104.5 } else { x };
    let rounded = fma(x, LOG2_E, ROUND);
    let k = rounded - ROUND;
    // k · LN_2_15 is exact in f32, so r is rounded once.
    let r = fma(k, -LN_2_15_LO, fma(k, -LN_2_15, x));
    let p = fma(r * r, horner(r, Q), r) + 1.0;
    scale(p, low_integer(rounded))
}

/// x = 2^k · (1 + f) with √½ ≤ 1 + f < √2, for positive finite x: (ln(1 + f), k).
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

/// What a logarithm is where x is not positive and finite.
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

/// ln x, at most 1 ulp; -inf at ±0, NaN below.
#[inline(always)]
pub fn log(x: f32) -> f32 {
    if !(x > 0.0 && x < f32::INFINITY) {
        return log_special(x);
    }
    let (ln, k) = log_parts(x);
    fma(k, LN_2, fma(k, LN_2_LO, ln))
}

/// log2 x, at most 1.5 ulp; -inf at ±0, NaN below.
#[inline(always)]
pub fn log2(x: f32) -> f32 {
    if !(x > 0.0 && x < f32::INFINITY) {
        return log_special(x);
    }
    let (ln, k) = log_parts(x);
    fma(ln, LOG2_E, fma(ln, LOG2_E_LO, k))
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
    if a < 0.6 {
        let z = a * a;
        fma(z * horner(z, Q), x, x)
    } else {
        (1.0 - 2.0 / (exp(2.0 * a) + 1.0)).copysign(x)
    }
}
