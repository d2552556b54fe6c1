//! The error function, and functions of the normal distribution.
//!
//! Tails are computed as exp(-a²)·R(t)/(1 + 2a), where t = (a - c)/(a + c) maps the half line to an
//! interval. The rounding error of a² is computed and corrected for in the exponential.
//! Coefficients are weighted minimax fits made for this file.

use super::exp::{exp_neg, exp_neg_to_106};
use super::ieee::{quotient, reciprocal};
use super::{fma, horner, mul_rn};

/// erfc a for a ≥ 0.9.
#[inline(always)]
fn erfc_tail(a: f32) -> f32 {
    const R: [f32; 9] = [
        1.253_008,
        -0.135_620_92,
        -0.047_562_037,
        0.129_636_87,
        -0.119_279_094,
        0.068_411_02,
        -0.023_731_124,
        0.002_049_738_3,
        0.001_776_304_3,
    ];
    let a = if a > 10.2 { 10.2 } else { a };
    let r = quotient(horner(quotient(a - 3.0, a + 3.0), R), fma(a, 2.0, 1.0));
    mul_rn(r, exp_neg_product(a, a))
}

/// exp(-(x · y)) for x and y of the same sign, without the rounding error of the product.
#[inline(always)]
fn exp_neg_product(x: f32, y: f32) -> f32 {
    let product = mul_rn(x, y);
    let rest = fma(x, y, -product);
    let e = exp_neg(product);
    fma(-e, rest, e)
}

/// erf x for |x| < 1.
#[inline(always)]
fn erf_centre(x: f32) -> f32 {
    const Q: [f32; 7] = [
        0.128_379_17,
        -0.376_126_26,
        0.112_836,
        -0.026_854_444,
        0.005_189_535_7,
        -0.000_802_084_2,
        0.000_078_891_23,
    ];
    fma(x, horner(x * x, Q), x)
}

/// Error function, at most 2 ulp.
#[inline(always)]
pub fn erf(x: f32) -> f32 {
    let a = x.abs();
    if a < 1.0 {
        erf_centre(x)
    } else {
        (1.0 - erfc_tail(a)).copysign(x)
    }
}

/// Complementary error function 1 - erf x, at most 5 ulp.
#[inline(always)]
pub fn erfc(x: f32) -> f32 {
    let a = x.abs();
    if a < 1.0 {
        return 1.0 - erf_centre(x);
    }
    let tail = erfc_tail(a);
    if x < 0.0 { 2.0 - tail } else { tail }
}

/// x Φ(x), Φ the distribution function of the normal distribution: at most 5 ulp, also where the
/// result is tiny; 0 at -inf.
#[inline(always)]
pub fn gelu(x: f32) -> f32 {
    let (a, r, e) = tail_parts(x);
    // At least f32::MIN, because -inf times a tail of 0 is NaN.
    let upper_tail_of_x = if x < 0.0 { x.max(f32::MIN) } else { a } * r;
    if x < 0.0 {
        mul_rn(upper_tail_of_x, e)
    } else {
        fma(-upper_tail_of_x, e, x)
    }
}

/// (a, r, e) with a = |x|, clamped to 14.5: the upper tail of the normal distribution beyond a is
/// r·e, where e = exp(-a²/2).
#[inline(always)]
fn tail_parts(x: f32) -> (f32, f32, f32) {
    /// The upper tail divided by exp(-a²/2) · 2 / (a + 4), as a polynomial in t = (a - 4) / (a +
    /// 4).
    const R: [f32; 10] = [
        0.377_642_572,
        -0.303_948_283,
        0.193_568_453,
        -0.093_261_718_8,
        0.030_201_915_7,
        -0.003_762_635_87,
        -0.001_756_277_28,
        0.000_784_961_623,
        0.000_089_676_985_2,
        -0.000_065_985_928_8,
    ];
    let a = x.abs().min(14.5);
    let v = reciprocal(fma(a, 0.5, 2.0));
    // t as a v - 1, a multiple of a, so that the error of v matters little where a is small.
    let r = mul_rn(v, horner(fma(a, v, -1.0), R));
    let product = mul_rn(0.5 * a, a);
    let rest = fma(0.5 * a, a, -product);
    let e = exp_neg_to_106(product);
    (a, r, fma(-e, rest, e))
}

/// The upper tail of the normal distribution beyond |x|, and exp(-x²/2). |x| is clamped to 14.5.
#[inline(always)]
pub(super) fn normal_parts(x: f32) -> (f32, f32) {
    let (_, r, e) = tail_parts(x);
    (mul_rn(r, e), e)
}
