//! `cvt` between integers, f64, f32, f16, bf16 and tf32. Integer to integer is in
//! [`int`](super::int), fp8 in [`fp8`](super::fp8).
//!
//! A 16-bit float converts to an integer, or to a wider float, by way of
//! [`Half::widen`](super::fp16::Half::widen).

use super::fp16::{self, Half};
use super::fp32;
use super::fp64;
use super::int::Integer;
use super::round::{Exact, Format, Number};
use super::{FloatMode, Rounding};

/// Float to integer from f32 and narrower. Out of range: the nearest end of the range. NaN: 0, but
/// the lone top bit for 64-bit integers. With `ftz`, subnormals count as zero.
#[inline(always)]
pub fn f32_to_int<D: Integer>(a: f32, rounding: Rounding, ftz: bool) -> D {
    let a = if ftz { fp32::flush(a) } else { a };
    let clamped = D::clamp_f32(fp32::round_to_integer(rounding, a));
    if D::BITS == 64 && a.is_nan() {
        top_bit()
    } else {
        clamped
    }
}

/// Float to integer from f64. Out of range: the nearest end of the range. NaN: the lone top bit.
#[inline(always)]
pub fn f64_to_int<D: Integer>(a: f64, rounding: Rounding) -> D {
    let clamped = D::clamp_f64(fp64::round_to_integer(rounding, a));
    if a.is_nan() { top_bit() } else { clamped }
}

#[inline(always)]
fn top_bit<D: Integer>() -> D {
    D::truncate(1 << (D::BITS - 1))
}

/// Integer to f32.
#[inline(always)]
pub fn int_to_f32<S: Integer>(a: S, rounding: Rounding) -> f32 {
    if rounding == Rounding::NearestEven {
        a.nearest_f32()
    } else if S::BITS <= 32 {
        fp32::narrow(a.nearest_f64(), rounding)
    } else {
        let exact = Exact::from_integer(a.to_i128());
        f32::from_bits(Format::F32.round(exact, rounding, false) as u32)
    }
}

/// Integer to f64.
#[inline(always)]
pub fn int_to_f64<S: Integer>(a: S, rounding: Rounding) -> f64 {
    if rounding == Rounding::NearestEven || S::BITS <= 32 {
        a.nearest_f64()
    } else {
        Exact::from_integer(a.to_i128()).to_f64(rounding)
    }
}

/// Integer to f16 or bf16.
#[inline]
pub fn int_to_half<S: Integer, H: Half>(a: S, rounding: Rounding) -> u16 {
    H::FORMAT.round(Exact::from_integer(a.to_i128()), rounding, false) as u16
}

/// f32 to f64: exact. NaN gives the f64 NaN of the same bits, made quiet.
#[inline(always)]
pub fn f32_to_f64(a: f32, mode: FloatMode) -> f64 {
    let a = if mode.ftz { fp32::flush(a) } else { a };
    let a = if mode.saturate { fp32::saturate(a) } else { a };
    f64::from(a)
}

/// f64 to f32 with any modifiers.
#[inline(always)]
pub fn f64_to_f32(a: f64, mode: FloatMode) -> f32 {
    let result = fp32::narrow(a, mode.rounding);
    let result = if mode.ftz {
        fp32::flush(result)
    } else {
        result
    };
    if mode.saturate {
        fp32::saturate(result)
    } else {
        result
    }
}

/// f32 to f16 or bf16 with any modifiers; `satfinite` makes overflow the largest number.
#[inline(always)]
pub fn f32_to_half<H: Half>(a: f32, mode: FloatMode, satfinite: bool) -> u16 {
    let a = if mode.ftz { fp32::flush(a) } else { a };
    let bits = if mode.rounding == Rounding::NearestEven && !satfinite {
        H::narrow(a)
    } else {
        fp16::narrow_with::<H>(f64::from(a), mode.rounding, satfinite)
    };
    if mode.saturate {
        fp16::saturate::<H>(bits)
    } else {
        bits
    }
}

/// f64 to f16 or bf16: one rounding.
#[inline(always)]
pub fn f64_to_half<H: Half>(a: f64, mode: FloatMode) -> u16 {
    let bits = fp16::narrow_with::<H>(a, mode.rounding, false);
    if mode.saturate {
        fp16::saturate::<H>(bits)
    } else {
        bits
    }
}

/// `cvt.f16x2.f32` and `cvt.bf16x2.f32`: `a` goes to the upper half, `b` to the lower.
#[inline(always)]
pub fn f32_to_half_x2<H: Half>(
    a: f32,
    b: f32,
    mode: FloatMode,
    relu: bool,
    satfinite: bool,
) -> u32 {
    let half = |x: f32| {
        let bits = f32_to_half::<H>(x, mode, satfinite);
        u32::from(if relu { fp16::relu::<H>(bits) } else { bits })
    };
    half(a) << 16 | half(b)
}

/// `cvt.rna.tf32.f32`, `cvt.rn.tf32.f32`, `cvt.rz.tf32.f32`: an f32 whose low 13 bits are zero.
/// NaN gives [`fp32::NAN`].
#[inline(always)]
pub fn f32_to_tf32(a: f32, rounding: Rounding, relu: bool, satfinite: bool) -> u32 {
    let bits = reformat(
        Format::F32,
        u64::from(a.to_bits()),
        Format::TF32,
        rounding,
        satfinite,
    ) as u32;
    if a.is_nan() {
        fp32::NAN.to_bits()
    } else if relu && a.is_sign_negative() {
        0
    } else {
        bits << 13
    }
}

/// A value of one format in another, by one rounding. NaN gives all ones below the sign.
#[inline]
#[must_use]
pub fn reformat(from: Format, bits: u64, to: Format, rounding: Rounding, satfinite: bool) -> u64 {
    match from.unpack(bits) {
        Number::Nan => to.sign_bit() - 1,
        Number::Finite(exact) => to.round(exact, rounding, satfinite),
        Number::Infinite { negative } => {
            let sign = if negative { to.sign_bit() } else { 0 };
            sign | (to.past_largest() - u64::from(satfinite || !to.has_infinity))
        }
    }
}
