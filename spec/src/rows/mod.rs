//! Rows: softmax, norms and their like read a row once and write it once. How the threads of a
//! launch hold rows is chosen here, by [`RowPlan::choose`] alone.
//!
//! Entries: `<op>_<dtype>_<form>`, with [`RowParams`] as the last parameter. Rows have element
//! stride 1.

mod entry;

pub use entry::{Form, RowEntry, RowOp, RowParams, flags};

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

/// Threads of a grid that adds up gradients of weights as it goes: all of them run at a time on an
/// H200, where a multiprocessor has room for as many.
pub const GRAD_THREADS: u32 = 132 * 512;

/// The same in clusters of 4 blocks and more, for which no multiprocessor can be left alone.
pub const GRAD_CLUSTER_THREADS: u32 = 132 * 384;

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
    /// Most threads of a row that one block has alone.
    pub alone_threads: u32,
    /// Threads of each block of a cluster, where 16 blocks are enough; 512 where they are not.
    pub cluster_threads: u32,
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
    /// | aligned, on compute capability 9.0, of at most `vectors` for each of `alone_threads` (16,384 elements of 16 bits of softmax, 8,192 of norms; half of that in f32) | [`Strategy::Registers`], by as few threads as hold the row, in powers of two |
    /// | the same, longer, up to `vectors` for each of 512 threads of 16 blocks (262,144 elements of 16 bits) | [`Strategy::Cluster`] of as few blocks as hold it by `cluster_threads`, or 16 |
    /// | any other that fits into a block's shared memory | [`Strategy::Shared`] |
    /// | any other | [`Strategy::Passes`] |
    ///
    /// The numbers are what an H200 was fastest with (`benches/results/norm.csv`).
    pub const fn choose(kernels: &RowKernels, shape: &RowShape, device: &RowDevice) -> Self {
        let vectors = (shape.n * shape.element_bytes as u64).div_ceil(VECTOR_BYTES as u64);
        let held = kernels.vectors as u64;
        let is_hopper = device.arch.0 == 9 && device.arch.1 == 0;
        let longest = held * HELD_THREADS as u64 * MAX_CLUSTER as u64;
        if shape.is_aligned && is_hopper && vectors <= longest {
            if vectors <= held * kernels.alone_threads as u64 {
                return Self {
                    strategy: Strategy::Registers,
                    threads: power(vectors.div_ceil(held), kernels.least_threads),
                    cluster: 1,
                };
            }
            let blocks = vectors.div_ceil(held * kernels.cluster_threads as u64);
            let cluster = if blocks > MAX_CLUSTER as u64 {
                MAX_CLUSTER
            } else {
                power(blocks, 2)
            };
            return Self {
                strategy: Strategy::Cluster,
                threads: power(vectors.div_ceil(held * cluster as u64), 32),
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
        let threads = if self.cluster < 4 {
            GRAD_THREADS
        } else {
            GRAD_CLUSTER_THREADS
        };
        let most = threads / (self.block_threads() * self.cluster) * self.cluster;
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

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;
    use crate::DType;

    const HOPPER: RowDevice = RowDevice {
        arch: (9, 0),
        shared_bytes: 200 << 10,
    };

    fn plan(op: RowOp, n: u64, element_bytes: u32, is_aligned: bool) -> RowPlan {
        let shape = RowShape {
            n,
            element_bytes,
            is_aligned,
        };
        RowPlan::choose(&op.kernels(), &shape, &HOPPER)
    }

    #[test]
    fn rows_go_from_lanes_to_blocks_to_clusters_to_passes() {
        let of = |n| {
            let plan = plan(RowOp::Softmax, n, 2, true);
            (plan.strategy, plan.threads, plan.cluster)
        };
        assert_eq!(of(8), (Strategy::Registers, 4, 1));
        assert_eq!(of(256), (Strategy::Registers, 8, 1));
        assert_eq!(of(1024), (Strategy::Registers, 32, 1));
        assert_eq!(of(16_384), (Strategy::Registers, 512, 1));
        assert_eq!(of(32_768), (Strategy::Cluster, 256, 4));
        assert_eq!(of(131_072), (Strategy::Cluster, 256, 16));
        assert_eq!(of(262_144), (Strategy::Cluster, 512, 16));
        assert_eq!(of(262_152), (Strategy::Passes, 1024, 1));
        assert_eq!(
            plan(RowOp::Softmax, 1001, 2, false).strategy,
            Strategy::Shared
        );
    }

    #[test]
    fn threads_hold_every_row_that_is_theirs() {
        for op in RowOp::ALL {
            for element_bytes in [2, 4] {
                for n in (0..400_000).step_by(1000).map(|n| n / 8 * 8) {
                    let plan = plan(op, n, element_bytes, true);
                    let kernels = op.kernels();
                    if plan.form() == Form::Held {
                        let threads = u64::from(plan.threads * plan.cluster);
                        let vectors = threads * u64::from(kernels.vectors);
                        let bytes = vectors * u64::from(VECTOR_BYTES);
                        assert!(bytes >= n * u64::from(element_bytes), "{op:?} {n}");
                        assert!(plan.threads <= HELD_THREADS && plan.cluster <= MAX_CLUSTER);
                    }
                }
            }
        }
    }

    #[test]
    fn grids_are_multiples_of_clusters_and_no_larger_than_grids_can_be() {
        let shared = plan(RowOp::NormGrad, 100_000, 2, true);
        assert_eq!(shared.persistent_blocks(1 << 20) % shared.cluster, 0);
        assert_eq!(shared.blocks(u64::MAX), None);
        assert_eq!(shared.blocks(3), Some(3 * shared.cluster));
        let loose = plan(RowOp::Norm, 33, 2, false);
        assert_eq!(loose.blocks(u64::MAX), Some(LOOSE_BLOCKS));
    }

    #[test]
    fn entries_are_named_by_operation_dtype_and_form() {
        let entry = RowEntry {
            op: RowOp::SoftmaxGrad,
            dtype: DType::F16,
            form: Form::Held,
        };
        assert_eq!(entry.to_string(), "softmax_grad_f16_held");
    }
}
