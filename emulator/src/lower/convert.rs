//! `cvt`.
//!
//! Registers may be wider than the types of a `cvt`. The conversion itself works on registers of
//! the types' own widths (16 bits for bytes). [`narrow`] and [`extend`] convert between them and
//! the registers of the operands.

use ptx_syntax::ast::ScalarType as T;

use super::mods::Mods;
use super::recipe::{Recipe, op, typed};
use crate::error::LoadError;
use crate::program::Width;
use crate::semantics::fp16::{self, Bf16, F16, Half};
use crate::semantics::round::Format;
use crate::semantics::{FloatMode, cvt, fp8, int, packed};

/// `.relu` in [`Args::imm`](crate::exec::kernel::Args::imm).
const RELU: u32 = 1;
/// `.satfinite`
const SATFINITE: u32 = 2;

/// The width of the smallest register that holds a type.
pub(super) fn natural(ty: T) -> Option<Width> {
    Some(match ty.bytes() {
        1 | 2 => Width::B16,
        4 => Width::B32,
        8 => Width::B64,
        _ => return None,
    })
}

/// Truncates a register to a narrower one.
pub(super) fn narrow(from: Width, to: Width) -> Option<Recipe> {
    Some(match (from, to) {
        (Width::B32, Width::B16) => op!(|x, a: u32| -> u16 { a as u16 }),
        (Width::B64, Width::B16) => op!(|x, a: u64| -> u16 { a as u16 }),
        (Width::B64, Width::B32) => op!(|x, a: u64| -> u32 { a as u32 }),
        _ => return None,
    })
}

/// Extends a result to a wider register: sign-extends if the type is signed.
pub(super) fn extend(from: Width, to: Width, signed: bool) -> Option<Recipe> {
    Some(match (from, to, signed) {
        (Width::B16, Width::B32, false) => op!(|x, a: u16| -> u32 { u32::from(a) }),
        (Width::B16, Width::B32, true) => op!(|x, a: i16| -> i32 { i32::from(a) }),
        (Width::B16, Width::B64, false) => op!(|x, a: u16| -> u64 { u64::from(a) }),
        (Width::B16, Width::B64, true) => op!(|x, a: i16| -> i64 { i64::from(a) }),
        (Width::B32, Width::B64, false) => op!(|x, a: u32| -> u64 { u64::from(a) }),
        (Width::B32, Width::B64, true) => op!(|x, a: i32| -> i64 { i64::from(a) }),
        _ => return None,
    })
}

/// The conversion between two types.
pub(super) fn recipe(mods: &mut Mods<'_>, to: T, from: T) -> Result<Recipe, LoadError> {
    let flags = if mods.take("relu") { RELU } else { 0 }
        | if mods.take("satfinite") { SATFINITE } else { 0 };
    let has_rounding = mods
        .rest()
        .iter()
        .any(|word| crate::semantics::Rounding::from_modifier(word).is_some());
    let integral = mods
        .rest()
        .iter()
        .any(|word| matches!(*word, "rni" | "rzi" | "rmi" | "rpi"));
    let mode = mods.float_mode();
    let recipe = if is_integer(from) && is_integer(to) {
        integer_to_integer(to, from, mode.saturate)
    } else if is_integer(to) {
        float_to_integer(to, from)
    } else if is_integer(from) {
        integer_to_float(to, from)
    } else if integral || (to == from && has_rounding) {
        to_integral(to, from)
    } else {
        float_to_float(to, from)
    };
    Ok(recipe
        .ok_or_else(|| mods.unsupported())?
        .float(mode)
        .imm(flags))
}

pub(super) fn is_integer(ty: T) -> bool {
    matches!(ty, T::U8 | T::U16 | T::U32 | T::U64) || is_signed(ty)
}

pub(super) fn is_signed(ty: T) -> bool {
    matches!(ty, T::S8 | T::S16 | T::S32 | T::S64)
}

macro_rules! any_integer {
    ($ty:expr, $name:ident => $e:expr) => {
        typed!(
            $ty,
            [U8: u8, S8: i8, U16: u16, S16: i16, U32: u32, S32: i32, U64: u64, S64: i64],
            $name => $e
        )
    };
}

fn integer_to_integer(to: T, from: T, saturate: bool) -> Option<Recipe> {
    if saturate {
        return any_integer!(from, S => any_integer!(to, D => {
            op!(|x, a: S| -> D { int::convert_sat(a) })
        }))?;
    }
    any_integer!(from, S => any_integer!(to, D => op!(|x, a: S| -> D { a as D })))?
}

fn float_to_integer(to: T, from: T) -> Option<Recipe> {
    any_integer!(to, D => Some(match from {
        T::F32 => op!(|x, a: f32| -> D { cvt::f32_to_int(a, x.float.rounding, x.float.ftz) }),
        T::F64 => op!(|x, a: f64| -> D { cvt::f64_to_int(a, x.float.rounding) }),
        T::F16 => op!(|x, a: u16| -> D {
            cvt::f32_to_int(F16::widen(a), x.float.rounding, false)
        }),
        T::Bf16 => op!(|x, a: u16| -> D {
            cvt::f32_to_int(Bf16::widen(a), x.float.rounding, false)
        }),
        _ => return None,
    }))?
}

