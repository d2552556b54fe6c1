//! Integer arithmetic: `add sub mul mad mul24 mad24 sad div rem abs neg min max`, carries, dot
//! products.

use ptx_syntax::ast::ScalarType as T;
use ptx_syntax::isa::Opcode as O;

use super::mods::Mods;
use super::recipe::{Recipe, integers, op, typed};
use crate::error::LoadError;
use crate::exec::kernel::{carry3, kernel};
use crate::semantics::{int, packed};

/// The operation of an opcode on integers of type `ty`; takes all modifiers but the type.
pub(super) fn recipe(opcode: O, mods: &mut Mods<'_>, ty: T) -> Result<Recipe, LoadError> {
    let recipe = match opcode {
        O::Add => add(mods, ty),
        O::Sub => sub(mods, ty),
        O::Mul => mul(mods, ty),
        O::Mad => mad(mods, ty),
        O::Mul24 => mul24(mods, ty),
        O::Mad24 => mad24(mods, ty),
        O::Sad => integers!(ty, I => op!(|x, a: I, b: I, c: I| -> I { int::sad(a, b, c) })),
        O::Div => integers!(ty, I => op!(|x, a: I, b: I| -> I { int::div(a, b) })),
        O::Rem => integers!(ty, I => op!(|x, a: I, b: I| -> I { int::rem(a, b) })),
        O::Abs => signed_unary_abs(ty),
        O::Neg => signed_unary_neg(ty),
        O::Min => min(mods, ty),
        O::Max => max(mods, ty),
        _ => None,
    };
    recipe.ok_or_else(|| mods.unsupported())
}

fn add(mods: &mut Mods<'_>, ty: T) -> Option<Recipe> {
    if ty == T::U16x2 || ty == T::S16x2 {
        return Some(op!(|x, a: u32, b: u32| -> u32 { packed::add_x2(a, b) }));
    }
    if mods.take("sat") {
        return typed!(ty, [S32: i32], I => op!(|x, a: I, b: I| -> I { int::add_sat(a, b) }));
    }
    integers!(ty, I => op!(|x, a: I, b: I| -> I { int::add(a, b) }))
}

fn sub(mods: &mut Mods<'_>, ty: T) -> Option<Recipe> {
    if mods.take("sat") {
        return typed!(ty, [S32: i32], I => op!(|x, a: I, b: I| -> I { int::sub_sat(a, b) }));
    }
    integers!(ty, I => op!(|x, a: I, b: I| -> I { int::sub(a, b) }))
}

fn mul(mods: &mut Mods<'_>, ty: T) -> Option<Recipe> {
    if mods.take("wide") {
        return match ty {
            T::U16 => Some(op!(|x, a: u16, b: u16| -> u32 { int::mul_wide(a, b) })),
            T::S16 => Some(op!(|x, a: i16, b: i16| -> i32 { int::mul_wide(a, b) })),
            T::U32 => Some(op!(|x, a: u32, b: u32| -> u64 { int::mul_wide(a, b) })),
            T::S32 => Some(op!(|x, a: i32, b: i32| -> i64 { int::mul_wide(a, b) })),
            _ => None,
        };
    }
    if mods.take("hi") {
        return integers!(ty, I => op!(|x, a: I, b: I| -> I { int::mul_hi(a, b) }));
    }
    if !mods.take("lo") {
        return None;
    }
    integers!(ty, I => op!(|x, a: I, b: I| -> I { int::mul_lo(a, b) }))
}

