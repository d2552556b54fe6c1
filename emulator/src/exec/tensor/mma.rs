//! `mma.sync`: one warp, with the fragments in registers.

use crate::exec::block::Block;
use crate::exec::registers::Slot;
use crate::exec::row::{FULL_MASK, LANES, Row};
use crate::exec::warp::Warp;
use crate::profile::TensorInput;
use crate::program::tensor::{Mma, Product, Sum, TileSum};
use crate::semantics::Rounding;
use crate::semantics::tensor::sum::{Floats, Rule, accumulate_f16, accumulate_f32};
use crate::semantics::tensor::whole::{IntegerRule, Integers, accumulate_f64, accumulate_s32};
use crate::semantics::tensor::{Accumulator, Element, fragment};

/// A or B: its bits, and the same decoded and rearranged for the sums.
#[derive(Debug, Default)]
pub(crate) struct Operand {
    /// As `[row][k]`, or of B as `[column][k]`, in the order of the sum.
    pub(super) bits: Vec<u32>,
    floats: Floats,
    integers: Integers,
    /// A bit for each unit of shared memory that a `wgmma` has read, if races are checked for.
    pub(super) seen: Vec<u64>,
}

impl Operand {
    /// Decodes the bits of A.
    pub(super) fn decode_a(&mut self, product: &Product, sum: TileSum, negated: bool) {
        let (bits, units) = (&self.bits, product.units());
        match sum {
            TileSum::Integer(_) => self.integers.set_a(product.a, bits, units),
            TileSum::Float(_) => self.floats.set_a(product.a, bits, units, negated),
        }
    }

    /// Decodes the bits of B.
    pub(super) fn decode_b(&mut self, product: &Product, sum: TileSum, negated: bool) {
        let (bits, units) = (&self.bits, product.units());
        match sum {
            TileSum::Integer(_) => self.integers.set_b(product.b, bits, units),
            TileSum::Float(_) => self.floats.set_b(product.b, bits, units, negated),
        }
    }
}

/// Host memory of a warp for its matrix instructions, used for one after another.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(super) a: Operand,
    b: Operand,
    doubles: [Vec<f64>; 2],
    sums: Vec<Row<u32>>,
    double_sums: Vec<Row<u64>>,
}

/// A and B, decoded, and how they are summed.
pub(super) enum Operands<'w> {
    Float(Rule, &'w Floats, &'w Floats),
    Integer(IntegerRule, &'w Integers, &'w Integers),
}

impl<'w> Operands<'w> {
    pub(super) fn new(sum: TileSum, a: &'w Operand, b: &'w Operand) -> Self {
        match sum {
            TileSum::Integer(rule) => Self::Integer(rule, &a.integers, &b.integers),
            TileSum::Float(rule) => Self::Float(rule, &a.floats, &b.floats),
        }
    }

    /// Accumulator register `reg` of a tile of `rows` rows: `c` plus the products.
    #[inline(always)]
    pub(super) fn add(&self, reg: usize, rows: usize, c: &Row<u32>) -> Row<u32> {
        Row(match self {
            Self::Integer(rule, a, b) => {
                accumulate_s32(*rule, a, b, fragment::accumulator(reg, rows, false), &c.0)
            }
            Self::Float(rule, a, b) if rule.accumulator == Accumulator::F16 => {
                accumulate_f16(*rule, a, b, fragment::accumulator(reg, rows, true), &c.0)
            }
            Self::Float(rule, a, b) => {
                accumulate_f32(*rule, a, b, fragment::accumulator(reg, rows, false), &c.0)
            }
        })
    }
}

/// The kind of input that a profile counts.
pub(super) fn input(element: Element) -> TensorInput {
    match element {
        Element::F16 | Element::Bf16 => TensorInput::Half,
        Element::Tf32 => TensorInput::Tf32,
        Element::E4m3 | Element::E5m2 => TensorInput::Fp8,
        Element::F64 => TensorInput::Double,
        _ => TensorInput::Integer,
    }
}

impl Warp {
    /// Runs an `mma.sync` of a whole warp.
    pub(super) fn mma(&mut self, block: &Block<'_>, mma: &Mma) {
        let product = &mma.product;
        block.counters.mma(input(product.a), product.flops());
        self.on_copies(|warp| warp.multiply(block, mma));
        self.multiply(block, mma);
    }

