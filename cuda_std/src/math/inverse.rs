//! Inverse trigonometric functions. Coefficients are weighted minimax fits made for this file.

use super::{fma, horner, sqrt};

const FRAC_PI_2: f32 = core::f32::consts::FRAC_PI_2;
/// π/2 - FRAC_PI_2.
const FRAC_PI_2_LO: f32 = -4.371_138_8e-8;

/// atan a for 0 ≤ a ≤ 1.
#[inline(always)]
fn atan_unit(a: f32) -> f32 {
    const Q: [f32; 9] = [
        -0.333_333_02,
        0.199_986_38,
        -0.142_652_45,
        0.109_575_72,
        -0.084_194_46,
        0.058_234_32,
        -0.031_455_47,
        0.011_064_315,
        -0.001_827_184_7,
    ];
    let z = a * a;
    fma(z * horner(z, Q), a, a)
}

/// Arc tangent, at most 2.5 ulp.
#[inline(always)]
pub fn atan(x: f32) -> f32 {
    let a = x.abs();
    let value = if a > 1.0 {
        let t = atan_unit(1.0 / a);
        (FRAC_PI_2 - t) + FRAC_PI_2_LO
    } else {
        atan_unit(a)
    };
    value.copysign(x)
}

/// The angle of the point (x, y), in -π..π, at most 3 ulp. The signs of zeros count as IEEE 754
/// specifies.
#[inline(always)]
pub fn atan2(y: f32, x: f32) -> f32 {
    const PI: f32 = core::f32::consts::PI;
    const PI_LO: f32 = -8.742_277_7e-8;
    let (a, b) = (x.abs(), y.abs());
    if a.is_nan() || b.is_nan() {
        return f32::NAN;
    }
    let is_steep = b > a;
    let (small, large) = if is_steep { (a, b) } else { (b, a) };
    // Where 0/0 or inf/inf would be NaN, the angle is 0 or π/4.
    let ratio = if small == large {
        if small == 0.0 { 0.0 } else { 1.0 }
    } else {
        small / large
    };
    let t = atan_unit(ratio);
    let t = if is_steep {
        (FRAC_PI_2 - t) + FRAC_PI_2_LO
    } else {
        t
    };
    let t = if x.is_sign_negative() {
        (PI - t) + PI_LO
    } else {
        t
    };
    t.copysign(y)
}

/// asin a for 0 ≤ a ≤ ½.
#[inline(always)]
fn asin_half(a: f32) -> f32 {
    const Q: [f32; 6] = [
        0.166_666_6,
        0.075_005_11,
        0.044_515_72,
        0.031_817_61,
        0.014_402_615,
        0.037_565_19,
    ];
    let z = a * a;
    fma(z * horner(z, Q), a, a)
}

/// Arc sine, at most 3 ulp; NaN for |x| above 1.
#[inline(always)]
pub fn asin(x: f32) -> f32 {
    let a = x.abs();
    let value = if a > 0.5 {
        let t = asin_half(sqrt(0.5 * (1.0 - a)));
        fma(-2.0, t, FRAC_PI_2) + FRAC_PI_2_LO
    } else {
        asin_half(a)
    };
    value.copysign(x)
}

/// Arc cosine, at most 3 ulp; NaN for |x| above 1.
#[inline(always)]
pub fn acos(x: f32) -> f32 {
    let a = x.abs();
    if a > 0.5 {
        let t = 2.0 * asin_half(sqrt(0.5 * (1.0 - a)));
        if x > 0.0 {
            t
        } else {
            2.0 * FRAC_PI_2 - t + 2.0 * FRAC_PI_2_LO
        }
    } else {
        let t = asin_half(a).copysign(x);
        FRAC_PI_2 - (t - FRAC_PI_2_LO)
    }
}
