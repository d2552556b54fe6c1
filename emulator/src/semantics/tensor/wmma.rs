//! Where the elements of a `wmma` fragment lie in memory.
//!
//! PTX leaves open which lane holds which element. Here fragments are those of `mma`
//! ([`fragment`]), as ptxas makes them: a `wmma.mma` m16n16k16 is two `mma` m16n8k16. Fragments of
//! f16 have eight registers for any number of elements. The first ones hold them all, and the others
//! repeat them.

use super::{Accumulator, Element, fragment};

/// Lanes that hold a fragment together.
const LANES: usize = 32;

/// Which matrix of a product it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    A,
    B,
    /// C or D.
    Sum,
}

/// A matrix in memory, whose elements go to the lanes of a warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Matrix {
    side: Side,
    rows: usize,
    columns: usize,
    /// Bits of an element.
    bits: usize,
    /// Registers of a lane.
    registers: usize,
    by_rows: bool,
}

impl Matrix {
    /// A (`m` by `k`) or B (`k` by `n`) of a product.
    pub(crate) fn operand(
        side: Side,
        (m, n, k): (usize, usize, usize),
        element: Element,
        by_rows: bool,
    ) -> Self {
        let (rows, columns) = if side == Side::A { (m, k) } else { (k, n) };
        let mut matrix = Self {
            side,
            rows,
            columns,
            bits: element.bits(),
            registers: 8,
            by_rows,
        };
        if element != Element::F16 {
            matrix.registers = matrix.distinct();
        }
        matrix
    }

    /// C or D of a product, `m` by `n`.
    pub(crate) fn sum((m, n): (usize, usize), accumulator: Accumulator, by_rows: bool) -> Self {
        let mut matrix = Self {
            side: Side::Sum,
            rows: m,
            columns: n,
            bits: accumulator.bits(),
            registers: 0,
            by_rows,
        };
        matrix.registers = matrix.distinct();
        matrix
    }

