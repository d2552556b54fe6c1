//! `wgmma`: every dense shape and type of sm_90a.

use ptx_syntax::ast::{Instruction, Operand};

use super::mma::bit_op;
use super::shape;
use crate::error::LoadError;
use crate::lower::mods::Mods;
use crate::lower::{FunctionLowering, Lowered};
use crate::program::tensor::{Product, Sum, TensorOp, TileSum, WarpgroupA, Wgmma};
use crate::program::{Op, Width};
use crate::semantics::tensor::sum::Rule;
use crate::semantics::tensor::whole::IntegerRule;
use crate::semantics::tensor::{Accumulator as D, BitOp, Element as E};

/// Whether there is an instruction with these types.
fn exists(a: E, b: E, d: D) -> bool {
    match (a, b) {
        (E::F16, E::F16) => matches!(d, D::F16 | D::F32),
        (E::Bf16, E::Bf16) | (E::Tf32, E::Tf32) => d == D::F32,
        (a, b) if a.is_fp8() && b.is_fp8() => matches!(d, D::F16 | D::F32),
        (E::S8 | E::U8, E::S8 | E::U8) | (E::B1, E::B1) => d == D::S32,
        _ => false,
    }
}

/// Whether there is an instruction with `n` columns: any multiple of 8 up to 256, for integers only
/// some of them.
fn columns(n: usize, d: D) -> bool {
    let most = n.is_multiple_of(8) && (8..=256).contains(&n);
    most && (d != D::S32 || n.is_multiple_of(16) || matches!(n, 8 | 24))
}

impl<'a> FunctionLowering<'a, '_> {
    pub(in crate::lower) fn wgmma(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Lowered {
        let kind = mods.take_map(|word| {
            Some(match word {
                "mma_async" => 0,
                "fence" => 1,
                "commit_group" => 2,
                "wait_group" => 3,
                _ => return None,
            })
        });
        let (Some(kind), true, true) = (kind, mods.take("sync"), mods.take("aligned")) else {
            return Err(mods.unsupported());
        };
        let op = match (kind, inst.operands.as_slice()) {
            (0, _) => return self.multiply(inst, mods),
            (1, []) => TensorOp::WgmmaFence,
            (2, []) => TensorOp::WgmmaCommit,
            (3, [Operand::Integer(groups)]) => {
                let groups = u32::try_from(*groups).ok().filter(|groups| *groups <= 7);
                let Some(groups) = groups else {
                    return Err(self.invalid("`wgmma.wait_group` takes a number from 0 to 7"));
                };
                TensorOp::WgmmaWait(groups)
            }
            _ => return Err(self.invalid(format!("wrong operands of `{}`", inst.mnemonic()))),
        };
        mods.finish()?;
        self.emit(Op::Tensor(Box::new(op)));
        Ok(())
    }

    fn multiply(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Lowered {
        let (product, sum) = product(&mut mods)?;
        mods.finish()?;
        let [d, a, b, scale_d, flags @ ..] = inst.operands.as_slice() else {
            return Err(self.invalid("`wgmma.mma_async` takes at least four operands"));
        };
        let in_registers = matches!(a, Operand::Vector(_));
        let flags = self.flags(flags, &product, in_registers)?;
        let per_register = if product.accumulator == D::F16 {
            256
        } else {
            128
        };
        let count = product.m * product.n / per_register;
        let a = if in_registers {
            WarpgroupA::Registers(self.sources(a, 4, Width::B32, "A")?)
        } else {
            WarpgroupA::Shared(self.source(a, Width::B64)?, flags.a_transposed)
        };
        let wgmma = Wgmma {
            a,
            b: self.source(b, Width::B64)?,
            b_transposed: flags.b_transposed,
            scale_d: self.predicate(scale_d)?,
            negated: flags.negated,
            d: self.destinations(d, count, Width::B32, "D")?,
            product,
            sum,
        };
        self.emit(Op::Tensor(Box::new(TensorOp::Wgmma(wgmma))));
        Ok(())
    }

    /// The immediate operands after `scale-d`.
    fn flags(
        &self,
        operands: &[Operand],
        product: &Product,
        in_registers: bool,
    ) -> Result<Flags, LoadError> {
        let scales = if product.accumulator == D::S32 { 0 } else { 2 };
        let majors = match product.a {
            E::F16 | E::Bf16 if in_registers => 1,
            E::F16 | E::Bf16 => 2,
            _ => 0,
        };
        if operands.len() != scales + majors {
            return Err(self.invalid(format!(
                "`wgmma.mma_async` of these types takes {} immediate operands after scale-d, not {}",
                scales + majors,
                operands.len()
            )));
        }
        let mut values = operands.iter();
        let mut negated = [false; 2];
        for negated in negated.iter_mut().take(scales) {
            *negated = match values.next() {
                Some(Operand::Integer(1)) => false,
                Some(Operand::Integer(-1)) => true,
                _ => return Err(self.invalid("imm-scale-a and imm-scale-b must be 1 or -1")),
            };
        }
        let mut transposed = [false; 2];
        for transposed in transposed.iter_mut().skip(2 - majors) {
            *transposed = match values.next() {
                Some(Operand::Integer(0)) => false,
                Some(Operand::Integer(1)) => true,
                _ => return Err(self.invalid("imm-trans-a and imm-trans-b must be 0 or 1")),
            };
        }
        Ok(Flags {
            negated: (negated[0], negated[1]),
            a_transposed: transposed[0],
            b_transposed: transposed[1],
        })
    }
}

/// Immediate operands of a `wgmma`.
struct Flags {
    negated: (bool, bool),
    a_transposed: bool,
    b_transposed: bool,
}

/// Takes the shape and types of a `wgmma`.
fn product(mods: &mut Mods<'_>) -> Result<(Product, TileSum), LoadError> {
    let extents = mods.take_map(shape);
    let saturating = mods.take("satfinite");
    let bits = bit_op(mods);
    let d = mods.take_map(D::from_word);
    let a = mods.take_map(E::from_word);
    let b = mods.take_map(E::from_word);
    let (Some((m, n, k)), Some(d), Some(a), Some(b)) = (extents, d, a, b) else {
        return Err(mods.unsupported());
    };
    let sum = match (d, bits) {
        (D::S32, Some(op)) => TileSum::Integer(IntegerRule::Ones(op)),
        (D::S32, None) => TileSum::Integer(IntegerRule::Products(saturating)),
        _ => TileSum::Float(Rule::of_wgmma(a, d)),
    };
    let wrong_bits = match a {
        E::B1 => bits != Some(BitOp::And),
        _ => bits.is_some(),
    };
    let clamps_none = saturating && (d != D::S32 || a == E::B1);
    let wrong_shape = m != 64 || k * a.bits() != 256 || !columns(n, d);
    if wrong_shape || wrong_bits || clamps_none || !exists(a, b, d) {
        return Err(mods.unsupported());
    }
    let product = Product {
        m,
        n,
        k,
        a,
        b,
        accumulator: d,
        sum: Sum::Tile(sum),
    };
    Ok((product, sum))
}
