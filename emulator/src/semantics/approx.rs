//! The instructions whose result PTX leaves to the implementation: `.approx` and `div.full`.
//!
//! Each computes in f64 and rounds once, so the results are more exact than the hardware's and
//! their bits differ from it; special values are the hardware's. Not vectorised: tens of
//! nanoseconds. The largest differences from an H200, over 16,384 values each (pairs for `div`:
//! 4,096; 16-bit floats: all):
//!
//! | instruction | difference |
//! |---|---|
//! | `rcp sqrt rsqrt` of f32 | 1 ulp |
//! | `div.approx div.full` | 2 ulp |
//! | `ex2` of f32 | 2 ulp |
//! | `lg2` | 2^-22.4 absolute from 0.5 to 2, 2 ulp elsewhere |
//! | `sin cos` | 2^-21.5 absolute |
//! | `tanh` of f32 | 2^-16.6 relative |
//! | `ex2 tanh` of f16 and bf16 | 1 ulp |
//! | `rcp.approx.ftz rsqrt.approx.ftz` of f64 | 2^-20 relative |
//! | `rsqrt.approx` of f64 | 1 ulp |

use super::fp16::{Half, narrow_f64};
use super::fp32::{self, flush, narrow};
use super::{FloatMode, Rounding};

/// 1 / (2 pi), as hardware has it: an angle is multiplied by it in f32, rounded toward zero.
const TURNS_PER_RADIAN: f32 = 0.159_154_94;

#[inline(always)]
fn input(a: f32, ftz: bool) -> f64 {
    f64::from(if ftz { flush(a) } else { a })
}

#[inline(always)]
fn output(value: f64, ftz: bool) -> f32 {
    let result = narrow(value, Rounding::NearestEven);
    if ftz { flush(result) } else { result }
}

/// `rcp.approx`
#[inline]
pub fn rcp(a: f32, ftz: bool) -> f32 {
    output(1.0 / input(a, ftz), ftz)
}

/// `sqrt.approx`
#[inline]
pub fn sqrt(a: f32, ftz: bool) -> f32 {
    output(input(a, ftz).sqrt(), ftz)
}

/// `rsqrt.approx`; of `-0`: `-inf`.
#[inline]
pub fn rsqrt(a: f32, ftz: bool) -> f32 {
    output(1.0 / input(a, ftz).sqrt(), ftz)
}

/// `lg2.approx`
#[inline]
pub fn lg2(a: f32, ftz: bool) -> f32 {
    output(input(a, ftz).log2(), ftz)
}

/// `ex2.approx`
#[inline]
pub fn ex2(a: f32, ftz: bool) -> f32 {
    output(input(a, ftz).exp2(), ftz)
}

/// `tanh.approx`
#[inline]
pub fn tanh(a: f32) -> f32 {
    output(f64::from(a).tanh(), false)
}

/// The angle in turns, without the whole turns; NaN for infinities.
#[inline(always)]
fn turns(a: f32) -> f64 {
    let mode = FloatMode {
        rounding: Rounding::TowardZero,
        ftz: true,
        saturate: false,
    };
    let turns = f64::from(fp32::mul_with(mode, a, TURNS_PER_RADIAN));
    (turns % 1.0).copysign(turns)
}

/// `sin.approx`. Hardware reduces the angle in f32, so that for large angles no significant bit is
/// left; this loses the same bits. `.ftz` changes nothing: angles that small give zero either way.
#[inline]
pub fn sin(a: f32) -> f32 {
    output((turns(a) * core::f64::consts::TAU).sin(), true)
}

/// `cos.approx`, which loses the bits of large angles as [`sin`] does.
#[inline]
pub fn cos(a: f32) -> f32 {
    output((turns(a) * core::f64::consts::TAU).cos(), true)
}

/// `div.approx`: `a` times the reciprocal of `b`, which is 0 if `b` is beyond 2^126 in magnitude.
#[inline]
pub fn div(a: f32, b: f32, ftz: bool) -> f32 {
    let reciprocal = 1.0 / input(b, ftz);
    let vanishes = reciprocal.abs() < f64::from(f32::MIN_POSITIVE);
    let reciprocal = if vanishes {
        0.0_f64.copysign(reciprocal)
    } else {
        reciprocal
    };
    output(input(a, ftz) * reciprocal, ftz)
}

/// `div.full`
#[inline]
pub fn div_full(a: f32, b: f32, ftz: bool) -> f32 {
    output(input(a, ftz) / input(b, ftz), ftz)
}

/// The NaN of the f64 approximations that compute on upper halves.
const NAN_UPPER_HALF: u64 = 0x7fff_ffff_0000_0000;

/// Keeps the upper 32 bits: all that those approximations read and write.
#[inline(always)]
fn upper_half(a: f64) -> f64 {
    let bits = a.to_bits() & 0xffff_ffff_0000_0000;
    let is_nan = bits & !(1 << 63) > 0x7ff0_0000_0000_0000;
    f64::from_bits(if is_nan { NAN_UPPER_HALF } else { bits })
}

#[inline(always)]
fn flush_f64(a: f64) -> f64 {
    if a.abs() < f64::MIN_POSITIVE {
        0.0_f64.copysign(a)
    } else {
        a
    }
}

/// `rcp.approx.ftz.f64`
#[inline]
pub fn rcp_f64(a: f64) -> f64 {
    upper_half(flush_f64(1.0 / flush_f64(upper_half(a))))
}

/// `rsqrt.approx.ftz.f64`
#[inline]
pub fn rsqrt_f64_ftz(a: f64) -> f64 {
    upper_half(1.0 / flush_f64(upper_half(a)).sqrt())
}

/// `rsqrt.approx.f64`
#[inline]
pub fn rsqrt_f64(a: f64) -> f64 {
    super::fp64::rcp(super::fp64::sqrt(a))
}

/// `ex2.approx` of f16 or bf16; with `ftz`, subnormal inputs and results become zero.
#[inline]
pub fn ex2_half<H: Half>(a: u16, ftz: bool) -> u16 {
    let a = if ftz { super::fp16::flush::<H>(a) } else { a };
    let result = narrow_f64::<H>(f64::from(H::widen(a)).exp2());
    if ftz {
        super::fp16::flush::<H>(result)
    } else {
        result
    }
}

/// `tanh.approx` of f16 or bf16.
#[inline]
pub fn tanh_half<H: Half>(a: u16) -> u16 {
    narrow_f64::<H>(f64::from(H::widen(a)).tanh())
}