fn integer_to_float(to: T, from: T) -> Option<Recipe> {
    any_integer!(from, S => Some(match to {
        T::F32 => op!(|x, a: S| -> f32 {
            clamp_unit(x.float, cvt::int_to_f32(a, x.float.rounding))
        }),
        T::F64 => op!(|x, a: S| -> f64 {
            clamp_unit_f64(x.float, cvt::int_to_f64(a, x.float.rounding))
        }),
        T::F16 => op!(|x, a: S| -> u16 {
            clamp_unit_half::<F16>(x.float, cvt::int_to_half::<S, F16>(a, x.float.rounding))
        }),
        T::Bf16 => op!(|x, a: S| -> u16 {
            clamp_unit_half::<Bf16>(x.float, cvt::int_to_half::<S, Bf16>(a, x.float.rounding))
        }),
        _ => return None,
    }))?
}

#[inline(always)]
fn clamp_unit(mode: FloatMode, a: f32) -> f32 {
    if mode.saturate {
        crate::semantics::fp32::saturate(a)
    } else {
        a
    }
}

#[inline(always)]
fn clamp_unit_f64(mode: FloatMode, a: f64) -> f64 {
    if mode.saturate {
        crate::semantics::fp64::saturate(a)
    } else {
        a
    }
}

#[inline(always)]
fn clamp_unit_half<H: Half>(mode: FloatMode, a: u16) -> u16 {
    if mode.saturate {
        fp16::saturate::<H>(a)
    } else {
        a
    }
}

/// Rounds to an integral value of the same type.
fn to_integral(to: T, from: T) -> Option<Recipe> {
    match (to, from) {
        (T::F32, T::F32) => Some(op!(|x, a: f32| -> f32 {
            let rounded = crate::semantics::fp32::round_to_integer(
                x.float.rounding,
                cvt::f32_to_f32(
                    a,
                    FloatMode {
                        saturate: false,
                        ..x.float
                    },
                ),
            );
            clamp_unit(x.float, rounded)
        })),
        (T::F64, T::F64) => Some(op!(|x, a: f64| -> f64 {
            let rounded = crate::semantics::fp64::round_to_integer(x.float.rounding, a);
            clamp_unit_f64(x.float, rounded)
        })),
        (T::F16, T::F16) => Some(op!(|x, a: u16| -> u16 {
            let rounded = crate::semantics::fp32::round_to_integer(x.float.rounding, F16::widen(a));
            clamp_unit_half::<F16>(x.float, F16::narrow(rounded))
        })),
        (T::Bf16, T::Bf16) => Some(op!(|x, a: u16| -> u16 {
            let rounded =
                crate::semantics::fp32::round_to_integer(x.float.rounding, Bf16::widen(a));
            clamp_unit_half::<Bf16>(x.float, Bf16::narrow(rounded))
        })),
        _ => None,
    }
}

