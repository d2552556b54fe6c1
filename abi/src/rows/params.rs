//! Parameters of a launch over rows.

use crate::kernel_param;

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
    /// The targets of cross-entropy are probabilities of the dtype of the rows, not classes.
    pub const PROBABILITIES: u32 = 128;
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
    /// Extents and strides of one launch. Grid: x = [`super::RowPlan::blocks`] at most. It is any
    /// multiple of the cluster for rings, short rows and gradients of norms in registers, whose blocks
    /// go on to further rows.
    #[derive(Debug, PartialEq)]
    pub struct RowParams {
        /// Number of rows.
        pub rows: u64,
        /// Elements of a row.
        pub n: u64,
        /// Elements between the rows of each tensor of rows, in the order of the entry's parameters.
        /// Cross-entropy: then those between the factors of the rows, 0 or 1. If targets are
        /// probabilities: of logits, probabilities, factors and gradients.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_over_rows_have_several_blocks_where_there_are_many_rows() {
        assert_eq!(total_blocks(0), 1);
        assert_eq!(total_blocks(16_384), 1);
        assert_eq!(total_blocks(16_385), 5);
        assert_eq!(total_blocks(1 << 24), 4096);
        assert_eq!(total_blocks(u64::MAX), 4096);
        // What they leave is for one block.
        assert_eq!(total_blocks(u64::from(total_blocks(u64::MAX))), 1);
    }
}
