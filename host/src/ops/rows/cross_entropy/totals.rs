//! The launches around that of the rows: the divisor of the mean before it, and the sum of the
//! losses after it.

use super::{CrossEntropy, Reduction, Targets};
use crate::load::{self, LoadVariant};
use crate::ops::axes::RowAxes;
use crate::ops::elementwise::Binary;
use crate::ops::float::Float;
use crate::ops::rows::Rows;
use crate::ops::rows::plan::Candidate;
use crate::{LaunchConfig, Result, Stream, Tensor};
use abi::elementwise::BinaryOp;
use abi::rows::{MAX_THREADS, RowParams, Variant, flags, total_blocks};

/// The inputs besides the logits, as kernels read them.
pub(super) struct Inputs<T: Float> {
    pub(super) targets: Of<T>,
    pub(super) weights: Option<Tensor<f32>>,
}

/// Contiguous targets, or rows of them.
pub(super) enum Of<T: Float> {
    Classes(Tensor<i64>),
    Probabilities(Rows<T>),
}

impl<T: Float> CrossEntropy<'_, T> {
    /// The inputs besides the logits, for a launch over rows by `candidate`, if there are rows.
    pub(super) fn inputs(
        &self,
        candidate: Option<&Candidate>,
        axes: &RowAxes,
        stream: &Stream,
    ) -> Result<Inputs<T>> {
        let read = |of: &Tensor<T>| match candidate {
            Some(candidate) => Rows::read_by(candidate, of, axes, stream),
            None => Rows::read(of, axes, stream),
        };
        let weights = self.weights.map(|weights| weights.contiguous(stream));
        Ok(Inputs {
            targets: match self.targets {
                Targets::Classes(of) => Of::Classes(of.to_i64(stream)?.contiguous(stream)?),
                Targets::Probabilities(of) => Of::Probabilities(read(of)?),
            },
            weights: weights.transpose()?,
        })
    }

    /// Memory for the factor of the gradient and of the loss, if there is one.
    pub(super) fn new_factor(&self, stream: &Stream) -> Result<Option<Tensor<f32>>> {
        match self.reduction {
            Reduction::Mean => Tensor::empty(stream, &[]).map(Some),
            Reduction::None | Reduction::Sum => Ok(None),
        }
    }

    /// The factors of the rows' gradients and the stride between them, if there is a gradient: that
    /// of the mean, and the gradient with respect to the loss.
    pub(super) fn factors(
        &self,
        of_mean: Option<&Tensor<f32>>,
        has_gradient: bool,
        stream: &Stream,
    ) -> Result<(Option<Tensor<f32>>, i64)> {
        let (dloss, of_mean) = match (self.dloss, of_mean) {
            _ if !has_gradient => return Ok((None, 0)),
            (None, of_mean) => return Ok((of_mean.cloned(), 0)),
            (Some(dloss), None) => {
                let stride = i64::from(self.reduction == Reduction::None);
                return Ok((Some(dloss.contiguous(stream)?), stride));
            }
            (Some(dloss), Some(of_mean)) => (dloss, of_mean),
        };
        let product = Binary::new(BinaryOp::Mul, dloss, of_mean).run(stream)?;
        Ok((Some(product), 0))
    }

    /// Enqueues the loss from the losses of the rows, after rows of this variant.
    pub(super) fn reduce(
        &self,
        losses: &Tensor<f32>,
        factor: Option<&Tensor<f32>>,
        loss: &Tensor<f32>,
        variant: Variant,
        stream: &Stream,
    ) -> Result<()> {
        match self.reduction {
            Reduction::None => Ok(()),
            Reduction::Mean | Reduction::Sum => add_up(losses, factor, loss, 0, variant, stream),
        }
    }

    /// Launches the kernel that computes the factor, if there is one, before the kernel of this
    /// variant over the rows. For probabilities it is 1 over their number.
    pub(super) fn count(
        &self,
        inputs: &Inputs<T>,
        factor: Option<&Tensor<f32>>,
        variant: Variant,
        (rows, n): (usize, usize),
        stream: &Stream,
    ) -> Result<()> {
        let Some(factor) = factor else {
            return Ok(());
        };
        let Of::Classes(targets) = &inputs.targets else {
            return factor.fill(1.0 / rows as f32, stream);
        };
        let blocks = total_blocks(rows as u64);
        let parts = match blocks {
            1 => factor.clone(),
            blocks => Tensor::empty(stream, &[blocks as usize])?,
        };
        let mut totals = totals(rows, n);
        totals.ignore_index = self.ignore_index;
        let loading = LoadVariant::of(stream.device(), 8 * rows as u64);
        let kernel = load::kernel_for(loading, stream, variant.weight_entry())?;
        let config = LaunchConfig::linear(blocks, totals.threads);
        let memory = (targets, inputs.weights.as_ref(), &parts);
        // SAFETY: there is one target per row, one weight per class, or none, and `parts` has one
        // number per block.
        unsafe { kernel.launch(stream, config, memory, &totals) }?;
        match blocks {
            1 => Ok(()),
            _ => add_up(&parts, None, factor, flags::RECIPROCAL, variant, stream),
        }
    }
}

/// Enqueues `to = factor * sum of the numbers`, or 1 over it by [`flags::RECIPROCAL`], for rows of this
/// variant.
fn add_up(
    numbers: &Tensor<f32>,
    factor: Option<&Tensor<f32>>,
    to: &Tensor<f32>,
    flags: u32,
    variant: Variant,
    stream: &Stream,
) -> Result<()> {
    let launch = |numbers: &Tensor<f32>, factor, to: &Tensor<f32>, flags| {
        let mut totals = totals(numbers.len(), 0);
        totals.flags = flags;
        let loading = LoadVariant::of(stream.device(), 4 * totals.rows);
        let kernel = load::kernel_for(loading, stream, variant.total_entry())?;
        let config = LaunchConfig::linear(to.len() as u32, totals.threads);
        // SAFETY: the kernel reads `totals.rows` numbers and the factor, if there is one, and writes
        // one number per block.
        unsafe { kernel.launch(stream, config, (numbers, factor, to), &totals) }
    };
    match total_blocks(numbers.len() as u64) {
        1 => launch(numbers, factor, to, flags),
        blocks => {
            let parts = Tensor::empty(stream, &[blocks as usize])?;
            launch(numbers, None, &parts, 0)?;
            launch(&parts, factor, to, flags)
        }
    }
}

/// Parameters of the launches over all rows.
fn totals(rows: usize, n: usize) -> RowParams {
    RowParams {
        rows: rows as u64,
        n: n as u64,
        strides: [0; 5],
        ignore_index: 0,
        epsilon: 0.0,
        scale: 1.0,
        threads: MAX_THREADS,
        flags: 0,
        vectors: 0,
        stages: 0,
        pace: 0,
    }
}
