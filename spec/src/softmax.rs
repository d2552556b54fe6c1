//! Softmax over the last axis: `y[r, i] = exp(x[r, i] - max_r) / Σ_j exp(x[r, j] - max_r)`.
//!
//! Entries: `softmax_<dtype>` `(x: *const T, y: *mut T, params: SoftmaxParams)`.

/// Extents and strides of one launch. Grid: x = rows, one block a row, striding.
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
