//! `cvt` between integers, f64, f32, f16, bf16 and tf32. Integer to integer is in
//! [`int`](super::int), fp8 in [`fp8`](super::fp8).
//!
//! A 16-bit float converts to an integer, or to a wider float, by way of
//! [`Half::widen`].

use super::fp16::{self, Bf16, F16, Half};
use super::fp32;
use super::fp64;
use super::int::Integer;
use super::round::{Exact, Format, Number};
use super::{FloatMode, Rounding};

/// f32 or a narrower float to integer. A value out of range gives the nearest end of the range. NaN
/// gives 0, but for 64-bit integers only the top bit set. With `ftz`, subnormals count as zero.
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

/// f64 to integer. A value out of range gives the nearest end of the range. NaN gives only the top
/// bit set.
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

/// f32 to f32; changes a value only with `.ftz` or `.sat`.
#[inline(always)]
pub fn f32_to_f32(a: f32, mode: FloatMode) -> f32 {
    let a = if mode.ftz {
        fp32::canonical(fp32::flush(a))
    } else {
        a
    };
    if mode.saturate { fp32::saturate(a) } else { a }
}

/// f32 to f64: exact. A NaN keeps its sign and payload and is made quiet; under `.ftz` it first
/// becomes [`fp32::NAN`].
#[inline(always)]
pub fn f32_to_f64(a: f32, mode: FloatMode) -> f64 {
    let a = f32_to_f32(a, mode);
    if a.is_nan() {
        widen_nan(u64::from(a.to_bits()), Format::F32)
    } else {
        f64::from(a)
    }
}

/// f16 to f64: exact. A NaN keeps its sign and payload and is made quiet.
#[inline(always)]
pub fn f16_to_f64(a: u16, mode: FloatMode) -> f64 {
    let wide = F16::widen(a);
    if mode.saturate {
        f64::from(fp32::saturate(wide))
    } else if wide.is_nan() {
        widen_nan(u64::from(a), Format::F16)
    } else {
        f64::from(wide)
    }
}

/// bf16 to f32: exact, except that `.ftz` flushes subnormals to zero and turns NaN into
/// [`fp32::NAN`], and that `.sat` clamps.
#[inline(always)]
pub fn bf16_to_f32(a: u16, mode: FloatMode) -> f32 {
    let wide = Bf16::widen(a);
    f32_to_f32(wide, mode)
}

/// bf16 to f64: exact. A NaN keeps its sign and payload and is made quiet.
#[inline(always)]
pub fn bf16_to_f64(a: u16, mode: FloatMode) -> f64 {
    f32_to_f64(Bf16::widen(a), mode)
}

/// The f64 NaN with the sign and payload of a NaN of a narrower format.
#[inline(always)]
fn widen_nan(bits: u64, from: Format) -> f64 {
    let sign = (bits & from.sign_bit()) << (63 - from.sign_bit().trailing_zeros());
    let payload = (bits & (from.sign_bit() - 1)) << (53 - from.precision);
    f64::from_bits(sign | 0x7ff8_0000_0000_0000 | (payload & 0x000f_ffff_ffff_ffff))
}

/// The NaN of a narrower format with the sign and the upper payload of an f64 NaN, made quiet.
#[inline(always)]
fn narrow_nan(a: f64, to: Format) -> u64 {
    let sign = (a.to_bits() >> 63) << to.sign_bit().trailing_zeros();
    let payload = (a.to_bits() & 0x000f_ffff_ffff_ffff) >> (53 - to.precision);
    sign | to.past_largest() | (1 << (to.precision - 2)) | payload
}

/// f64 to f32 with any modifiers. A NaN keeps its sign and the upper payload bits and is made
/// quiet.
#[inline(always)]
pub fn f64_to_f32(a: f64, mode: FloatMode) -> f32 {
    let number = fp32::narrow(a, mode.rounding);
    let number = if mode.ftz {
        fp32::flush(number)
    } else {
        number
    };
    let nan = f32::from_bits(narrow_nan(a, Format::F32) as u32);
    let result = if a.is_nan() { nan } else { number };
    if mode.saturate {
        fp32::saturate(result)
    } else {
        result
    }
}

/// f32 to f16 or bf16. With `satfinite`, overflow gives the largest finite number. NaN gives
/// [`fp16::NAN`]. For bf16, `.ftz` flushes f32 subnormals to zero, although bf16 could represent
/// them. For f16 it changes nothing: f32 subnormals take part in rounding, and f16 subnormals are
/// kept.
#[inline(always)]
pub fn f32_to_half<H: Half>(a: f32, mode: FloatMode, satfinite: bool) -> u16 {
    let same_exponents = H::FORMAT.exponent_bits == Format::F32.exponent_bits;
    let a = if mode.ftz && same_exponents {
        fp32::flush(a)
    } else {
        a
    };
    let bits = if mode.rounding == Rounding::NearestEven && !satfinite {
        H::narrow(a)
    } else {
        let bits = u64::from(a.to_bits());
        reformat(Format::F32, bits, H::FORMAT, mode.rounding, satfinite) as u16
    };
    if mode.saturate {
        fp16::saturate::<H>(bits)
    } else {
        bits
    }
}

/// f64 to f16 or bf16: one rounding. A NaN keeps its sign and the upper payload bits and is made
/// quiet.
#[inline(always)]
pub fn f64_to_half<H: Half>(a: f64, mode: FloatMode) -> u16 {
    let bits = if a.is_nan() {
        narrow_nan(a, H::FORMAT) as u16
    } else if mode.rounding == Rounding::NearestEven {
        fp16::narrow_f64::<H>(a)
    } else {
        reformat(Format::F64, a.to_bits(), H::FORMAT, mode.rounding, false) as u16
    };
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

/// `cvt.rn.tf32.f32`, `cvt.rz.tf32.f32`: an f32 whose low 13 bits are zero. NaN gives `0x7fffe000`.
/// With `relu`, negative numbers become 0.
#[inline(always)]
pub fn f32_to_tf32(a: f32, rounding: Rounding, relu: bool) -> u32 {
    let bits = reformat(
        Format::F32,
        u64::from(a.to_bits()),
        Format::TF32,
        rounding,
        false,
    );
    if relu && a.is_sign_negative() && !a.is_nan() {
        0
    } else {
        (bits as u32) << 13
    }
}

/// `cvt.rna.tf32.f32`: to nearest, ties away from zero. Of infinities and NaN the low 13 bits are
/// cleared. With `satfinite`, a result with the topmost exponent is then decremented by one tf32
/// ulp.
#[inline(always)]
pub fn f32_to_tf32_away(a: f32, satfinite: bool) -> u32 {
    const TOP_EXPONENT: u32 = 0x7f80_0000;
    let bits = a.to_bits();
    let is_special = |bits: u32| bits & TOP_EXPONENT == TOP_EXPONENT;
    let half = if is_special(bits) { 0 } else { 0x1000 };
    let rounded = (bits + half) & !0x1fff;
    if satfinite && is_special(rounded) {
        rounded - 0x2000
    } else {
        rounded
    }
}

/// Converts a value from one format to another with one rounding. NaN gives all bits below the sign
/// set.
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