fn float_to_float(to: T, from: T) -> Option<Recipe> {
    Some(match (to, from) {
        (T::F32, T::F32) => op!(|x, a: f32| -> f32 { cvt::f32_to_f32(a, x.float) }),
        (T::F64, T::F64) => op!(|x, a: f64| -> f64 { clamp_unit_f64(x.float, a) }),
        (T::F64, T::F32) => op!(|x, a: f32| -> f64 { cvt::f32_to_f64(a, x.float) }),
        (T::F64, T::F16) => op!(|x, a: u16| -> f64 { cvt::f16_to_f64(a, x.float) }),
        (T::F64, T::Bf16) => op!(|x, a: u16| -> f64 { cvt::bf16_to_f64(a, x.float) }),
        (T::F32, T::F64) => op!(|x, a: f64| -> f32 { cvt::f64_to_f32(a, x.float) }),
        (T::F32, T::F16) => op!(|x, a: u16| -> f32 { clamp_unit(x.float, F16::widen(a)) }),
        (T::F32, T::Bf16) => op!(|x, a: u16| -> f32 { cvt::bf16_to_f32(a, x.float) }),
        (T::F16, T::F16) => {
            op!(|x, a: u16| -> u16 { clamp_unit_half::<F16>(x.float, fp16::canonical::<F16>(a)) })
        }
        (T::Bf16, T::Bf16) => {
            op!(|x, a: u16| -> u16 { clamp_unit_half::<Bf16>(x.float, fp16::canonical::<Bf16>(a)) })
        }
        (T::F16, T::F64) => op!(|x, a: f64| -> u16 { cvt::f64_to_half::<F16>(a, x.float) }),
        (T::Bf16, T::F64) => op!(|x, a: f64| -> u16 { cvt::f64_to_half::<Bf16>(a, x.float) }),
        (T::F16, T::F32) => op!(|x, a: f32| -> u16 {
            relu_half::<F16>(
                x.imm,
                cvt::f32_to_half::<F16>(a, x.float, x.imm & SATFINITE != 0),
            )
        }),
        (T::Bf16, T::F32) => op!(|x, a: f32| -> u16 {
            relu_half::<Bf16>(
                x.imm,
                cvt::f32_to_half::<Bf16>(a, x.float, x.imm & SATFINITE != 0),
            )
        }),
        (T::F16, T::Bf16) => {
            op!(|x, a: u16| -> u16 { cvt::f32_to_half::<F16>(Bf16::widen(a), x.float, false) })
        }
        (T::Bf16, T::F16) => {
            op!(|x, a: u16| -> u16 { cvt::f32_to_half::<Bf16>(F16::widen(a), x.float, false) })
        }
        (T::F16x2, T::F32) => op!(|x, a: f32, b: f32| -> u32 {
            cvt::f32_to_half_x2::<F16>(a, b, x.float, x.imm & RELU != 0, x.imm & SATFINITE != 0)
        }),
        (T::Bf16x2, T::F32) => op!(|x, a: f32, b: f32| -> u32 {
            cvt::f32_to_half_x2::<Bf16>(a, b, x.float, x.imm & RELU != 0, x.imm & SATFINITE != 0)
        }),
        (T::Tf32, T::F32) => op!(|x, a: f32| -> u32 {
            if x.float.rounding == crate::semantics::Rounding::NearestAway {
                cvt::f32_to_tf32_away(a, x.imm & SATFINITE != 0)
            } else {
                cvt::f32_to_tf32(a, x.float.rounding, x.imm & RELU != 0)
            }
        }),
        _ => return fp8_recipe(to, from),
    })
}

/// `cvt.pack`, after `.pack` has been taken.
pub(super) fn pack(mods: &mut Mods<'_>) -> Result<Recipe, LoadError> {
    let saturates = mods.take("sat");
    let range = mods.take_map(|word| {
        Some(match word {
            "u16" | "s16" => (word == "s16", 16),
            "u8" | "s8" => (word == "s8", 8),
            "u4" | "s4" => (word == "s4", 4),
            "u2" | "s2" => (word == "s2", 2),
            _ => return None,
        })
    });
    let has_third = mods.take("b32");
    let (Some((signed, bits)), true) = (range, saturates && mods.take("s32")) else {
        return Err(mods.unsupported());
    };
    let recipe = match (bits, has_third) {
        (16, false) => op!(|x, a: i32, b: i32| -> u32 {
            packed::cvt_pack(a, b, 0, 16, x.imm >> SIGN & 1 != 0)
        }),
        (2..=8, true) => op!(|x, a: i32, b: i32, c: u32| -> u32 {
            packed::cvt_pack(a, b, c, x.imm & (SIGN_BIT - 1), x.imm >> SIGN & 1 != 0)
        }),
        _ => return Err(mods.unsupported()),
    };
    Ok(recipe.imm(bits | u32::from(signed) << SIGN))
}

/// In the number that encodes `cvt.pack`, whether the range is signed; the bits below are its
/// width.
const SIGN: u32 = 8;
const SIGN_BIT: u32 = 1 << SIGN;

#[inline(always)]
fn relu_half<H: Half>(flags: u32, bits: u16) -> u16 {
    if flags & RELU != 0 {
        fp16::relu::<H>(bits)
    } else {
        bits
    }
}

fn fp8_recipe(to: T, from: T) -> Option<Recipe> {
    Some(match (to, from) {
        (T::E4m3x2, T::F32) => op!(|x, a: f32, b: f32| -> u16 {
            fp8::from_f32_x2(Format::E4M3, a, b, x.imm & RELU != 0)
        }),
        (T::E5m2x2, T::F32) => op!(|x, a: f32, b: f32| -> u16 {
            fp8::from_f32_x2(Format::E5M2, a, b, x.imm & RELU != 0)
        }),
        (T::E4m3x2, T::F16x2) => {
            op!(|x, a: u32| -> u16 { fp8::from_f16x2(Format::E4M3, a, x.imm & RELU != 0) })
        }
        (T::E5m2x2, T::F16x2) => {
            op!(|x, a: u32| -> u16 { fp8::from_f16x2(Format::E5M2, a, x.imm & RELU != 0) })
        }
        (T::F16x2, T::E4m3x2) => {
            op!(|x, a: u16| -> u32 { fp8::to_f16x2(Format::E4M3, a, x.imm & RELU != 0) })
        }
        (T::F16x2, T::E5m2x2) => {
            op!(|x, a: u16| -> u32 { fp8::to_f16x2(Format::E5M2, a, x.imm & RELU != 0) })
        }
        _ => return None,
    })
}
