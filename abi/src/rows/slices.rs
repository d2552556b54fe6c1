//! Rows in slices: how many, by how many threads, and how many of them an SM has at a time.

use super::{
    MAX_CLUSTER, RESERVED_BYTES, RowDevice, RowKernels, RowPlan, RowShape, SHARED_BLOCK, Strategy,
    VECTOR_BYTES, power,
};

/// Most slots for the exchange of a row in slices: one for every warp of every block.
pub(super) const SLICE_SLOTS: u32 = MAX_CLUSTER * SLICE_THREADS / 32;

/// Most threads of a block whose rows are in slices.
pub const SLICE_THREADS: u32 = 256;

/// Blocks of [`SLICE_THREADS`] that run on an SM: 40 registers a thread.
pub const SLICE_BLOCKS: u32 = 6;

/// Bytes of the barriers of a block whose rows are in slices: one for each thread group (of 4 threads or
/// more, if thread groups share a block), and one for exchanges.
pub const BARRIER_BYTES: u32 = (SHARED_BLOCK / 4 * 8 + 8).next_multiple_of(VECTOR_BYTES);

/// Bytes of a cache line, at a multiple of which slices begin.
pub const LINE_BYTES: u32 = 128;

/// Offset of the slices in a block's shared memory, after barriers and `slots` vectors for
/// exchanges.
pub const fn slices_offset(slots: u32) -> u32 {
    (BARRIER_BYTES + slots * VECTOR_BYTES).next_multiple_of(LINE_BYTES)
}

/// How many slices a row is cut into, and their number of threads. A cluster costs the more the
/// larger it is and the more warps it has, as all of them exchange. Slices of more than 52 KiB
/// leave room for fewer than four blocks on an SM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slicing {
    /// Most bytes that one block has of a row, all inputs together.
    pub alone_bytes: u32,
    /// Bytes of a block's slices in clusters, as far as `cluster` allows.
    pub shared_bytes: u32,
    /// Most blocks of a row, as long as none of them has more than `alone_bytes`; beyond that,
    /// [`MAX_CLUSTER`].
    pub cluster: u32,
    /// Most vectors of an input for each thread of a single block, as far as [`SLICE_THREADS`]
    /// allow.
    pub vectors: u32,
    /// The same in clusters.
    pub shared_vectors: u32,
    /// The same for 16-bit elements in clusters of [`MAX_CLUSTER`].
    pub most_vectors: u32,
    /// Fewest threads of a row in a single block.
    pub least_threads: u32,
    /// Bytes of rows, all inputs together, that an SM should have in flight in single blocks and in
    /// clusters of 2, where more of them are slower, by up to 1 %. `None` has as many as fit.
    pub in_flight_bytes: Option<u32>,
}

/// Most blocks of a cluster of which no more run on an SM than have enough in flight. Those of 4
/// gain little by that or lose 1 %; larger ones lose more.
const PACED_CLUSTER: u32 = 2;

/// Fewest blocks that run on an SM: two can be exchanging sums, or storing, at the same time.
const PACED_BLOCKS: u32 = 3;

impl RowPlan {
    /// Slices, if they fit.
    pub(super) const fn of_slices(
        slicing: &Slicing,
        shape: &RowShape,
        device: &RowDevice,
    ) -> Option<Self> {
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

    /// Bytes of dynamic shared memory that a block asks for: with slices, so many that no more blocks
    /// run on an SM than have [`Slicing::in_flight_bytes`] together; else as many as it uses.
    pub const fn paced_bytes(
        &self,
        kernels: &RowKernels,
        shape: &RowShape,
        device: &RowDevice,
    ) -> u32 {
        let used = self.shared_bytes(shape);
        let Some(Slicing {
            in_flight_bytes: Some(enough),
            ..
        }) = kernels.slices
        else {
            return used;
        };
        if !matches!(self.strategy, Strategy::Slices) || self.cluster > PACED_CLUSTER {
            return used;
        }
        let slices = self.rows_per_block() * shape.inputs;
        let in_flight = slices * shape.slice_vectors(self.cluster) * VECTOR_BYTES;
        let blocks = enough.div_ceil(in_flight);
        let blocks = if blocks > PACED_BLOCKS {
            blocks
        } else {
            PACED_BLOCKS
        };
        let room = (device.shared_bytes + RESERVED_BYTES) / blocks;
        let paced = room.saturating_sub(RESERVED_BYTES) / LINE_BYTES * LINE_BYTES;
        if paced > used { paced } else { used }
    }
}
