//! The hyperbolic tangent, the logistic function and activation functions of f64.
//!
//! The forms are those of [`super::super`] for f32. An exponential stays a number between ½ and 2 and
//! a power of two until the product with its factor, so that tiny results are rounded once.

use super::{INVERSE_FACTORIALS, exp, fma, horner, reduced, scaled};

/// An exponential of something not above 0: `p · 2^k`.
#[derive(Clone, Copy)]
struct Power {
    p: f64,
    k: i64,
}

impl Power {
    /// e^-(a + low) for a ≥ 0 and a tiny `low`. From 800 on it is e^-800, of which nothing is left in
    /// a product with a number below 1e24.
    #[inline(always)]
    fn negative(a: f64, low: f64) -> Self {
        let (r, k) = reduced(if a > 800.0 { -800.0 } else { -a });
        let p = horner(r, INVERSE_FACTORIALS);
        Self {
            p: fma(-p, low, p),
            k,
        }
    }

    /// Its product with a factor.
    #[inline(always)]
    fn times(self, factor: f64) -> f64 {
        scaled(factor * self.p, self.k)
    }
}

/// Hyperbolic tangent, at most 2 ulp.
#[inline(always)]
pub fn tanh(x: f64) -> f64 {
    // Beyond 20 the result is 1.
    let a = x.abs();
    let a = if a > 20.0 { 20.0 } else { a };
    let (r, k) = reduced(2.0 * a);
    // e^r - 1 = r + r² (1/2 + r/6 + ..), times 2^k.
    let terms = core::array::from_fn::<f64, 12, _>(|i| INVERSE_FACTORIALS[i + 2]);
    let p = fma(r * r, horner(r, terms), r);
    let power = f64::from_bits((k.wrapping_add(1023) as u64) << 52);
    let e = fma(p, power, power - 1.0);
    (e / (e + 2.0)).copysign(x)
}

/// 1 / (1 + e^-x), at most 3 ulp.
#[inline(always)]
pub fn sigmoid(x: f64) -> f64 {
    let e = exp(-x.abs());
    let numerator = if x < 0.0 { e } else { 1.0 };
    numerator / (1.0 + e)
}

/// x / (1 + e^-v) for a v with the sign of x, given e^-|v|.
#[inline(always)]
fn gate(x: f64, power: Power) -> f64 {
    let numerator = if x < 0.0 { power.times(x) } else { x };
    numerator / (1.0 + power.times(1.0))
}

/// x · sigmoid(x), at most 5 ulp; 0 at -inf.
#[inline(always)]
pub fn silu(x: f64) -> f64 {
    let power = Power::negative(x.abs(), 0.0);
    gate(if x < -800.0 { -800.0 } else { x }, power)
}

/// 0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³))), at most 6 ulp, also where the result is tiny; 0 at
/// -inf.
#[inline(always)]
pub fn gelu_tanh(x: f64) -> f64 {
    // v = a (C0 + C1 a²) with a = |x|. It is a sum of two f64, because an error relative to v becomes
    // one |v| times as large in the exponential.
    const C0: f64 = 1.595_769_121_605_730_8; // 2·√(2/π)
    const C0_LOW: f64 = -9.969_308_809_110_92e-17;
    const C1: f64 = 0.071_354_816_272_600_25; // 0.044715 · C0
    const C1_LOW: f64 = -6.175_149_918_155_315e-19;
    let a = x.abs();
    let a = if a > 30.0 { 30.0 } else { a };
    let square = a * a;
    let square_low = fma(a, a, -square);
    let cubic = C1 * square;
    let cubic_low = fma(C1, square, -cubic);
    let sum = cubic + C0;
    let back = sum - C0;
    let rounding = (C0 - (sum - back)) + (cubic - back);
    let rest = rounding + cubic_low + C0_LOW;
    let sum_low = fma(C1, square_low, fma(C1_LOW, square, rest));
    let v = a * sum;
    let low = fma(a, sum_low, fma(a, sum, -v));
    let power = Power::negative(v, low);
    gate(if x < -30.0 { -30.0 } else { x }, power)
}

/// x Φ(x), Φ the distribution function of the normal distribution: at most 5 ulp, also where the
/// result is tiny; 0 at -inf.
#[inline(always)]
pub fn gelu(x: f64) -> f64 {
    /// The upper tail beyond a, divided by exp(-a²/2) · 2 / (a + 4), as a polynomial in
    /// t = (a - 4) / (a + 4). It interpolates at Chebyshev's nodes for a up to 40.
    const R: [f64; 23] = [
        0.377_642_565_207_875_76,
        -0.303_948_320_985_945_9,
        0.193_568_700_371_109_68,
        -0.093_260_928_979_846_7,
        0.030_198_287_445_338_326,
        -0.003_770_094_482_812_508_6,
        -0.001_739_846_180_902_029_9,
        0.000_815_409_221_240_294_3,
        6.667_212_489_179_214e-5,
        -0.000_115_547_412_074_985_53,
        -9.539_217_029_624_353e-7,
        1.757_210_748_412_89e-5,
        3.574_654_162_739_200_6e-7,
        -2.959_506_593_077_022e-6,
        -3.124_953_497_684_892_6e-7,
        5.100_356_696_284_233e-7,
        1.317_715_528_034_222_8e-7,
        -7.730_984_095_610_96e-8,
        -3.817_356_421_720_543e-8,
        7.421_195_036_375_672e-9,
        6.988_264_077_975_410_5e-9,
        -5.076_478_588_248_09e-12,
        -4.995_312_080_011_638e-10,
    ];
    let a = x.abs();
    let a = if a > 40.0 { 40.0 } else { a };
    let v = 1.0 / fma(a, 0.5, 2.0);
    let r = v * horner(fma(a, v, -1.0), R);
    let product = 0.5 * a * a;
    let power = Power::negative(product, fma(0.5 * a, a, -product));
    if x < 0.0 {
        power.times(-a * r)
    } else {
        x - power.times(a * r)
    }
}

#[cfg(test)]
mod tests;
