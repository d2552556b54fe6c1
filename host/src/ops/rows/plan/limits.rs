//! The limits within which each operation uses each variant to hold rows, as data. All were
//! measured on an H200 (`docs/rows.md`). The choice depends on no other constants.

use crate::ops::plan::costs;
use abi::rows::{NORM_BOUND, NORM_F32_BOUND, NORM_MORE_BOUND, RowOp, WIDE_THREADS};
use serde::{Deserialize, Serialize};

costs! {
    /// Operations on rows: where each way to hold rows is the fastest.
    RowCosts {
        /// Softmax.
        softmax: RowLimits = SOFTMAX,
        /// Gradients of softmax.
        softmax_grad: RowLimits = SOFTMAX_GRAD,
        /// Cross-entropy.
        cross_entropy: RowLimits = CROSS_ENTROPY,
        /// Norms.
        norm: RowLimits = NORM,
        /// Norms of bf16 with weights in f32.
        norm_f32: RowLimits = NORM_F32,
        /// Gradients of norms.
        norm_grad: RowLimits = NORM_GRAD,
        /// Gradients of norms of bf16 with weights in f32.
        norm_grad_f32: RowLimits = NORM_GRAD_F32,
        /// Registers: share of [`RowLimits::enough_bytes`] with which they are faster than slices, in
        /// percent.
        enough_percent: u64 = 90,
        /// Registers: how much more than [`RowLimits::enough_bytes`] norms with a mean need, in percent
        /// of it. They wait for two sums, one after the other.
        centered_percent: u64 = 125,
        /// Registers: fewest blocks of an SM with which they are faster than slices. While some blocks
        /// wait for each other's sums, others have to load.
        held_blocks: u32 = 4,
        /// Slices: largest cluster for which the number of blocks on an SM is limited to those that
        /// have enough bytes in flight. Clusters of 4 gain little or lose 1 %; larger ones lose
        /// more.
        paced_cluster: u32 = 2,
        /// Slices: fewest blocks that run on an SM. Two can be exchanging sums, or storing, at the same
        /// time.
        paced_blocks: u32 = 3,
        /// Slices: parts in which a slice lands in the largest clusters, a power of two. There,
        /// threads begin with the first part. In other clusters, the copies of other blocks hide
        /// the wait.
        slice_parts: u32 = 4,
        /// Rings: most stages of all warps of an SM together that are of use.
        warp_stages: u32 = 48,
        /// Rings of short rows: most stages that are of use.
        short_stages: u32 = 3,
        /// Rings of wide rows: most blocks of a cluster. Larger ones leave more multiprocessors idle.
        wide_cluster: u32 = WIDE_CLUSTER,
        /// SMs for which persistent blocks are counted, on every device. Bits of gradients depend
        /// on the number of blocks.
        multiprocessors: u32 = 132,
        /// Element by element: longest row that one warp has.
        one_warp_n: u64 = 1024,
        /// Element by element: longest row that eight warps have. Longer ones have 32.
        eight_warps_n: u64 = 8192,
    }
}

impl RowCosts {
    pub(super) fn of(&self, op: RowOp) -> &RowLimits {
        match op {
            RowOp::Softmax => &self.softmax,
            // Two inputs in slices.
            RowOp::SoftmaxGrad | RowOp::SoftCrossEntropy => &self.softmax_grad,
            RowOp::CrossEntropy => &self.cross_entropy,
            RowOp::Norm => &self.norm,
            RowOp::NormF32 => &self.norm_f32,
            RowOp::NormGrad => &self.norm_grad,
            RowOp::NormGradF32 => &self.norm_grad_f32,
        }
    }
}

/// The limits of one operation, where it has a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RowLimits {
    /// Most threads of a row in registers, by the kernel with fewer vectors in a thread and by the one
    /// with more.
    pub held_threads: [u32; 2],
    /// Fewest threads of such a row.
    pub least_threads: u32,
    /// Bytes of each input that an SM should have in flight where rows are in registers.
    pub enough_bytes: u64,
    /// Most bytes of a row of an input for which a block with slices takes longer to begin than to
    /// end.
    pub short_bytes: u64,
    /// Whether registers are the fastest way, however few bytes are in flight.
    pub holds_all: bool,
    /// Whether registers are the fastest way for rows with several inputs. All other ways of a norm
    /// with a residual take a tenth longer or more.
    pub holds_joined: bool,
    /// Whether registers are the fastest way for rows that begin anywhere, however few bytes are in
    /// flight, while an SM has [`RowCosts::held_blocks`].
    pub holds_any: bool,
    /// How longer rows come through a ring.
    pub ring: Option<Ringing>,
    /// The same for rows that begin anywhere.
    pub any_ring: Option<Ringing>,
    /// The same for norms with a bias and one input.
    pub wide: Option<Ringing>,
    /// How still longer rows are cut into slices.
    pub slices: Option<Slicing>,
}

/// How many slices a row is cut into if it comes through a ring.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ringing {
    /// Most warps of a single block.
    pub alone_warps: u32,
    /// Warps of a block in a cluster of at most `cluster` blocks.
    pub warps: u32,
    /// See `warps`.
    pub cluster: u32,
    /// Warps of a block in a larger cluster, as far as [`MAX_CLUSTER`](abi::rows::MAX_CLUSTER) allows.
    pub most_warps: u32,
    /// Rows with several inputs come through a ring only in clusters of at least this size.
    pub joined_cluster: u32,
    /// Warps that an SM has registers for.
    pub resident_warps: u32,
    /// Warps of a single block that has several rows at a time, if those of a row divide it.
    pub group_warps: u32,
}

