//! Reductions over everything or one axis of a tensor seen as `[outer, n, inner]`.
//!
//! Two passes, both in a fixed order, so that a result has the same bits every time: pass 1
//! reduces chunks of `n` to partials `[outer, chunks, inner]`, pass 2 reduces the partials.

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
    /// Chunks that pass 1 cuts the axis into.
    pub chunks: u64,
    /// Elements of the axis in a chunk (the last may be shorter).
    pub chunk_len: u64,
}
