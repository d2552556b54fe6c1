//! e^x - 1, ln(1 + x), and the hyperbolic functions built on them.

use super::exp::{ROUND, expm1_parts, scale};
use super::{exp, fma, log, mul_rn, sqrt};

/// e^x - 1, at most 1.5 ulp, also near 0.
#[inline(always)]
pub fn expm1(x: f32) -> f32 {
    if x.abs() < 1e-12 {
        return x; // keeps the sign of zero and subnormals
    }
    if x < -18.0 {
        return -1.0;
    }
    let x = if x > 89.0 { 89.0 } else { x };
    let (p, rounded) = expm1_parts(x);
    let k = rounded.to_bits().wrapping_sub(ROUND.to_bits()) as i32;
    // With half of 2^k, because 2^128 is not an f32: 2 (p 2^(k-1) + (2^(k-1) - ½)).
    let half = f32::from_bits((k.wrapping_add(126) as u32) << 23);
    2.0 * fma(p, half, half - 0.5)
}

/// ln(1 + x), at most 2 ulp, also near 0; -inf at -1, NaN below -1.
#[inline(always)]
pub fn log1p(x: f32) -> f32 {
    let u = 1.0 + x;
    if x.abs() < 1e-12 || u == f32::INFINITY {
        return x;
    }
    // The rounding error of 1 + x, divided by u, is the first-order correction of the logarithm.
    let lost = if x.abs() < 1.0 {
        x - (u - 1.0)
    } else {
        1.0 - (u - x)
    };
    let l = log(u);
    if u > 0.0 { l + lost / u } else { l }
}

/// Hyperbolic sine, at most 3 ulp.
#[inline(always)]
pub fn sinh(x: f32) -> f32 {
    let a = x.abs();
    let value = if a < 80.0 {
        let e = expm1(a);
        0.5 * (e + e / (e + 1.0))
    } else {
        half_exp(a)
    };
    value.copysign(x)
}

/// Hyperbolic cosine, at most 2.5 ulp.
#[inline(always)]
pub fn cosh(x: f32) -> f32 {
    let a = x.abs();
    if a < 80.0 {
        let e = 0.5 * exp(a);
        e + 0.25 / e
    } else {
        half_exp(a)
    }
}

/// e^a / 2 for a ≥ 80. It is finite for some a for which e^a is not.
#[inline(always)]
fn half_exp(a: f32) -> f32 {
    let a = if a > 91.0 { 91.0 } else { a };
    let (p, rounded) = expm1_parts(a);
    let k = rounded.to_bits().wrapping_sub(ROUND.to_bits()) as i32;
    scale(1.0 + p, k - 1)
}

/// Inverse hyperbolic sine, at most 3.5 ulp.
#[inline(always)]
pub fn asinh(x: f32) -> f32 {
    let a = x.abs();
    let value = if a < 1e9 {
        let square = mul_rn(a, a);
        log1p(a + square / (1.0 + sqrt(1.0 + square)))
    } else {
        log(a) + core::f32::consts::LN_2
    };
    value.copysign(x)
}

/// Inverse hyperbolic cosine, at most 3.5 ulp; NaN for x below 1.
#[inline(always)]
pub fn acosh(x: f32) -> f32 {
    if x < 1.0 {
        f32::NAN
    } else if x < 1e9 {
        let t = x - 1.0;
        log1p(t + sqrt(fma(t, t, 2.0 * t)))
    } else {
        log(x) + core::f32::consts::LN_2
    }
}

/// Inverse hyperbolic tangent, at most 3 ulp; ±inf at ±1, NaN for |x| above 1.
#[inline(always)]
pub fn atanh(x: f32) -> f32 {
    let a = x.abs();
    (0.5 * log1p(2.0 * a / (1.0 - a))).copysign(x)
}