    fn multiply(&mut self, block: &Block<'_>, mma: &Mma) {
        let product = &mma.product;
        let sum = match product.sum {
            Sum::Tile(sum) => sum,
            Sum::Double(rounding) => return self.mma_f64(block, mma, rounding),
        };
        let mut work = std::mem::take(&mut self.work);
        let (a, b) = (&mut work.a, &mut work.b);
        let place = |lane, reg, per| fragment::a(product.m, per, lane, reg, 0);
        self.fragment_bits(block, (product, product.a), &mma.a, place, &mut a.bits);
        a.decode_a(product, sum, false);
        let place = |lane, reg, per| fragment::b(product.units(), per, lane, reg, 0);
        self.fragment_bits(block, (product, product.b), &mma.b, place, &mut b.bits);
        b.decode_b(product, sum, false);
        let operands = Operands::new(sum, a, b);
        let constants = &block.launch.program.constants;
        // D may be the registers of C, one by one. It may also be those of A or B, which have been
        // read.
        let c = mma.c.iter().enumerate();
        let sums = c.map(|(i, c)| operands.add(i, product.m, self.regs.row::<u32>(constants, *c)));
        work.sums.clear();
        work.sums.extend(sums);
        for (d, sum) in mma.d.iter().zip(&work.sums) {
            self.regs.put(*d, sum, FULL_MASK);
        }
        self.work = work;
    }

    /// The elements of a fragment as `[row or column][k]`, in the order of the sum. `place` tells
    /// where the first element is that a register of a lane holds; the others follow it along k.
    /// They go to `out`.
    pub(super) fn fragment_bits(
        &self,
        block: &Block<'_>,
        (product, element): (&Product, Element),
        regs: &[Slot],
        place: impl Fn(usize, usize, usize) -> (usize, usize),
        out: &mut Vec<u32>,
    ) {
        let constants = &block.launch.program.constants;
        let (units, bits) = (product.units(), element.unit_bits());
        let per = 32 / bits;
        let mask = u32::MAX >> (32 - bits);
        let reorder = match product.sum {
            Sum::Tile(TileSum::Float(rule)) if rule.steps != 0 => Some(rule),
            _ => None,
        };
        // Each element is written below.
        out.resize(regs.len() * LANES * per, 0);
        for (r, reg) in regs.iter().enumerate() {
            let row = self.regs.row::<u32>(constants, *reg);
            for (lane, word) in row.0.iter().enumerate() {
                let (line, first) = place(lane, r, per);
                let line = &mut out[line * units..][..units];
                let parts = (0..32).step_by(bits).map(|shift| word >> shift & mask);
                match reorder {
                    None => {
                        let own = &mut line[first..first + per];
                        own.iter_mut()
                            .zip(parts)
                            .for_each(|(own, part)| *own = part);
                    }
                    Some(rule) => {
                        for (k, part) in (first..).zip(parts) {
                            line[rule.place(k, units)] = part;
                        }
                    }
                }
            }
        }
    }

    fn mma_f64(&mut self, block: &Block<'_>, mma: &Mma, rounding: Rounding) {
        let product = &mma.product;
        let constants = &block.launch.program.constants;
        let k = product.k;
        let mut work = std::mem::take(&mut self.work);
        let [a, b] = &mut work.doubles;
        a.resize(product.m * k, 0.0);
        b.resize(product.n * k, 0.0);
        for lane in 0..LANES {
            for (r, reg) in mma.a.iter().enumerate() {
                let (row, at) = fragment::a(product.m, 1, lane, r, 0);
                a[row * k + at] = f64::from_bits(self.regs.row::<u64>(constants, *reg).0[lane]);
            }
            for (r, reg) in mma.b.iter().enumerate() {
                let (column, at) = fragment::b(k, 1, lane, r, 0);
                b[column * k + at] = f64::from_bits(self.regs.row::<u64>(constants, *reg).0[lane]);
            }
        }
        let sums = mma.c.iter().enumerate().map(|(i, c)| {
            let at = fragment::accumulator(i, product.m, false);
            let c = self.regs.row::<u64>(constants, *c);
            Row(accumulate_f64(rounding, (&a[..], &b[..]), k, at, &c.0))
        });
        work.double_sums.clear();
        work.double_sums.extend(sums);
        for (d, sum) in mma.d.iter().zip(&work.double_sums) {
            self.regs.put(*d, sum, FULL_MASK);
        }
        self.work = work;
    }
}
