//! Instructions of the tensor cores, decided.

use super::{Base, Guard};
use crate::exec::registers::Slot;
use crate::memory::space::Space;
use crate::semantics::tensor::sum::Rule;
use crate::semantics::tensor::whole::IntegerRule;
use crate::semantics::tensor::{Accumulator, Element};

/// An instruction that a whole warp runs together.
#[derive(Clone, Debug)]
pub(crate) enum TensorOp {
    Mma(Mma),
    /// `ldmatrix`
    LoadMatrix(Matrices),
    /// `stmatrix`
    StoreMatrix(Matrices),
    /// `movmatrix`
    MoveMatrix {
        d: Slot,
        a: Slot,
    },
    /// `wgmma.mma_async`
    Wgmma(Wgmma),
    /// `wgmma.fence`
    WgmmaFence,
    /// `wgmma.commit_group`
    WgmmaCommit,
    /// `wgmma.wait_group`: how many of the latest groups may be in flight after it.
    WgmmaWait(u32),
}

impl TensorOp {
    /// Whether it is one of the four kinds of `wgmma`.
    pub(crate) fn is_wgmma(&self) -> bool {
        matches!(
            self,
            Self::Wgmma(_) | Self::WgmmaFence | Self::WgmmaCommit | Self::WgmmaWait(_)
        )
    }
}

/// How the products of a matrix instruction are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sum {
    Tile(TileSum),
    /// f64, whose elements take two words.
    Double,
}

/// How products of elements of at most 32 bits are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TileSum {
    Float(Rule),
    Integer(IntegerRule),
}

/// Extents and types of a matrix instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Product {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) a: Element,
    pub(crate) b: Element,
    pub(crate) accumulator: Accumulator,
    pub(crate) sum: Sum,
}

impl Product {
    /// Units along k: elements, or words of 32 single bits.
    pub(crate) fn units(&self) -> usize {
        self.k * self.a.bits() / self.a.unit_bits()
    }

    /// Operations; a multiply-add is two.
    pub(crate) fn flops(&self) -> u64 {
        2 * (self.m * self.n * self.k) as u64
    }
}

/// `mma.sync`
#[derive(Clone, Debug)]
pub(crate) struct Mma {
    pub(crate) product: Product,
    pub(crate) d: Box<[Slot]>,
    pub(crate) a: Box<[Slot]>,
    pub(crate) b: Box<[Slot]>,
    pub(crate) c: Box<[Slot]>,
}

/// One, two or four matrices of eight rows of 16 bytes in shared memory.
#[derive(Clone, Debug)]
pub(crate) struct Matrices {
    pub(crate) space: Space,
    pub(crate) base: Base,
    pub(crate) offset: u64,
    pub(crate) transposed: bool,
    /// A register for each matrix.
    pub(crate) regs: Box<[Slot]>,
}

/// Where a `wgmma` finds A.
#[derive(Clone, Debug)]
pub(crate) enum WarpgroupA {
    Registers(Box<[Slot]>),
    /// In shared memory, by a 64-bit descriptor; MN-major with `true`.
    Shared(Slot, bool),
}

/// `wgmma.mma_async`
#[derive(Clone, Debug)]
pub(crate) struct Wgmma {
    pub(crate) product: Product,
    pub(crate) sum: TileSum,
    /// The accumulator.
    pub(crate) d: Box<[Slot]>,
    pub(crate) a: WarpgroupA,
    /// Descriptor of B.
    pub(crate) b: Slot,
    /// B is MN-major.
    pub(crate) b_transposed: bool,
    /// Where false, the accumulator begins at zero.
    pub(crate) scale_d: Guard,
    /// A and B are negated.
    pub(crate) negated: (bool, bool),
}
