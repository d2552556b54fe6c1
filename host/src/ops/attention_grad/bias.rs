//! The gradient of a bias.

use crate::ops::attention::extents::Extents;
use crate::{Error, Reduce, ReduceOp, Result, Stream, Tensor};

/// Where the gradient of a bias goes.
pub(super) struct BiasGradient {
    /// Gradients with respect to all scores, which are 0 where no kernel writes them: in place of
    /// the gradient itself where nothing is broadcast.
    pub(super) scores: Tensor<f32>,
    /// The gradient as a tensor of four dimensions, and the axes that are summed.
    sums: Option<(Tensor<f32>, Vec<isize>)>,
}

impl BiasGradient {
    pub(super) fn new(to: &Tensor<f32>, extents: &Extents, stream: &Stream) -> Result<Self> {
        let shape = extents.shape_of_scores();
        let mut four = to.clone();
        for _ in to.shape().len()..shape.len() {
            four = four.insert_axis(0)?;
        }
        let axes = four.shape().iter().zip(shape).enumerate();
        let summed = axes.filter(|(_, (own, all))| *own != all);
        let summed: Vec<isize> = summed.map(|(axis, _)| axis as isize).collect();
        if summed.is_empty() {
            four.fill(0.0, stream)?;
            return Ok(Self {
                scores: four,
                sums: None,
            });
        }
        Ok(Self {
            scores: Tensor::zeros(stream, &shape)?,
            sums: Some((four, summed)),
        })
    }

    /// Enqueues the sums, if there are any, after the kernels.
    pub(super) fn finish(&self, stream: &Stream) -> Result<()> {
        let Some((to, axes)) = &self.sums else {
            return Ok(());
        };
        let sum = Reduce::new(ReduceOp::Sum, &self.scores).axes(axes);
        sum.keep_dims().run_into(to, stream)
    }
}

pub(super) fn no_bias() -> Error {
    Error::value("d_bias", "asked for", "none: no bias is set")
}
