//! Rows: softmax, norms and their like read a row once and write it once. [`RowPlan::choose`] alone
//! decides where the threads of a launch hold rows in between.
//!
//! Entries: `<op>_<dtype>_<variant>`, with [`RowParams`] as the last parameter. Rows have element
//! stride 1.

mod entry;
mod held;
mod limits;
mod params;
mod ring;
mod short;
mod slices;
#[cfg(test)]
mod tests;
mod variant;

pub use crate::single::NORM_GRAD_FINISH;
pub use entry::{RowEntry, RowOp};
pub use held::{
    CROSS_ENTROPY_BOUND, HELD_BLOCKS, Holding, NORM_BOUND, NORM_F32_BOUND, NORM_MORE_BOUND,
    SOFTMAX_BOUND, SOFTMAX_GRAD_BOUND, SOFTMAX_GRAD_MORE_BOUND, SOFTMAX_MORE_BOUND,
};
pub use params::{RowParams, flags, total_blocks};
pub use ring::{
    FINISH_COLUMNS, RING_STAGES, RING_WARPS, RingLayout, Ringing, Stages, column_block,
};
pub use short::{SHORT_BLOCKS, SHORT_THREADS, SHORT_VECTORS, ShortLayout};
use slices::SLICE_SLOTS;
pub use slices::{BARRIER_BYTES, LINE_BYTES, SLICE_BLOCKS, SLICE_THREADS, Slicing, slices_offset};
pub use variant::Variant;

/// Lanes of a warp.
const LANES: u32 = 32;

/// Shared memory of an SM beyond what one block can have; the hardware also reserves as much for
/// each block.
const RESERVED_BYTES: u32 = 1 << 10;

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

/// Most blocks of a cluster of it: larger ones leave more multiprocessors idle.
pub const WIDE_CLUSTER: u32 = 8;

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
    /// In shared memory, element by element, for rows that are not aligned to vectors; one read.
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

/// The kernels of an operation, as far as the choice depends on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowKernels {
    /// Those that hold rows in registers; the second one has more vectors in a thread.
    pub held: [Option<Holding>; 2],
    /// Fewest threads of such a row.
    pub least_threads: u32,
    /// Bytes of each input that an SM should have in flight where rows are in registers.
    pub enough_bytes: u32,
    /// Most bytes of a row of an input for which a block with slices takes longer to begin than to
    /// end.
    pub short_bytes: u32,
    /// Whether no other way is faster, however few bytes are in flight.
    pub holds_all: bool,
    /// Whether there are kernels for rows of one warp or less, in persistent blocks.
    pub short: bool,
    /// Whether there are kernels with weights loaded ahead, for longer rows with one input: up to
    /// 32 KiB for each of 16 blocks, or 16 KiB with a bias.
    pub ahead: bool,
    /// How longer rows come through a ring, if there are kernels for that.
    pub ring: Option<Ringing>,
    /// The same for norms with a bias and one input, if there are kernels for that.
    pub wide: Option<Ringing>,
    /// How still longer rows are cut into slices, if there are kernels for that.
    pub slices: Option<Slicing>,
}

/// The rows of a launch, as far as the choice depends on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowShape {
    /// Elements of a row.
    pub n: u64,
    /// Bytes of an element.
    pub element_bytes: u32,
    /// Whether the rows of all tensors begin at multiples of [`VECTOR_BYTES`], and `n` elements are
    /// whole vectors.
    pub is_aligned: bool,
    /// Input tensors whose rows are read together: two for a gradient, or with a residual.
    pub inputs: u32,
    /// Whether a norm subtracts the mean.
    pub is_centered: bool,
    /// Whether a norm adds a bias.
    pub has_bias: bool,
}

