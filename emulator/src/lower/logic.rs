//! Bits: logic, shifts, fields, permutations, counts.

use ptx_syntax::ast::ScalarType as T;
use ptx_syntax::isa::Opcode as O;

use super::mods::Mods;
use super::recipe::{Recipe, by_width, integers, op, typed};
use crate::error::LoadError;
use crate::exec::kernel::kernel;
use crate::exec::row::{FULL_MASK, mask_of};
use crate::program::Width;
use crate::semantics::bits::{self, PermuteMode, ShiftMode};
use crate::semantics::int;

/// The operation of an opcode; takes all its modifiers.
pub(super) fn recipe(opcode: O, mods: &mut Mods<'_>) -> Result<Recipe, LoadError> {
    let ty = mods.ty()?;
    let recipe = match opcode {
        O::And | O::Or | O::Xor | O::Not if ty == T::Pred => predicate(opcode),
        O::And => by_width!(ty, W => op!(|x, a: W, b: W| -> W { a & b })),
        O::Or => by_width!(ty, W => op!(|x, a: W, b: W| -> W { a | b })),
        O::Xor => by_width!(ty, W => op!(|x, a: W, b: W| -> W { a ^ b })),
        O::Not => by_width!(ty, W => op!(|x, a: W| -> W { !a })),
        O::Cnot => by_width!(ty, W => op!(|x, a: W| -> W { int::cnot(a) })),
        O::Shl => by_width!(ty, W => op!(|x, a: W, n: u32| -> W { int::shl(a, n) })),
        O::Shr => shift_right(ty),
        O::Shf => funnel(mods),
        O::Popc => typed!(ty, [B32: u32, B64: u64], W => op!(|x, a: W| -> u32 { bits::popc(a) })),
        O::Clz => typed!(ty, [B32: u32, B64: u64], W => op!(|x, a: W| -> u32 { bits::clz(a) })),
        O::Brev => typed!(ty, [B32: u32, B64: u64], W => op!(|x, a: W| -> W { bits::brev(a) })),
        O::Bfind => find_leading(mods, ty),
        O::Fns => Some(op!(|x, m: u32, base: u32, n: i32| -> u32 {
            bits::fns(m, base, n)
        })),
        O::Bfe => field_extract(ty),
        O::Bfi => typed!(ty, [B32: u32, B64: u64], W => op!(
            |x, a: W, b: W, pos: u32, len: u32| -> W { bits::bfi(a, b, pos, len) }
        )),
        O::Bmsk => shift_mode(mods).map(|wrap| {
            op!(|x, a: u32, b: u32| -> u32 { bits::bmsk(a, b, mode(x.imm)) }).imm(wrap)
        }),
        O::Szext => sign_zero_extend(mods, ty),
        O::Prmt => Some(permute(mods)),
        _ => None,
    };
    recipe.ok_or_else(|| mods.unsupported())
}

fn predicate(opcode: O) -> Option<Recipe> {
    let kernel = match opcode {
        O::And => kernel!(|regs, k, x, mask| {
            regs.set_pred(x.d, regs.pred(k, x.a) & regs.pred(k, x.b), mask);
        }),
        O::Or => kernel!(|regs, k, x, mask| {
            regs.set_pred(x.d, regs.pred(k, x.a) | regs.pred(k, x.b), mask);
        }),
        O::Xor => kernel!(|regs, k, x, mask| {
            regs.set_pred(x.d, regs.pred(k, x.a) ^ regs.pred(k, x.b), mask);
        }),
        _ => {
            let not = kernel!(|regs, k, x, mask| {
                regs.set_pred(x.d, !regs.pred(k, x.a), mask);
            });
            return Some(Recipe::new(not, Width::Pred, &[Width::Pred]));
        }
    };
    Some(Recipe::new(kernel, Width::Pred, &[Width::Pred; 2]))
}

/// `mov` of a register or constant of that width.
pub(super) fn mov(width: Width) -> Recipe {
    match width {
        Width::Pred => {
            let copy = kernel!(|regs, k, x, mask| {
                regs.set_pred(x.d, regs.pred(k, x.a), mask);
            });
            Recipe::new(copy, Width::Pred, &[Width::Pred])
        }
        Width::B16 => op!(|x, a: u16| -> u16 { a }),
        Width::B32 => op!(|x, a: u32| -> u32 { a }),
        Width::B64 => op!(|x, a: u64| -> u64 { a }),
    }
}

fn shift_right(ty: T) -> Option<Recipe> {
    integers!(ty, I => op!(|x, a: I, n: u32| -> I { int::shr(a, n) })).or_else(|| {
        typed!(ty, [B16: u16, B32: u32, B64: u64], W => op!(|x, a: W, n: u32| -> W {
            int::shr(a, n)
        }))
    })
}

/// 1 for `.wrap`, 0 for `.clamp`.
fn shift_mode(mods: &mut Mods<'_>) -> Option<u32> {
    mods.take_map(|word| match word {
        "wrap" => Some(1),
        "clamp" => Some(0),
        _ => None,
    })
}

