//! A loss with its gradient.

use super::super::operation::{Operation, plans};
use super::CrossEntropy;
use crate::ops::float::Float;
use crate::{Error, Result, Stream, Tensor};

/// A loss with its gradient, by [`CrossEntropy::gradient`].
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is computed until `run` or `run_into`"]
pub struct WithGradient<Op>(pub(super) Op);

/// A loss and its gradient: results, or the tensors to write them to.
#[derive(Clone, Debug)]
pub struct LossAndGradient<T: Float> {
    /// The loss, as [`CrossEntropy::run`] returns it.
    pub loss: Tensor<f32>,
    /// The gradient with respect to the logits, with their shape.
    pub dlogits: Tensor<T>,
}

impl<T: Float> WithGradient<CrossEntropy<'_, T>> {
    /// Enqueues both and returns them, in new contiguous tensors.
    ///
    /// # Errors
    /// See [`CrossEntropy`].
    pub fn run(&self, stream: &Stream) -> Result<LossAndGradient<T>> {
        match Operation::run(&self.0, stream)? {
            (loss, Some(dlogits)) => Ok(LossAndGradient { loss, dlogits }),
            (_, None) => Err(Error::Bug("the gradient is missing")),
        }
    }

    /// Enqueues both into the tensors of `out`. `dlogits` may be the logits themselves.
    ///
    /// # Errors
    /// See [`CrossEntropy`].
    pub fn run_into(&self, out: &LossAndGradient<T>, stream: &Stream) -> Result<()> {
        let out = (out.loss.clone(), Some(out.dlogits.clone()));
        Operation::run_into(&self.0, &out, stream)
    }

    plans!("CrossEntropy", self => &self.0);
}
