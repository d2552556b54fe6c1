//! The sizes at which forms of kernels pay.

use crate::ops::plan::costs;

costs! {
    /// Elementwise operations: how much a thread takes.
    ElementwiseCosts {
        /// Instructions per thread above which a thread takes fewer elements. Such a kernel is bound by
        /// arithmetic anyway, and its text costs the driver compile time.
        long: u32 = 2_048,
        /// Instructions per element up to which a thread takes only one chunk. This applies to one
        /// or two inputs whose elements are as wide as the output's, and at least 2 bytes.
        light: u32 = 32,
        /// Chunks of a launch up to which each thread takes one: in small launches, more blocks help
        /// more than more loads in flight per thread.
        small_chunks: u32 = 1 << 17,
        /// Distance in blocks for each SM between a block of threads of several chunks and the one
        /// whose chunks it prefetches. It is half of the blocks that run at the same time.
        ahead_blocks: u32 = 6,
        /// Fewest rows and columns of a transposition by tiles. Below this extent a tile is mostly
        /// empty, and the plain copy is as fast.
        transposed: u32 = 32,
    }
}
