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

/// Operations on one value, and on two of them in a register.
mod one {
    pub(super) use super::fp16::zero_out_of_bounds;
    pub(super) use super::fp16::{abs, add, flush, fma, max, min, mul, neg, relu, sub};
}
mod two {
    pub(super) use super::fp16::{add_x2 as add, fma_x2 as fma, max_x2 as max, min_x2 as min};
    pub(super) use super::fp16::{mul_x2 as mul, relu_x2 as relu, sub_x2 as sub};
    pub(super) use super::zero_out_of_bounds_x2 as zero_out_of_bounds;
    pub(super) use super::{abs_x2 as abs, flush_x2 as flush, neg_x2 as neg};
}

macro_rules! family {
    ($name:ident, $t:ty, $half:ty, $of:ident) => {
        fn $name(opcode: O, mods: &mut Mods<'_>) -> Option<Recipe> {
            if matches!(opcode, O::Min | O::Max) {
                let mode = min_max_mode(mods);
                let recipe = if opcode == O::Min {
                    op!(|x, a: $t, b: $t| -> $t { $of::min::<$half>(x.minmax, a, b) })
                } else {
                    op!(|x, a: $t, b: $t| -> $t { $of::max::<$half>(x.minmax, a, b) })
                };
                return Some(recipe.minmax(mode));
            }
            if matches!(opcode, O::Neg | O::Abs) {
                return Some(match (opcode, mods.take("ftz")) {
                    (O::Neg, false) => op!(|x, a: $t| -> $t { $of::neg::<$half>(a) }),
                    (O::Neg, true) => {
                        op!(|x, a: $t| -> $t { $of::neg::<$half>($of::flush::<$half>(a)) })
                    }
                    (_, false) => op!(|x, a: $t| -> $t { $of::abs::<$half>(a) }),
                    (_, true) => {
                        op!(|x, a: $t| -> $t { $of::abs::<$half>($of::flush::<$half>(a)) })
                    }
                });
            }
            let mode = mods.float_mode();
            let out_of_bounds = mods.take("oob");
            let recipe = match opcode {
                O::Add => op!(|x, a: $t, b: $t| -> $t { $of::add::<$half>(x.float, a, b) }),
                O::Sub => op!(|x, a: $t, b: $t| -> $t { $of::sub::<$half>(x.float, a, b) }),
                O::Mul => op!(|x, a: $t, b: $t| -> $t { $of::mul::<$half>(x.float, a, b) }),
                O::Fma => match (out_of_bounds, mods.take("relu")) {
                    (false, false) => {
                        op!(|x, a: $t, b: $t, c: $t| -> $t { $of::fma::<$half>(x.float, a, b, c) })
                    }
                    (false, true) => op!(|x, a: $t, b: $t, c: $t| -> $t {
                        $of::relu::<$half>($of::fma::<$half>(x.float, a, b, c))
                    }),
                    (true, false) => op!(|x, a: $t, b: $t, c: $t| -> $t {
                        $of::zero_out_of_bounds(a, b, $of::fma::<$half>(x.float, a, b, c))
                    }),
                    (true, true) => op!(|x, a: $t, b: $t, c: $t| -> $t {
                        let d = $of::zero_out_of_bounds(a, b, $of::fma::<$half>(x.float, a, b, c));
                        $of::relu::<$half>(d)
                    }),
                },
                _ => return None,
            };
            Some(recipe.float(mode))
        }
    };
}

family!(scalar_f16, u16, F16, one);
family!(scalar_bf16, u16, Bf16, one);
family!(pair_f16, u32, F16, two);
family!(pair_bf16, u32, Bf16, two);

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
