//! Functions of f32, the same bits on host, emulator and GPU.
//!
//! Everything here is made of IEEE operations in a fixed order (multiply-adds are written as
//! such), so a kernel can be tested against the same function on the host, bit for bit, NaN
//! payloads excepted. No subnormal is flushed. [`approx`] holds the hardware's fast
//! approximations, which are bits of the GPU's own.
//!
//! | function | largest error in ulp | range |
//! |---|---|---|
//! | [`fma`], [`sqrt`], [`rcp`] | 0.5 | all |
//! | [`exp`], [`exp2`], [`log`], [`log2`], [`rsqrt`] | 1 | all |
//! | [`sin`], [`cos`], [`tanh`], [`erf`] | 2 | all |
//! | [`sigmoid`] | 2.5 | all |
//! | [`silu`], [`erfc`] | 4.5 | all |
//! | [`gelu`], [`gelu_tanh`] | 6 | all |
//!
//! An ulp is that of the true result, and of the least normal number for results below it. The
//! bounds are held by tests over f32; `cargo run --release -p warpsmith-cuda-std --example ulps`
//! measures every f32.

mod erf;
mod exp;
mod ieee;
mod logistic;
mod trig;

pub mod approx;

pub use erf::{erf, erfc, gelu};
pub use exp::{exp, exp2, log, log2, tanh};
pub use ieee::{ceil, floor, fma, mul_rn, rint, sqrt, trunc};
pub use logistic::{gelu_tanh, sigmoid, silu};
pub use trig::{cos, sin};

/// 1 / x, correctly rounded.
#[inline(always)]
pub fn rcp(x: f32) -> f32 {
    1.0 / x
}

/// 1 / √x: two correctly rounded operations, at most 1 ulp.
#[inline(always)]
pub fn rsqrt(x: f32) -> f32 {
    1.0 / sqrt(x)
}

/// The larger; NaN if either is.
#[inline(always)]
pub fn max_nan(a: f32, b: f32) -> f32 {
    if a > b || a.is_nan() { a } else { b }
}

/// The smaller; NaN if either is.
#[inline(always)]
pub fn min_nan(a: f32, b: f32) -> f32 {
    if a < b || a.is_nan() { a } else { b }
}

/// Σ coefficient\[i\] · x^i by Horner's rule in multiply-adds.
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
