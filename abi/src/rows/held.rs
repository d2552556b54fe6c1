//! Rows in registers: by which kernel, by how many threads, and where another way is faster.

use super::{LANES, RowKernels, RowPlan, RowShape, Strategy, VECTOR_BYTES, Variant, power};

/// Blocks of the bounds below that run on an SM. Those are launch bounds of kernels that hold rows in
/// registers: they say how many registers a thread has.
pub const HELD_BLOCKS: u32 = 2;

/// Softmax: 40 registers a thread.
pub const SOFTMAX_BOUND: u32 = 768;

/// Softmax of [`MORE_VECTORS`](super::MORE_VECTORS): 64 registers.
pub const SOFTMAX_MORE_BOUND: u32 = 512;

/// Cross-entropy: 64 registers.
pub const CROSS_ENTROPY_BOUND: u32 = 512;

/// Gradients of softmax, of one vector of each input: 32 registers.
pub const SOFTMAX_GRAD_BOUND: u32 = 1024;

/// The same of [`GRAD_VECTORS`](super::GRAD_VECTORS): 56 registers; bf16.
pub const SOFTMAX_GRAD_MORE_BOUND: u32 = 576;

/// Norms: 56 registers.
pub const NORM_BOUND: u32 = 576;

/// Norms with weights in f32: 64 registers.
pub const NORM_F32_BOUND: u32 = 512;

/// Norms of [`MORE_VECTORS`](super::MORE_VECTORS): 72 registers.
pub const NORM_MORE_BOUND: u32 = 448;

/// A kernel that holds rows in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Its variant: [`Variant::Registers`], or [`Variant::RegistersMore`] behind one of that.
    pub variant: Variant,
    /// Most vectors that a thread has of a row.
    pub vectors: u32,
    /// Threads of its launch bound, of which [`HELD_BLOCKS`] times as many run on an SM.
    pub bound: u32,
    /// Most threads of a row.
    pub threads: u32,
}

/// Fewest blocks of an SM with which rows in registers are faster than in slices: while some of them
/// wait for each other's sums, others have to load.
const LEAST_BLOCKS: u32 = 4;

impl Holding {
    /// Threads of a row of so many vectors: a power of two in a warp, else whole warps, so that most
    /// of them have all of their vectors.
    const fn threads_of(&self, vectors: u64, least: u32) -> Option<u32> {
        let threads = vectors.div_ceil(self.vectors as u64);
        if threads > self.threads as u64 {
            return None;
        }
        Some(if threads <= LANES as u64 {
            power(threads, least)
        } else {
            (threads as u32).next_multiple_of(LANES)
        })
    }
}

impl RowPlan {
    /// Rows in registers, if that is the fastest way: by the first kernel with which an SM has enough
    /// bytes of them in flight, else by the one with which it has the most.
    pub(super) const fn of_held(kernels: &RowKernels, shape: &RowShape) -> Option<Self> {
        let bytes = shape.n.saturating_mul(shape.element_bytes as u64);
        let enough = kernels.enough_bytes as u64 * shape.inputs as u64;
        // Norms with a mean wait for two sums, one after the other.
        let enough = if shape.is_centered {
            enough * 5 / 4
        } else {
            enough
        };
        let mut best: Option<Self> = None;
        let (mut most, mut blocks) = (0, 0);
        let mut i = 0;
        while i < kernels.held.len() {
            if let Some(holding) = &kernels.held[i]
                && let vectors = bytes.div_ceil(VECTOR_BYTES as u64)
                && let Some(threads) = holding.threads_of(vectors, kernels.least_threads)
                && (best.is_none() || most < enough)
            {
                let plan = Self {
                    strategy: Strategy::Registers(holding.variant),
                    threads,
                    cluster: 1,
                };
                let at_a_time = HELD_BLOCKS * holding.bound / plan.block_threads();
                let rows = (at_a_time * plan.rows_per_block()) as u64;
                let in_flight = rows * bytes * shape.inputs as u64;
                if best.is_none() || in_flight > most {
                    (best, most, blocks) = (Some(plan), in_flight, at_a_time);
                }
            }
            i += 1;
        }
        let plan = match best {
            Some(plan) => plan,
            None => return None,
        };
        let is_short = plan.threads <= LANES || bytes <= kernels.short_bytes as u64;
        let is_fast = most >= enough * 9 / 10 && blocks >= LEAST_BLOCKS;
        // All other ways of a norm with a residual take a tenth longer or more.
        let is_sole = kernels.holds_all || (kernels.ahead && shape.inputs > 1);
        if is_short || is_fast || is_sole {
            Some(plan)
        } else {
            None
        }
    }
}
