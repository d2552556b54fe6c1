//! f32 and f64 arithmetic, and the approximations.

use ptx_syntax::ast::ScalarType as T;
use ptx_syntax::isa::Opcode as O;

use super::mods::Mods;
use super::recipe::{Recipe, op};
use crate::error::LoadError;
use crate::semantics::fp32::{self, MinMaxMode};
use crate::semantics::{FloatMode, fp64};

/// The operation of an opcode on f32.
pub(super) fn f32_recipe(opcode: O, mods: &mut Mods<'_>) -> Result<Recipe, LoadError> {
    if matches!(opcode, O::Min | O::Max) {
        return Ok(f32_min_max(opcode, mods));
    }
    if matches!(opcode, O::Abs | O::Neg) {
        let flush = mods.take("ftz");
        let recipe = if opcode == O::Abs {
            op!(|x, a: f32| -> f32 { fp32::abs(if x.imm != 0 { fp32::flush(a) } else { a }) })
        } else {
            op!(|x, a: f32| -> f32 { fp32::neg(if x.imm != 0 { fp32::flush(a) } else { a }) })
        };
        return Ok(recipe.imm(u32::from(flush)));
    }
    let mode = mods.float_mode();
    let recipe = if mode.is_plain() {
        f32_plain(opcode)
    } else {
        f32_with(opcode)
    };
    Ok(recipe.ok_or_else(|| mods.unsupported())?.float(mode))
}

/// Operations of one type: `$mode` is what they take before their sources.
macro_rules! operations {
    ($name:ident, $t:ty, |$x:ident| [$($mode:expr)?],
     $add:path, $sub:path, $mul:path, $fma:path, $div:path, $rcp:path, $sqrt:path) => {
        fn $name(opcode: O) -> Option<Recipe> {
            Some(match opcode {
                O::Add => op!(|$x, a: $t, b: $t| -> $t { $add($($mode,)? a, b) }),
                O::Sub => op!(|$x, a: $t, b: $t| -> $t { $sub($($mode,)? a, b) }),
                O::Mul => op!(|$x, a: $t, b: $t| -> $t { $mul($($mode,)? a, b) }),
                O::Fma | O::Mad => {
                    op!(|$x, a: $t, b: $t, c: $t| -> $t { $fma($($mode,)? a, b, c) })
                }
                O::Div => op!(|$x, a: $t, b: $t| -> $t { $div($($mode,)? a, b) }),
                O::Rcp => op!(|$x, a: $t| -> $t { $rcp($($mode,)? a) }),
                O::Sqrt => op!(|$x, a: $t| -> $t { $sqrt($($mode,)? a) }),
                _ => return None,
            })
        }
    };
}

#[rustfmt::skip]
operations!(f32_plain, f32, |x| [],
    fp32::add, fp32::sub, fp32::mul, fp32::fma, fp32::div, fp32::rcp, fp32::sqrt);
#[rustfmt::skip]
operations!(f32_with, f32, |x| [x.float],
    fp32::add_with, fp32::sub_with, fp32::mul_with, fp32::fma_with, fp32::div_with, fp32::rcp_with,
    fp32::sqrt_with);
#[rustfmt::skip]
operations!(f64_plain, f64, |x| [],
    fp64::add, fp64::sub, fp64::mul, fp64::fma, fp64::div, fp64::rcp, fp64::sqrt);
#[rustfmt::skip]
operations!(f64_with, f64, |x| [x.float.rounding],
    fp64::add_with, fp64::sub_with, fp64::mul_with, fp64::fma_with, fp64::div_with, fp64::rcp_with,
    fp64::sqrt_with);

/// Takes the modifiers of `min` and `max`.
pub(super) fn min_max_mode(mods: &mut Mods<'_>) -> MinMaxMode {
    let xorsign = mods.take("xorsign");
    MinMaxMode {
        ftz: mods.take("ftz"),
        nan: mods.take("NaN"),
        xorsign_abs: xorsign && mods.take("abs"),
    }
}

fn f32_min_max(opcode: O, mods: &mut Mods<'_>) -> Recipe {
    let mode = min_max_mode(mods);
    let plain = mode == MinMaxMode::default();
    match (opcode, plain) {
        (O::Min, true) => op!(|x, a: f32, b: f32| -> f32 { fp32::min(a, b) }),
        (O::Min, false) => op!(|x, a: f32, b: f32| -> f32 { fp32::min_with(x.minmax, a, b) }),
        (_, true) => op!(|x, a: f32, b: f32| -> f32 { fp32::max(a, b) }),
        (_, false) => op!(|x, a: f32, b: f32| -> f32 { fp32::max_with(x.minmax, a, b) }),
    }
    .minmax(mode)
}

/// The operation of an opcode on f64.
pub(super) fn f64_recipe(opcode: O, mods: &mut Mods<'_>) -> Result<Recipe, LoadError> {
    let unary = match opcode {
        O::Abs => Some(op!(|x, a: f64| -> f64 { fp64::abs(a) })),
        O::Neg => Some(op!(|x, a: f64| -> f64 { fp64::neg(a) })),
        O::Min => Some(op!(|x, a: f64, b: f64| -> f64 { fp64::min(a, b) })),
        O::Max => Some(op!(|x, a: f64, b: f64| -> f64 { fp64::max(a, b) })),
        _ => None,
    };
    if let Some(recipe) = unary {
        return Ok(recipe);
    }
    let mode = FloatMode {
        rounding: mods
            .take_map(crate::semantics::Rounding::from_modifier)
            .unwrap_or_default(),
        ..FloatMode::default()
    };
    let recipe = if mode.is_plain() {
        f64_plain(opcode)
    } else {
        f64_with(opcode)
    };
    Ok(recipe.ok_or_else(|| mods.unsupported())?.float(mode))
}

/// `copysign` and `testp` have no modifiers except the type.
pub(super) fn copysign(mods: &mut Mods<'_>) -> Result<Recipe, LoadError> {
    match mods.ty()? {
        T::F32 => Ok(op!(|x, a: f32, b: f32| -> f32 { fp32::copysign(a, b) })),
        T::F64 => Ok(op!(|x, a: f64, b: f64| -> f64 { fp64::copysign(a, b) })),
        _ => Err(mods.unsupported()),
    }
}
