//! Mathematical functions of f32, with the same bits on host, emulator and GPU.
//!
//! Everything here consists of IEEE operations in a fixed order. Fused multiply-adds are explicit,
//! and a product that is followed by an addition is a [`mul_rn`], which no compiler contracts. A
//! kernel can therefore be compared with the same function on the host bit for bit, NaN payloads
//! excepted. Subnormals are not flushed.
//!
//! - [`approx`]: the hardware's fast approximate instructions, whose last bits depend on the GPU;
//! - [`narrow`]: short forms built on those, for results that are rounded to 16 bits;
//! - [`directed`]: operations that round towards zero, down or up;
//! - [`wide`]: functions of f64.
//!
//! | function of any x | largest error in ulp |
//! |---|---|
//! | [`fma`], [`sqrt`], [`rcp`] | 0.5 |
//! | [`exp2`], [`log`] | 1 |
//! | [`exp`], [`hypot`] | 1.1 |
//! | [`log2`], [`rsqrt`], [`expm1`], [`pow`] | 1.5 |
//! | [`sin`], [`cos`], [`tanh`], [`erf`], [`log1p`], [`log10`] | 2 |
//! | [`cosh`], [`atan`] | 2.5 |
//! | [`sigmoid`], [`sinh`], [`atanh`], [`asin`], [`acos`], [`atan2`] | 3 |
//! | [`asinh`], [`acosh`] | 3.5 |
//! | [`tan`] | 4 |
//! | [`sigmoid_grad`] | 4.5 |
//! | [`silu`], [`erfc`], [`gelu`] | 5 |
//! | [`gelu_tanh`], [`tanh_grad`] | 6 |
//! | [`fmod`] | 0; [`remainder`] 0.5 |
//!
//! An ulp is that of the true result; for subnormal results, that of the smallest normal number.
//! Tests check the bounds over a spread of all f32; `cargo run --release -p warpsmith-cuda-std
//! --example ulps` measures every f32.
// Coefficients have the digits that the fits gave; some happen to be close to well-known constants.
#![allow(clippy::approx_constant, clippy::excessive_precision)]

mod erf;
mod exp;
mod gradient;
mod hyperbolic;
mod ieee;
mod inverse;
mod logistic;
mod methods;
mod power;
mod trig;

pub mod approx;
pub mod directed;
pub mod narrow;
pub mod wide;

pub use erf::{erf, erfc, gelu};
pub use exp::{exp, exp2, log, log2, log10, tanh};
pub use gradient::{gelu_grad, gelu_tanh_grad, relu_grad, sigmoid_grad, silu_grad, tanh_grad};
pub use hyperbolic::{acosh, asinh, atanh, cosh, expm1, log1p, sinh};
pub use ieee::{
    abs, ceil, floor, fma, max_bf16x2, max_f16x2, max_nan_bf16x2, maximum, maximum_sm80, minimum,
    minimum_sm80, mul_rn, neg, rint, sqrt, trunc,
};
pub use inverse::{acos, asin, atan, atan2};
pub use logistic::{gelu_tanh, sigmoid, silu};
pub use methods::{F32Methods, F64Methods};
pub use power::{fmod, hypot, pow, remainder};
pub use trig::{cos, sin, tan};

/// 1 / x, correctly rounded.
#[inline(always)]
pub fn rcp(x: f32) -> f32 {
    1.0 / x
}

/// 1 / √x: two correctly rounded operations, at most 1.5 ulp.
#[inline(always)]
pub fn rsqrt(x: f32) -> f32 {
    1.0 / sqrt(x)
}

/// The larger of the two; NaN if either is NaN.
#[inline(always)]
pub fn max_nan(a: f32, b: f32) -> f32 {
    if a > b || a.is_nan() { a } else { b }
}

/// The smaller of the two; NaN if either is NaN.
#[inline(always)]
pub fn min_nan(a: f32, b: f32) -> f32 {
    if a < b || a.is_nan() { a } else { b }
}

/// Σ coefficients\[i\] · x^i by Horner's rule, in fused multiply-adds.
#[inline(always)]
fn horner<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut sum = coefficients[N - 1];
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        sum = fma(sum, x, coefficients[i]);
    }
    sum
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_more;
