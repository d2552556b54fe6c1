//! Rows: softmax, norms and their like read a row once and write it once. How the threads of a
//! launch hold rows is chosen here, by [`RowPlan::choose`] alone.
//!
//! Entries: `<op>_<dtype>_<form>`, with [`RowParams`] as the last parameter. Rows have element
//! stride 1.

use crate::DType;

/// Bytes of one access.
pub const VECTOR_BYTES: u32 = 16;

/// Threads of a block whose rows belong to 32 threads or fewer.
pub const SHARED_BLOCK: u32 = 64;

/// Most threads of a block.
pub const MAX_THREADS: u32 = 1024;

/// Most threads of a block of kernels that hold rows in registers.
pub const HELD_THREADS: u32 = 512;

/// Such blocks that a multiprocessor has room for: 64 registers a thread.
pub const HELD_BLOCKS: u32 = 2;

/// What kernels that need more registers are bound to: 80 registers a thread.
pub const BOUND_THREADS: u32 = 768;

/// Vectors that a thread holds of a row.
pub const VECTORS: usize = 4;

/// The same of the gradient of norms, whose threads also add up those of the weights.
pub const GRAD_VECTORS: usize = 2;

/// Most blocks of a cluster.
pub const MAX_CLUSTER: u32 = 16;

/// Columns that a block that adds up partial sums has: a sector of memory.
pub const COLUMNS: u32 = 8;

/// Partial sums of a column that such a block adds up side by side.
pub const COLUMN_ROWS: u32 = 128;

/// Threads of a grid that adds up gradients of weights as it goes, on average: all of them run at a
/// time on an H200, where a multiprocessor has room for as many.
pub const GRAD_THREADS: u32 = 132 * 512;

/// Most blocks of a grid.
pub const MAX_BLOCKS: u32 = i32::MAX as u32;

/// Blocks of kernels that go through rows element by element; they stride over the rest.
pub const LOOSE_BLOCKS: u32 = 65_535;

/// Most words of a value that threads reduce together.
pub const WORDS: usize = 3;

/// Words of shared memory that threads of a block exchange through: two turns, [`WORDS`] planes, a
/// slot a warp.
pub const BLOCK_SCRATCH: usize = 2 * WORDS * 32;

/// The same of a cluster: a slot for every warp of every block.
pub const CLUSTER_SLOTS: usize = (MAX_CLUSTER * HELD_THREADS / 32) as usize;

/// Words of shared memory that blocks of a cluster exchange through.
pub const CLUSTER_SCRATCH: usize = 2 * WORDS * CLUSTER_SLOTS;

/// Where a row is between its being read and its being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// In the registers of the threads of one block; one read.
    Registers,
    /// In the registers of a cluster's blocks, which reduce over distributed shared memory; one
    /// read.
    Cluster,
    /// In shared memory, for rows that do not begin on a vector; one read.
    Shared,
    /// Nowhere: it is read for what the whole row says, and again for the result.
    Passes,
}

/// What the kernels of an operation are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowKernels {
    /// Vectors that a thread holds of a row.
    pub vectors: u32,
    /// Least threads of a row.
    pub least_threads: u32,
    /// Rows that are held together (a gradient needs two).
    pub inputs: u32,
}

/// The rows of a launch, as far as the choice depends on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowShape {
    /// Elements of a row.
    pub n: u64,
    /// Of an element.
    pub element_bytes: u32,
    /// Whether all rows of all tensors begin on a multiple of [`VECTOR_BYTES`], and `n` elements are
    /// whole vectors.
    pub is_aligned: bool,
}

/// What a device offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowDevice {
    /// Compute capability.
    pub arch: (u32, u32),
    /// Most dynamic shared memory of a block, in bytes.
    pub shared_bytes: u32,
}

/// How the rows of a launch are shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowPlan {
    /// Where rows are.
    pub strategy: Strategy,
    /// Threads of a row in one block; a power of two.
    pub threads: u32,
    /// Blocks of a row: those of a cluster, else 1.
    pub cluster: u32,
}

