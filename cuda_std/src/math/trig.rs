//! Sine, cosine and tangent, accurate for every f32.
//!
//! The argument is reduced to x = q·π/2 + r with |r| ≤ π/4. Up to [`COMMON`], three multiply-adds
//! do it; beyond, integer arithmetic with those bits of 2/π that matter (Payne and Hanek).
//! Coefficients are weighted minimax fits made for this file.

use super::exp::ROUND;
use super::{fma, horner};

/// The largest |x| for which the reduction by three multiply-adds is accurate enough.
const COMMON: f32 = 65_536.0;

/// (r, q mod 4) with x = q·π/2 + r; r is NaN where x is not finite.
#[inline(always)]
fn reduce(x: f32) -> (f32, u32) {
    const FRAC_2_PI: f32 = core::f32::consts::FRAC_2_PI;
    /// π/2 as a sum of three f32.
    const FRAC_PI_2: [f32; 3] = [
        core::f32::consts::FRAC_PI_2,
        -4.371_138_8e-8,
        -1.715_124_5e-15,
    ];
    if x.abs() <= COMMON {
        let rounded = fma(x, FRAC_2_PI, ROUND);
        let q = rounded - ROUND;
        let r = fma(q, -FRAC_PI_2[0], x);
        let r = fma(q, -FRAC_PI_2[1], r);
        (fma(q, -FRAC_PI_2[2], r), rounded.to_bits())
    } else if x.abs() < f32::INFINITY {
        reduce_large(x)
    } else {
        (f32::NAN, 0)
    }
}

/// [`reduce`] for finite |x| of at least 2^16.
#[inline(always)]
fn reduce_large(x: f32) -> (f32, u32) {
    /// A word of zeros, then the fraction bits of 2/π.
    const FRAC_2_PI_BITS: [u32; 8] = [
        0,
        0xa2f9_836e,
        0x4e44_1529,
        0xfc27_57d1,
        0xf534_ddc0,
        0xdb62_9599,
        0x3c43_9041,
        0xfe51_63ab,
    ];
    /// π/2 · 2^-64.
    const UNIT: f64 = core::f64::consts::FRAC_PI_2 / 18_446_744_073_709_551_616.0;
    let bits = x.to_bits();
    let exponent = ((bits >> 23) & 0xff) - 127;
    let mantissa = u64::from((bits & 0x007f_ffff) | 0x0080_0000);
    // Higher bits of 2/π contribute only multiples of 4 quarter turns.
    let first = exponent + 7;
    let word = (first / 32) as usize & 7;
    let shift = first % 32;
    let window = |i: usize| {
        let at = |i: usize| u64::from(FRAC_2_PI_BITS[(word + i) & 7]);
        (((at(i) << 32 | at(i + 1)) << shift) >> 32) & 0xffff_ffff
    };
    let low = mantissa * window(2);
    let middle = mantissa * window(1) + (low >> 32);
    let high = mantissa * window(0) + (middle >> 32);
    let quarters = high << 32 | (middle & 0xffff_ffff);
    let q = (quarters.wrapping_add(1 << 61) >> 62) as u32;
    let r = ((quarters << 2) as i64 as f64 * UNIT) as f32;
    if x < 0.0 {
        (-r, q.wrapping_neg())
    } else {
        (r, q)
    }
}

/// (sin r, cos r) for |r| ≤ π/4.
#[inline(always)]
fn sin_cos(r: f32) -> (f32, f32) {
    const SIN: [f32; 3] = [-0.166_666_55, 0.008_332_176, -0.000_195_169_78];
    const COS: [f32; 3] = [0.041_666_646, -0.001_388_736_4, 0.000_024_438_088];
    let z = r * r;
    let sin = fma(z * horner(z, SIN), r, r);
    let cos = fma(z, fma(z, horner(z, COS), -0.5), 1.0);
    (sin, cos)
}

/// sin(r + q·π/2) for |r| ≤ π/4.
#[inline(always)]
fn quadrant(r: f32, q: u32) -> f32 {
    let (sin, cos) = sin_cos(r);
    let value = if q & 1 == 0 { sin } else { cos };
    if q & 2 == 0 { value } else { -value }
}

/// `value`, but x where x is 0: the polynomials make +0 of -0.
#[inline(always)]
fn with_sign_of_zero(value: f32, x: f32) -> f32 {
    if x == 0.0 { x } else { value }
}

/// Sine of x radians, at most 2 ulp; NaN at ±inf.
#[inline(always)]
pub fn sin(x: f32) -> f32 {
    let (r, q) = reduce(x);
    with_sign_of_zero(quadrant(r, q), x)
}

/// Cosine of x radians, at most 2 ulp; NaN at ±inf.
#[inline(always)]
pub fn cos(x: f32) -> f32 {
    let (r, q) = reduce(x);
    quadrant(r, q.wrapping_add(1))
}

/// Tangent of x radians, at most 4 ulp; NaN at ±inf.
#[inline(always)]
pub fn tan(x: f32) -> f32 {
    let (r, q) = reduce(x);
    let (sin, cos) = sin_cos(r);
    with_sign_of_zero(if q & 1 == 0 { sin / cos } else { -cos / sin }, x)
}
