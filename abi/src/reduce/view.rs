//! What is reduced: extents and strides.

use crate::kernel_param;

kernel_param! {
    /// A tensor viewed as kept extents `[outer, inner]` and reduced extents `[segments, n]`, with their
    /// strides. An index along the axis counts segments first.
    #[derive(Debug, PartialEq, Eq, Hash)]
    pub struct ReduceView {
        /// Kept extent before the axis.
        pub outer: u64,
        /// Kept extent after the axis.
        pub inner: u64,
        /// Number of segments, `segment_stride` apart; all of them are reduced together.
        pub segments: u64,
        /// Extent of the axis.
        pub n: u64,
        /// Elements between outer indices.
        pub outer_stride: i64,
        /// Elements between inner indices.
        pub inner_stride: i64,
        /// Elements between segments.
        pub segment_stride: i64,
        /// Elements between neighbours of the axis.
        pub axis_stride: i64,
    }
}

impl ReduceView {
    /// The view of a contiguous tensor `[outer, n, inner]`.
    pub const fn contiguous(outer: u64, n: u64, inner: u64) -> Self {
        Self {
            outer,
            inner,
            segments: 1,
            n,
            outer_stride: (n * inner) as i64,
            inner_stride: 1,
            segment_stride: 0,
            axis_stride: inner as i64,
        }
    }

    /// Number of elements that an output reduces.
    pub const fn len(&self) -> u64 {
        self.segments.saturating_mul(self.n)
    }

    /// Whether there are no elements to reduce.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
