//! Softmax over the last axis: `y[r, i] = exp(x[r, i] - max_r) / Σ_j exp(x[r, j] - max_r)`.
//!
//! Entries: `softmax_<dtype>` `(x: *const T, y: *mut T, params: SoftmaxParams)` for f32, f16 and
//! bf16. Blocks have [`THREADS`] threads. y may be x with the same strides, else they must not
//! overlap. A row with a NaN or +inf, or of nothing but -inf, becomes NaN.

use crate::DType;

/// Threads of a block.
pub const THREADS: u32 = 256;

/// Up to this many elements a warp has a row alone; above it a block does.
pub const WARP_MAX: u64 = 1024;

/// Most blocks of a grid; they stride over the rest.
pub const MAX_BLOCKS: u32 = 65_535;

/// Blocks of a launch, in x.
pub const fn grid_blocks(rows: u64, n: u64) -> u32 {
    let blocks = if n <= WARP_MAX {
        rows.div_ceil(THREADS as u64 / 32)
    } else {
        rows
    };
    if blocks > MAX_BLOCKS as u64 {
        MAX_BLOCKS
    } else if blocks == 0 {
        1
    } else {
        blocks as u32
    }
}

/// Additions along one path of a row's sum, at most, for error bounds: a thread's own, and the
/// tree.
pub const fn additions(n: u64) -> u64 {
    if n <= WARP_MAX {
        n.div_ceil(32) + 4 + 5
    } else {
        n.div_ceil(THREADS as u64) + 4 + 5 + 7
    }
}

/// Names an entry: `softmax_f16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SoftmaxEntry {
    /// Of input and output.
    pub dtype: DType,
}

impl core::fmt::Display for SoftmaxEntry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "softmax_{}", self.dtype)
    }
}

/// Extents and strides of one launch. Grid: x = [`grid_blocks`].
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoftmaxParams {
    /// Rows.
    pub rows: u64,
    /// Extent of the softmax axis.
    pub n: u64,
    /// Elements between rows of x.
    pub x_row_stride: i64,
    /// Elements between neighbours in a row of x.
    pub x_stride: i64,
    /// Elements between rows of y.
    pub y_row_stride: i64,
    /// Elements between neighbours in a row of y.
    pub y_stride: i64,
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    #[test]
    fn short_rows_share_a_block() {
        assert_eq!(grid_blocks(17, 64), 3);
        assert_eq!(grid_blocks(17, 1025), 17);
        assert_eq!(grid_blocks(1 << 40, 1025), MAX_BLOCKS);
        assert_eq!(
            SoftmaxEntry { dtype: DType::F16 }.to_string(),
            "softmax_f16"
        );
    }
}
