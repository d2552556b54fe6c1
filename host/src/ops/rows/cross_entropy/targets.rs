//! What the logits of a row should be: a class, or probabilities.

use crate::ops::axes::RowAxes;
use crate::ops::check;
use crate::ops::float::Float;
use crate::ops::indices::Indices;
use crate::{Element, Result, Stream, Tensor};

/// The targets of a [`CrossEntropy`](crate::CrossEntropy). References to tensors of i32, i64 and the
/// dtype of the logits convert to it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Targets<'a, T: Float> {
    /// The class of each row.
    Classes(Indices<'a>),
    /// A probability of each class of each row, with the shape of the logits.
    Probabilities(&'a Tensor<T>),
}

impl<'a, T: Float> From<Indices<'a>> for Targets<'a, T> {
    fn from(classes: Indices<'a>) -> Self {
        Self::Classes(classes)
    }
}

impl<'a, T: Float> From<&'a Tensor<i32>> for Targets<'a, T> {
    fn from(classes: &'a Tensor<i32>) -> Self {
        Self::Classes(classes.into())
    }
}

impl<'a, T: Float> From<&'a Tensor<i64>> for Targets<'a, T> {
    fn from(classes: &'a Tensor<i64>) -> Self {
        Self::Classes(classes.into())
    }
}

impl<'a, T: Float> From<&'a Tensor<T>> for Targets<'a, T> {
    fn from(probabilities: &'a Tensor<T>) -> Self {
        Self::Probabilities(probabilities)
    }
}

impl<T: Float> Targets<'_, T> {
    /// Checks that they are on the stream's device and fit these logits.
    pub(super) fn check(self, logits: &[usize], axes: &RowAxes, stream: &Stream) -> Result<()> {
        match self {
            Self::Classes(classes) => classes.check("targets", &axes.of_rows(logits)?, stream),
            Self::Probabilities(of) => check::input("targets", of, logits, stream),
        }
    }

    /// Checks that the written tensor shares no element with them.
    pub(super) fn check_apart<W: Element>(
        self,
        output: &'static str,
        written: &Tensor<W>,
    ) -> Result<()> {
        match self {
            Self::Classes(classes) => classes.check_apart("targets", output, written),
            Self::Probabilities(of) => check::no_overlap(output, written, "targets", of),
        }
    }
}
