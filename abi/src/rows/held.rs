//! Rows in registers: how much of them each thread has.

use super::{GRAD_VECTORS, MORE_VECTORS, RowEntry, RowOp, SHARED_BLOCK, VECTORS, Variant};

/// Blocks of the bounds below that run on an SM. Those are launch bounds of kernels that hold rows in
/// registers: they say how many registers a thread has.
pub const HELD_BLOCKS: u32 = 2;

/// Softmax: 40 registers a thread.
pub const SOFTMAX_BOUND: u32 = 768;

/// Softmax of [`MORE_VECTORS`](super::MORE_VECTORS): 64 registers.
pub const SOFTMAX_MORE_BOUND: u32 = 512;

/// Softmax of rows that begin anywhere: 56 registers.
pub const SOFTMAX_ANY_BOUND: u32 = 576;

/// Cross-entropy: 64 registers.
pub const CROSS_ENTROPY_BOUND: u32 = 512;

/// Gradients of softmax, of one vector of each input: 32 registers.
pub const SOFTMAX_GRAD_BOUND: u32 = 1024;

/// The same of [`GRAD_VECTORS`](super::GRAD_VECTORS): 56 registers; bf16.
pub const SOFTMAX_GRAD_MORE_BOUND: u32 = 576;

/// Norms: 56 registers.
pub const NORM_BOUND: u32 = 576;

/// Norms with weights in f32, or of rows that begin anywhere: 64 registers.
pub const NORM_F32_BOUND: u32 = 512;

/// Norms of [`MORE_VECTORS`](super::MORE_VECTORS): 72 registers.
pub const NORM_MORE_BOUND: u32 = 448;

/// How a kernel holds rows in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Most vectors that a thread has of a row.
    pub vectors: u32,
    /// Threads of its launch bound, of which [`HELD_BLOCKS`] times as many run on an SM.
    pub bound: u32,
}

impl RowEntry {
    /// Of an entry that holds rows in registers, without its weights: how.
    pub const fn holding(&self) -> Holding {
        let (vectors, bound) = match (self.op, self.variant) {
            (RowOp::Softmax, Variant::Registers) => (VECTORS, SOFTMAX_BOUND),
            (RowOp::Softmax, Variant::RegistersMore) => (MORE_VECTORS, SOFTMAX_MORE_BOUND),
            (RowOp::CrossEntropy, Variant::Registers) => (VECTORS, CROSS_ENTROPY_BOUND),
            (RowOp::Softmax, Variant::RegistersAny) => (VECTORS, SOFTMAX_ANY_BOUND),
            (RowOp::SoftmaxGrad, Variant::Registers) => (1, SOFTMAX_GRAD_BOUND),
            (RowOp::SoftmaxGrad, Variant::RegistersMore) => (GRAD_VECTORS, SOFTMAX_GRAD_MORE_BOUND),
            (RowOp::Norm, Variant::Registers) => (VECTORS, NORM_BOUND),
            (RowOp::Norm, Variant::RegistersAny) => (VECTORS, NORM_F32_BOUND),
            (RowOp::Norm, Variant::RegistersMore) => (MORE_VECTORS, NORM_MORE_BOUND),
            (RowOp::NormF32, Variant::Registers) => (VECTORS, NORM_F32_BOUND),
            // Their threads also add up the gradients of weights.
            (RowOp::NormGrad, Variant::Registers) => (GRAD_VECTORS, SHARED_BLOCK),
            (RowOp::NormGradF32, Variant::Registers) => (1, SHARED_BLOCK),
            _ => panic!("an entry holds no rows in registers"),
        };
        Holding {
            vectors: vectors as u32,
            bound,
        }
    }
}
