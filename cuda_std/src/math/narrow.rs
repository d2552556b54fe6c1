//! Short forms of functions whose results are rounded to 16 bits or fewer.
//!
//! They use the hardware's exponential and reciprocal ([`approx`](super::approx)) and have no
//! branches. The last bits of the f32 result therefore depend on the GPU; after rounding to bf16 or
//! f16, one result in some thousands differs between two kinds of device.
//!
//! Nothing is lost that a 16-bit float can represent. Results below the smallest normal f32 are
//! right too, because an exponential is computed as the square of its square root, a normal number.
//!
//! | function of any x | largest error in ulp of f32 |
//! |---|---|
//! | [`sqrt`] | 1.5 |
//! | [`rsqrt`] | 3 |
//! | [`tanh`] | 20 |
//! | [`exp`], [`exp2`], [`sigmoid`], [`silu`] | 128 |
//! | [`gelu`], [`gelu_tanh`] | 300 |
//!
//! An ulp is that of the true result; for subnormal results, that of the smallest normal number.
//! The large errors are those of results near 2^-126. 300 ulp of f32 are 0.005 ulp of bf16 and 0.04
//! of f16.

#[cfg(target_arch = "nvptx64")]
use super::approx;
use super::{fma, horner, mul_rn};

/// log2 e / 2: the square root of e^x is 2^(x · HALF_LOG2_E).
const HALF_LOG2_E: f32 = core::f32::consts::LOG2_E / 2.0;

/// 2^x; 0 where the result would be subnormal.
#[inline(always)]
fn ex2(x: f32) -> f32 {
    #[cfg(target_arch = "nvptx64")]
    {
        approx::ex2_approx_ftz(x)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        let y = f32::exp2(x);
        if y < f32::MIN_POSITIVE { 0.0 } else { y }
    }
}

/// 1 / x for a normal x.
#[inline(always)]
fn reciprocal(x: f32) -> f32 {
    #[cfg(target_arch = "nvptx64")]
    {
        approx::rcp_approx_ftz(x)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        1.0 / x
    }
}

/// e^x.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    let root = ex2(x * HALF_LOG2_E);
    mul_rn(root, root)
}

/// 2^x.
#[inline(always)]
pub fn exp2(x: f32) -> f32 {
    let root = ex2(x * 0.5);
    mul_rn(root, root)
}

/// √x; NaN below 0.
#[inline(always)]
pub fn sqrt(x: f32) -> f32 {
    #[cfg(target_arch = "nvptx64")]
    {
        approx::sqrt_approx(x)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        super::sqrt(x)
    }
}

/// 1 / √x.
#[inline(always)]
pub fn rsqrt(x: f32) -> f32 {
    #[cfg(target_arch = "nvptx64")]
    {
        approx::rsqrt_approx(x)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        super::rsqrt(x)
    }
}

/// y / (1 + e^-v) for a v with the sign of x, given root = e^-|v / 2|, and a finite y or +inf. A NaN
/// in the root is enough for a NaN.
#[inline(always)]
fn gate(y: f32, x: f32, root: f32) -> f32 {
    let part = if x < 0.0 { root } else { 1.0 };
    // The root is multiplied last: an intermediate product that is subnormal would lose bits.
    mul_rn(
        mul_rn(mul_rn(y, part), reciprocal(fma(root, root, 1.0))),
        part,
    )
}

/// 1 / (1 + e^-x).
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    gate(1.0, x, ex2(x.abs() * -HALF_LOG2_E))
}

/// x · sigmoid(x); 0 at -inf.
#[inline(always)]
pub fn silu(x: f32) -> f32 {
    gate(x.max(f32::MIN), x, ex2(x.abs() * -HALF_LOG2_E))
}

/// 0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³))); 0 at -inf.
#[inline(always)]
pub fn gelu_tanh(x: f32) -> f32 {
    /// -√(2/π) log2 e, and that times 0.044715.
    const C0: f32 = -1.151_104_1;
    const C1: f32 = -0.051_471_62;
    gate(
        x.max(f32::MIN),
        x,
        ex2(mul_rn(x.abs(), fma(mul_rn(x, x), C1, C0))),
    )
}

/// x Φ(x), Φ the distribution function of the normal distribution; 0 at -inf.
#[inline(always)]
pub fn gelu(x: f32) -> f32 {
    /// The upper tail beyond a, divided by exp(-a²/2) / (a + 4), as a polynomial in
    /// t = (a - 4) / (a + 4).
    const R: [f32; 8] = [
        0.755_285_263,
        -0.607_892_99,
        0.387_128_711,
        -0.186_593_086,
        0.060_470_234_6,
        -0.007_162_501_1,
        -0.003_584_204_24,
        0.000_949_469_919,
    ];
    // At 20 the square root of the exponential is 0 already, so the clamp changes nothing.
    let a = x.abs().min(20.0);
    let root = ex2(mul_rn(mul_rn(a, a), -0.5 * HALF_LOG2_E));
    let u = reciprocal(a + 4.0);
    let factor = if x < 0.0 { x.max(f32::MIN) } else { a };
    let tail = mul_rn(
        mul_rn(mul_rn(factor, u), horner(fma(u, -8.0, 1.0), R)),
        root,
    );
    if x < 0.0 {
        mul_rn(tail, root)
    } else {
        fma(-tail, root, x)
    }
}

/// Hyperbolic tangent.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    const Q: [f32; 3] = [-0.333_318_83, 0.132_776_305, -0.047_794_200_5];
    let a = x.abs();
    let far = fma(-2.0, reciprocal(ex2(a * (4.0 * HALF_LOG2_E)) + 1.0), 1.0);
    let z = mul_rn(x, x);
    let near = fma(mul_rn(z, horner(z, Q)), x, x);
    // For -0, `near` is +0.
    let value = if a < 0.4 { near } else { far };
    value.copysign(x)
}
