//! The fused epilogue: what a GEMM does to its accumulators before it stores them, in this order:
//!
//! ```text
//! x      = alpha * row_scale[i] * column_scale[j] * (A @ B)[i, j]
//! x      = x + beta * C[i, j] + bias[..]
//! D[i,j] = activation(x) + residual[i, j]
//! ```
//!
//! Entries whose epilogue is `fused` choose all of it at run time, by these arguments: `c: *const
//! Out, d: *mut Out, bias: *const Out, residual: *const Out, row_scale: *const f32, column_scale:
//! *const f32, alpha: *const f32, beta: *const f32, params: GemmParams, epilogue: EpilogueParams`.
//! Where the entry's name does not say what `Out` is, [`EpilogueParams::d_dtype`] does. Absent
//! arguments are null. `alpha` and `beta` override those of [`GemmParams`](super::GemmParams) if
//! they are not null. All is computed in f32 and rounded once.

use crate::kernel_param;
use core::fmt;

/// Activation function of a GEMM's epilogue, applied to each result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Activation {
    /// `x`.
    #[default]
    Identity = 0,
    /// `max(x, 0)`; NaN stays NaN.
    Relu = 1,
    /// `x / 2 * (1 + erf(x / sqrt(2)))`.
    Gelu = 2,
    /// `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))`.
    GeluTanh = 3,
    /// `x / (1 + exp(-x))`.
    Silu = 4,
    /// `1 / (1 + exp(-x))`.
    Sigmoid = 5,
    /// `tanh(x)`.
    Tanh = 6,
}

impl Activation {
    /// All, in the order of their codes.
    pub const ALL: [Self; 7] = [
        Self::Identity,
        Self::Relu,
        Self::Gelu,
        Self::GeluTanh,
        Self::Silu,
        Self::Sigmoid,
        Self::Tanh,
    ];

    /// Its number in [`EpilogueParams::activation`].
    pub const fn code(self) -> u32 {
        self as u32
    }
}

impl fmt::Display for Activation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Identity => "identity",
            Self::Relu => "relu",
            Self::Gelu => "gelu",
            Self::GeluTanh => "gelu_tanh",
            Self::Silu => "silu",
            Self::Sigmoid => "sigmoid",
            Self::Tanh => "tanh",
        })
    }
}

kernel_param! {
    /// Strides, in elements, of a fused epilogue's inputs, and its activation.
    #[derive(Debug, Default, PartialEq)]
    pub struct EpilogueParams {
        /// Elements between rows of the residual.
        pub ld_residual: i64,
        /// Elements between residuals of the batch; 0 broadcasts.
        pub batch_stride_residual: i64,
        /// Elements of the bias between rows of D: 1 for a bias per row, 0 for one per column.
        pub bias_stride_m: i64,
        /// Elements of the bias between columns of D: 1 for a bias per column, 0 for one per row.
        pub bias_stride_n: i64,
        /// Elements between biases of the batch; 0 broadcasts.
        pub batch_stride_bias: i64,
        /// Elements between row scales: 1, or 0 for one scale for all rows.
        pub row_scale_stride: u32,
        /// Elements between column scales: 1, or 0 for one scale for all columns.
        pub column_scale_stride: u32,
        /// [`Activation::code`].
        pub activation: u32,
        /// [`OutputDType::code`](crate::OutputDType::code) of C, D, bias and residual, for entries
        /// that are told it, or [`I32_RESULTS`](super::integer::I32_RESULTS). Those that have it in
        /// their names do not read it.
        pub d_dtype: u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_indices_in_the_list() {
        for (index, activation) in Activation::ALL.into_iter().enumerate() {
            assert_eq!(activation.code() as usize, index);
        }
    }

    #[test]
    fn the_parameters_have_no_padding() {
        assert_eq!(size_of::<EpilogueParams>(), 5 * 8 + 4 * 4);
    }
}
