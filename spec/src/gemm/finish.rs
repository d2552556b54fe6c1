//! The kernel that ends a split-K GEMM: `gemm_finish_<out>`.
//!
//! Each takes `partials: *const f32, parts: u32` and the arguments of [a fused
//! epilogue](super::epilogue). `partials` are contiguous `[parts, batch, m, n]`. They are added in
//! this order, in f32, and the sum takes the place of `A @ B` in the epilogue. With one part, that
//! gives the bits of a kernel that does both. In [`GemmParams`](super::GemmParams), `k` and all
//! that concerns A and B have no meaning.

use core::fmt;

use crate::DType;

/// Threads of a block.
pub const FINISH_THREADS: u32 = 256;

/// Results that a thread computes, unless the grid is capped.
const RESULTS: u32 = 4;

/// Most blocks of a launch: a few waves. With more results, threads compute more of them, and
/// divide no more.
const MAX_BLOCKS: u64 = 1 << 12;

/// Blocks of a launch over `results` results.
pub const fn finish_blocks(results: u64) -> u32 {
    let blocks = results.div_ceil(FINISH_THREADS as u64 * RESULTS as u64);
    if blocks > MAX_BLOCKS {
        MAX_BLOCKS as u32
    } else {
        blocks as u32
    }
}

/// One such kernel; displays as its entry name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FinishEntry {
    /// Element type of D, and of what the epilogue reads.
    pub output: DType,
}

impl fmt::Display for FinishEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gemm_finish_{}", self.output)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    #[test]
    fn blocks_cover_small_launches_and_are_capped() {
        for (results, want) in [(0, 0), (1, 1), (1024, 1), (1025, 2), (u64::MAX, 1 << 12)] {
            assert_eq!(finish_blocks(results), want, "{results} results");
        }
    }

    #[test]
    fn entry_names_are_as_documented() {
        let entry = FinishEntry {
            output: DType::Bf16,
        };
        assert_eq!(entry.to_string(), "gemm_finish_bf16");
    }
}