fn mad(mods: &mut Mods<'_>, ty: T) -> Option<Recipe> {
    if mods.take("wide") {
        return match ty {
            T::U16 => Some(op!(|x, a: u16, b: u16, c: u32| -> u32 {
                int::mad_wide(a, b, c)
            })),
            T::S16 => Some(op!(|x, a: i16, b: i16, c: i32| -> i32 {
                int::mad_wide(a, b, c)
            })),
            T::U32 => Some(op!(|x, a: u32, b: u32, c: u64| -> u64 {
                int::mad_wide(a, b, c)
            })),
            T::S32 => Some(op!(|x, a: i32, b: i32, c: i64| -> i64 {
                int::mad_wide(a, b, c)
            })),
            _ => None,
        };
    }
    if mods.take("hi") {
        if mods.take("sat") {
            return typed!(ty, [S32: i32], I => op!(|x, a: I, b: I, c: I| -> I {
                int::mad_hi_sat(a, b, c)
            }));
        }
        return integers!(ty, I => op!(|x, a: I, b: I, c: I| -> I { int::mad_hi(a, b, c) }));
    }
    if !mods.take("lo") {
        return None;
    }
    integers!(ty, I => op!(|x, a: I, b: I, c: I| -> I { int::mad_lo(a, b, c) }))
}

fn mul24(mods: &mut Mods<'_>, ty: T) -> Option<Recipe> {
    if mods.take("hi") {
        return typed!(ty, [U32: u32, S32: i32], I => op!(|x, a: I, b: I| -> I {
            int::mul24_hi(a, b)
        }));
    }
    mods.take("lo").then_some(())?;
    typed!(ty, [U32: u32, S32: i32], I => op!(|x, a: I, b: I| -> I { int::mul24_lo(a, b) }))
}

fn mad24(mods: &mut Mods<'_>, ty: T) -> Option<Recipe> {
    if mods.take("hi") {
        if mods.take("sat") {
            return typed!(ty, [S32: i32], I => op!(|x, a: I, b: I, c: I| -> I {
                int::mad24_hi_sat(a, b, c)
            }));
        }
        return typed!(ty, [U32: u32, S32: i32], I => op!(|x, a: I, b: I, c: I| -> I {
            int::mad24_hi(a, b, c)
        }));
    }
    mods.take("lo").then_some(())?;
    typed!(ty, [U32: u32, S32: i32], I => op!(|x, a: I, b: I, c: I| -> I {
        int::mad24_lo(a, b, c)
    }))
}

fn signed_unary_abs(ty: T) -> Option<Recipe> {
    typed!(ty, [S16: i16, S32: i32, S64: i64], I => op!(|x, a: I| -> I { int::abs(a) }))
}

fn signed_unary_neg(ty: T) -> Option<Recipe> {
    typed!(ty, [S16: i16, S32: i32, S64: i64], I => op!(|x, a: I| -> I { int::neg(a) }))
}

macro_rules! min_max {
    ($name:ident, $u16x2:path, $s16x2:path, $relu:path, $plain:path) => {
        fn $name(mods: &mut Mods<'_>, ty: T) -> Option<Recipe> {
            let relu = mods.take("relu");
            match (ty, relu) {
                (T::U16x2, false) => Some(op!(|x, a: u32, b: u32| -> u32 { $u16x2(a, b) })),
                (T::S16x2, _) => {
                    let recipe = op!(|x, a: u32, b: u32| -> u32 { $s16x2(a, b, x.imm != 0) });
                    Some(recipe.imm(u32::from(relu)))
                }
                (T::S32, true) => Some(op!(|x, a: i32, b: i32| -> i32 { $relu(a, b) })),
                (_, true) => None,
                (_, false) => integers!(ty, I => op!(|x, a: I, b: I| -> I { $plain(a, b) })),
            }
        }
    };
}

#[rustfmt::skip]
min_max!(min, packed::min_u16x2, packed::min_s16x2, int::min_relu, int::min);
#[rustfmt::skip]
min_max!(max, packed::max_u16x2, packed::max_s16x2, int::max_relu, int::max);

