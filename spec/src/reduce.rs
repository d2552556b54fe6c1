//! Reductions over everything or one axis of a tensor seen as `[outer, n, inner]`.
//!
//! Two passes, both in a fixed order, so that a result has the same bits every time. Pass 1
//! reduces chunks of the axis to partials, an array `[outer, chunks, inner]` of
//! [`ReduceOp::partial_bytes`] each; pass 2 reduces those. With one chunk, pass 1 writes the
//! result and there is no pass 2.
//!
//! | entry | parameters |
//! |---|---|
//! | `reduce_<op>_<dtype>_row`, `.._col` | `(x: *const T, partials: *mut u64, out: *mut Out, params: ReduceParams)` |
//! | `reduce_<op>_final` | `(partials: *const u64, out: *mut Out, params: ReduceParams)` |
//!
//! `<dtype>` is f32, f16 or bf16. `out` is `[outer, inner]`, contiguous: f32, or i64 of argmax and
//! argmin. `partials` is aligned to 16 bytes and may be null where [`ReducePlan::chunks`] is 1.
//! Every entry takes the same [`ReduceParams`] and blocks of [`THREADS`] threads; how many blocks
//! says [`ReducePlan`]. max, min, argmax and argmin need `n > 0`; of nothing, sum is 0, mean NaN,
//! logsumexp -inf.
//!
//! # Accuracy
//! The longest chain of additions that one element goes through is [`ReducePlan::additions`].

use crate::DType;

/// Threads of a block of every entry.
pub const THREADS: u32 = 256;

/// Most blocks of a grid; they stride over the rest.
pub const MAX_BLOCKS: u32 = 4096;

/// Elements of a chunk of the row strategy: 64 a thread.
pub const ROW_CHUNK: u64 = 16_384;

/// Elements of a chunk of the column strategy: one thread adds them.
pub const COL_CHUNK: u64 = 256;

/// Up to this many elements a warp reduces alone; above it a block does.
pub const WARP_MAX: u64 = 1024;

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    /// Σx.
    Sum,
    /// Σx / n.
    Mean,
    /// Largest; NaN if any element is NaN.
    Max,
    /// Smallest; NaN if any element is NaN.
    Min,
    /// Lowest index of the largest; a NaN counts as larger than all numbers.
    Argmax,
    /// Lowest index of the smallest; a NaN counts as smaller than all numbers.
    Argmin,
    /// ln Σ exp(x).
    Logsumexp,
}

impl ReduceOp {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Sum,
        Self::Mean,
        Self::Max,
        Self::Min,
        Self::Argmax,
        Self::Argmin,
        Self::Logsumexp,
    ];

    /// Name in entry names and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Mean => "mean",
            Self::Max => "max",
            Self::Min => "min",
            Self::Argmax => "argmax",
            Self::Argmin => "argmin",
            Self::Logsumexp => "logsumexp",
        }
    }

    /// True where the result is an index (i64) and not a value (f32).
    pub const fn is_index(self) -> bool {
        matches!(self, Self::Argmax | Self::Argmin)
    }

    /// Bytes of one partial result.
    pub const fn partial_bytes(self) -> usize {
        match self {
            Self::Sum | Self::Mean | Self::Max | Self::Min => 4,
            Self::Logsumexp => 8,
            Self::Argmax | Self::Argmin => 16,
        }
    }
}

/// How pass 1 reads the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// The threads of a warp or block share a chunk: for an axis that is contiguous, or long.
    Row,
    /// Each thread has a chunk of its own, neighbours have neighbouring `inner` indices: for a
    /// contiguous inner dimension.
    Col,
}

/// Names an entry of pass 1: `reduce_sum_f32_row`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReduceEntry {
    /// What is computed.
    pub op: ReduceOp,
    /// Of the input: f32, f16 or bf16.
    pub dtype: DType,
    /// How it is read.
    pub strategy: Strategy,
}

impl core::fmt::Display for ReduceEntry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let strategy = match self.strategy {
            Strategy::Row => "row",
            Strategy::Col => "col",
        };
        write!(f, "reduce_{}_{}_{strategy}", self.op.name(), self.dtype)
    }
}

/// Names the entry of pass 2: `reduce_sum_final`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FinalEntry {
    /// What is computed.
    pub op: ReduceOp,
}

impl core::fmt::Display for FinalEntry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "reduce_{}_final", self.op.name())
    }
}

/// How one reduction is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReducePlan {
    /// How pass 1 reads.
    pub strategy: Strategy,
    /// Chunks of the axis; pass 2 is needed where there are several.
    pub chunks: u64,
    /// Elements of a chunk.
    pub chunk_len: u64,
    /// Blocks of pass 1, in x.
    pub blocks: u32,
    /// Blocks of pass 2, in x.
    pub final_blocks: u32,
}

