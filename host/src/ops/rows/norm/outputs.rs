//! The outputs of a norm.

use crate::{Float, Tensor};

/// The outputs of a norm: its results, or the tensors to write them to.
#[derive(Clone, Debug)]
pub struct Normalized<T: Float> {
    /// The normalised rows, with the shape of `x`.
    pub y: Tensor<T>,
    /// `x + residual`, rounded: the input of the normalisation. `None` without a residual.
    pub sum: Option<Tensor<T>>,
    /// The mean of each row; the shape is that of `x` without the axes of a row. `None` for RMS
    /// norm.
    pub mean: Option<Tensor<f32>>,
    /// The factor of each row, of the same shape: `1 / √(variance + epsilon)` for layer norm,
    /// `1 / √(mean of squares + epsilon)` for RMS norm.
    pub rstd: Option<Tensor<f32>>,
}

/// Outputs without sum, mean and rstd.
pub(super) fn y_alone<T: Float>(y: Tensor<T>) -> Normalized<T> {
    Normalized {
        y,
        sum: None,
        mean: None,
        rstd: None,
    }
}
