//! f16, bf16 and their pairs.

use ptx_syntax::ast::ScalarType as T;
use ptx_syntax::isa::Opcode as O;

use super::float::min_max_mode;
use super::mods::Mods;
use super::recipe::{Recipe, op};
use crate::error::LoadError;
use crate::semantics::fp16::{self, Bf16, F16, Half};

/// The operation of an opcode on a 16-bit float type.
pub(super) fn recipe(opcode: O, mods: &mut Mods<'_>, ty: T) -> Result<Recipe, LoadError> {
    let recipe = match ty {
        T::F16 => scalar_f16(opcode, mods),
        T::Bf16 => scalar_bf16(opcode, mods),
        T::F16x2 => pair_f16(opcode, mods),
        _ => pair_bf16(opcode, mods),
    };
    recipe.ok_or_else(|| mods.unsupported())
}

macro_rules! family {
    ($name:ident, $t:ty, $add:path, $sub:path, $mul:path, $fma:path, $min:path, $max:path,
     $relu:path, $flush:path, $neg:expr, $abs:expr, $oob:path) => {
        fn $name(opcode: O, mods: &mut Mods<'_>) -> Option<Recipe> {
            if matches!(opcode, O::Min | O::Max) {
                let mode = min_max_mode(mods);
                let recipe = if opcode == O::Min {
                    op!(|x, a: $t, b: $t| -> $t { $min(x.minmax, a, b) })
                } else {
                    op!(|x, a: $t, b: $t| -> $t { $max(x.minmax, a, b) })
                };
                return Some(recipe.minmax(mode));
            }
            if matches!(opcode, O::Neg | O::Abs) {
                let flushed = mods.take("ftz");
                return Some(match (opcode, flushed) {
                    (O::Neg, false) => op!(|x, a: $t| -> $t { $neg(a) }),
                    (O::Neg, true) => op!(|x, a: $t| -> $t { $neg($flush(a)) }),
                    (_, false) => op!(|x, a: $t| -> $t { $abs(a) }),
                    (_, true) => op!(|x, a: $t| -> $t { $abs($flush(a)) }),
                });
            }
            let mode = mods.float_mode();
            let out_of_bounds = mods.take("oob");
            let recipe = match opcode {
                O::Add => op!(|x, a: $t, b: $t| -> $t { $add(x.float, a, b) }),
                O::Sub => op!(|x, a: $t, b: $t| -> $t { $sub(x.float, a, b) }),
                O::Mul => op!(|x, a: $t, b: $t| -> $t { $mul(x.float, a, b) }),
                O::Fma if out_of_bounds && mods.take("relu") => {
                    op!(|x, a: $t, b: $t, c: $t| -> $t {
                        $relu($oob(a, b, $fma(x.float, a, b, c)))
                    })
                }
                O::Fma if out_of_bounds => {
                    op!(|x, a: $t, b: $t, c: $t| -> $t { $oob(a, b, $fma(x.float, a, b, c)) })
                }
                O::Fma if mods.take("relu") => {
                    op!(|x, a: $t, b: $t, c: $t| -> $t { $relu($fma(x.float, a, b, c)) })
                }
                O::Fma => op!(|x, a: $t, b: $t, c: $t| -> $t { $fma(x.float, a, b, c) }),
                _ => return None,
            };
            Some(recipe.float(mode))
        }
    };
}

family!(
    scalar_f16,
    u16,
    fp16::add::<F16>,
    fp16::sub::<F16>,
    fp16::mul::<F16>,
    fp16::fma::<F16>,
    fp16::min::<F16>,
    fp16::max::<F16>,
    fp16::relu::<F16>,
    fp16::flush::<F16>,
    fp16::neg::<F16>,
    fp16::abs::<F16>,
    fp16::zero_out_of_bounds
);
family!(
    scalar_bf16,
    u16,
    fp16::add::<Bf16>,
    fp16::sub::<Bf16>,
    fp16::mul::<Bf16>,
    fp16::fma::<Bf16>,
    fp16::min::<Bf16>,
    fp16::max::<Bf16>,
    fp16::relu::<Bf16>,
    fp16::flush::<Bf16>,
    fp16::neg::<Bf16>,
    fp16::abs::<Bf16>,
    fp16::zero_out_of_bounds
);
family!(
    pair_f16,
    u32,
    fp16::add_x2::<F16>,
    fp16::sub_x2::<F16>,
    fp16::mul_x2::<F16>,
    fp16::fma_x2::<F16>,
    fp16::min_x2::<F16>,
    fp16::max_x2::<F16>,
    fp16::relu_x2::<F16>,
    flush_x2::<F16>,
    neg_x2::<F16>,
    abs_x2::<F16>,
    zero_out_of_bounds_x2
);
family!(
    pair_bf16,
    u32,
    fp16::add_x2::<Bf16>,
    fp16::sub_x2::<Bf16>,
    fp16::mul_x2::<Bf16>,
    fp16::fma_x2::<Bf16>,
    fp16::min_x2::<Bf16>,
    fp16::max_x2::<Bf16>,
    fp16::relu_x2::<Bf16>,
    flush_x2::<Bf16>,
    neg_x2::<Bf16>,
    abs_x2::<Bf16>,
    zero_out_of_bounds_x2
);

#[inline(always)]
fn neg_x2<H: Half>(a: u32) -> u32 {
    u32::from(fp16::neg::<H>((a >> 16) as u16)) << 16 | u32::from(fp16::neg::<H>(a as u16))
}

#[inline(always)]
fn abs_x2<H: Half>(a: u32) -> u32 {
    u32::from(fp16::abs::<H>((a >> 16) as u16)) << 16 | u32::from(fp16::abs::<H>(a as u16))
}

#[inline(always)]
fn flush_x2<H: Half>(a: u32) -> u32 {
    u32::from(fp16::flush::<H>((a >> 16) as u16)) << 16 | u32::from(fp16::flush::<H>(a as u16))
}

#[inline(always)]
fn zero_out_of_bounds_x2(a: u32, b: u32, d: u32) -> u32 {
    let high = fp16::zero_out_of_bounds((a >> 16) as u16, (b >> 16) as u16, (d >> 16) as u16);
    u32::from(high) << 16 | u32::from(fp16::zero_out_of_bounds(a as u16, b as u16, d as u16))
}
