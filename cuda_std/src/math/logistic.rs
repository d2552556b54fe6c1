//! The logistic function and the activation functions built on it.

use super::exp::exp_neg;
use super::ieee::reciprocal;
use super::{fma, mul_rn};

/// 1 / (1 + e^-x), at most 3 ulp.
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    let e = exp_neg(x.abs());
    let numerator = if x < 0.0 { e } else { 1.0 };
    numerator * reciprocal(1.0 + e)
}

/// x / (1 + e^-v) for a v with the sign of x, given root = e^-|v / 2|.
///
/// It takes the square root of the exponential, so that a tiny exponential is not rounded as a
/// subnormal before the product.
#[inline(always)]
fn gate(x: f32, root: f32) -> f32 {
    // At least f32::MIN, because -inf times a root of 0 is NaN.
    let numerator = if x < 0.0 {
        x.max(f32::MIN) * root * root
    } else {
        x
    };
    mul_rn(numerator, reciprocal(fma(root, root, 1.0)))
}

/// x · sigmoid(x), at most 5 ulp; 0 at -inf.
#[inline(always)]
pub fn silu(x: f32) -> f32 {
    gate(x, exp_neg(0.5 * x.abs()))
}

/// 0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³))), at most 6 ulp, also where the result is tiny; 0 at
/// -inf.
#[inline(always)]
pub fn gelu_tanh(x: f32) -> f32 {
    let (half, half_lo) = gelu_tanh_halves(x);
    let e = exp_neg(half);
    gate(x, fma(-e, half_lo, e))
}

/// |v / 2| as a sum of two f32, for the v with which `x / (1 + e^-v)` is the tanh approximation of
/// gelu. |x| is clamped to 16.
#[inline(always)]
pub(super) fn gelu_tanh_halves(x: f32) -> (f32, f32) {
    // The `v` below is a (C0 + C1 a²) with a = |x|, which is half of 2·√(2/π)·(..). It is a sum of
    // two f32, because an error relative to v becomes one |v| times as large in the exponential.
    const C0: f32 = 0.797_884_6;
    const C0_LO: f32 = -2.267_034e-8;
    const C1: f32 = 0.035_677_407;
    const C1_LO: f32 = 1.199_416_2e-9;
    let a = x.abs();
    let a = if a > 16.0 { 16.0 } else { a };
    let square = mul_rn(a, a);
    let square_lo = fma(a, a, -square);
    let cubic = mul_rn(C1, square);
    let cubic_lo = fma(C1, square, -cubic);
    let sum = cubic + C0;
    let back = sum - C0;
    let rounding = (C0 - (sum - back)) + (cubic - back);
    let sum_lo = fma(
        C1,
        square_lo,
        fma(C1_LO, square, rounding + cubic_lo + C0_LO),
    );
    let v = mul_rn(a, sum);
    (v, fma(a, sum_lo, fma(a, sum, -v)))
}