impl RowShape {
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

/// The device, as far as the choice depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowDevice {
    /// Compute capability.
    pub arch: (u32, u32),
    /// Most dynamic shared memory of a block, in bytes.
    pub shared_bytes: u32,
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
    /// Chooses where rows are.
    ///
    /// | rows | strategy |
    /// |---|---|
    /// | aligned, on compute capability 9.0, as far as they fit the threads of a [`Holding`], where that is fastest (in elements of bf16: up to 2,048 of cross-entropy, 12,288 of softmax, 4,608 of its gradient, 10,240 of RMS norms, 4,608 and around 6,144 of layer norms; norms up to 21,504 with a residual, up to 16,384 with weights in f32; gradients of norms of f16 up to 512) | [`Strategy::Registers`], by as few threads as hold the row, in powers of two or whole warps |
    /// | the same, of gradients of norms of bf16, up to [`SHORT_VECTORS`] for each lane of a warp (1,024 elements) | [`Strategy::Short`] |
    /// | the same, longer, of norms without a residual, up to the vectors of [`AHEAD`], or of [`PAIRS`] with a bias, for each of [`AHEAD_THREADS`] of 16 blocks (131,072 elements of 16 bits with a bias, else 262,144) | [`Strategy::Ahead`] |
    /// | the same, longer, of norms of bf16 with a bias, up to [`WIDE_VECTORS`] for each of [`WIDE_THREADS`] of [`WIDE_CLUSTER`] blocks (262,144 elements) | [`Strategy::Ring`] |
    /// | the same, longer, with kernels for [`Ringing`] (norms and their gradients), up to its vectors for each of 512 threads of 16 blocks | [`Strategy::Ring`] |
    /// | the same, longer, with kernels for [`Slicing`] (all but gradients of norms), up to what the shared memory of 16 blocks has room for | [`Strategy::Slices`] |
    /// | any other that fits a block's shared memory | [`Strategy::Shared`] |
    /// | any other | [`Strategy::Passes`] |
    ///
    /// The limits are those with which an H200 was fastest (`docs/rows.md`).
    pub const fn choose(kernels: &RowKernels, shape: &RowShape, device: &RowDevice) -> Self {
        let is_hopper = device.arch.0 == 9 && device.arch.1 == 0;
        if shape.is_aligned && is_hopper {
            if kernels.short
                && let Some(plan) = Self::of_short(shape, device)
            {
                return plan;
            }
            if let Some(plan) = Self::of_held(kernels, shape) {
                return plan;
            }
            if kernels.ahead
                && let Some(plan) = Self::of_ahead(shape, device)
            {
                return plan;
            }
            if let Some(ringing) = &kernels.wide
                && shape.inputs == 1
                && shape.has_bias
                && let Some(plan) = Self::of_ring(ringing, shape, device)
                && plan.cluster <= WIDE_CLUSTER
            {
                return plan;
            }
            if let Some(ringing) = &kernels.ring
                && let Some(plan) = Self::of_ring(ringing, shape, device)
            {
                return plan;
            }
            if let Some(slicing) = &kernels.slices
                && let Some(plan) = Self::of_slices(slicing, shape, device)
            {
                return plan;
            }
        }
        let threads = if shape.n <= 1024 {
            32
        } else if shape.n <= 8192 {
            256
        } else {
            MAX_THREADS
        };
        let plan = Self {
            strategy: Strategy::Shared,
            threads,
            cluster: 1,
        };
        let row_bytes = shape.n * shape.element_bytes as u64;
        let staged = row_bytes * (shape.inputs * plan.rows_per_block()) as u64;
        if staged <= device.shared_bytes as u64 {
            return plan;
        }
        Self {
            strategy: Strategy::Passes,
            ..plan
        }
    }

    /// Slices with weights loaded ahead, for rows with one input that fit the threads of
    /// [`MAX_CLUSTER`] blocks.
    const fn of_ahead(shape: &RowShape, device: &RowDevice) -> Option<Self> {
        let ahead = if shape.has_bias { PAIRS } else { AHEAD };
        let bytes = shape.n * shape.element_bytes as u64;
        let of_block = ahead.vectors * AHEAD_THREADS * VECTOR_BYTES;
        if shape.inputs > 1 || bytes > (MAX_CLUSTER * of_block) as u64 {
            return None;
        }
        let cluster = power(bytes.div_ceil(of_block as u64), 1);
        let of_warp = ahead.vectors * LANES;
        let warps = shape.slice_vectors(cluster).div_ceil(of_warp);
        let plan = Self {
            strategy: Strategy::Ahead(ahead),
            threads: warps * LANES,
            cluster,
        };
        if plan.shared_bytes(shape) > device.shared_bytes {
            return None;
        }
        Some(plan)
    }

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
                slices_offset(slots) + slices * shape.slice_vectors(self.cluster) * VECTOR_BYTES
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
                RingLayout::new(vectors, shape.inputs, stages, warps, self.cluster).bytes()
            }
            Strategy::Short(Stages { stages, .. }) => {
                ShortLayout::new(shape.inputs, stages, self.block_threads() / LANES).bytes()
            }
            Strategy::Shared => {
                let row = shape.n * shape.element_bytes as u64;
                (row * (shape.inputs * self.rows_per_block()) as u64) as u32
            }
            Strategy::Passes => 0,
        }
    }

    /// Most additions along one path of a row's sum, for error bounds: a thread's own, those over
    /// the lanes of a warp, over the slots that a lane adds up, and over the lanes again.
    pub const fn additions(&self, n: u64) -> u64 {
        let threads = self.threads as u64 * self.cluster as u64;
        n.div_ceil(threads) + 8 + 5 + (SLICE_SLOTS / 32) as u64 + 5
    }

    /// Parts in which a slice lands, one after the other; a power of two. The largest clusters gain from beginning
    /// with the first; in others the copies of other blocks hide the wait as well.
    pub const fn parts(&self) -> u32 {
        match (self.strategy, self.cluster) {
            (Strategy::Slices, MAX_CLUSTER) => 4,
            _ => 1,
        }
    }
}

/// The smallest power of two that is at least `n`, and at least `least`.
const fn power(n: u64, least: u32) -> u32 {
    let n = n.next_power_of_two();
    if n > least as u64 { n as u32 } else { least }
}
