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

/// Host memory of a warp for its matrix instructions, used for one after another.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// The bits of A and B.
    bits: [Vec<u32>; 2],
    floats: [Floats; 2],
    integers: [Integers; 2],
    doubles: [Vec<f64>; 2],
    sums: Vec<Row<u32>>,
    double_sums: Vec<Row<u64>>,
}

impl Work {
    /// A and B from their bits, see [`Operands::new`].
    pub(super) fn operands(
        &mut self,
        product: &Product,
        sum: TileSum,
        bits: [&[u32]; 2],
        negated: (bool, bool),
    ) -> Operands<'_> {
        let room = (&mut self.floats, &mut self.integers);
        Operands::new(room, product, sum, bits, negated)
    }
}

/// A and B, decoded and rearranged for the sums.
pub(super) enum Operands<'w> {
    Float(Rule, &'w [Floats; 2]),
    Integer(IntegerRule, &'w [Integers; 2]),
}

impl<'w> Operands<'w> {
    /// From the bits of A as `[row][k]` and of B as `[column][k]`, in the order of the sum.
    pub(super) fn new(
        (floats, integers): (&'w mut [Floats; 2], &'w mut [Integers; 2]),
        product: &Product,
        sum: TileSum,
        [a, b]: [&[u32]; 2],
        negated: (bool, bool),
    ) -> Self {
        let units = product.units();
        match sum {
            TileSum::Integer(rule) => {
                integers[0].set_a(product.a, a, units);
                integers[1].set_b(product.b, b, units);
                Self::Integer(rule, integers)
            }
            TileSum::Float(rule) => {
                floats[0].set_a(product.a, a, units, negated.0);
                floats[1].set_b(product.b, b, units, negated.1);
                Self::Float(rule, floats)
            }
        }
    }

    /// Accumulator register `reg` of a tile of `rows` rows: `c` plus the products.
    #[inline(always)]
    pub(super) fn add(&self, reg: usize, rows: usize, c: &Row<u32>) -> Row<u32> {
        Row(match self {
            Self::Integer(rule, [a, b]) => {
                accumulate_s32(*rule, a, b, fragment::accumulator(reg, rows, false), &c.0)
            }
            Self::Float(rule, [a, b]) if rule.accumulator == Accumulator::F16 => {
                accumulate_f16(*rule, a, b, fragment::accumulator(reg, rows, true), &c.0)
            }
            Self::Float(rule, [a, b]) => {
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
        let [a, b] = &mut work.bits;
        let place = |lane, reg, per| fragment::a(product.m, per, lane, reg, 0);
        self.fragment_bits(block, (product, product.a), &mma.a, place, a);
        let place = |lane, reg, per| fragment::b(product.units(), per, lane, reg, 0);
        self.fragment_bits(block, (product, product.b), &mma.b, place, b);
        let room = (&mut work.floats, &mut work.integers);
        let operands = Operands::new(room, product, sum, [a, b], (false, false));
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
