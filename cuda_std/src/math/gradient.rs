//! Derivatives of the activation functions: the factor of the incoming gradient in the backward
//! pass.
//!
//! Each is a sum of terms that are accurate to a few ulp. Where the terms cancel (silu and gelu
//! have a minimum), the error remains that of the terms: a few ulp of 1, or of the result if that
//! is larger.

use super::erf::normal_parts;
use super::exp::exp_neg;
use super::ieee::reciprocal;
use super::logistic::gelu_tanh_halves;
use super::{fma, mul_rn};

/// 1 where x > 0, else 0; NaN stays.
#[inline(always)]
pub fn relu_grad(x: f32) -> f32 {
    if x > 0.0 {
        1.0
    } else if x.is_nan() {
        x
    } else {
        0.0
    }
}

/// σ(x) σ(-x), at most 4.5 ulp.
#[inline(always)]
pub fn sigmoid_grad(x: f32) -> f32 {
    let e = exp_neg(x.abs());
    let sum = 1.0 + e;
    e * reciprocal(mul_rn(sum, sum))
}

/// 1 - tanh² x, at most 6 ulp.
#[inline(always)]
pub fn tanh_grad(x: f32) -> f32 {
    // Computed from the square root of the exponential, so that a tiny exponential is not rounded
    // as a subnormal before the final product.
    let root = exp_neg(x.abs());
    let sum = fma(root, root, 1.0);
    let half = mul_rn(root, reciprocal(sum));
    mul_rn(2.0 * half, 2.0 * half)
}

/// σ(x) (1 + x σ(-x)).
#[inline(always)]
pub fn silu_grad(x: f32) -> f32 {
    slope(x, x, exp_neg(0.5 * x.abs()))
}

/// Φ(x) + x φ(x).
#[inline(always)]
pub fn gelu_grad(x: f32) -> f32 {
    const FRAC_1_SQRT_TAU: f32 = 0.398_942_28;
    let (tail, e) = normal_parts(x);
    let phi = if x < 0.0 { tail } else { 1.0 - tail };
    let a = if x.abs() > 15.0 {
        15.0f32.copysign(x)
    } else {
        x
    };
    fma(a * FRAC_1_SQRT_TAU, e, phi)
}

/// Derivative of gelu's tanh approximation ([`gelu_tanh`](super::gelu_tanh)).
#[inline(always)]
pub fn gelu_tanh_grad(x: f32) -> f32 {
    const C0: f32 = 1.595_769_1; // 2·√(2/π)
    const C1: f32 = 0.214_064_44; // 3 · 0.044715 · C0
    let (half, half_lo) = gelu_tanh_halves(x);
    let e = exp_neg(half);
    let root = fma(-e, half_lo, e);
    let a = if x.abs() > 16.0 {
        16.0f32.copysign(x)
    } else {
        x
    };
    let dv = fma(a * a, C1, C0);
    slope(x, a * dv, root)
}

/// σ(v) (1 + g σ(-v)) for a v with the sign of x, given root = exp(-|v| / 2).
///
/// It takes the square root of the exponential, so that a tiny exponential is not rounded as a
/// subnormal before the final product.
#[inline(always)]
fn slope(x: f32, g: f32, root: f32) -> f32 {
    let e = mul_rn(root, root);
    let r = reciprocal(1.0 + e);
    let q = if x < 0.0 { r } else { e * r };
    // For large |x|, where the root is 0 and x may be infinite, the second term is 0, not NaN.
    let g = if root == 0.0 { 0.0 } else { g };
    let sum = fma(g, q, 1.0);
    let sum = if x < 0.0 {
        mul_rn(mul_rn(root, sum), root)
    } else {
        sum
    };
    let value = mul_rn(sum, r);
    if x.is_nan() { x } else { value }
}
