//! Comparisons and selections: `setp set testp selp slct`.

use ptx_syntax::ast::ScalarType as T;

use super::mods::Mods;
use super::recipe::{Recipe, by_width, op, width_of};
use crate::error::LoadError;
use crate::exec::kernel::{Args, kernel, test2};
use crate::exec::registers::{Constants, Lane, Registers};
use crate::exec::row::{FULL_MASK, LANES, Row, mask_of};
use crate::program::Width;
use crate::semantics::compare::{Compare, TestProperty};
use crate::semantics::fp16::{self, Bf16, F16, Half};
use crate::semantics::fp32;

/// How `setp` and `set` combine the comparison with a predicate: bits of [`Args::imm`].
const AND: u32 = 1;
const OR: u32 = 2;
const XOR: u32 = 3;
const OPERATION: u32 = 3;
/// Whether the predicate is negated.
pub(super) const NEGATED: u32 = 4;
/// Whether `setp` writes a second predicate.
pub(super) const BOTH: u32 = 8;
/// Whether subnormals are flushed to zero.
const FLUSH: u32 = 16;

/// `setp`: the predicates `d` and, with [`BOTH`], `e`; its third source is the predicate `c`.
pub(super) fn setp(mods: &mut Mods<'_>, ty: T) -> Result<Recipe, LoadError> {
    let unsigned_operator = mods
        .rest()
        .iter()
        .any(|word| matches!(*word, "lo" | "ls" | "hi" | "hs"));
    let (compare, imm) = conditions(mods)?;
    let ty = if unsigned_operator { unsigned(ty) } else { ty };
    macro_rules! by {
        ($t:ty, |$x:ident, $a:ident, $b:ident| $e:expr) => {
            (
                kernel!(|regs, k, args, mask| {
                    let test = test2::<$t, $t>(
                        regs,
                        k,
                        args,
                        #[inline(always)]
                        |$x, $a, $b| $e,
                    );
                    set_predicates(regs, k, args, mask, test);
                }),
                width_of::<$t>(),
            )
        };
    }
    let (kernel, width) = match ty {
        T::U16 | T::B16 => by!(u16, |x, a, b| x.compare.int(a, b)),
        T::S16 => by!(i16, |x, a, b| x.compare.int(a, b)),
        T::U32 | T::B32 => by!(u32, |x, a, b| x.compare.int(a, b)),
        T::S32 => by!(i32, |x, a, b| x.compare.int(a, b)),
        T::U64 | T::B64 => by!(u64, |x, a, b| x.compare.int(a, b)),
        T::S64 => by!(i64, |x, a, b| x.compare.int(a, b)),
        T::F32 => by!(f32, |x, a, b| x.compare.f32(flushed(x, a), flushed(x, b))),
        T::F64 => by!(f64, |x, a, b| x.compare.f64(a, b)),
        T::F16 => by!(u16, |x, a, b| test_half::<F16>(x, a, b)),
        T::Bf16 => by!(u16, |x, a, b| test_half::<Bf16>(x, a, b)),
        T::F16x2 => (
            kernel!(|r, k, x, m| setp_pair::<F16>(r, k, x, m)),
            Width::B32,
        ),
        T::Bf16x2 => (
            kernel!(|r, k, x, m| setp_pair::<Bf16>(r, k, x, m)),
            Width::B32,
        ),
        _ => return Err(mods.unsupported()),
    };
    let mut recipe = Recipe::new(kernel, Width::Pred, &[width, width]);
    if imm & OPERATION != 0 {
        recipe.sources.push(Width::Pred);
    }
    recipe.args.compare = compare;
    Ok(recipe.imm(imm))
}

fn unsigned(ty: T) -> T {
    match ty {
        T::S16 | T::B16 => T::U16,
        T::S32 | T::B32 => T::U32,
        T::S64 | T::B64 => T::U64,
        other => other,
    }
}

#[inline(always)]
fn flushed(x: &Args, a: f32) -> f32 {
    if x.imm & FLUSH != 0 {
        fp32::flush(a)
    } else {
        a
    }
}

#[inline(always)]
fn test_half<H: Half>(x: &Args, a: u16, b: u16) -> bool {
    let value = |bits: u16| {
        H::widen(if x.imm & FLUSH != 0 {
            fp16::flush::<H>(bits)
        } else {
            bits
        })
    };
    x.compare.f32(value(a), value(b))
}

#[inline(always)]
fn test_high<H: Half>(x: &Args, a: u32, b: u32) -> bool {
    test_half::<H>(x, (a >> 16) as u16, (b >> 16) as u16)
}

