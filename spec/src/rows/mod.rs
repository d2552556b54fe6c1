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

/// Most threads of a block whose rows lie in slices.
pub const SLICE_THREADS: u32 = 256;

/// Such blocks that a multiprocessor has room for: 40 registers a thread.
pub const SLICE_BLOCKS: u32 = 6;

/// Bytes of the barriers of a block whose rows lie in slices: one a team, of 4 threads or more where
/// they share a block, and one of exchanges.
pub const BARRIER_BYTES: u32 = (SHARED_BLOCK / 4 * 8 + 8).next_multiple_of(VECTOR_BYTES);

/// Bytes of a line of memory, which slices begin on.
pub const LINE_BYTES: u32 = 128;

/// Bytes before the slices in a block's shared memory, which exchanges through so many vectors.
pub const fn slices_offset(slots: u32) -> u32 {
    (BARRIER_BYTES + slots * VECTOR_BYTES).next_multiple_of(LINE_BYTES)
}

/// Where a row is between its being read and its being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// In the registers of the threads of one block; one read.
    Registers,
    /// In slices, in the shared memory of one block or of a cluster's, which reduce over distributed
    /// shared memory; one read.
    Slices,
    /// In the registers of a cluster's blocks; one read.
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
    /// How longer rows are held.
    pub longer: Longer,
}

/// How rows are held that are too long for the registers of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Longer {
    /// [`Strategy::Slices`].
    Slices(Slicing),
    /// [`Strategy::Cluster`].
    Registers,
}

/// Into how many slices rows go. Clusters cost the more the larger they are: a copy through such
/// slices reaches 0.96 of the bandwidth in single blocks, 0.90 in clusters of 4, 0.80 of 16. Slices of
/// more than 32 KiB cost more, as fewer blocks share a multiprocessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slicing {
    /// Most bytes of all inputs' rows that one block has.
    pub alone_bytes: u32,
    /// Bytes of a block's slices of longer ones, as far as `cluster` allows.
    pub shared_bytes: u32,
    /// Most blocks of a row, where none of them has more than `alone_bytes` then.
    pub cluster: u32,
    /// Vectors of an input for each thread, as far as [`SLICE_THREADS`] allow; in clusters twice as
    /// many.
    pub vectors: u32,
    /// Least threads of a row.
    pub least_threads: u32,
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
    /// Rows that are read together: two of a gradient, or with a residual.
    pub inputs: u32,
}

