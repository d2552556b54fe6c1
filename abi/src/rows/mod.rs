//! Rows: softmax, norms and their like read a row once and write it once. A [`RowPlan`] states where
//! the threads of a launch hold rows in between, and how it is launched. The host chooses the plan.
//!
//! Entries: `<op>_<dtype>_<variant>`, with [`RowParams`] as the last parameter. Rows have element
//! stride 1.

mod entry;
mod held;
mod params;
mod ring;
mod short;
mod slices;
mod variant;

pub use crate::single::NORM_GRAD_FINISH;
pub use entry::{RowEntry, RowOp};
pub use held::{
    CROSS_ENTROPY_BOUND, HELD_BLOCKS, Holding, NORM_BOUND, NORM_F32_BOUND, NORM_MORE_BOUND,
    SOFTMAX_ANY_BOUND, SOFTMAX_BOUND, SOFTMAX_GRAD_BOUND, SOFTMAX_GRAD_MORE_BOUND,
    SOFTMAX_MORE_BOUND,
};
pub use params::{RowParams, flags, total_blocks};
pub use ring::{
    ANY_ELEMENTS, FINISH_COLUMNS, RING_STAGES, RING_WARPS, RingLayout, Stages, column_block,
};
pub use short::{SHORT_BLOCKS, SHORT_THREADS, SHORT_VECTORS, ShortLayout};
pub use slices::{BARRIER_BYTES, LINE_BYTES, SLICE_THREADS, slices_offset};
pub use variant::Variant;

/// Lanes of a warp.
const LANES: u32 = 32;

/// Bytes of one access.
pub const VECTOR_BYTES: u32 = 16;

/// Threads of a block whose rows have 32 threads or fewer each.
pub const SHARED_BLOCK: u32 = 64;

/// Most threads of a block.
pub const MAX_THREADS: u32 = 1024;

/// Launch bound of kernels that need more registers: 80 registers a thread.
pub const BOUND_THREADS: u32 = 768;

/// Most threads of a block of norms that hold weights in registers too.
pub const FEW_THREADS: u32 = SHARED_BLOCK;

/// Blocks of [`FEW_THREADS`] that run on an SM: 128 registers a thread.
pub const FEW_BLOCKS: u32 = 8;

/// Vectors of a row that a thread holds in registers.
pub const VECTORS: usize = 4;

/// The same where a row would leave many threads of fewer vectors without work; bf16.
pub const MORE_VECTORS: usize = 6;

/// Vectors of each input that a thread holds of gradients.
pub const GRAD_VECTORS: usize = 2;

/// Most blocks of a cluster.
pub const MAX_CLUSTER: u32 = 16;

/// The same for norms and their gradients whose rows come through a ring.
pub const RING_VECTORS: usize = 4;

/// The same, with weights in f32.
pub const RING_VECTORS_F32: usize = 2;

/// The same for norms of bf16 with a bias, of rows beyond those that come in pairs.
pub const WIDE_VECTORS: usize = 8;

/// Most threads of a block of such a ring: 128 registers a thread.
pub const WIDE_THREADS: u32 = 512;

/// Blocks of gradients of norms that run on an SM, where rows are in registers.
pub const GRAD_BLOCKS: u32 = 8;

/// Most blocks of a grid.
pub const MAX_BLOCKS: u32 = i32::MAX as u32;

/// Most blocks of kernels that go through rows element by element; with more rows, they loop.
pub const LOOSE_BLOCKS: u32 = 65_535;

/// Most words of a value that a block reduces through [`BLOCK_SCRATCH`].
pub const WORDS: usize = 3;

/// Words of shared memory through which the threads of a block reduce: two halves that alternate,
/// [`WORDS`] planes each, with a slot for each warp.
pub const BLOCK_SCRATCH: usize = 2 * WORDS * 32;

/// Rows of a thread group whose weights are loaded ahead, and vectors of each that a thread has, if there
/// is no bias.
pub const AHEAD: Ahead = Ahead {
    rows: 1,
    vectors: 8,
};

/// The same with a bias, which is loaded with the rows.
pub const PAIRS: Ahead = Ahead {
    rows: 2,
    vectors: 4,
};

/// Most threads of a block of such a thread group.
pub const AHEAD_THREADS: u32 = 256;

/// Blocks of [`AHEAD_THREADS`] that run on an SM: 64 registers a thread.
pub const AHEAD_BLOCKS: u32 = 4;

/// Where a row is between its read and its write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// In the registers of one block's threads, by kernels of this variant; one read.
    Registers(Variant),
    /// In slices, in the shared memory of one block or of a cluster's blocks, which exchange sums
    /// through distributed shared memory; one read.
    Slices,
    /// In slices, with the weights loaded while sums are exchanged; one read.
    Ahead(Ahead),
    /// In slices of persistent blocks, which have several rows in flight; one read.
    Ring(Stages),
    /// In shared memory of persistent blocks, each warp of which has several rows in flight; one
    /// read.
    Short(Stages),
    /// In shared memory, element by element, for rows that no other way takes; one read.
    Shared,
    /// Nowhere: rows are read once for their sums, and again for the result.
    Passes,
}

/// What the thread groups have whose weights are loaded ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ahead {
    /// Rows that a thread group takes together.
    pub rows: u32,
    /// Vectors that a thread has of each.
    pub vectors: u32,
}

/// How the rows of a launch's tensors lie to vectors of [`VECTOR_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Alignment {
    /// All rows begin at a multiple of a vector, and are whole vectors.
    Vectors,
    /// Rows that are read together begin equally far behind a multiple of a vector.
    Alike,
    /// Neither.
    Apart,
}