/// Compares the low halves and the high halves, each combined with the predicate.
#[inline(always)]
fn tests_of_pair<H: Half>(regs: &Registers, k: &Constants, x: &Args) -> (u32, u32) {
    let low = test2::<u32, u32>(
        regs,
        k,
        x,
        #[inline(always)]
        |x, a, b| test_half::<H>(x, a as u16, b as u16),
    );
    let high = test2::<u32, u32>(
        regs,
        k,
        x,
        #[inline(always)]
        |x, a, b| test_high::<H>(x, a, b),
    );
    (combined(regs, k, x, low).0, combined(regs, k, x, high).0)
}

/// `setp` of pairs: predicate `d` is the result of the low halves, `e` that of the high halves.
#[inline(always)]
fn setp_pair<H: Half>(regs: &mut Registers, k: &Constants, x: &Args, mask: u32) {
    let (p, q) = tests_of_pair::<H>(regs, k, x);
    regs.set_pred(x.d, p, mask);
    if x.imm & BOTH != 0 {
        regs.set_pred(x.e, q, mask);
    }
}

/// Takes comparison, combination and `.ftz`.
fn conditions(mods: &mut Mods<'_>) -> Result<(Compare, u32), LoadError> {
    let compare = mods.need(Compare::from_modifier)?;
    let operation = mods.take_map(|word| match word {
        "and" => Some(AND),
        "or" => Some(OR),
        "xor" => Some(XOR),
        _ => None,
    });
    let flush = if mods.take("ftz") { FLUSH } else { 0 };
    Ok((compare, operation.unwrap_or(0) | flush))
}

/// The comparison and its complement, each combined with the predicate.
#[inline(always)]
fn combined(regs: &Registers, k: &Constants, x: &Args, test: u32) -> (u32, u32) {
    if x.imm & OPERATION == 0 {
        return (test, !test);
    }
    let c = regs.pred(k, x.c) ^ if x.imm & NEGATED != 0 { FULL_MASK } else { 0 };
    match x.imm & OPERATION {
        AND => (test & c, !test & c),
        OR => (test | c, !test | c),
        _ => (test ^ c, !test ^ c),
    }
}

#[inline(always)]
fn set_predicates(regs: &mut Registers, k: &Constants, x: &Args, mask: u32, test: u32) {
    let (p, q) = combined(regs, k, x, test);
    regs.set_pred(x.d, p, mask);
    if x.imm & BOTH != 0 {
        regs.set_pred(x.e, q, mask);
    }
}

/// A `set`, in one operation or two.
pub(super) struct Set {
    /// Writes the result, or, if there is a `choose`, a scratch predicate.
    pub(super) first: Recipe,
    /// Turns that predicate into the result.
    pub(super) choose: Option<Recipe>,
}

/// `set`: true is all ones as an integer, 1.0 as a float.
pub(super) fn set(mods: &mut Mods<'_>) -> Result<Set, LoadError> {
    let source = mods.ty()?;
    let target = mods.ty()?;
    if matches!(source, T::F16x2 | T::Bf16x2) {
        let first = set_pair(mods, target, source)?;
        return Ok(Set {
            first,
            choose: None,
        });
    }
    let first = setp(mods, source)?;
    let (_, yes, width) = TRUE_NUMBERS
        .into_iter()
        .find(|(types, ..)| types.contains(&target))
        .ok_or_else(|| mods.unsupported())?;
    Ok(Set {
        first,
        choose: Some(number_of_predicate(yes, width)),
    })
}

/// From this bit of [`Args::imm`] on, `set` of pairs keeps the value of a true half.
const YES: u32 = 8;

/// The value of true, by the type that `set` writes.
const TRUE_NUMBERS: [(&[T], u32, Width); 5] = [
    (&[T::U32, T::S32], u32::MAX, Width::B32),
    (&[T::F32], 0x3f80_0000, Width::B32),
    (&[T::U16, T::S16], 0xffff, Width::B16),
    (&[T::F16], 0x3c00, Width::B16),
    (&[T::Bf16], 0x3f80, Width::B16),
];

/// `set` of pairs: each half of the result is that of its halves.
fn set_pair(mods: &mut Mods<'_>, target: T, source: T) -> Result<Recipe, LoadError> {
    let yes = match (target, source) {
        (T::U32 | T::S32, _) => 0xffff,
        (T::F16x2, T::F16x2) => 0x3c00,
        (T::Bf16x2, T::Bf16x2) => 0x3f80,
        _ => return Err(mods.unsupported()),
    };
    let (compare, imm) = conditions(mods)?;
    let mut recipe = if imm & OPERATION != 0 {
        let kernel = if source == T::F16x2 {
            kernel!(|r, k, x, m| set_pair_combined::<F16>(r, k, x, m))
        } else {
            kernel!(|r, k, x, m| set_pair_combined::<Bf16>(r, k, x, m))
        };
        Recipe::new(kernel, Width::B32, &[Width::B32, Width::B32, Width::Pred])
    } else if source == T::F16x2 {
        op!(|x, a: u32, b: u32| -> u32 { numbers_of_pair::<F16>(x, a, b) })
    } else {
        op!(|x, a: u32, b: u32| -> u32 { numbers_of_pair::<Bf16>(x, a, b) })
    };
    recipe.args.compare = compare;
    Ok(recipe.imm(imm | yes << YES))
}