#[inline(always)]
fn mode(wrap: u32) -> ShiftMode {
    if wrap != 0 {
        ShiftMode::Wrap
    } else {
        ShiftMode::Clamp
    }
}

fn funnel(mods: &mut Mods<'_>) -> Option<Recipe> {
    let left = mods.take("l");
    if !left && !mods.take("r") {
        return None;
    }
    let wrap = shift_mode(mods)?;
    Some(
        match left {
            true => {
                op!(|x, lo: u32, hi: u32, n: u32| -> u32 { bits::shf_left(lo, hi, n, mode(x.imm)) })
            }
            false => op!(|x, lo: u32, hi: u32, n: u32| -> u32 {
                bits::shf_right(lo, hi, n, mode(x.imm))
            }),
        }
        .imm(wrap),
    )
}

fn find_leading(mods: &mut Mods<'_>, ty: T) -> Option<Recipe> {
    let amount = u32::from(mods.take("shiftamt"));
    macro_rules! find {
        ($t:ty, $prepare:expr) => {
            op!(|x, a: $t| -> u32 {
                let a = $prepare(a);
                if x.imm != 0 {
                    bits::bfind_shiftamt(a)
                } else {
                    bits::bfind(a)
                }
            })
        };
    }
    Some(
        match ty {
            T::U32 => find!(u32, std::convert::identity::<u32>),
            T::U64 => find!(u64, std::convert::identity::<u64>),
            T::S32 => find!(u32, bits::bfind_signed_input),
            T::S64 => find!(u64, bits::bfind_signed_input),
            _ => return None,
        }
        .imm(amount),
    )
}

fn field_extract(ty: T) -> Option<Recipe> {
    typed!(ty, [U32: u32, U64: u64], W => op!(|x, a: W, p: u32, n: u32| -> W {
        bits::bfe(a, p, n)
    }))
    .or_else(|| {
        typed!(ty, [S32: u32, S64: u64], W => op!(|x, a: W, p: u32, n: u32| -> W {
            bits::bfe_signed(a, p, n)
        }))
    })
}

fn sign_zero_extend(mods: &mut Mods<'_>, ty: T) -> Option<Recipe> {
    let wrap = shift_mode(mods)?;
    Some(
        match ty {
            T::U32 => op!(|x, a: u32, n: u32| -> u32 { bits::szext_unsigned(a, n, mode(x.imm)) }),
            T::S32 => op!(|x, a: u32, n: u32| -> u32 { bits::szext_signed(a, n, mode(x.imm)) }),
            _ => return None,
        }
        .imm(wrap),
    )
}

fn permute(mods: &mut Mods<'_>) -> Recipe {
    macro_rules! prmt {
        ($mode:ident) => {
            op!(|x, a: u32, b: u32, s: u32| -> u32 { bits::prmt(a, b, s, PermuteMode::$mode) })
        };
    }
    match mods.take_map(PermuteMode::from_modifier) {
        None | Some(PermuteMode::Index) => prmt!(Index),
        Some(PermuteMode::ForwardFour) => prmt!(ForwardFour),
        Some(PermuteMode::BackwardFour) => prmt!(BackwardFour),
        Some(PermuteMode::ReplicateByte) => prmt!(ReplicateByte),
        Some(PermuteMode::EdgeClampLeft) => prmt!(EdgeClampLeft),
        Some(PermuteMode::EdgeClampRight) => prmt!(EdgeClampRight),
        Some(PermuteMode::ReplicateHalf) => prmt!(ReplicateHalf),
    }
}

/// The predicate result of `lop3.and` and `lop3.or`: whether the result is nonzero, combined with a
/// predicate, which is negated if the immediate is 1.
pub(super) fn combine_nonzero(word: &str) -> Option<Recipe> {
    macro_rules! combine {
        ($op:tt) => {
            kernel!(|regs, k, x, mask| {
                let a = *regs.row::<u32>(k, x.a);
                let nonzero = mask_of(
                    #[inline(always)]
                    |i| a.0[i] != 0,
                );
                let q = regs.pred(k, x.b) ^ if x.imm != 0 { FULL_MASK } else { 0 };
                regs.set_pred(x.d, nonzero $op q, mask);
            })
        };
    }
    let kernel = match word {
        "and" => combine!(&),
        "or" => combine!(|),
        _ => return None,
    };
    Some(Recipe::new(kernel, Width::Pred, &[Width::B32, Width::Pred]))
}

/// `lop3.b32` of a table.
pub(super) fn lop3(table: u8) -> Recipe {
    match table {
        0x80 => op!(|x, a: u32, b: u32, c: u32| -> u32 { a & b & c }),
        0x96 => op!(|x, a: u32, b: u32, c: u32| -> u32 { a ^ b ^ c }),
        0xfe => op!(|x, a: u32, b: u32, c: u32| -> u32 { a | b | c }),
        _ => op!(|x, a: u32, b: u32, c: u32| -> u32 { bits::lop3(a, b, c, x.imm as u8) })
            .imm(u32::from(table)),
    }
}