/// The rows of a launch, without their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowShape {
    /// Elements of a row.
    pub n: u64,
    /// Bytes of an element.
    pub element_bytes: u32,
    /// How rows lie to vectors.
    pub alignment: Alignment,
    /// Whether rows that are read follow each other without gaps. Only gradients of norms tell.
    pub is_dense: bool,
    /// Input tensors whose rows are read together: two for a gradient, or with a residual.
    pub inputs: u32,
    /// Whether a norm subtracts the mean.
    pub is_centered: bool,
    /// Whether a norm adds a bias.
    pub has_bias: bool,
}

impl RowShape {
    /// The variant for rows in slices.
    pub const fn slices(&self) -> Variant {
        match self.is_any() {
            false => Variant::Cluster,
            true => Variant::ClusterAny,
        }
    }

    /// Whether rows are not all whole aligned vectors.
    pub const fn is_any(&self) -> bool {
        !matches!(self.alignment, Alignment::Vectors)
    }

    /// Bytes of shared memory for a slice, if `blocks` blocks share a row. Of rows that begin
    /// anywhere, it lies to cache lines as it does in global memory.
    const fn slice_bytes(&self, blocks: u32) -> u32 {
        let ahead = if self.is_any() { LINE_BYTES } else { 0 };
        self.slice_vectors(blocks) * VECTOR_BYTES + ahead
    }

    /// Vectors of a slice, if `blocks` blocks share a row: whole cache lines. Of rows too long for
    /// slices, `u32::MAX` at most.
    pub const fn slice_vectors(&self, blocks: u32) -> u32 {
        let bytes = self.n.saturating_mul(self.element_bytes as u64);
        let lines = bytes.div_ceil((LINE_BYTES * blocks) as u64);
        let vectors = lines.saturating_mul((LINE_BYTES / VECTOR_BYTES) as u64);
        if vectors > u32::MAX as u64 {
            u32::MAX
        } else {
            vectors as u32
        }
    }
}

/// How a launch holds its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowPlan {
    /// Where rows are.
    pub strategy: Strategy,
    /// Threads of a row in one block: a power of two, or, with [`Strategy::Registers`],
    /// [`Strategy::Ring`] and [`Strategy::Ahead`], whole warps.
    pub threads: u32,
    /// Blocks of a row: those of a cluster, else 1.
    pub cluster: u32,
}

impl RowPlan {
    /// Threads of a block.
    pub const fn block_threads(&self) -> u32 {
        match self.strategy {
            Strategy::Ring(ring) | Strategy::Short(ring) => self.threads * ring.rows,
            Strategy::Ahead(_) => self.threads,
            _ if self.threads > LANES => self.threads,
            _ => SHARED_BLOCK,
        }
    }

    /// Rows that a block has at a time.
    pub const fn rows_per_block(&self) -> u32 {
        match self.strategy {
            Strategy::Ahead(ahead) => ahead.rows,
            Strategy::Ring(ring) | Strategy::Short(ring) => ring.rows,
            _ => self.block_threads() / self.threads,
        }
    }

    /// Blocks of a launch over `rows` rows: a multiple of the cluster. `None` if a grid cannot have
    /// that many.
    pub const fn blocks(&self, rows: u64) -> Option<u32> {
        let groups = rows.div_ceil(self.rows_per_block() as u64);
        match self.strategy {
            Strategy::Registers(_)
            | Strategy::Slices
            | Strategy::Ahead(_)
            | Strategy::Ring(_)
            | Strategy::Short(_) => {
                let most = (MAX_BLOCKS / self.cluster) as u64;
                if groups > most {
                    None
                } else {
                    Some(groups as u32 * self.cluster)
                }
            }
            Strategy::Shared | Strategy::Passes => Some(if groups > LOOSE_BLOCKS as u64 {
                LOOSE_BLOCKS
            } else {
                groups as u32
            }),
        }
    }

    /// Bytes of dynamic shared memory of a block.
    pub const fn shared_bytes(&self, shape: &RowShape) -> u32 {
        match self.strategy {
            Strategy::Registers(_) => 4 * BLOCK_SCRATCH as u32,
            Strategy::Slices => {
                let slots = self.threads.div_ceil(32) * self.cluster;
                let slices = self.rows_per_block() * shape.inputs;
                slices_offset(slots) + slices * shape.slice_bytes(self.cluster)
            }
            Strategy::Ahead(ahead) => {
                // A bias is loaded as one more row.
                let slices = ahead.rows + shape.has_bias as u32;
                let of_slice = self.threads * ahead.vectors * VECTOR_BYTES;
                slices_offset(self.threads / LANES * self.cluster) + slices * of_slice
            }
            Strategy::Ring(Stages {
                vectors, stages, ..
            }) => {
                let warps = self.block_threads() / LANES;
                let part = RingLayout::part_bytes(vectors, shape.is_any());
                RingLayout::new(part, shape.inputs, stages, warps, self.cluster).bytes()
            }
            Strategy::Short(Stages { stages, .. }) => {
                let warps = self.block_threads() / LANES;
                ShortLayout::new(shape.inputs, stages, warps, shape.is_any()).bytes()
            }
            Strategy::Shared => {
                let row = shape.n * shape.element_bytes as u64;
                (row * (shape.inputs * self.rows_per_block()) as u64) as u32
            }
            Strategy::Passes => 0,
        }
    }
}
