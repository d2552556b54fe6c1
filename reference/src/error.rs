//! Errors of the references.

use abi::DType;
use abi::reduce::ReduceOp;
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
    /// An operation that the function does not have.
    #[error("{op} is not computed here; {want}")]
    Operation {
        /// The operation.
        op: &'static str,
        /// What has it, or what there is instead.
        want: &'static str,
    },
    /// A dtype for which there is no bound.
    #[error("{operand} is {got}; {want}")]
    Dtype {
        /// Which argument.
        operand: &'static str,
        /// Its value.
        got: DType,
        /// The dtypes that there are.
        want: &'static str,
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

    /// An [`Operation`](Self::Operation).
    pub(crate) fn operation(op: ReduceOp, want: &'static str) -> Self {
        Self::Operation {
            op: op.name(),
            want,
        }
    }

    /// Refuses a shape other than `want`, which is that of `other`.
    pub(crate) fn unless_shape_of(
        other: &str,
        want: &[usize],
        operand: &'static str,
        got: &[usize],
    ) -> Result<(), Self> {
        if got == want {
            return Ok(());
        }
        let want = format!("it has to be {want:?}, as {other}");
        Err(Self::shape(operand, got, want))
    }

    /// Refuses a vector that does not have one element for each of `count` things.
    pub(crate) fn unless_one_per(
        thing: &str,
        count: usize,
        operand: &'static str,
        got: usize,
    ) -> Result<(), Self> {
        if got == count {
            return Ok(());
        }
        let want = format!("it has to be [{count}], one element per {thing}");
        Err(Self::shape(operand, &[got], want))
    }

    /// Refuses an axis that an array of `rank` dimensions does not have.
    pub(crate) fn unless_axis(rank: usize, axis: usize) -> Result<(), Self> {
        if axis < rank {
            return Ok(());
        }
        Err(Self::AxisOutOfRange { axis, rank })
    }
}