impl RowPlan {
    /// The choice.
    ///
    /// | rows | strategy |
    /// |---|---|
    /// | aligned, on compute capability 9.0, of at most `vectors` for each of 512 threads (16,384 elements of 16 bits, 8,192 of f32; a gradient that holds 2 vectors half of it) | [`Strategy::Registers`], by as few threads as hold the row, in powers of two |
    /// | the same, up to 16 times as long | [`Strategy::Cluster`] of 4 to 16 blocks, of 256 threads where 16 such are enough |
    /// | any other that fits into a block's shared memory | [`Strategy::Shared`] |
    /// | any other | [`Strategy::Passes`] |
    pub const fn choose(kernels: &RowKernels, shape: &RowShape, device: &RowDevice) -> Self {
        let vectors = (shape.n * shape.element_bytes as u64).div_ceil(VECTOR_BYTES as u64);
        let of_block = kernels.vectors as u64 * HELD_THREADS as u64;
        let is_hopper = device.arch.0 == 9 && device.arch.1 == 0;
        if shape.is_aligned && is_hopper && vectors <= of_block * MAX_CLUSTER as u64 {
            // Twice the blocks of half the threads, where a row is shared anyway: they begin and end
            // more evenly.
            let blocks = power(vectors.div_ceil(of_block), 1);
            let cluster = match blocks {
                1 | MAX_CLUSTER => blocks,
                _ => blocks * 2,
            };
            let held = vectors.div_ceil(kernels.vectors as u64 * cluster as u64);
            let (strategy, least) = if cluster > 1 {
                (Strategy::Cluster, 32)
            } else {
                (Strategy::Registers, kernels.least_threads)
            };
            return Self {
                strategy,
                threads: power(held, least),
                cluster,
            };
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
        let staged = row_bytes * (kernels.inputs * plan.rows_per_block()) as u64;
        if staged <= device.shared_bytes as u64 {
            return plan;
        }
        Self {
            strategy: Strategy::Passes,
            ..plan
        }
    }

    /// Threads of a block.
    pub const fn block_threads(&self) -> u32 {
        if self.threads > 32 {
            self.threads
        } else {
            SHARED_BLOCK
        }
    }

    /// Rows that a block has at a time.
    pub const fn rows_per_block(&self) -> u32 {
        self.block_threads() / self.threads
    }

    /// Blocks of a launch over so many rows: a multiple of the cluster. `None` where a grid cannot have
    /// as many.
    pub const fn blocks(&self, rows: u64) -> Option<u32> {
        let groups = rows.div_ceil(self.rows_per_block() as u64);
        match self.strategy {
            Strategy::Registers | Strategy::Cluster => {
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

    /// Blocks of a launch whose blocks stride over the rows, whatever the device.
    pub const fn persistent_blocks(&self, rows: u64) -> u32 {
        let most = GRAD_THREADS / (self.block_threads() * self.cluster) * self.cluster;
        let most = if most == 0 { self.cluster } else { most };
        match self.blocks(rows) {
            Some(blocks) if blocks < most => blocks,
            _ => most,
        }
    }

    /// Bytes of dynamic shared memory of a block, for kernels that hold `inputs` rows.
    pub const fn shared_bytes(&self, shape: &RowShape, inputs: u32) -> u32 {
        match self.strategy {
            Strategy::Registers => 4 * BLOCK_SCRATCH as u32,
            Strategy::Cluster => 4 * CLUSTER_SCRATCH as u32,
            Strategy::Shared => {
                let row = shape.n * shape.element_bytes as u64;
                (row * (inputs * self.rows_per_block()) as u64) as u32
            }
            Strategy::Passes => 0,
        }
    }

    /// Additions along one path of a row's sum, at most, for error bounds: a thread's own, those of
    /// the lanes of a warp, of the slots that a lane adds up, and of the lanes again.
    pub const fn additions(&self, n: u64) -> u64 {
        let threads = self.threads as u64 * self.cluster as u64;
        n.div_ceil(threads) + 8 + 5 + (CLUSTER_SLOTS / 32) as u64 + 5
    }

    /// The entry's form.
    pub const fn form(&self) -> Form {
        match self.strategy {
            Strategy::Registers | Strategy::Cluster => Form::Held,
            Strategy::Shared | Strategy::Passes => Form::Loose,
        }
    }
}

/// The least power of two that is at least `n` and `least`.
const fn power(n: u64, least: u32) -> u32 {
    let n = n.next_power_of_two();
    if n > least as u64 { n as u32 } else { least }
}

/// What the name of an entry says of how it holds rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// In registers of a block or a cluster; sm_90a.
    Held,
    /// In shared memory, or nowhere; every GPU.
    Loose,
}

impl core::fmt::Display for Form {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Held => "held",
            Self::Loose => "loose",
        })
    }
}

