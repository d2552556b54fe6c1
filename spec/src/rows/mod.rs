//! Rows: softmax, norms and their like read a row once and write it once. How the threads of a
//! launch hold rows is chosen here, by [`RowPlan::choose`] alone.
//!
//! Entries: `<op>_<dtype>_<form>`, with [`RowParams`] as the last parameter. Rows have element
//! stride 1.

mod entry;
mod ring;
#[cfg(test)]
mod tests;

pub use entry::{Form, RowEntry, RowOp, RowParams, flags};
pub use ring::{RING_STAGES, RING_WARPS, RingLayout, Ringing, Stages, column_block};

/// Lanes of a warp.
const LANES: u32 = 32;

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

/// The same of norms, which keep rows as they lie in memory: what else a thread does is shared by more
/// elements.
pub const NORM_VECTORS: usize = 8;

/// The same of the gradient of norms, whose threads also add up those of the weights.
pub const GRAD_VECTORS: usize = 2;

/// Most blocks of a cluster.
pub const MAX_CLUSTER: u32 = 16;

/// The same of norms whose rows come through a ring, and of those with weights in f32.
pub const RING_VECTORS: usize = 4;

/// See [`RING_VECTORS`].
pub const RING_VECTORS_F32: usize = 2;

/// Blocks that a multiprocessor has room for, of kernels that hold rows in registers and add up
/// gradients of weights as they go.
pub const GRAD_BLOCKS: u32 = 8;

/// Most blocks of a grid.
pub const MAX_BLOCKS: u32 = i32::MAX as u32;

/// Blocks of kernels that go through rows element by element; they stride over the rest.
pub const LOOSE_BLOCKS: u32 = 65_535;

/// Most words of a value that threads reduce together.
pub const WORDS: usize = 3;

/// Words of shared memory that threads of a block exchange through: two turns, [`WORDS`] planes, a
/// slot a warp.
pub const BLOCK_SCRATCH: usize = 2 * WORDS * 32;

/// Slots of the exchange of a row in slices, at most: one for every warp of every block.
const SLICE_SLOTS: u32 = MAX_CLUSTER * SLICE_THREADS / 32;

/// Most threads of a block whose rows lie in slices.
pub const SLICE_THREADS: u32 = 256;

/// Such blocks that a multiprocessor has room for: 40 registers a thread.
pub const SLICE_BLOCKS: u32 = 6;

/// How many rows teams take whose weights come ahead, and vectors a thread of each: of those that add
/// no bias.
pub const AHEAD: Ahead = Ahead {
    rows: 1,
    vectors: 8,
};

/// The same of those that add one, which comes with the rows.
pub const PAIRS: Ahead = Ahead {
    rows: 2,
    vectors: 4,
};

/// Most threads of a block of such a team.
pub const AHEAD_THREADS: u32 = 256;

/// Such blocks that a multiprocessor has room for: 64 registers a thread.
pub const AHEAD_BLOCKS: u32 = 4;

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
    /// In slices, as above, whose weights come while sums are exchanged; one read.
    Ahead(Ahead),
    /// In slices, as above, of blocks that stay and have several rows on their way; one read.
    Ring(Stages),
    /// In shared memory, for rows that do not begin on a vector; one read.
    Shared,
    /// Nowhere: it is read for what the whole row says, and again for the result.
    Passes,
}

/// What teams have whose weights come ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ahead {
    /// Rows that a team takes together.
    pub rows: u32,
    /// Vectors that a thread has of each.
    pub vectors: u32,
}

/// What the kernels of an operation are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowKernels {
    /// Vectors that a thread holds of a row.
    pub vectors: u32,
    /// Least threads of a row.
    pub least_threads: u32,
    /// Most threads of a row that they hold in registers.
    pub alone_threads: u32,
    /// The same of rows that fill seven eighths of what their threads hold: with less in each, fewer
    /// bytes are on their way.
    pub filled_threads: u32,
    /// Whether there are kernels for longer rows, read alone, whose weights come ahead: of up to 16 KiB
    /// for each of 16 blocks where they add a bias, else of up to 32 KiB.
    pub ahead: bool,
    /// How longer rows come through a ring.
    pub ring: Option<Ringing>,
    /// How rows lie in slices that are too long for that, too.
    pub slices: Option<Slicing>,
}

/// Into how many slices rows go, and by how many threads. Clusters cost the more the larger they are,
/// and the more warps they have, all of which exchange; slices of more than 52 KiB leave a
/// multiprocessor fewer than four blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slicing {
    /// Most bytes of all inputs' rows that one block has.
    pub alone_bytes: u32,
    /// Bytes of a block's slices of longer ones, as far as `cluster` allows.
    pub shared_bytes: u32,
    /// Most blocks of a row, where none of them has more than `alone_bytes` then.
    pub cluster: u32,
    /// Most vectors of an input for each thread, as far as [`SLICE_THREADS`] allow.
    pub vectors: u32,
    /// The same in clusters.
    pub shared_vectors: u32,
    /// The same of elements of 16 bits in clusters of [`MAX_CLUSTER`].
    pub most_vectors: u32,
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
    /// Whether norms add a bias.
    pub has_bias: bool,
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
    /// Threads of a row in one block; a power of two, but in a ring.
    pub threads: u32,
    /// Blocks of a row: those of a cluster, else 1.
    pub cluster: u32,
}

