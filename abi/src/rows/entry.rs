//! Entries that work on rows: their names and parameters.

use super::{
    CROSS_ENTROPY_BOUND, GRAD_VECTORS, Holding, MORE_VECTORS, NORM_BOUND, NORM_F32_BOUND,
    NORM_MORE_BOUND, RING_VECTORS, RING_VECTORS_F32, Ringing, RowKernels, SHARED_BLOCK,
    SOFTMAX_BOUND, SOFTMAX_GRAD_BOUND, SOFTMAX_GRAD_MORE_BOUND, SOFTMAX_MORE_BOUND, Slicing,
    VECTORS, WIDE_CLUSTER, WIDE_THREADS, WIDE_VECTORS,
};
use crate::DType;
use crate::SingleEntry;
use crate::entry::{Parts, entries};
use crate::kernel_param;
use crate::single::{
    CROSS_ENTROPY_TOTAL, CROSS_ENTROPY_TOTAL_EARLY, CROSS_ENTROPY_WEIGHT,
    CROSS_ENTROPY_WEIGHT_EARLY,
};

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
        form: Form::Held,
        vectors: VECTORS as u32,
        bound,
        threads,
    })
}

/// A kernel that holds [`MORE_VECTORS`] a thread.
const fn holding_more(bound: u32, threads: u32) -> Option<Holding> {
    Some(Holding {
        form: Form::HeldMore,
        vectors: MORE_VECTORS as u32,
        bound,
        threads,
    })
}

/// Gradients of softmax: a vector of each input a thread, or two.
const GRAD_HELD: Holding = Holding {
    form: Form::Held,
    vectors: 1,
    bound: SOFTMAX_GRAD_BOUND,
    threads: 512,
};

const GRAD_HELD_MORE: Holding = Holding {
    form: Form::HeldMore,
    vectors: GRAD_VECTORS as u32,
    bound: SOFTMAX_GRAD_MORE_BOUND,
    threads: 384,
};

