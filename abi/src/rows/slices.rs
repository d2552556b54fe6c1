//! Rows in slices: their threads, and their shared memory.

use super::{RowEntry, RowOp, SHARED_BLOCK, VECTOR_BYTES, Variant};

/// Most threads of a block whose rows are in slices.
pub const SLICE_THREADS: u32 = 256;

impl RowEntry {
    /// Of an entry with rows in slices: blocks of [`SLICE_THREADS`] that run on an SM. 6 blocks leave 40
    /// registers a thread, and 4 leave 64: weights at any distance from a vector need more than 48.
    pub const fn slice_blocks(&self) -> u32 {
        match (self.op, self.variant) {
            (RowOp::Norm, Variant::ClusterAny) => 4,
            _ => 6,
        }
    }
}

/// Bytes of the barriers of a block whose rows are in slices. There is one for each thread group
/// (of 4 threads or more, if thread groups share a block), and one for exchanges.
pub const BARRIER_BYTES: u32 = (SHARED_BLOCK / 4 * 8 + 8).next_multiple_of(VECTOR_BYTES);

/// Bytes of a cache line, at a multiple of which slices begin.
pub const LINE_BYTES: u32 = 128;

/// Offset of the slices in a block's shared memory, after barriers and `slots` vectors for
/// exchanges.
pub const fn slices_offset(slots: u32) -> u32 {
    (BARRIER_BYTES + slots * VECTOR_BYTES).next_multiple_of(LINE_BYTES)
}