impl ReducePlan {
    /// The plan for an input `[outer, n, inner]` with these element strides of the axis and of
    /// `inner`. It depends on nothing else, so results do not either.
    pub const fn new(outer: u64, n: u64, inner: u64, axis_stride: i64, inner_stride: i64) -> Self {
        let columns = inner >= 32 && inner_stride == 1 && axis_stride != 1;
        let (strategy, chunk_len) = if columns {
            (Strategy::Col, COL_CHUNK)
        } else {
            (Strategy::Row, ROW_CHUNK)
        };
        let chunks = if n == 0 { 1 } else { n.div_ceil(chunk_len) };
        let outputs = outer.saturating_mul(inner);
        let items = outputs.saturating_mul(chunks);
        let blocks = match strategy {
            Strategy::Col => items.div_ceil(THREADS as u64),
            Strategy::Row => row_blocks(items, if n < chunk_len { n } else { chunk_len }),
        };
        Self {
            strategy,
            chunks,
            chunk_len,
            blocks: capped(blocks),
            final_blocks: capped(row_blocks(outputs, chunks)),
        }
    }

    /// Most floating-point additions that any element goes through, for error bounds.
    pub const fn additions(&self, n: u64) -> u64 {
        let longest = if n < self.chunk_len {
            n
        } else {
            self.chunk_len
        };
        let first = match self.strategy {
            Strategy::Row => row_additions(longest),
            Strategy::Col => longest,
        };
        if self.chunks == 1 {
            first
        } else {
            first + row_additions(self.chunks)
        }
    }
}

/// Blocks for `items` rows of `len`.
const fn row_blocks(items: u64, len: u64) -> u64 {
    if len <= WARP_MAX {
        items.div_ceil(THREADS as u64 / 32)
    } else {
        items
    }
}

/// Additions along one path of a warp's or a block's reduction of `len` elements, at most: a
/// thread's own, and the tree.
const fn row_additions(len: u64) -> u64 {
    if len <= WARP_MAX {
        len.div_ceil(32) + 3 + 5
    } else {
        len.div_ceil(THREADS as u64) + 3 + 5 + 7
    }
}

const fn capped(blocks: u64) -> u32 {
    if blocks > MAX_BLOCKS as u64 {
        MAX_BLOCKS
    } else if blocks == 0 {
        1
    } else {
        blocks as u32
    }
}

/// Extents and strides of one launch. Element (o, j, i) of the input stands at
/// `x + o*outer_stride + j*axis_stride + i*inner_stride`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReduceParams {
    /// Product of the extents before the axis.
    pub outer: u64,
    /// Extent of the axis.
    pub n: u64,
    /// Product of the extents after the axis.
    pub inner: u64,
    /// Elements between outer indices.
    pub outer_stride: i64,
    /// Elements between indices of the axis.
    pub axis_stride: i64,
    /// Elements between inner indices.
    pub inner_stride: i64,
    /// Chunks that pass 1 cuts the axis into ([`ReducePlan::chunks`]).
    pub chunks: u64,
    /// Elements of the axis in a chunk (the last may be shorter).
    pub chunk_len: u64,
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    #[test]
    fn entry_names_are_as_documented() {
        let entry = ReduceEntry {
            op: ReduceOp::Logsumexp,
            dtype: DType::Bf16,
            strategy: Strategy::Col,
        };
        assert_eq!(entry.to_string(), "reduce_logsumexp_bf16_col");
        assert_eq!(
            FinalEntry { op: ReduceOp::Sum }.to_string(),
            "reduce_sum_final"
        );
    }

    #[test]
    fn chunks_cover_the_axis() {
        for n in [0, 1, 255, 256, 257, 16_384, 16_385, 1 << 33] {
            for (inner, inner_stride, axis_stride) in [(1, 1, 1), (64, 1, 64), (64, 3, 1)] {
                let plan = ReducePlan::new(3, n, inner, axis_stride, inner_stride);
                assert!(plan.chunks * plan.chunk_len >= n, "{plan:?}");
                assert!((plan.chunks - 1) * plan.chunk_len <= n, "{plan:?}");
                assert!(plan.blocks >= 1 && plan.blocks <= MAX_BLOCKS);
            }
        }
    }

    #[test]
    fn errors_grow_slowly_with_length() {
        let plan = ReducePlan::new(1, 1 << 30, 1, 1, 1);
        assert!(plan.additions(1 << 30) < 400, "{}", plan.additions(1 << 30));
        let plan = ReducePlan::new(1, 64, 1, 1, 1);
        assert_eq!(plan.additions(64), 10);
    }
}