impl RowShape {
    /// Vectors of a slice of a row that so many blocks share: whole lines.
    pub const fn slice_vectors(&self, blocks: u32) -> u32 {
        let bytes = self.n * self.element_bytes as u64;
        bytes.div_ceil((LINE_BYTES * blocks) as u64) as u32 * (LINE_BYTES / VECTOR_BYTES)
    }
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
    /// | aligned, on compute capability 9.0, of at most `vectors` for each of `alone_threads` (2,048 elements of 16 bits of cross-entropy, 4,096 of norms, 8,192 of softmax and of gradients of norms; half of that in f32) | [`Strategy::Registers`], by as few threads as hold the row, in powers of two |
    /// | the same, longer, where there are kernels for [`Slicing`] (all but gradients of norms), up to what the shared memory of 16 blocks has room for | [`Strategy::Slices`] |
    /// | the same of gradients of norms, up to `vectors` for each of 512 threads of 16 blocks | [`Strategy::Cluster`] of as few blocks as hold it |
    /// | any other that fits into a block's shared memory | [`Strategy::Shared`] |
    /// | any other | [`Strategy::Passes`] |
    ///
    /// The numbers are what an H200 was fastest with (`docs/rows.md`).
    pub const fn choose(kernels: &RowKernels, shape: &RowShape, device: &RowDevice) -> Self {
        let vectors = (shape.n * shape.element_bytes as u64).div_ceil(VECTOR_BYTES as u64);
        let held = kernels.vectors as u64;
        let is_hopper = device.arch.0 == 9 && device.arch.1 == 0;
        let longest = held * HELD_THREADS as u64 * MAX_CLUSTER as u64;
        if shape.is_aligned && is_hopper {
            if vectors <= held * kernels.alone_threads as u64 {
                return Self {
                    strategy: Strategy::Registers,
                    threads: power(vectors.div_ceil(held), kernels.least_threads),
                    cluster: 1,
                };
            }
            if let Longer::Registers = kernels.longer
                && vectors <= longest
            {
                return Self::of_cluster(vectors, held);
            }
            if let Longer::Slices(slicing) = &kernels.longer
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

    /// In registers, of so many vectors a thread.
    const fn of_cluster(vectors: u64, held: u64) -> Self {
        let cluster = power(vectors.div_ceil(held * HELD_THREADS as u64), 2);
        Self {
            strategy: Strategy::Cluster,
            threads: power(vectors.div_ceil(held * cluster as u64), 32),
            cluster,
        }
    }

    /// In slices, where they fit.
    const fn of_slices(slicing: &Slicing, shape: &RowShape, device: &RowDevice) -> Option<Self> {
        let bytes = shape.n * (shape.element_bytes * shape.inputs) as u64;
        if bytes > (MAX_CLUSTER as u64) * device.shared_bytes as u64 {
            return None;
        }
        let cluster = if bytes <= slicing.alone_bytes as u64 {
            1
        } else {
            let blocks = power(bytes.div_ceil(slicing.shared_bytes as u64), 2);
            if blocks <= slicing.cluster {
                blocks
            } else if bytes <= (slicing.cluster * slicing.alone_bytes) as u64 {
                slicing.cluster
            } else {
                MAX_CLUSTER
            }
        };
        let vectors = shape.slice_vectors(cluster) as u64;
        let threads = if cluster == 1 {
            power(
                vectors.div_ceil(slicing.vectors as u64),
                slicing.least_threads,
            )
        } else {
            power(vectors.div_ceil(2 * slicing.vectors as u64), 128)
        };
        let plan = Self {
            strategy: Strategy::Slices,
            threads: if threads > SLICE_THREADS {
                SLICE_THREADS
            } else {
                threads
            },
            cluster,
        };
        if plan.shared_bytes(shape) > device.shared_bytes {
            return None;
        }
        Some(plan)
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
            Strategy::Registers | Strategy::Slices | Strategy::Cluster => {
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

    /// Bytes of dynamic shared memory of a block.
    pub const fn shared_bytes(&self, shape: &RowShape) -> u32 {
        match self.strategy {
            Strategy::Registers => 4 * BLOCK_SCRATCH as u32,
            Strategy::Cluster => 4 * CLUSTER_SCRATCH as u32,
            Strategy::Slices => {
                let slots = self.threads.div_ceil(32) * self.cluster;
                let slices = self.rows_per_block() * shape.inputs;
                slices_offset(slots) + slices * shape.slice_vectors(self.cluster) * VECTOR_BYTES
            }
            Strategy::Shared => {
                let row = shape.n * shape.element_bytes as u64;
                (row * (shape.inputs * self.rows_per_block()) as u64) as u32
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
            Strategy::Slices => Form::Slices,
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
            inputs: if matches!(
                op,
                RowOp::SoftmaxGrad | RowOp::NormGrad | RowOp::NormGradF32
            ) {
                2
            } else {
                1
            },
        };
        RowPlan::choose(&op.kernels(), &shape, &HOPPER)
    }

    #[test]
    fn rows_go_from_lanes_to_blocks_to_clusters_to_passes() {
        let of = |op, n| {
            let plan = plan(op, n, 2, true);
            (plan.strategy, plan.threads, plan.cluster)
        };
        assert_eq!(of(RowOp::Softmax, 8), (Strategy::Registers, 4, 1));
        assert_eq!(of(RowOp::Softmax, 256), (Strategy::Registers, 8, 1));
        assert_eq!(of(RowOp::Softmax, 2048), (Strategy::Registers, 64, 1));
        assert_eq!(of(RowOp::Softmax, 8192), (Strategy::Registers, 256, 1));
        assert_eq!(of(RowOp::Softmax, 16_384), (Strategy::Slices, 256, 1));
        assert_eq!(of(RowOp::Softmax, 32_768), (Strategy::Slices, 256, 2));
        assert_eq!(of(RowOp::Softmax, 50_264), (Strategy::Slices, 256, 4));
        assert_eq!(of(RowOp::Softmax, 131_072), (Strategy::Slices, 256, 8));
        assert_eq!(of(RowOp::Softmax, 262_144), (Strategy::Slices, 256, 16));
        assert_eq!(of(RowOp::CrossEntropy, 2048), (Strategy::Registers, 64, 1));
        assert_eq!(of(RowOp::CrossEntropy, 4096), (Strategy::Slices, 128, 1));
        assert_eq!(of(RowOp::Softmax, 1 << 20), (Strategy::Slices, 256, 16));
        assert_eq!(of(RowOp::Softmax, 1 << 21), (Strategy::Passes, 1024, 1));
        assert_eq!(of(RowOp::SoftmaxGrad, 8), (Strategy::Slices, 4, 1));
        assert_eq!(of(RowOp::SoftmaxGrad, 65_536), (Strategy::Slices, 256, 4));
        assert_eq!(of(RowOp::Norm, 32_768), (Strategy::Slices, 256, 2));
        assert_eq!(of(RowOp::NormGrad, 32_768), (Strategy::Cluster, 512, 4));
        let unaligned = plan(RowOp::Softmax, 1001, 2, false);
        assert_eq!(unaligned.strategy, Strategy::Shared);
    }

    #[test]
    fn blocks_have_room_for_every_row_that_is_theirs() {
        for op in RowOp::ALL {
            for element_bytes in [2, 4] {
                for n in (0..600_000).step_by(1000).map(|n| n / 8 * 8) {
                    let plan = plan(op, n, element_bytes, true);
                    let kernels = op.kernels();
                    let bytes = n * u64::from(element_bytes);
                    let threads = u64::from(plan.threads * plan.cluster);
                    let held = threads * u64::from(kernels.vectors * VECTOR_BYTES);
                    assert!(plan.cluster <= MAX_CLUSTER, "{op:?} {n}");
                    match plan.strategy {
                        Strategy::Registers | Strategy::Cluster => {
                            assert!(held >= bytes && plan.threads <= HELD_THREADS, "{op:?} {n}");
                        }
                        Strategy::Slices => {
                            let shape = RowShape {
                                n,
                                element_bytes,
                                is_aligned: true,
                                inputs: 1,
                            };
                            let slice = shape.slice_vectors(plan.cluster);
                            let slices = u64::from(slice * plan.cluster * VECTOR_BYTES);
                            assert!(
                                slices >= bytes && plan.threads <= SLICE_THREADS,
                                "{op:?} {n}"
                            );
                            assert!(plan.shared_bytes(&shape) <= HOPPER.shared_bytes);
                        }
                        Strategy::Shared | Strategy::Passes => {}
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
