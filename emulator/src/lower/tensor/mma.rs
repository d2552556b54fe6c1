//! `mma.sync`: the shapes and types of sm_75, sm_80 and sm_89.

use ptx_syntax::ast::Instruction;

use super::shape;
use crate::error::LoadError;
use crate::lower::mods::Mods;
use crate::lower::{FunctionLowering, Lowered};
use crate::program::tensor::{Mma, Product, Sum, TensorOp, TileSum};
use crate::program::{Op, Width};
use crate::semantics::Rounding;
use crate::semantics::tensor::sum::Rule;
use crate::semantics::tensor::whole::IntegerRule;
use crate::semantics::tensor::{Accumulator as D, BitOp, Element as E};

/// Whether there is an instruction with this shape and these types.
fn exists((m, n, k): (usize, usize, usize), a: E, b: E, d: D) -> bool {
    let tall = (m, n) == (16, 8);
    let flat = (m, n) == (8, 8);
    match (a, b, d) {
        (E::F16, E::F16, D::F16 | D::F32) | (E::Bf16, E::Bf16, D::F32) => {
            tall && matches!(k, 8 | 16)
        }
        (E::Tf32, E::Tf32, D::F32) => tall && matches!(k, 4 | 8),
        (a, b, D::F16 | D::F32) if a.is_fp8() && b.is_fp8() => tall && matches!(k, 16 | 32),
        (E::F64, E::F64, D::F64) => flat && k == 4 || tall && matches!(k, 4 | 8 | 16),
        (E::S8 | E::U8, E::S8 | E::U8, D::S32) => flat && k == 16 || tall && matches!(k, 16 | 32),
        (E::S4 | E::U4, E::S4 | E::U4, D::S32) => flat && k == 32 || tall && matches!(k, 32 | 64),
        (E::B1, E::B1, D::S32) => flat && k == 128 || tall && matches!(k, 128 | 256),
        _ => false,
    }
}

/// The operation of `.xor.popc` or `.and.popc`.
pub(super) fn bit_op(mods: &mut Mods<'_>) -> Option<BitOp> {
    let op = mods.take_map(|word| {
        Some(match word {
            "xor" => BitOp::Xor,
            "and" => BitOp::And,
            _ => return None,
        })
    });
    op.filter(|_| mods.take("popc"))
}

/// The modifiers of a product that choose how it is summed.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    saturating: bool,
    bits: Option<BitOp>,
    rounding: Option<Rounding>,
}

impl How {
    pub(super) fn take(mods: &mut Mods<'_>) -> Self {
        Self {
            saturating: mods.take("satfinite"),
            bits: bit_op(mods),
            rounding: mods.take_map(Rounding::from_modifier),
        }
    }

    /// The sum for these types; `None` if a modifier does not fit them.
    pub(super) fn sum(self, a: E, d: D) -> Option<Sum> {
        let fits = (self.bits.is_some() == (a == E::B1))
            && (!self.saturating || d == D::S32 && a != E::B1)
            && (self.rounding.is_none() || d == D::F64);
        fits.then(|| match d {
            D::F64 => Sum::Double(self.rounding.unwrap_or_default()),
            D::F16 | D::F32 => Sum::Tile(TileSum::Float(Rule::of_mma(a, d))),
            D::S32 => Sum::Tile(TileSum::Integer(match self.bits {
                Some(op) => IntegerRule::Ones(op),
                None => IntegerRule::Products(self.saturating),
            })),
        })
    }
}

/// The width of the registers of a product.
pub(super) fn width(accumulator: D) -> Width {
    match accumulator {
        D::F64 => Width::B64,
        _ => Width::B32,
    }
}

impl<'a> FunctionLowering<'a, '_> {
    pub(in crate::lower) fn mma(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Lowered {
        self.require_aligned(&mut mods)?;
        let product = product(&mut mods)?;
        mods.finish()?;
        let [d, a, b, c] = self.operands(inst, "`mma` takes four operands")?;
        let Product { m, n, k, .. } = product;
        let width = width(product.accumulator);
        let lanes = 32 * width.bits() as usize;
        let sums = match product.accumulator {
            D::F16 => m * n / 64,
            _ => m * n / 32,
        };
        let bits = product.a.bits();
        let mma = Mma {
            a: self.sources(a, m * k * bits / lanes, width, "A")?,
            b: self.sources(b, n * k * bits / lanes, width, "B")?,
            c: self.sources(c, sums, width, "C")?,
            d: self.destinations(d, sums, width, "D")?,
            product,
        };
        self.emit(Op::Tensor(Box::new(TensorOp::Mma(mma))));
        Ok(())
    }
}

/// Takes the shape and types of an `mma`.
fn product(mods: &mut Mods<'_>) -> Result<Product, LoadError> {
    let extents = mods.take_map(shape);
    let (Some(extents), true, true) = (extents, mods.take("row"), mods.take("col")) else {
        return Err(mods.unsupported());
    };
    let how = How::take(mods);
    let d = mods.take_map(D::from_word);
    let a = mods.take_map(E::from_word);
    let b = mods.take_map(E::from_word);
    let c = mods.take_map(D::from_word);
    let (Some(d), Some(a), Some(b), Some(c)) = (d, a, b, c) else {
        return Err(mods.unsupported());
    };
    let sum = how.sum(a, d);
    let Some(sum) = sum.filter(|_| c == d && exists(extents, a, b, d)) else {
        return Err(mods.unsupported());
    };
    let (m, n, k) = extents;
    Ok(Product {
        m,
        n,
        k,
        a,
        b,
        accumulator: d,
        sum,
    })
}