impl RowPlan {
    /// The choice.
    ///
    /// | rows | strategy |
    /// |---|---|
    /// | aligned, on compute capability 9.0, of at most `vectors` for each of `alone_threads` (2,048 elements of 16 bits of cross-entropy, 4,096 of norms, 8,192 of softmax, 512 of gradients of norms; half of that in f32), or of `filled_threads` (8,192 of norms) where it fills seven eighths of them | [`Strategy::Registers`], by as few threads as hold the row, in powers of two |
    /// | the same, longer, of norms without a residual, up to the vectors of [`AHEAD`], or of [`PAIRS`] with a bias, for each of [`AHEAD_THREADS`] of 16 blocks (131,072 elements of 16 bits with a bias, else 262,144) | [`Strategy::Ahead`] |
    /// | the same, longer, where there are kernels for [`Ringing`] (norms and their gradients), up to its vectors for each of 512 threads of 16 blocks | [`Strategy::Ring`] |
    /// | the same, longer, where there are kernels for [`Slicing`] (all but gradients of norms), up to what the shared memory of 16 blocks has room for | [`Strategy::Slices`] |
    /// | any other that fits into a block's shared memory | [`Strategy::Shared`] |
    /// | any other | [`Strategy::Passes`] |
    ///
    /// The numbers are what an H200 was fastest with (`docs/rows.md`).
    pub const fn choose(kernels: &RowKernels, shape: &RowShape, device: &RowDevice) -> Self {
        let vectors = (shape.n * shape.element_bytes as u64).div_ceil(VECTOR_BYTES as u64);
        let held = kernels.vectors as u64;
        let is_hopper = device.arch.0 == 9 && device.arch.1 == 0;
        if shape.is_aligned && is_hopper {
            let threads = power(vectors.div_ceil(held), kernels.least_threads);
            let is_filled = 8 * vectors >= 7 * held * threads as u64;
            if vectors <= held * kernels.alone_threads as u64
                || (is_filled && threads <= kernels.filled_threads)
            {
                return Self {
                    strategy: Strategy::Registers,
                    threads,
                    cluster: 1,
                };
            }
            if kernels.ahead
                && let Some(plan) = Self::of_ahead(shape, device)
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

    /// In slices whose weights come ahead, of rows that are read alone, where blocks have threads for
    /// them.
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
        let (each, least) = if cluster == 1 {
            (slicing.vectors, slicing.least_threads)
        } else if cluster < MAX_CLUSTER || shape.element_bytes > 2 {
            (slicing.shared_vectors, 128)
        } else {
            (slicing.most_vectors, 128)
        };
        let threads = power(vectors.div_ceil(each as u64), least);
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
        match self.strategy {
            Strategy::Ring(_) | Strategy::Ahead(_) => self.threads,
            _ if self.threads > LANES => self.threads,
            _ => SHARED_BLOCK,
        }
    }

    /// Rows that a block has at a time.
    pub const fn rows_per_block(&self) -> u32 {
        match self.strategy {
            Strategy::Ahead(ahead) => ahead.rows,
            _ => self.block_threads() / self.threads,
        }
    }

    /// Blocks of a launch over so many rows: a multiple of the cluster. `None` where a grid cannot have
    /// as many.
    pub const fn blocks(&self, rows: u64) -> Option<u32> {
        let groups = rows.div_ceil(self.rows_per_block() as u64);
        match self.strategy {
            Strategy::Registers | Strategy::Slices | Strategy::Ahead(_) | Strategy::Ring(_) => {
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
        let most = match self.strategy {
            Strategy::Ring(ring) => ring::resident_blocks(ring.blocks, self.cluster),
            _ => ring::MULTIPROCESSORS * GRAD_BLOCKS,
        };
        match self.blocks(rows) {
            Some(blocks) if blocks < most => blocks,
            _ => most,
        }
    }

    /// Bytes of dynamic shared memory of a block.
    pub const fn shared_bytes(&self, shape: &RowShape) -> u32 {
        match self.strategy {
            Strategy::Registers => 4 * BLOCK_SCRATCH as u32,
            Strategy::Slices => {
                let slots = self.threads.div_ceil(32) * self.cluster;
                let slices = self.rows_per_block() * shape.inputs;
                slices_offset(slots) + slices * shape.slice_vectors(self.cluster) * VECTOR_BYTES
            }
            Strategy::Ahead(ahead) => {
                // A bias comes as another row.
                let slices = ahead.rows + shape.has_bias as u32;
                let of_slice = self.threads * ahead.vectors * VECTOR_BYTES;
                slices_offset(self.threads / LANES * self.cluster) + slices * of_slice
            }
            Strategy::Ring(Stages {
                vectors, stages, ..
            }) => {
                let warps = self.threads / LANES;
                RingLayout::new(vectors, shape.inputs, stages, warps, self.cluster).bytes()
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
        n.div_ceil(threads) + 8 + 5 + (SLICE_SLOTS / 32) as u64 + 5
    }

    /// The entry's form.
    pub const fn form(&self) -> Form {
        match self.strategy {
            Strategy::Registers => Form::Held,
            Strategy::Slices => Form::Slices,
            Strategy::Ahead(Ahead { rows: 1, .. }) => Form::Ahead,
            Strategy::Ahead(_) => Form::Pairs,
            Strategy::Ring(_) => Form::Ring,
            Strategy::Shared | Strategy::Passes => Form::Loose,
        }
    }
}

/// The least power of two that is at least `n` and `least`.
const fn power(n: u64, least: u32) -> u32 {
    let n = n.next_power_of_two();
    if n > least as u64 { n as u32 } else { least }
}