/// `set` of pairs, each half combined with the predicate.
#[inline(always)]
fn set_pair_combined<H: Half>(regs: &mut Registers, k: &Constants, x: &Args, mask: u32) {
    let (low, high) = tests_of_pair::<H>(regs, k, x);
    let yes = x.imm >> YES;
    let mut row = Row::<u32>::default();
    for (lane, number) in row.0.iter_mut().enumerate() {
        *number = ((low >> lane & 1) * yes) | ((high >> lane & 1) * (yes << 16));
    }
    regs.put(x.d, &row, mask);
}

#[inline(always)]
fn numbers_of_pair<H: Half>(x: &Args, a: u32, b: u32) -> u32 {
    let yes = x.imm >> YES;
    let low = u32::from(test_half::<H>(x, a as u16, b as u16)) * yes;
    let high = u32::from(test_high::<H>(x, a, b)) * yes;
    low | high << 16
}

/// `yes` in the lanes in which predicate `a` is true, else 0.
fn number_of_predicate(yes: u32, width: Width) -> Recipe {
    let kernel = if width == Width::B16 {
        kernel!(|regs, k, x, mask| choose(regs, k, x, mask, x.imm as u16))
    } else {
        kernel!(|regs, k, x, mask| choose(regs, k, x, mask, x.imm))
    };
    Recipe::new(kernel, width, &[Width::Pred]).imm(yes)
}

#[inline(always)]
fn choose<L: Lane>(regs: &mut Registers, k: &Constants, x: &Args, mask: u32, yes: L) {
    let chosen = regs.pred(k, x.a);
    let mut row = Row::<L>::default();
    row.blend(&Row([yes; LANES]), chosen);
    regs.put(x.d, &row, mask);
}

/// `testp`
pub(super) fn testp(mods: &mut Mods<'_>) -> Result<Recipe, LoadError> {
    let ty = mods.ty()?;
    let property = mods.need(TestProperty::from_modifier)?;
    macro_rules! by_property {
        ($t:ty, $f:ident, $($p:ident),*) => {
            match property {
                $(TestProperty::$p => kernel!(|regs, k, x, mask| {
                    let a = *regs.row::<<$t as crate::exec::kernel::Value>::Bits>(k, x.a);
                    let test = mask_of(
                        #[inline(always)] |i| TestProperty::$p.$f(<$t>::from_bits(a.0[i])));
                    regs.set_pred(x.d, test, mask);
                }),)*
            }
        };
    }
    match ty {
        T::F32 => {
            let kernel = by_property!(
                f32, f32, Finite, Infinite, Number, NotANumber, Normal, Subnormal
            );
            Ok(Recipe::new(kernel, Width::Pred, &[Width::B32]))
        }
        T::F64 => {
            let kernel = by_property!(
                f64, f64, Finite, Infinite, Number, NotANumber, Normal, Subnormal
            );
            Ok(Recipe::new(kernel, Width::Pred, &[Width::B64]))
        }
        _ => Err(mods.unsupported()),
    }
}

#[inline(always)]
fn select<T: Lane>(regs: &mut Registers, k: &Constants, x: &Args, mask: u32) {
    let chosen = regs.pred(k, x.c);
    let mut row = *regs.row::<T>(k, x.b);
    row.blend(regs.row::<T>(k, x.a), chosen);
    regs.put(x.d, &row, mask);
}

/// `selp`
pub(super) fn selp(mods: &mut Mods<'_>) -> Result<Recipe, LoadError> {
    let recipe = by_width!(mods.ty()?, W => Recipe::new(
        kernel!(|regs, k, x, mask| select::<W>(regs, k, x, mask)),
        width_of::<W>(),
        &[width_of::<W>(), width_of::<W>(), Width::Pred],
    ));
    recipe.ok_or_else(|| mods.unsupported())
}

/// `slct`
pub(super) fn slct(mods: &mut Mods<'_>) -> Result<Recipe, LoadError> {
    let chooser = mods.ty()?;
    let ty = mods.ty()?;
    let flush = u32::from(mods.take("ftz"));
    let recipe = match chooser {
        T::S32 => by_width!(ty, W => {
            op!(|x, a: W, b: W, c: i32| -> W { if c >= 0 { a } else { b } })
        }),
        // A NaN selects the second source; -0 counts as zero.
        T::F32 => by_width!(ty, W => {
            op!(|x, a: W, b: W, c: f32| -> W {
                let c = if x.imm != 0 { fp32::flush(c) } else { c };
                if c >= 0.0 { a } else { b }
            })
        }),
        _ => None,
    };
    Ok(recipe.ok_or_else(|| mods.unsupported())?.imm(flush))
}