/// Gradients of norms, whose threads also add up those of weights.
const fn norm_grad_holding(vectors: usize) -> Option<Holding> {
    Some(Holding {
        form: Form::Held,
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

/// The part of an entry's name that says how it holds rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// In registers of a block; sm_90a.
    Held,
    /// The same, with more vectors in each thread; bf16; sm_90a.
    HeldMore,
    /// As [`Form::Held`], with weights in registers too, for launches whose blocks all run at once;
    /// norms of 16-bit types; sm_90a.
    Few,
    /// In shared memory of a block, or of a cluster's blocks; sm_90a.
    Slices,
    /// The same, with weights loaded ahead; sm_90a.
    Ahead,
    /// The same for two rows at a time, with a bias; sm_90a.
    Pairs,
    /// In shared memory of persistent blocks or clusters; sm_90a.
    Ring,
    /// The same, with more of a row in each thread; bf16; sm_90a.
    Wide,
    /// In shared memory of persistent blocks, one row or several in each warp; bf16; sm_90a.
    Short,
    /// In shared memory, or nowhere; every GPU.
    Loose,
    /// Nowhere: adds up the columns of rows, for the gradients of weights; every GPU.
    Columns,
}

impl Form {
    /// Whether launches use PDL: they begin before the preceding ones have ended, and wait for
    /// their writes.
    pub const fn begins_early(self) -> bool {
        !matches!(self, Self::Loose | Self::Columns)
    }

    const fn of_name(parts: &mut Parts) -> Self {
        const NAMES: [(&str, Form); 11] = [
            ("held_more", Form::HeldMore),
            ("held", Form::Held),
            ("few", Form::Few),
            ("slices", Form::Slices),
            ("ahead", Form::Ahead),
            ("pairs", Form::Pairs),
            ("ring", Form::Ring),
            ("wide", Form::Wide),
            ("short", Form::Short),
            ("loose", Form::Loose),
            ("columns", Form::Columns),
        ];
        let mut i = 0;
        while i < NAMES.len() {
            if parts.take(NAMES[i].0) {
                return NAMES[i].1;
            }
            i += 1;
        }
        panic!("an entry's name lacks a form");
    }

    /// Entry that computes 1 / the number of targets that count, for cross-entropy; it is launched
    /// right before rows of this form.
    pub const fn weight_entry(self) -> SingleEntry {
        match self.begins_early() {
            true => CROSS_ENTROPY_WEIGHT_EARLY,
            false => CROSS_ENTROPY_WEIGHT,
        }
    }

    /// Entry that sums up cross-entropy's losses, after rows of this form.
    pub const fn total_entry(self) -> SingleEntry {
        match self.begins_early() {
            true => CROSS_ENTROPY_TOTAL_EARLY,
            false => CROSS_ENTROPY_TOTAL,
        }
    }
}

/// Operations on rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowOp {
    /// Softmax or log-softmax.
    Softmax,
    /// Gradient of softmax or log-softmax.
    SoftmaxGrad,
    /// Cross-entropy with its gradient.
    CrossEntropy,
    /// Layer norm or RMS norm.
    Norm,
    /// The same, for bf16 with weights in f32.
    NormF32,
    /// Gradient of layer norm or RMS norm.
    NormGrad,
    /// The same, for bf16 with weights in f32.
    NormGradF32,
}

impl RowOp {
    /// All operations.
    pub const ALL: [Self; 7] = [
        Self::Softmax,
        Self::SoftmaxGrad,
        Self::CrossEntropy,
        Self::Norm,
        Self::NormF32,
        Self::NormGrad,
        Self::NormGradF32,
    ];

    const fn of_name(parts: &mut Parts) -> Self {
        if parts.take("softmax") {
            return match parts.take("grad") {
                true => Self::SoftmaxGrad,
                false => Self::Softmax,
            };
        }
        if parts.take("cross_entropy") {
            return Self::CrossEntropy;
        }
        parts.expect("norm");
        match (parts.take("grad"), parts.take("wf32")) {
            (false, false) => Self::Norm,
            (false, true) => Self::NormF32,
            (true, false) => Self::NormGrad,
            (true, true) => Self::NormGradF32,
        }
    }

    /// The operation whose kernels of this form do it too: those that go element by element read
    /// weights of either type.
    pub const fn by(self, form: Form) -> Self {
        match (self, form) {
            (Self::NormF32, Form::Loose) => Self::Norm,
            (Self::NormGradF32, Form::Loose) => Self::NormGrad,
            _ => self,
        }
    }

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

/// One kernel; displays as its entry name: `softmax_bf16_held`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowEntry {
    name: &'static str,
    /// The operation.
    pub op: RowOp,
    /// Element type of the rows.
    pub dtype: DType,
    /// How it holds rows.
    pub form: Form,
}

impl RowEntry {
    /// The entry of a name `<op>_<dtype>_<form>`.
    pub const fn read(name: &'static str) -> Self {
        let mut parts = Parts::of(name);
        let entry = Self {
            name,
            op: RowOp::of_name(&mut parts),
            dtype: parts.expect_dtype(),
            form: Form::of_name(&mut parts),
        };
        parts.end();
        entry
    }

    /// The entry of an operation for rows of `dtype` that are held so, if there is one.
    pub fn of(op: RowOp, dtype: DType, form: Form) -> Option<Self> {
        Self::find(|entry| (entry.op, entry.dtype, entry.form) == (op, dtype, form))
    }

    /// Of an entry that holds rows in registers: how.
    pub const fn holding(&self) -> Holding {
        let [held, more] = self.op.kernels_of(self.dtype).held;
        let holding = if matches!(self.form, Form::HeldMore) {
            more
        } else {
            held
        };
        match holding {
            Some(holding) => holding,
            None => panic!("an entry holds rows in registers that its operation does not"),
        }
    }
}

entries! { $ RowEntry {
    /// Softmax, in registers. The element type of rows.
    softmax_held {
        softmax_f32_held(f32);
        softmax_f16_held(f16);
        softmax_bf16_held(bf16);
        softmax_bf16_held_more(bf16);
    }
    /// Softmax, in slices.
    softmax_slices {
        softmax_f32_slices(f32);
        softmax_f16_slices(f16);
        softmax_bf16_slices(bf16);
    }
    /// Softmax, element by element.
    softmax_loose {
        softmax_f32_loose(f32);
        softmax_f16_loose(f16);
        softmax_bf16_loose(bf16);
    }
    /// Gradients of softmax, in registers.
    softmax_grad_held {
        softmax_grad_f32_held(f32);
        softmax_grad_f16_held(f16);
        softmax_grad_bf16_held(bf16);
        softmax_grad_bf16_held_more(bf16);
    }
    /// Gradients of softmax, in slices.
    softmax_grad_slices {
        softmax_grad_f32_slices(f32);
        softmax_grad_f16_slices(f16);
        softmax_grad_bf16_slices(bf16);
    }
    /// Gradients of softmax, element by element.
    softmax_grad_loose {
        softmax_grad_f32_loose(f32);
        softmax_grad_f16_loose(f16);
        softmax_grad_bf16_loose(bf16);
    }
    /// Cross-entropy, in registers.
    cross_entropy_held {
        cross_entropy_f32_held(f32);
        cross_entropy_f16_held(f16);
        cross_entropy_bf16_held(bf16);
    }
    /// Cross-entropy, in slices.
    cross_entropy_slices {
        cross_entropy_f32_slices(f32);
        cross_entropy_f16_slices(f16);
        cross_entropy_bf16_slices(bf16);
    }
    /// Cross-entropy, element by element.
    cross_entropy_loose {
        cross_entropy_f32_loose(f32);
        cross_entropy_f16_loose(f16);
        cross_entropy_bf16_loose(bf16);
    }
    /// Norms, in registers. The element types of rows and weights.
    norm_held {
        norm_f32_held(f32, f32);
        norm_f16_held(f16, f16);
        norm_bf16_held(bf16, bf16);
        norm_wf32_bf16_held(bf16, f32);
        norm_bf16_held_more(bf16, bf16);
    }
    /// Norms, in registers, with weights in registers too.
    norm_few {
        norm_f16_few(f16);
        norm_bf16_few(bf16);
    }
    /// Norms, in slices.
    norm_slices {
        norm_f32_slices(f32, f32);
        norm_f16_slices(f16, f16);
        norm_bf16_slices(bf16, bf16);
        norm_wf32_bf16_slices(bf16, f32);
    }
    /// Norms, in slices, with weights loaded ahead.
    norm_ahead {
        norm_f32_ahead(f32);
        norm_f16_ahead(f16);
        norm_bf16_ahead(bf16);
    }
    /// The same, two rows at a time.
    norm_pairs {
        norm_f32_pairs(f32);
        norm_f16_pairs(f16);
        norm_bf16_pairs(bf16);
    }
    /// Norms, in persistent blocks.
    norm_ring {
        norm_f32_ring(f32, f32);
        norm_f16_ring(f16, f16);
        norm_bf16_ring(bf16, bf16);
        norm_wf32_bf16_ring(bf16, f32);
    }
    /// The same, with more of a row in each thread.
    norm_wide {
        norm_bf16_wide(bf16);
    }
    /// Norms, element by element.
    norm_loose {
        norm_f32_loose(f32);
        norm_f16_loose(f16);
        norm_bf16_loose(bf16);
    }
    /// Gradients of norms, in registers. The element types of rows and weights.
    norm_grad_held {
        norm_grad_f32_held(f32, f32);
        norm_grad_f16_held(f16, f16);
        norm_grad_wf32_bf16_held(bf16, f32);
    }
    /// Gradients of norms, in persistent blocks whose warps have several rows.
    norm_grad_short {
        norm_grad_bf16_short(bf16);
    }
    /// Gradients of norms, in persistent blocks.
    norm_grad_ring {
        norm_grad_f32_ring(f32, f32);
        norm_grad_f16_ring(f16, f16);
        norm_grad_bf16_ring(bf16, bf16);
        norm_grad_wf32_bf16_ring(bf16, f32);
    }
    /// Gradients of norms, element by element.
    norm_grad_loose {
        norm_grad_f32_loose(f32);
        norm_grad_f16_loose(f16);
        norm_grad_bf16_loose(bf16);
    }
    /// Sums of the columns of these.
    norm_grad_columns {
        norm_grad_f32_columns(f32);
        norm_grad_f16_columns(f16);
        norm_grad_bf16_columns(bf16);
    }
} }

/// Bits of [`RowParams::flags`].
pub mod flags {
    /// Log-softmax, not softmax.
    pub const LOG: u32 = 1;
    /// Rows are copied to shared memory first.
    pub const STAGED: u32 = 2;
    /// The mean is subtracted: layer norm, not RMS norm.
    pub const CENTER: u32 = 4;
    /// Weights are f32, whatever the rows' dtype.
    pub const F32_WEIGHTS: u32 = 8;
    /// The preceding launch wrote only the factor of the gradient, so rows may be read before it
    /// has ended.
    pub const EARLY: u32 = 16;
    /// What is read and written is far more than L2 holds: rows are read by a policy that evicts
    /// them last.
    pub const STREAMS: u32 = 32;
    /// Cross-entropy adds up numbers of targets: 1 over the sum is what it wants.
    pub const RECIPROCAL: u32 = 64;
}

/// Rows of which one block adds up the losses, a few a thread.
const TOTAL_ROWS: u64 = 16 << 10;
/// Rows of each block where there are more.
const TOTAL_BLOCK_ROWS: u64 = 4 << 10;
/// Most blocks, whose sums one block adds up in turn.
const TOTAL_BLOCKS: u64 = 4 << 10;

/// Blocks that add up the losses of `rows` rows, or count their targets. If there are several, one more
/// launch adds up their sums.
pub const fn total_blocks(rows: u64) -> u32 {
    if rows <= TOTAL_ROWS {
        return 1;
    }
    let blocks = rows.div_ceil(TOTAL_BLOCK_ROWS);
    if blocks < TOTAL_BLOCKS {
        blocks as u32
    } else {
        TOTAL_BLOCKS as u32
    }
}

kernel_param! {
    /// Extents and strides of one launch. Grid: x = [`super::RowPlan::blocks`], or
    /// [`super::RowPlan::persistent_blocks`] for rings, short rows and gradients of norms in registers.
    #[derive(Debug, PartialEq)]
    pub struct RowParams {
        /// Number of rows.
        pub rows: u64,
        /// Elements of a row.
        pub n: u64,
        /// Elements between the rows of each tensor of rows, in the order of the entry's parameters.
        pub strides: [i64; 5],
        /// Rows with this target are ignored.
        pub ignore_index: i64,
        /// Norms: epsilon. Cross-entropy: label smoothing.
        pub epsilon: f32,
        /// Cross-entropy: factor of the gradient. Norms: 1 / `n`.
        pub scale: f32,
        /// Threads of a row in a block.
        pub threads: u32,
        /// [`flags`].
        pub flags: u32,
        /// Vectors of a slice, if rows are in slices or come through a ring.
        pub vectors: u32,
        /// Rows that are in a block at a time, if they come through a ring; turns that are in a warp, if
        /// rows are short. Parts in which a slice lands, if rows are in slices.
        pub stages: u32,
        /// Address of two counters (u32) that are 0, aligned to 8 bytes, by which blocks with short rows
        /// keep pace with each other; 0 if they do not. The launch resets them.
        pub pace: u64,
    }
}
