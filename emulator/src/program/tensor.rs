//! Tensor-core instructions, with shapes and types decided.

use super::{Base, Guard};
use crate::exec::registers::Slot;
use crate::memory::space::Space;
use crate::semantics::Rounding;
use crate::semantics::tensor::sum::Rule;
use crate::semantics::tensor::whole::IntegerRule;
use crate::semantics::tensor::{Accumulator, Element, wmma};

/// An instruction that all lanes of a warp execute together.
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
    /// `wmma.load`
    LoadFragment(Fragment),
    /// `wmma.store`
    StoreFragment(Fragment),
    /// Before or after a `wmma.mma` whose C or D is f16 and whose sums are f32.
    ConvertSums(ConvertSums),
    /// `wgmma.mma_async`
    Wgmma(Wgmma),
    /// `wgmma.fence`
    WgmmaFence,
    /// `wgmma.commit_group`
    WgmmaCommit,
    /// `wgmma.wait_group`: how many of the latest groups may stay in flight.
    WgmmaWait(u32),
}

impl TensorOp {
    /// Whether its results are sums or numbers, which depend on all bits of its sources.
    pub(crate) fn computes(&self) -> bool {
        matches!(self, Self::Mma(_) | Self::ConvertSums(_))
    }

    /// Whether it runs on the copies of the registers while the warp keeps these.
    pub(crate) fn runs_on_copies(&self) -> bool {
        match self {
            Self::Mma(_) | Self::ConvertSums(_) | Self::MoveMatrix { .. } => true,
            Self::LoadMatrix(_) | Self::LoadFragment(_) => true,
            Self::StoreMatrix(_) | Self::StoreFragment(_) => false,
            Self::Wgmma(_) | Self::WgmmaFence | Self::WgmmaCommit | Self::WgmmaWait(_) => false,
        }
    }

    /// Whether it is one of the four `wgmma` instructions.
    pub(crate) fn is_wgmma(&self) -> bool {
        matches!(
            self,
            Self::Wgmma(_) | Self::WgmmaFence | Self::WgmmaCommit | Self::WgmmaWait(_)
        )
    }
}

/// How a matrix instruction sums products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sum {
    Tile(TileSum),
    /// f64, whose elements take two 32-bit words.
    Double(Rounding),
}

/// How products of elements of at most 32 bits are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TileSum {
    Float(Rule),
    Integer(IntegerRule),
}

/// Shape and types of a matrix instruction.
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
    /// Units along k: elements, or 32-bit words of single bits.
    pub(crate) fn units(&self) -> usize {
        self.k * self.a.bits() / self.a.unit_bits()
    }

    /// Operations; a multiply-add counts as two.
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

/// One, two or four matrices of eight 16-byte rows in shared memory.
#[derive(Clone, Debug)]
pub(crate) struct Matrices {
    pub(crate) space: Space,
    pub(crate) base: Base,
    pub(crate) offset: u64,
    pub(crate) transposed: bool,
    /// A register for each matrix.
    pub(crate) regs: Box<[Slot]>,
}

/// A matrix in memory, and the registers that hold it.
#[derive(Clone, Debug)]
pub(crate) struct Fragment {
    pub(crate) space: Space,
    pub(crate) base: Base,
    pub(crate) offset: u64,
    /// Elements from one row (or column) to the next.
    pub(crate) stride: Slot,
    pub(crate) matrix: wmma::Matrix,
    pub(crate) regs: Box<[Slot]>,
}

/// Accumulators of f16 pairs to f32, or back.
#[derive(Clone, Debug)]
pub(crate) struct ConvertSums {
    /// f16 pairs.
    pub(crate) narrow: Box<[Slot]>,
    /// f32, two for each pair.
    pub(crate) wide: Box<[Slot]>,
    pub(crate) widens: bool,
}

/// Where a `wgmma` reads A.
#[derive(Clone, Debug)]
pub(crate) enum WarpgroupA {
    Registers(Box<[Slot]>),
    /// From shared memory, by a 64-bit descriptor; `true` if MN-major.
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
    /// Whether B is MN-major.
    pub(crate) b_transposed: bool,
    /// If false, the accumulator starts at zero.
    pub(crate) scale_d: Guard,
    /// Whether A and B are negated.
    pub(crate) negated: (bool, bool),
}
