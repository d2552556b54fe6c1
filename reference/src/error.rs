//! Errors of the references.

use thiserror::Error;

/// Arguments for which an operation is not defined.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReferenceError {
    /// Shapes do not match.
    #[error("{operand} has shape {got:?}; {want}")]
    ShapeMismatch {
        /// Which argument.
        operand: &'static str,
        /// Its shape.
        got: Vec<usize>,
        /// The required shape.
        want: String,
    },
    /// The array does not have the requested axis.
    #[error("axis {axis} of an array with {rank} dimensions; axes are 0..{rank}")]
    AxisOutOfRange {
        /// The requested axis.
        axis: usize,
        /// Number of dimensions of the array.
        rank: usize,
    },
    /// A maximum, minimum, or index of either, over no elements.
    #[error("{op} over an empty axis has no value; sum, mean and logsumexp have")]
    EmptyAxis {
        /// The reduction.
        op: &'static str,
    },
}

impl ReferenceError {
    /// A [`ShapeMismatch`](Self::ShapeMismatch).
    pub(crate) fn shape(operand: &'static str, got: &[usize], want: impl Into<String>) -> Self {
        Self::ShapeMismatch {
            operand,
            got: got.to_vec(),
            want: want.into(),
        }
    }
}
