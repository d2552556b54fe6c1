//! `wmma`: matrices between memory and fragments, and their products, which run as `mma`.

use ptx_syntax::ast::{Instruction, Operand};

use super::mma::{How, width};
use super::shape;
use crate::error::LoadError;
use crate::exec::registers::Slot;
use crate::lower::mods::Mods;
use crate::lower::{FunctionLowering, Lowered};
use crate::memory::space::Space;
use crate::program::tensor::{ConvertSums, Fragment, Mma, Product, TensorOp};
use crate::program::{Op, Width};
use crate::semantics::tensor::wmma::{Matrix, Side};
use crate::semantics::tensor::{Accumulator as D, Element as E};

const OPERANDS: [E; 9] = [
    E::F16,
    E::Bf16,
    E::Tf32,
    E::F64,
    E::S8,
    E::U8,
    E::S4,
    E::U4,
    E::B1,
];
const SUMS: [D; 4] = [D::F16, D::F32, D::F64, D::S32];

type Shape = (usize, usize, usize);

/// Whether there is a product of this shape and these types. C and D may differ if both exist.
fn exists(shape: Shape, a: E, d: D) -> bool {
    let square = matches!(shape, (16, 16, 16) | (8, 32, 16) | (32, 8, 16));
    match (a, d) {
        (E::F16, D::F16 | D::F32) | (E::Bf16, D::F32) | (E::S8 | E::U8, D::S32) => square,
        (E::Tf32, D::F32) => shape == (16, 16, 8),
        (E::F64, D::F64) => shape == (8, 8, 4),
        (E::S4 | E::U4, D::S32) => shape == (8, 8, 32),
        (E::B1, D::S32) => shape == (8, 8, 128),
        _ => false,
    }
}

/// Takes `.row` or `.col`: whether rows follow each other in memory.
fn by_rows(mods: &mut Mods<'_>) -> Result<bool, LoadError> {
    mods.need(|word| match word {
        "row" => Some(true),
        "col" => Some(false),
        _ => None,
    })
}

/// Whether an operand can be stored so: elements of less than a byte lie along k.
fn is_stored(side: Side, element: E, by_rows: bool) -> bool {
    !element.is_sub_byte() || by_rows == (side == Side::A)
}

