//! What a reference refuses.

use thiserror::Error;

/// Arguments for which an operation has no meaning.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReferenceError {
    /// Shapes that do not belong together.
    #[error("{operand} has shape {got:?}; {want}")]
    ShapeMismatch {
        /// Which argument.
        operand: &'static str,
        /// Its shape.
        got: Vec<usize>,
        /// What it would have to be.
        want: String,
    },
    /// An axis the array does not have.
    #[error("axis {axis} of an array with {rank} dimensions; axes are 0..{rank}")]
    AxisOutOfRange {
        /// The axis asked for.
        axis: usize,
        /// Dimensions of the array.
        rank: usize,
    },
    /// A largest, smallest or index of nothing.
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