    /// What messages call it.
    pub(crate) fn name(&self) -> &'static str {
        match self.side {
            Side::A => "A",
            Side::B => "B",
            Side::Sum => "an accumulator",
        }
    }

    /// Registers of a lane.
    pub(crate) fn registers(&self) -> usize {
        self.registers
    }

    /// Bits of a register.
    pub(crate) fn register_bits(&self) -> usize {
        self.bits.max(32)
    }

    /// Registers of a lane that hold different elements: register `r` holds what `r % distinct`
    /// does.
    pub(crate) fn distinct(&self) -> usize {
        self.rows * self.columns * self.bits / (LANES * self.register_bits())
    }

    /// Elements of a row if rows follow each other in memory, of a column if columns do.
    pub(crate) fn line(&self) -> usize {
        if self.by_rows {
            self.columns
        } else {
            self.rows
        }
    }

    /// `row` or `column`: what [`line`](Self::line) counts.
    pub(crate) fn line_name(&self) -> &'static str {
        if self.by_rows { "row" } else { "column" }
    }

    /// What the address is a multiple of, in bytes: the fragment of a lane.
    pub(crate) fn alignment(&self) -> usize {
        self.registers * self.register_bits() / 8
    }

    /// What the bytes from one line to the next are a multiple of. PTX says
    /// [`alignment`](Self::alignment), and CUDA C++ allows 16 bytes, which is as much as ptxas needs.
    pub(crate) fn line_alignment(&self) -> usize {
        self.alignment().min(16)
    }

    /// Bits of `stride` elements.
    pub(crate) fn stride_bits(&self, stride: u64) -> u64 {
        stride * self.bits as u64
    }

    /// Accesses to memory for one register: one if its elements are neighbours there.
    pub(crate) fn parts(&self) -> usize {
        let neighbours = match self.side {
            Side::A | Side::Sum => self.by_rows,
            Side::B => !self.by_rows,
        };
        if neighbours {
            1
        } else {
            self.register_bits() / self.bits
        }
    }

    /// Bytes of each of them.
    pub(crate) fn part_bytes(&self) -> usize {
        self.register_bits() / self.parts() / 8
    }

    /// Row and column of element `e` of a register.
    fn place(&self, lane: usize, reg: usize, e: usize) -> (usize, usize) {
        let per = self.register_bits() / self.bits;
        match self.side {
            Side::A => fragment::a(self.rows, per, lane, reg, e),
            Side::B => {
                let (column, k) = fragment::b(self.rows, per, lane, reg, e);
                (k, column)
            }
            Side::Sum => {
                let (block, eighth, odd) = fragment::accumulator(reg, self.rows, per == 2);
                (8 * eighth + lane / 4, 8 * block + lane % 4 * 2 + odd + e)
            }
        }
    }

    /// Bytes from the first element to part `part` of a register, with lines `stride` elements
    /// apart.
    pub(crate) fn offset(&self, stride: u64, lane: usize, reg: usize, part: usize) -> u64 {
        let (row, column) = self.place(lane, reg, part);
        let (line, along) = if self.by_rows {
            (row, column)
        } else {
            (column, row)
        };
        self.stride_bits(line as u64 * stride + along as u64) / 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SQUARES: [(usize, usize, usize); 3] = [(16, 16, 16), (8, 32, 16), (32, 8, 16)];

    fn all() -> Vec<Matrix> {
        use Accumulator as D;
        use Element as E;
        let types = [
            (E::F16, D::F16, 16),
            (E::Bf16, D::F32, 16),
            (E::S8, D::S32, 16),
        ];
        let mut products: Vec<_> = SQUARES
            .iter()
            .flat_map(|shape| types.map(|(a, d, _)| (*shape, a, d)))
            .collect();
        products.extend([
            ((16, 16, 8), E::Tf32, D::F32),
            ((8, 8, 4), E::F64, D::F64),
            ((8, 8, 32), E::S4, D::S32),
            ((8, 8, 128), E::B1, D::S32),
        ]);
        let matrices = products.into_iter().flat_map(|(shape, a, d)| {
            [true, false].into_iter().flat_map(move |by_rows| {
                let sum = Matrix::sum((shape.0, shape.1), d, by_rows);
                // Elements of less than a byte lie along k.
                let sides = [(Side::A, true), (Side::B, false)].into_iter();
                let sides = sides.filter(move |(_, k)| !a.is_sub_byte() || *k == by_rows);
                let operands = sides.map(move |(side, _)| Matrix::operand(side, shape, a, by_rows));
                operands.chain([sum])
            })
        });
        matrices.collect()
    }

    /// Distinct registers cover each byte of a matrix once, and lines keep their distance.
    #[test]
    fn fragments_hold_each_element_once() {
        for matrix in all() {
            let lines = matrix.rows * matrix.columns / matrix.line();
            let stride = matrix.line() as u64 + 128;
            let mut seen = std::collections::BTreeSet::new();
            for lane in 0..LANES {
                for reg in 0..matrix.distinct() {
                    for part in 0..matrix.parts() {
                        let first = matrix.offset(stride, lane, reg, part);
                        assert_eq!(first % matrix.part_bytes() as u64, 0, "{matrix:?}");
                        let bytes = first..first + matrix.part_bytes() as u64;
                        bytes.for_each(|at| assert!(seen.insert(at), "{matrix:?}: {at}"));
                    }
                }
            }
            let bytes = |elements| matrix.stride_bits(elements) / 8;
            let want = (0..lines as u64).flat_map(|line| {
                let first = bytes(line * stride);
                first..first + bytes(matrix.line() as u64)
            });
            assert!(seen.into_iter().eq(want), "{matrix:?}");
        }
    }

    #[test]
    fn registers_are_those_of_the_tables_of_the_isa() {
        use Element as E;
        let count = |side, shape, element| Matrix::operand(side, shape, element, true).registers();
        for (element, sizes) in [
            (E::F16, [(8, 8), (8, 8), (8, 8)]),
            (E::Bf16, [(4, 4), (2, 8), (8, 2)]),
            (E::U8, [(2, 2), (1, 4), (4, 1)]),
        ] {
            for (shape, want) in SQUARES.into_iter().zip(sizes) {
                let got = (
                    count(Side::A, shape, element),
                    count(Side::B, shape, element),
                );
                assert_eq!(got, want, "{element:?}, {shape:?}");
            }
        }
        for (element, shape, want) in [
            (E::Tf32, (16, 16, 8), 4),
            (E::F64, (8, 8, 4), 1),
            (E::U4, (8, 8, 32), 1),
            (E::B1, (8, 8, 128), 1),
        ] {
            assert_eq!(count(Side::A, shape, element), want);
            assert_eq!(count(Side::B, shape, element), want);
        }
        for (accumulator, shape, want) in [
            (Accumulator::F16, (32, 8), 4),
            (Accumulator::F32, (16, 16), 8),
            (Accumulator::S32, (8, 8), 2),
            (Accumulator::F64, (8, 8), 2),
        ] {
            assert_eq!(Matrix::sum(shape, accumulator, true).registers(), want);
        }
    }
}
