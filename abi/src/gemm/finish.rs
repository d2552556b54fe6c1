//! The kernels that end a split-K GEMM: `gemm_finish_<out>`, and `gemm_finish_sums` of partial results
//! in i32 ([`integer`](super::integer)), whose launches say what D is.
//!
//! Each takes `partials: *const f32` (or i32), the arguments of [a fused
//! epilogue](super::epilogue), and `parts: u32`. `partials` are contiguous `[parts, batch, m, n]`. They are added in
//! this order, in f32 or i32, and the sum takes the place of `A @ B` in the epilogue. With one part, that
//! gives the bits of a kernel that does both. In [`GemmParams`](super::GemmParams), `k` and all
//! that concerns A and B have no meaning.

use super::{EpilogueParams, GemmParams};
use crate::DType;
use crate::entry::{Parts, entries};

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
    name: &'static str,
    /// Element type of the partial results: f32 or i32.
    pub partials: DType,
    /// Element type of D, and of what the epilogue reads; `None` if each launch says which
    /// ([`EpilogueParams::d_dtype`](super::EpilogueParams::d_dtype)).
    pub output: Option<DType>,
}

impl FinishEntry {
    /// The entry of a name `gemm_finish_<out>` or `gemm_finish_sums`.
    pub const fn read(name: &'static str) -> Self {
        let mut parts = Parts::of(name);
        parts.expect("gemm_finish");
        let (partials, output) = if parts.take("sums") {
            (DType::I32, None)
        } else {
            (DType::F32, Some(parts.expect_dtype()))
        };
        parts.end();
        Self {
            name,
            partials,
            output,
        }
    }

    /// The entry for partial results and results of these dtypes.
    pub fn of(partials: DType, output: DType) -> Option<Self> {
        Self::find(|entry| {
            entry.partials == partials && entry.output.is_none_or(|own| own == output)
        })
    }
}

entries! { $ FinishEntry((GemmParams, EpilogueParams, u32)) {
    /// Partial results in f32: the Rust type of D.
    gemm_finish {
        gemm_finish_f32(f32);
        gemm_finish_f16(f16);
        gemm_finish_bf16(bf16);
    }
    /// Partial results in i32; this kernel stands alone.
    gemm_finish_of_sums {
        gemm_finish_sums;
    }
} }

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
        let name = |partials, output| FinishEntry::of(partials, output).map(|e| e.to_string());
        let of_floats = name(DType::F32, DType::Bf16);
        assert_eq!(of_floats.as_deref(), Some("gemm_finish_bf16"));
        let of_sums = name(DType::I32, DType::Bf16);
        assert_eq!(of_sums.as_deref(), Some("gemm_finish_sums"));
        assert_eq!(name(DType::F32, DType::E4m3), None);
    }
}
