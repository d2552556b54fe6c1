//! e4m3 and e5m2: conversions, always in pairs.
//!
//! e4m3 has 4 exponent bits, largest value 448, NaN `0x7f` and `0xff`, and no infinity. e5m2 is the
//! upper byte of an f16, largest value 57344.

use super::Rounding;
use super::cvt::reformat;
use super::fp16::{self, F16, Half};
use super::round::Format;

/// An 8-bit float format: [`Format::E4M3`] or [`Format::E5M2`].
pub type Fp8 = Format;

/// Rounds an f32 to fp8, to nearest even; overflow and infinities give the largest number
/// (`.satfinite`, which PTX requires here). NaN gives `0x7f`. With `relu`, negative numbers become
/// 0.
#[inline]
#[must_use]
pub fn from_f32(to: Fp8, a: f32, relu: bool) -> u8 {
    if relu && a.is_sign_negative() && !a.is_nan() {
        return 0;
    }
    reformat(
        Format::F32,
        u64::from(a.to_bits()),
        to,
        Rounding::NearestEven,
        true,
    ) as u8
}

/// `cvt.rn.satfinite.e4m3x2.f32` and `.e5m2x2.f32`: `a` goes to the upper byte.
#[inline]
#[must_use]
pub fn from_f32_x2(to: Fp8, a: f32, b: f32, relu: bool) -> u16 {
    u16::from(from_f32(to, a, relu)) << 8 | u16::from(from_f32(to, b, relu))
}

/// `cvt.rn.satfinite.e4m3x2.f16x2` and `.e5m2x2.f16x2`: the upper half goes to the upper byte.
#[inline]
#[must_use]
pub fn from_f16x2(to: Fp8, a: u32, relu: bool) -> u16 {
    from_f32_x2(to, F16::widen((a >> 16) as u16), F16::widen(a as u16), relu)
}

/// One fp8 value as f16: exact.
#[inline]
#[must_use]
pub fn to_f16(from: Fp8, a: u8, relu: bool) -> u16 {
    let bits = reformat(
        from,
        u64::from(a),
        Format::F16,
        Rounding::NearestEven,
        false,
    ) as u16;
    if relu { fp16::relu::<F16>(bits) } else { bits }
}

/// `cvt.rn.f16x2.e4m3x2` and `.e5m2x2`: the upper byte goes to the upper half.
#[inline]
#[must_use]
pub fn to_f16x2(from: Fp8, a: u16, relu: bool) -> u32 {
    u32::from(to_f16(from, (a >> 8) as u8, relu)) << 16 | u32::from(to_f16(from, a as u8, relu))
}
