//! Merging partial results.
//!
//! Of two calls: [`MERGE_ENTRY`] `(o_a: *const u8, lse_a: *const f32, o_b: *const u8, lse_b:
//! *const f32, o: *mut u8, lse: *mut f32, params: MergeParams)`. All tensors are contiguous; blocks
//! have [`THREADS`] threads, and each warp merges one row of o at a time.
//!
//! Of one call with split-KV ([`FwdPacking`](super::FwdPacking)): [`SPLITS_ENTRY`]
//! `(o_parts: *const f32, lse_parts: *const f32, o: *mut u8, lse: *mut f32, sink: *const f32,
//! lengths: FlashFwdLengths, params: FlashFwdParams, packing: FwdPacking)`, with the call's own
//! values. The parts follow each other in memory, and each is contiguous ([`strides_of_splits`]).
//! Rows are aligned to 16 bytes, and head_dim_v is a multiple of 8. Rows outside all sequences are
//! not written.

use super::params::{BshStrides, FlashFwdParams};
use crate::kernel_param;
pub use crate::single::{MERGE_ENTRY, SPLITS_ENTRY};

/// Threads of a block; each warp merges a row at a time.
pub const THREADS: u32 = 256;

/// Most blocks of a grid; with more rows, they loop.
const MAX_BLOCKS: u64 = 65_535;

/// Strides of o of one part: `[batch, seqlen_q, heads_q, head_dim_v]`, or without the batch if
/// queries are packed.
#[inline(always)]
pub const fn strides_of_splits(params: &FlashFwdParams) -> BshStrides {
    let head = params.head_dim_v as i64;
    let seq = head.wrapping_mul(params.heads_q as i64);
    let batch = if params.total_q != 0 {
        0
    } else {
        seq.wrapping_mul(params.seqlen_q as i64)
    };
    BshStrides { batch, seq, head }
}

/// Blocks of a launch that merges `rows` rows, in x.
pub const fn blocks(rows: u64) -> u32 {
    let blocks = rows.div_ceil(THREADS as u64 / 32);
    if blocks > MAX_BLOCKS {
        MAX_BLOCKS as u32
    } else if blocks == 0 {
        1
    } else {
        blocks as u32
    }
}

kernel_param! {
    /// Extents of one launch.
    #[derive(Debug, PartialEq, Eq)]
    pub struct MergeParams {
        /// Sequences; 1 if they are packed.
        pub batch: u32,
        /// Queries a sequence.
        pub seqlen_q: u32,
        /// Query heads: o is `[batch, seqlen_q, heads_q, head_dim_v]`, lse
        /// `[batch, heads_q, seqlen_q]`.
        pub heads_q: u32,
        /// Elements of a row of o.
        pub head_dim_v: u32,
        /// [`OutputDType::code`](super::OutputDType::code) of o of both calls.
        pub dtype: u32,
        /// The same of the merged o.
        pub o_dtype: u32,
    }
}

impl MergeParams {
    /// Rows of o.
    pub const fn rows(&self) -> u64 {
        (self.batch as u64 * self.heads_q as u64).saturating_mul(self.seqlen_q as u64)
    }

    /// Blocks of a launch, in x.
    pub const fn blocks(&self) -> u32 {
        blocks(self.rows())
    }

    /// Index of the lse of row `row` of o; rows are ordered by batch, position and head.
    pub const fn lse_idx(&self, row: u64) -> u64 {
        let (heads, seqlen) = (self.heads_q as u64, self.seqlen_q as u64);
        let (Some(position), Some(head_idx)) = (row.checked_div(heads), row.checked_rem(heads))
        else {
            return 0;
        };
        match (position.checked_div(seqlen), position.checked_rem(seqlen)) {
            (Some(batch_idx), Some(query_idx)) => {
                (batch_idx * heads + head_idx) * seqlen + query_idx
            }
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_has_an_lse_of_its_own() {
        let params = MergeParams {
            batch: 2,
            seqlen_q: 3,
            heads_q: 4,
            head_dim_v: 8,
            dtype: 0,
            o_dtype: 0,
        };
        let mut seen = [0; 24];
        for row in 0..params.rows() {
            seen[params.lse_idx(row) as usize] += 1;
        }
        assert_eq!(seen, [1; 24]);
        // Batch 1, query 2, head 3.
        assert_eq!(params.lse_idx((3 + 2) * 4 + 3), (4 + 3) * 3 + 2);
        assert_eq!(params.blocks(), 3);
    }
}