/// How many slices a row is cut into, and their number of threads. A cluster costs the more the
/// larger it is and the more warps it has, as all of them exchange. Slices of more than 52 KiB
/// leave room for fewer than four blocks on an SM.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slicing {
    /// Most bytes that one block has of a row, all inputs together.
    pub alone_bytes: u64,
    /// Bytes of a block's slices in clusters, as far as `cluster` allows.
    pub shared_bytes: u64,
    /// Most blocks of a row, as long as none of them has more than `alone_bytes`; beyond that,
    /// [`MAX_CLUSTER`](abi::rows::MAX_CLUSTER).
    pub cluster: u32,
    /// Most vectors of an input for each thread of a single block, as far as
    /// [`SLICE_THREADS`](abi::rows::SLICE_THREADS) allow.
    pub vectors: u32,
    /// The same in clusters.
    pub shared_vectors: u32,
    /// The same for 16-bit elements in the largest clusters.
    pub most_vectors: u32,
    /// Fewest threads of a row in a single block.
    pub least_threads: u32,
    /// Bytes of rows, all inputs together, that an SM should have in flight in single blocks and in
    /// clusters of 2. More of them are slower, by up to 1 %. `None` has as many as fit.
    pub in_flight_bytes: Option<u32>,
}

/// What the operations have in common.
const PLAIN: RowLimits = RowLimits {
    held_threads: [0; 2],
    least_threads: 4,
    enough_bytes: 0,
    short_bytes: 2 << 10,
    holds_all: false,
    holds_joined: false,
    holds_any: false,
    ring: None,
    any_ring: None,
    wide: None,
    slices: None,
};

const SOFTMAX: RowLimits = RowLimits {
    held_threads: [256; 2],
    enough_bytes: 64 << 10,
    slices: Some(SOFTMAX_SLICES),
    ..PLAIN
};

const CROSS_ENTROPY: RowLimits = RowLimits {
    held_threads: [64, 0],
    holds_all: true,
    slices: Some(SOFTMAX_SLICES),
    ..PLAIN
};

const SOFTMAX_GRAD: RowLimits = RowLimits {
    held_threads: [512, 384],
    enough_bytes: 30 << 10,
    short_bytes: 11 << 8,
    slices: Some(Slicing {
        alone_bytes: 34 << 10,
        shared_bytes: 64 << 10,
        least_threads: 4,
        in_flight_bytes: Some(88 << 10),
        ..NORM_SLICES
    }),
    ..PLAIN
};

const NORM: RowLimits = RowLimits {
    held_threads: [NORM_BOUND, NORM_MORE_BOUND],
    enough_bytes: 64 << 10,
    holds_joined: true,
    holds_any: true,
    ring: Some(NORM_RING),
    any_ring: Some(grouped_ring(16, 8)),
    wide: Some(WIDE_RING),
    slices: Some(NORM_SLICES),
    ..PLAIN
};

const NORM_F32: RowLimits = RowLimits {
    held_threads: [NORM_F32_BOUND, 0],
    enough_bytes: 64 << 10,
    holds_all: true,
    ring: Some(NORM_RING),
    any_ring: Some(grouped_ring(16, 8)),
    slices: Some(NORM_SLICES),
    ..PLAIN
};

const NORM_GRAD: RowLimits = RowLimits {
    held_threads: [32, 0],
    least_threads: 16,
    holds_all: true,
    ring: Some(grouped_ring(8, 4)),
    any_ring: Some(grouped_ring(16, 8)),
    ..PLAIN
};

const NORM_GRAD_F32: RowLimits = RowLimits {
    ring: Some(grouped_ring(16, 8)),
    ..NORM_GRAD
};

const SOFTMAX_SLICES: Slicing = Slicing {
    alone_bytes: 52 << 10,
    shared_bytes: 52 << 10,
    cluster: 16,
    vectors: 15,
    shared_vectors: 15,
    most_vectors: 16,
    least_threads: 64,
    in_flight_bytes: Some(126 << 10),
};

const NORM_SLICES: Slicing = Slicing {
    alone_bytes: 32 << 10,
    shared_bytes: 32 << 10,
    cluster: 16,
    vectors: 4,
    shared_vectors: 8,
    most_vectors: 8,
    least_threads: 32,
    in_flight_bytes: None,
};

const NORM_RING: Ringing = Ringing {
    alone_warps: 8,
    warps: 8,
    cluster: 2,
    most_warps: 16,
    joined_cluster: 4,
    resident_warps: 24,
    group_warps: 1,
};

const WIDE_CLUSTER: u32 = 8;

/// One block of 16 warps an SM, in clusters of 8 from 131,080 elements on.
const WIDE_RING: Ringing = Ringing {
    alone_warps: WIDE_THREADS / 32,
    warps: WIDE_THREADS / 32,
    cluster: WIDE_CLUSTER,
    most_warps: WIDE_THREADS / 32,
    joined_cluster: 1,
    resident_warps: WIDE_THREADS / 32,
    group_warps: 1,
};

/// The ring of blocks that have several rows at a time.
const fn grouped_ring(alone_warps: u32, warps: u32) -> Ringing {
    Ringing {
        alone_warps,
        warps,
        cluster: 8,
        most_warps: 8,
        joined_cluster: 1,
        resident_warps: 16,
        group_warps: 8,
    }
}