/// `dp4a` and `dp2a`, with two types: those of the packed sources.
pub(super) fn dot_product(opcode: O, mods: &mut Mods<'_>) -> Result<Recipe, LoadError> {
    let b = mods.ty()?;
    let a = mods.ty()?;
    let known = |ty| matches!(ty, T::U32 | T::S32);
    if !known(a) || !known(b) {
        return Err(mods.unsupported());
    }
    let signs = u32::from(a == T::S32) | u32::from(b == T::S32) << 1;
    if opcode == O::Dp4a {
        return Ok(op!(|x, a: u32, b: u32, c: u32| -> u32 {
            packed::dp4a(a, b, c, x.imm & 1 != 0, x.imm & 2 != 0)
        })
        .imm(signs));
    }
    let high = mods.take("hi");
    if !high && !mods.take("lo") {
        return Err(mods.unsupported());
    }
    Ok(op!(|x, a: u32, b: u32, c: u32| -> u32 {
        packed::dp2a(a, b, c, x.imm & 1 != 0, x.imm & 2 != 0, x.imm & 4 != 0)
    })
    .imm(signs | u32::from(high) << 2))
}

/// Operations that read or write the carry flag: `add.cc addc sub.cc subc mad.cc madc`. Additions
/// do not use the third source. The flag is read from `f` and written to `e`. After a subtraction
/// the flag is the complement of the borrow: nvcc's 128-bit division reads it with `addc`.
pub(super) fn carry(opcode: O, mods: &mut Mods<'_>, ty: T) -> Result<Recipe, LoadError> {
    macro_rules! carries {
        ($I:ident, $sources:expr, |$a:ident, $b:ident, $c:ident, $carry:ident| $e:expr) => {
            typed!(ty, [U32: u32, S32: u32, U64: u64, S64: u64], $I => Recipe::new(
                kernel!(|regs, constants, x, mask| {
                    carry3::<$I>(regs, constants, x, mask,
                        #[inline(always)] |$a, $b, $c, $carry| { let _ = $c; $e })
                }),
                super::recipe::width_of::<$I>(),
                &[super::recipe::width_of::<$I>(); $sources],
            ))
        };
    }
    let recipe = match opcode {
        O::Add => carries!(I, 2, |a, b, c, _carry| int::add_carry(a, b, false)),
        O::Addc => carries!(I, 2, |a, b, c, carry| int::add_carry(a, b, carry)),
        O::Sub => carries!(I, 2, |a, b, c, _carry| int::sub_carry(a, b, true)),
        O::Subc => carries!(I, 2, |a, b, c, carry| int::sub_carry(a, b, carry)),
        O::Mad | O::Madc => mad_carry(opcode == O::Madc, mods, ty),
        _ => None,
    };
    recipe.ok_or_else(|| mods.unsupported())
}

fn mad_carry(reads: bool, mods: &mut Mods<'_>, ty: T) -> Option<Recipe> {
    macro_rules! mads {
        ($t:ty, $f:path) => {
            Recipe::new(
                kernel!(|regs, constants, x, mask| {
                    carry3::<$t>(
                        regs,
                        constants,
                        x,
                        mask,
                        #[inline(always)]
                        |a, b, c, carry| $f(a, b, c, carry && x.imm != 0),
                    )
                }),
                super::recipe::width_of::<$t>(),
                &[super::recipe::width_of::<$t>(); 3],
            )
        };
    }
    let recipe = if mods.take("hi") {
        match ty {
            T::U32 => mads!(u32, int::mad_hi_carry),
            T::S32 => mads!(i32, int::mad_hi_carry_s32),
            T::U64 => mads!(u64, int::mad_hi_carry),
            T::S64 => mads!(i64, int::mad_hi_carry_s64),
            _ => return None,
        }
    } else {
        mods.take("lo").then_some(())?;
        match ty {
            T::U32 | T::S32 => mads!(u32, int::mad_lo_carry),
            T::U64 | T::S64 => mads!(u64, int::mad_lo_carry),
            _ => return None,
        }
    };
    Some(recipe.imm(u32::from(reads)))
}