/// Operations on rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowOp {
    /// Softmax or log-softmax.
    Softmax,
    /// Their gradient.
    SoftmaxGrad,
    /// Cross-entropy with its gradient.
    CrossEntropy,
    /// Layer norm or RMS norm.
    Norm,
    /// The same of bf16 with weights in f32.
    NormF32,
    /// Their gradient.
    NormGrad,
    /// The same of bf16 with weights in f32.
    NormGradF32,
}

impl RowOp {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Softmax,
        Self::SoftmaxGrad,
        Self::CrossEntropy,
        Self::Norm,
        Self::NormF32,
        Self::NormGrad,
        Self::NormGradF32,
    ];

    /// In entry names.
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

    /// The kernels there are.
    pub const fn kernels(self) -> RowKernels {
        match self {
            Self::Softmax | Self::CrossEntropy | Self::Norm | Self::NormF32 => RowKernels {
                vectors: VECTORS as u32,
                least_threads: 4,
                inputs: 1,
            },
            Self::SoftmaxGrad => RowKernels {
                vectors: VECTORS as u32,
                least_threads: 4,
                inputs: 2,
            },
            Self::NormGrad => RowKernels {
                vectors: GRAD_VECTORS as u32,
                least_threads: 16,
                inputs: 2,
            },
            Self::NormGradF32 => RowKernels {
                vectors: 1,
                least_threads: 16,
                inputs: 2,
            },
        }
    }
}

/// Names an entry: `softmax_bf16_held`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowEntry {
    /// What it computes.
    pub op: RowOp,
    /// Of the rows.
    pub dtype: DType,
    /// How it holds them.
    pub form: Form,
}

impl core::fmt::Display for RowEntry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}_{}_{}", self.op.name(), self.dtype, self.form)
    }
}

/// Bits of [`RowParams::flags`].
pub mod flags {
    /// The logarithm of softmax.
    pub const LOG: u32 = 1;
    /// Rows are put into shared memory first.
    pub const STAGED: u32 = 2;
    /// The mean is subtracted: layer norm.
    pub const CENTER: u32 = 4;
    /// Weights are f32, whatever the rows are.
    pub const F32_WEIGHTS: u32 = 8;
}

/// Extents and strides of one launch. Grid: x = [`RowPlan::blocks`].
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowParams {
    /// Rows.
    pub rows: u64,
    /// Elements of a row.
    pub n: u64,
    /// Elements between rows of each tensor of rows, in the order of the entry's parameters.
    pub strides: [i64; 5],
    /// The target that is to be ignored.
    pub ignore_index: i64,
    /// Norms: epsilon. Cross-entropy: label smoothing.
    pub epsilon: f32,
    /// What gradients are multiplied by.
    pub scale: f32,
    /// Threads of a row in a block.
    pub threads: u32,
    /// [`flags`].
    pub flags: u32,
}
