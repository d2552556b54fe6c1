//! f32 and f64 arithmetic, and the approximations.

use ptx_syntax::ast::ScalarType as T;

use super::mods::Mods;
use super::recipe::{Recipe, op};
use crate::error::LoadError;
use crate::semantics::fp32::{self, MinMaxMode};
use crate::semantics::{FloatMode, fp64};

/// The operation of an opcode on f32.
pub(super) fn f32_recipe(opcode: &str, mods: &mut Mods<'_>) -> Result<Recipe, LoadError> {
    if matches!(opcode, "min" | "max") {
        return Ok(f32_min_max(opcode, mods));
    }
    if matches!(opcode, "abs" | "neg") {
        let flush = mods.take("ftz");
        let recipe = if opcode == "abs" {
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

fn f32_plain(opcode: &str) -> Option<Recipe> {
    Some(match opcode {
        "add" => op!(|x, a: f32, b: f32| -> f32 { fp32::add(a, b) }),
        "sub" => op!(|x, a: f32, b: f32| -> f32 { fp32::sub(a, b) }),
        "mul" => op!(|x, a: f32, b: f32| -> f32 { fp32::mul(a, b) }),
        "fma" | "mad" => op!(|x, a: f32, b: f32, c: f32| -> f32 { fp32::fma(a, b, c) }),
        "div" => op!(|x, a: f32, b: f32| -> f32 { fp32::div(a, b) }),
        "rcp" => op!(|x, a: f32| -> f32 { fp32::rcp(a) }),
        "sqrt" => op!(|x, a: f32| -> f32 { fp32::sqrt(a) }),
        _ => return None,
    })
}

fn f32_with(opcode: &str) -> Option<Recipe> {
    Some(match opcode {
        "add" => op!(|x, a: f32, b: f32| -> f32 { fp32::add_with(x.float, a, b) }),
        "sub" => op!(|x, a: f32, b: f32| -> f32 { fp32::sub_with(x.float, a, b) }),
        "mul" => op!(|x, a: f32, b: f32| -> f32 { fp32::mul_with(x.float, a, b) }),
        "fma" | "mad" => {
            op!(|x, a: f32, b: f32, c: f32| -> f32 { fp32::fma_with(x.float, a, b, c) })
        }
        "div" => op!(|x, a: f32, b: f32| -> f32 { fp32::div_with(x.float, a, b) }),
        "rcp" => op!(|x, a: f32| -> f32 { fp32::rcp_with(x.float, a) }),
        "sqrt" => op!(|x, a: f32| -> f32 { fp32::sqrt_with(x.float, a) }),
        _ => return None,
    })
}

/// Takes the modifiers of `min` and `max`.
pub(super) fn min_max_mode(mods: &mut Mods<'_>) -> MinMaxMode {
    let xorsign = mods.take("xorsign");
    MinMaxMode {
        ftz: mods.take("ftz"),
        nan: mods.take("NaN"),
        xorsign_abs: xorsign && mods.take("abs"),
    }
}

fn f32_min_max(opcode: &str, mods: &mut Mods<'_>) -> Recipe {
    let mode = min_max_mode(mods);
    let plain = mode == MinMaxMode::default();
    match (opcode, plain) {
        ("min", true) => op!(|x, a: f32, b: f32| -> f32 { fp32::min(a, b) }),
        ("min", false) => op!(|x, a: f32, b: f32| -> f32 { fp32::min_with(x.minmax, a, b) }),
        (_, true) => op!(|x, a: f32, b: f32| -> f32 { fp32::max(a, b) }),
        (_, false) => op!(|x, a: f32, b: f32| -> f32 { fp32::max_with(x.minmax, a, b) }),
    }
    .minmax(mode)
}

/// The operation of an opcode on f64.
pub(super) fn f64_recipe(opcode: &str, mods: &mut Mods<'_>) -> Result<Recipe, LoadError> {
    let unary = match opcode {
        "abs" => Some(op!(|x, a: f64| -> f64 { fp64::abs(a) })),
        "neg" => Some(op!(|x, a: f64| -> f64 { fp64::neg(a) })),
        "min" => Some(op!(|x, a: f64, b: f64| -> f64 { fp64::min(a, b) })),
        "max" => Some(op!(|x, a: f64, b: f64| -> f64 { fp64::max(a, b) })),
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

fn f64_plain(opcode: &str) -> Option<Recipe> {
    Some(match opcode {
        "add" => op!(|x, a: f64, b: f64| -> f64 { fp64::add(a, b) }),
        "sub" => op!(|x, a: f64, b: f64| -> f64 { fp64::sub(a, b) }),
        "mul" => op!(|x, a: f64, b: f64| -> f64 { fp64::mul(a, b) }),
        "fma" | "mad" => op!(|x, a: f64, b: f64, c: f64| -> f64 { fp64::fma(a, b, c) }),
        "div" => op!(|x, a: f64, b: f64| -> f64 { fp64::div(a, b) }),
        "rcp" => op!(|x, a: f64| -> f64 { fp64::rcp(a) }),
        "sqrt" => op!(|x, a: f64| -> f64 { fp64::sqrt(a) }),
        _ => return None,
    })
}

fn f64_with(opcode: &str) -> Option<Recipe> {
    Some(match opcode {
        "add" => op!(|x, a: f64, b: f64| -> f64 { fp64::add_with(x.float.rounding, a, b) }),
        "sub" => op!(|x, a: f64, b: f64| -> f64 { fp64::sub_with(x.float.rounding, a, b) }),
        "mul" => op!(|x, a: f64, b: f64| -> f64 { fp64::mul_with(x.float.rounding, a, b) }),
        "fma" | "mad" => {
            op!(|x, a: f64, b: f64, c: f64| -> f64 { fp64::fma_with(x.float.rounding, a, b, c) })
        }
        "div" => op!(|x, a: f64, b: f64| -> f64 { fp64::div_with(x.float.rounding, a, b) }),
        "rcp" => op!(|x, a: f64| -> f64 { fp64::rcp_with(x.float.rounding, a) }),
        "sqrt" => op!(|x, a: f64| -> f64 { fp64::sqrt_with(x.float.rounding, a) }),
        _ => return None,
    })
}

/// `copysign` and `testp` have no modifiers except the type.
pub(super) fn copysign(mods: &mut Mods<'_>, ty: T) -> Result<Recipe, LoadError> {
    match ty {
        T::F32 => Ok(op!(|x, a: f32, b: f32| -> f32 { fp32::copysign(a, b) })),
        T::F64 => Ok(op!(|x, a: f64, b: f64| -> f64 { fp64::copysign(a, b) })),
        _ => Err(mods.unsupported()),
    }
}