impl<'a> FunctionLowering<'a, '_> {
    pub(in crate::lower) fn wmma(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Lowered {
        self.require_aligned(&mut mods)?;
        let registers = |matrix: &Matrix| (matrix.registers(), register(matrix), matrix.name());
        if mods.take("load") {
            let matrix = matrix(
                &mut mods,
                &[("a", Side::A), ("b", Side::B), ("c", Side::Sum)],
            )?;
            let [d, address, stride @ ..] = inst.operands.as_slice() else {
                return Err(self.invalid("`wmma.load` takes registers and an address"));
            };
            let mut fragment = self.fragment(mods, matrix, address, stride)?;
            let (count, width, name) = registers(&matrix);
            fragment.regs = self.destinations(d, count, width, name)?;
            return self.emit_tensor(TensorOp::LoadFragment(fragment));
        }
        if mods.take("store") {
            let matrix = matrix(&mut mods, &[("d", Side::Sum)])?;
            let [address, source, stride @ ..] = inst.operands.as_slice() else {
                return Err(self.invalid("`wmma.store` takes an address and registers"));
            };
            let mut fragment = self.fragment(mods, matrix, address, stride)?;
            let (count, width, name) = registers(&matrix);
            fragment.regs = self.sources(source, count, width, name)?;
            return self.emit_tensor(TensorOp::StoreFragment(fragment));
        }
        mods.require("mma")?;
        self.fragment_product(inst, mods)
    }

    fn emit_tensor(&mut self, op: TensorOp) -> Lowered {
        self.emit(Op::Tensor(Box::new(op)));
        Ok(())
    }

    /// Resolves everything but the registers.
    fn fragment(
        &mut self,
        mut mods: Mods<'a>,
        matrix: Matrix,
        address: &Operand,
        stride: &[Operand],
    ) -> Result<Fragment, LoadError> {
        let space = mods.take_map(|word| match word {
            "global" => Some(Space::Global),
            "shared" | "shared::cta" => Some(Space::Shared),
            _ => None,
        });
        mods.finish()?;
        let address = self.address(address)?;
        let stride = match stride {
            [] => self.build.pool.slot(Width::B32, matrix.line() as u64),
            [stride] => self.source(stride, Width::B32)?,
            _ => return Err(self.invalid("one stride at most")),
        };
        Ok(Fragment {
            space: space.or(address.space).unwrap_or(Space::Generic),
            base: address.base,
            offset: address.offset,
            stride,
            matrix,
            regs: Box::default(),
        })
    }

    /// `wmma.mma`: one `mma`, or two of half of k for tf32, as ptxas makes it.
    fn fragment_product(&mut self, inst: &'a Instruction, mut mods: Mods<'a>) -> Lowered {
        let stored = (by_rows(&mut mods)?, by_rows(&mut mods)?);
        let extents = mods.need(shape)?;
        let how = How::take(&mut mods);
        let d_type = mods.need(D::from_word)?;
        let types = (mods.take_map(E::from_word), mods.take_map(E::from_word));
        let (a, c_type) = match (types, mods.take_map(D::from_word)) {
            // `.dtype.ctype` for f16, else `.dtype.atype.btype.ctype`.
            ((Some(E::F16), None), None) => (E::F16, D::F16),
            ((None, None), Some(c)) => (E::F16, c),
            ((Some(a), Some(b)), Some(c)) if a == b && a != E::F16 => (a, c),
            _ => return Err(mods.unsupported()),
        };
        let (m, n, k) = extents;
        // f16 sums of f32 accumulators are f32 sums, rounded to f16 at the end.
        let accumulator = if d_type == c_type { d_type } else { D::F32 };
        let is_stored = is_stored(Side::A, a, stored.0) && is_stored(Side::B, a, stored.1);
        let exists = exists(extents, a, d_type) && exists(extents, a, c_type);
        let Some(sum) = how.sum(a, accumulator).filter(|_| is_stored && exists) else {
            return Err(mods.unsupported());
        };
        mods.finish()?;
        let takes = "`wmma.mma` takes four operands";
        let [d, a_regs, b_regs, c_regs] = self.operands(inst, takes)?;
        let width = width(accumulator);
        let (of_a, of_b) = (
            Matrix::operand(Side::A, extents, a, stored.0),
            Matrix::operand(Side::B, extents, a, stored.1),
        );
        let count = |ty| Matrix::sum((m, n), ty, true).registers();
        let a_regs = self.sources(a_regs, of_a.registers(), width, "A")?;
        let b_regs = self.sources(b_regs, of_b.registers(), width, "B")?;
        let c_regs = self.sources(c_regs, count(c_type), width, "C")?;
        let d_regs = self.destinations(d, count(d_type), width, "D")?;
        let mut sums = c_regs;
        if c_type != accumulator {
            let wide = self.scratch(count(accumulator), width);
            self.emit_tensor(TensorOp::ConvertSums(ConvertSums {
                narrow: sums,
                wide: wide.clone(),
                widens: true,
            }))?;
            sums = wide;
        }
        let steps = if a == E::Tf32 { 2 } else { 1 };
        for step in 0..steps {
            let is_last = step + 1 == steps && d_type == accumulator;
            let d = match is_last {
                true => d_regs.clone(),
                false => self.scratch(count(accumulator), width),
            };
            let mma = Mma {
                product: Product {
                    m,
                    n,
                    k: k / steps,
                    a,
                    b: a,
                    accumulator,
                    sum,
                },
                a: part(&a_regs[..of_a.distinct()], 1, step, steps),
                b: part(&b_regs[..of_b.distinct()], n / 8, step, steps),
                c: sums,
                d: d.clone(),
            };
            self.emit_tensor(TensorOp::Mma(mma))?;
            sums = d;
        }
        if d_type != accumulator {
            self.emit_tensor(TensorOp::ConvertSums(ConvertSums {
                narrow: d_regs,
                wide: sums,
                widens: false,
            }))?;
        }
        Ok(())
    }

    /// Registers between the operations of one instruction.
    fn scratch(&mut self, count: usize, width: Width) -> Box<[Slot]> {
        let registers = (0..count).map(|_| {
            let reg = self.fresh(width);
            self.named.borrow_mut().push(reg);
            reg.slot
        });
        registers.collect()
    }
}

/// Takes which matrix it is, how it is stored, its shape and its type.
fn matrix(mods: &mut Mods<'_>, sides: &[(&str, Side)]) -> Result<Matrix, LoadError> {
    let side = mods.need(|word| Some(sides.iter().find(|side| side.0 == word)?.1))?;
    let (by_rows, shape) = (by_rows(mods)?, mods.need(shape)?);
    let found = match side {
        Side::A | Side::B => {
            let element = mods.need(E::from_word)?;
            let exists = SUMS.iter().any(|d| exists(shape, element, *d));
            (exists && is_stored(side, element, by_rows))
                .then(|| Matrix::operand(side, shape, element, by_rows))
        }
        Side::Sum => {
            let sum = mods.need(D::from_word)?;
            let exists = OPERANDS.iter().any(|a| exists(shape, *a, sum));
            exists.then(|| Matrix::sum((shape.0, shape.1), sum, by_rows))
        }
    };
    found.ok_or_else(|| mods.unsupported())
}

/// The width of a fragment's registers.
fn register(matrix: &Matrix) -> Width {
    match matrix.register_bits() {
        64 => Width::B64,
        _ => Width::B32,
    }
}

/// The registers of one step along k, of a fragment with `blocks` of rows or columns one after
/// another.
fn part(regs: &[Slot], blocks: usize, step: usize, steps: usize) -> Box<[Slot]> {
    let each = regs.len() / blocks;
    let own = each / steps;
    let blocks = regs.chunks_exact(each);
    let parts = blocks.flat_map(|block| &block[step * own..][..own]);
    parts.copied().collect()
}
