//! Entries that work on rows: their names and parameters.

use super::{
    GRAD_VECTORS, HELD_THREADS, RING_VECTORS, RING_VECTORS_F32, Ringing, RowKernels, Slicing,
    VECTORS, WIDE_CLUSTER, WIDE_THREADS, WIDE_VECTORS,
};
use crate::DType;

/// What the operations have in common; by itself, no kernels but those that go element by element.
const PLAIN: RowKernels = RowKernels {
    vectors: VECTORS as u32,
    least_threads: 4,
    alone_threads: 0,
    biased_threads: 0,
    short: false,
    ahead: false,
    ring: None,
    wide: None,
    slices: None,
};

const SOFTMAX_SLICES: Slicing = Slicing {
    alone_bytes: 52 << 10,
    shared_bytes: 52 << 10,
    cluster: 16,
    vectors: 15,
    shared_vectors: 15,
    most_vectors: 16,
    least_threads: 64,
};

const NORM_SLICES: Slicing = Slicing {
    alone_bytes: 32 << 10,
    shared_bytes: 32 << 10,
    cluster: 16,
    vectors: 4,
    shared_vectors: 8,
    most_vectors: 8,
    least_threads: 32,
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
    /// The same, with weights in registers too, for launches whose blocks all run at once; norms;
    /// sm_90a.
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
}

impl Form {
    /// Whether launches use PDL: they begin before the preceding ones have ended, and wait for
    /// their writes.
    pub const fn begins_early(self) -> bool {
        !matches!(self, Self::Loose)
    }

    /// Entry that computes 1 / the number of targets that count, for cross-entropy; it is launched
    /// right before rows of this form.
    pub const fn weight_entry(self) -> &'static str {
        match self.begins_early() {
            true => "cross_entropy_weight_early",
            false => "cross_entropy_weight",
        }
    }

    /// Entry that sums up cross-entropy's losses, after rows of this form.
    pub const fn total_entry(self) -> &'static str {
        match self.begins_early() {
            true => "cross_entropy_total_early",
            false => "cross_entropy_total",
        }
    }
}

impl core::fmt::Display for Form {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Held => "held",
            Self::Few => "few",
            Self::Slices => "slices",
            Self::Ahead => "ahead",
            Self::Pairs => "pairs",
            Self::Ring => "ring",
            Self::Wide => "wide",
            Self::Short => "short",
            Self::Loose => "loose",
        })
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

    /// The name in entry names.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Softmax => "softmax",
            Self::SoftmaxGrad => "softmax_grad",
            Self::CrossEntropy => "cross_entropy",
            Self::Norm => "norm",
            Self::NormF32 => "norm_wf32",
            Self::NormGrad => "norm_grad",
            Self::NormGradF32 => "norm_grad_wf32",
        }
    }

    /// The kernels of the operation; of all dtypes, or of bf16.
    pub const fn kernels(self) -> RowKernels {
        match self {
            Self::Softmax => RowKernels {
                alone_threads: 256,
                slices: Some(SOFTMAX_SLICES),
                ..PLAIN
            },
            Self::CrossEntropy => RowKernels {
                alone_threads: 64,
                slices: Some(SOFTMAX_SLICES),
                ..PLAIN
            },
            Self::Norm => RowKernels {
                alone_threads: 64,
                biased_threads: 32,
                ahead: true,
                ring: Some(norm_ring(RING_VECTORS as u32)),
                wide: Some(WIDE_RING),
                slices: Some(NORM_SLICES),
                ..PLAIN
            },
            Self::NormF32 => RowKernels {
                ring: Some(norm_ring(RING_VECTORS_F32 as u32)),
                slices: Some(NORM_SLICES),
                ..PLAIN
            },
            Self::SoftmaxGrad => RowKernels {
                vectors: 1,
                alone_threads: HELD_THREADS,
                slices: Some(Slicing {
                    alone_bytes: 64 << 10,
                    shared_bytes: 64 << 10,
                    least_threads: 4,
                    ..NORM_SLICES
                }),
                ..PLAIN
            },
            Self::NormGrad => RowKernels {
                vectors: GRAD_VECTORS as u32,
                least_threads: 16,
                alone_threads: 32,
                short: true,
                ring: Some(norm_grad_ring(RING_VECTORS as u32, 8, 4)),
                ..PLAIN
            },
            Self::NormGradF32 => RowKernels {
                vectors: 1,
                least_threads: 16,
                alone_threads: 32,
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
                short: false,
                wide: None,
                ..kernels
            },
        }
    }

    /// Whether there are kernels of this form, for at least one dtype.
    pub const fn has(self, form: Form) -> bool {
        match form {
            Form::Held => self.kernels().alone_threads > 0,
            Form::Few => matches!(self, Self::Norm),
            Form::Slices => self.kernels().slices.is_some(),
            Form::Ahead | Form::Pairs => self.kernels().ahead,
            Form::Ring => self.kernels().ring.is_some(),
            Form::Wide => self.kernels().wide.is_some(),
            Form::Short => self.kernels().short,
            Form::Loose => !matches!(self, Self::NormF32 | Self::NormGradF32),
        }
    }
}

/// One kernel; displays as its entry name: `softmax_bf16_held`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowEntry {
    /// The operation.
    pub op: RowOp,
    /// Element type of the rows.
    pub dtype: DType,
    /// How it holds rows.
    pub form: Form,
}

impl core::fmt::Display for RowEntry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}_{}_{}", self.op.name(), self.dtype, self.form)
    }
}

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

/// Extents and strides of one launch. Grid: x = [`super::RowPlan::blocks`], or
/// [`super::RowPlan::persistent_blocks`] for rings, short rows and gradients of norms in registers.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
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
