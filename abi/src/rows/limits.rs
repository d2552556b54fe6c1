//! The limits within which each operation uses each [`Variant`], as data. All were measured on an H200
//! (`docs/rows.md`); [`RowPlan::choose`](super::RowPlan::choose) reads nothing else.

use super::{
    CROSS_ENTROPY_BOUND, GRAD_VECTORS, Holding, MORE_VECTORS, NORM_BOUND, NORM_F32_BOUND,
    NORM_MORE_BOUND, RING_VECTORS, RING_VECTORS_F32, Ringing, RowKernels, RowOp, SHARED_BLOCK,
    SOFTMAX_BOUND, SOFTMAX_GRAD_BOUND, SOFTMAX_GRAD_MORE_BOUND, SOFTMAX_MORE_BOUND, Slicing,
    VECTORS, Variant, WIDE_CLUSTER, WIDE_THREADS, WIDE_VECTORS,
};
use crate::DType;

/// What the operations have in common; by itself, no kernels but those that go element by element.
const PLAIN: RowKernels = RowKernels {
    held: [None, None],
    least_threads: 4,
    enough_bytes: 0,
    short_bytes: 2 << 10,
    holds_all: false,
    short: false,
    ahead: false,
    ring: None,
    wide: None,
    slices: None,
};

/// A kernel that holds [`VECTORS`] a thread.
const fn holding(bound: u32, threads: u32) -> Option<Holding> {
    Some(Holding {
        variant: Variant::Registers,
        vectors: VECTORS as u32,
        bound,
        threads,
    })
}

/// A kernel that holds [`MORE_VECTORS`] a thread.
const fn holding_more(bound: u32, threads: u32) -> Option<Holding> {
    Some(Holding {
        variant: Variant::RegistersMore,
        vectors: MORE_VECTORS as u32,
        bound,
        threads,
    })
}

/// Gradients of softmax: a vector of each input a thread, or two.
const GRAD_HELD: Holding = Holding {
    variant: Variant::Registers,
    vectors: 1,
    bound: SOFTMAX_GRAD_BOUND,
    threads: 512,
};

const GRAD_HELD_MORE: Holding = Holding {
    variant: Variant::RegistersMore,
    vectors: GRAD_VECTORS as u32,
    bound: SOFTMAX_GRAD_MORE_BOUND,
    threads: 384,
};

/// Gradients of norms, whose threads also add up those of weights.
const fn norm_grad_holding(vectors: usize) -> Option<Holding> {
    Some(Holding {
        variant: Variant::Registers,
        vectors: vectors as u32,
        bound: SHARED_BLOCK,
        threads: 32,
    })
}

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

const fn norm_ring(vectors: u32) -> Ringing {
    Ringing {
        vectors,
        alone_warps: 8,
        warps: 8,
        cluster: 2,
        most_warps: 16,
        joined_cluster: 4,
        resident_warps: 24,
        group_warps: 1,
    }
}

/// One block of 16 warps an SM, in clusters of 8 from 131,080 elements on.
const WIDE_RING: Ringing = Ringing {
    vectors: WIDE_VECTORS as u32,
    alone_warps: WIDE_THREADS / 32,
    warps: WIDE_THREADS / 32,
    cluster: WIDE_CLUSTER,
    most_warps: WIDE_THREADS / 32,
    joined_cluster: 1,
    resident_warps: WIDE_THREADS / 32,
    group_warps: 1,
};

const fn norm_grad_ring(vectors: u32, alone_warps: u32, warps: u32) -> Ringing {
    Ringing {
        vectors,
        alone_warps,
        warps,
        cluster: 8,
        most_warps: 8,
        joined_cluster: 1,
        resident_warps: 16,
        group_warps: 8,
    }
}

impl RowOp {
    /// The kernels of the operation; of all dtypes, or of bf16.
    pub const fn kernels(self) -> RowKernels {
        match self {
            Self::Softmax => RowKernels {
                held: [
                    holding(SOFTMAX_BOUND, 256),
                    holding_more(SOFTMAX_MORE_BOUND, 256),
                ],
                enough_bytes: 64 << 10,
                slices: Some(SOFTMAX_SLICES),
                ..PLAIN
            },
            Self::CrossEntropy => RowKernels {
                held: [holding(CROSS_ENTROPY_BOUND, 64), None],
                holds_all: true,
                slices: Some(SOFTMAX_SLICES),
                ..PLAIN
            },
            Self::Norm => RowKernels {
                held: [
                    holding(NORM_BOUND, NORM_BOUND),
                    holding_more(NORM_MORE_BOUND, NORM_MORE_BOUND),
                ],
                enough_bytes: 64 << 10,
                ahead: true,
                ring: Some(norm_ring(RING_VECTORS as u32)),
                wide: Some(WIDE_RING),
                slices: Some(NORM_SLICES),
                ..PLAIN
            },
            Self::NormF32 => RowKernels {
                held: [holding(NORM_F32_BOUND, NORM_F32_BOUND), None],
                enough_bytes: 64 << 10,
                holds_all: true,
                ring: Some(norm_ring(RING_VECTORS_F32 as u32)),
                slices: Some(NORM_SLICES),
                ..PLAIN
            },
            Self::SoftmaxGrad => RowKernels {
                held: [Some(GRAD_HELD), Some(GRAD_HELD_MORE)],
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
            },
            Self::NormGrad => RowKernels {
                held: [norm_grad_holding(GRAD_VECTORS), None],
                least_threads: 16,
                holds_all: true,
                short: true,
                ring: Some(norm_grad_ring(RING_VECTORS as u32, 8, 4)),
                ..PLAIN
            },
            Self::NormGradF32 => RowKernels {
                held: [norm_grad_holding(1), None],
                least_threads: 16,
                holds_all: true,
                ring: Some(norm_grad_ring(RING_VECTORS_F32 as u32, 16, 8)),
                ..PLAIN
            },
        }
    }

    /// The kernels of the operation for rows of this dtype.
    pub const fn kernels_of(self, dtype: DType) -> RowKernels {
        let kernels = self.kernels();
        match dtype {
            DType::Bf16 => kernels,
            _ => RowKernels {
                held: [kernels.held[0], None],
                short: false,
                wide: None,
                ..kernels
            },
        }
    }
}
