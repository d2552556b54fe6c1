//! Powers, the hypotenuse and remainders.

use super::exp::exp2_of_parts;
use super::{fma, mul_rn, sqrt, trunc};

#[cfg(target_arch = "nvptx64")]
use core::f64::math::mul_add as fma64;

#[cfg(not(target_arch = "nvptx64"))]
fn fma64(a: f64, b: f64, c: f64) -> f64 {
    a.mul_add(b, c)
}

/// log2 a for a positive finite a, accurate to 37 bits. It is an f64 because the power multiplies
/// its error by up to 150.
#[inline(always)]
fn log2_wide(a: f32) -> f64 {
    const Q: [f64; 14] = [
        1.442_695_040_887_084,
        -0.721_347_520_312_551_6,
        0.480_898_348_444_397_1,
        -0.360_673_796_421_114_47,
        0.288_538_838_391_058_04,
        -0.240_446_246_812_482_4,
        0.206_105_190_095_792_26,
        -0.180_440_512_742_340_85,
        0.160_257_556_142_593_9,
        -0.142_480_985_123_671_03,
        0.129_867_450_135_422_8,
        -0.134_393_552_725_595_3,
        0.134_064_494_022_989_76,
        -0.071_709_226_251_334_03,
    ];
    const SQRT_HALF_BITS: u32 = 0x3f35_04f3;
    let subnormal = a < f32::MIN_POSITIVE;
    let bits = if subnormal { a * 8_388_608.0 } else { a }.to_bits();
    let k = (bits.wrapping_sub(SQRT_HALF_BITS) as i32) >> 23;
    let f = f32::from_bits(bits.wrapping_sub((k as u32) << 23)) - 1.0; // exact
    let k = if subnormal { k - 23 } else { k };
    let f = f64::from(f);
    let mut sum = Q[13];
    let mut i = 13;
    while i > 0 {
        i -= 1;
        sum = fma64(sum, f, Q[i]);
    }
    fma64(sum, f, f64::from(k))
}

/// x^y, at most 1.5 ulp, with the special values of IEEE 754's `pow`: x^0 and 1^y are 1 for any x
/// and y, NaN included. A negative finite x has a power only where y is an integer; else the result
/// is NaN.
#[inline(always)]
pub fn pow(x: f32, y: f32) -> f32 {
    let a = x.abs();
    let is_integer = trunc(y) == y;
    let is_odd = is_integer && y.abs() < 16_777_216.0 && (y as i32) & 1 == 1;
    let t = fma64(f64::from(y), log2_wide(a), 0.0);
    let t = if t > 129.0 { 129.0 } else { t };
    let t = if t < -152.0 { -152.0 } else { t };
    let mut value = exp2_of_parts(t);
    let grows = (a > 1.0) == (y > 0.0);
    if a == 0.0 || a == f32::INFINITY || y.abs() == f32::INFINITY {
        value = if grows { f32::INFINITY } else { 0.0 };
    }
    if a == 1.0 {
        value = 1.0;
    }
    if x.is_sign_negative() && is_odd {
        value = -value;
    }
    if (x < 0.0 && a < f32::INFINITY && !is_integer) || x.is_nan() || y.is_nan() {
        value = f32::NAN;
    }
    if y == 0.0 || x == 1.0 { 1.0 } else { value }
}

/// √(x² + y²), at most 1 ulp, without intermediate overflow. It is infinite where x or y is, even
/// if the other is NaN.
#[inline(always)]
pub fn hypot(x: f32, y: f32) -> f32 {
    const BIG: f32 = 1.152_921_5e18; // 2^60
    const SMALL: f32 = 8.673_617_4e-19; // 2^-60
    let (a, b) = (x.abs(), y.abs());
    let (large, small) = if a > b { (a, b) } else { (b, a) };
    let (down, up) = if large > BIG {
        (SMALL * 0.0625, BIG * 16.0)
    } else if large < SMALL {
        (BIG * 67_108_864.0, SMALL / 67_108_864.0)
    } else {
        (1.0, 1.0)
    };
    let (large, small) = (large * down, small * down);
    let square = mul_rn(small, small);
    let value = sqrt(fma(large, large, square)) * up;
    if a == f32::INFINITY || b == f32::INFINITY {
        f32::INFINITY
    } else if a.is_nan() || b.is_nan() {
        f32::NAN
    } else {
        value
    }
}

/// x - trunc(x / y) y, exact, with the sign of x. NaN where y is 0 or x is infinite.
#[inline(always)]
pub fn fmod(x: f32, y: f32) -> f32 {
    let (a, b) = (x.abs().to_bits(), y.abs().to_bits());
    if a >= 0x7f80_0000 || b > 0x7f80_0000 || b == 0 {
        return f32::NAN;
    }
    if a < b {
        return x;
    }
    let (mut rest, exponent_a) = parts(a);
    let (divisor, exponent_b) = parts(b);
    let mut left = exponent_a - exponent_b; // not negative, as a ≥ b
    rest %= divisor;
    // Each iteration produces eight bits of the quotient: 24 + 8 bits fit in a u32.
    while left > 0 {
        let step = if left < 8 { left } else { 8 };
        rest = (rest << step) % divisor;
        left -= step;
    }
    // rest · 2^exponent_b is exact: rest has at most 24 bits, and its last place is that of y.
    let power = |exponent: i32| f32::from_bits(((exponent + 127) as u32) << 23);
    let half = exponent_b / 2;
    let value = mul_rn(rest as f32 * power(half), power(exponent_b - half));
    value.copysign(x)
}

/// The significand and exponent of a magnitude, given its bits: significand · 2^exponent. The
/// exponent is at least -149, that of the last place of subnormals.
#[inline(always)]
fn parts(bits: u32) -> (u32, i32) {
    let field = (bits >> 23) as i32;
    if field == 0 {
        (bits, -149)
    } else {
        ((bits & 0x007f_ffff) | 0x0080_0000, field - 150)
    }
}

/// x - floor(x / y) y, with the sign of y, as the remainder of numpy and Python; at most 0.5 ulp.
/// NaN where y is 0 or x is infinite.
#[inline(always)]
pub fn remainder(x: f32, y: f32) -> f32 {
    let rest = fmod(x, y);
    if rest == 0.0 {
        rest.copysign(y)
    } else if (rest < 0.0) != (y < 0.0) {
        rest + y
    } else {
        rest
    }
}
