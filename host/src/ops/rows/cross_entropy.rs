//! Cross-entropy.

mod targets;
mod totals;
mod with_gradient;

pub use self::targets::Targets;
pub use self::with_gradient::{LossAndGradient, WithGradient};

use self::totals::Of;
use super::operation::{Operation, Written, plans, with_kernel};
use super::plan::{Candidate, RowDesc};
use super::{Launch, MOST_OWN, Rows, invariant_alignment, model};
use crate::ops::axes::{RowAxes, Selected};
use crate::ops::check;
use crate::ops::float::Float;
use crate::reference::Model;
use crate::tensor::Dims;
use crate::{Error, Result, Stream, Tensor};
use abi::rows::{Alignment, MAX_THREADS, RowOp, Variant, flags, total_blocks};

/// How the losses of the rows are reduced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// Not at all: the result is the loss of each row.
    None,
    /// Mean over the rows whose target is not ignored, weighted by the class weights of the
    /// targets.
    #[default]
    Mean,
    /// Sum.
    Sum,
}

/// Cross-entropy of logits and classes or probabilities, with its gradient in the same launch. For a row `x`
/// of `n` logits and label smoothing `s`: `loss = ln sum_j exp(x_j) - (1 - s) x_target - s mean(x)`
/// and `dlogits_j = g (softmax(x)_j - (1 - s) [j = target] - s / n)`.
///
/// With class weights `w` and `l_j = ln sum_i exp(x_i) - x_j`, the loss is
/// `loss = (1 - s) w_target l_target + s / n sum_j w_j l_j`, and the mean over rows divides by the
/// sum of the weights of their targets.
///
/// With probabilities `p`, class `j` has the share `q_j = w_j ((1 - s) p_j + s / n)`. The loss is
/// `sum_j q_j l_j` over the classes with a share, and `dlogits_j = g (softmax(x)_j sum_i q_i - q_j)`.
/// The mean is over all rows. Nothing checks that probabilities add up to 1.
///
/// | tensor | shape | dtype | strides (elements) |
/// |---|---|---|---|
/// | `logits` | any, with 1 to 8 dimensions; the classes are along one axis (default: the last) | f32, f16, bf16 | any; see Performance |
/// | `targets`: classes | that of `logits` without that axis | i32, i64 | any |
/// | `targets`: probabilities | as `logits` | as `logits` | any; see Performance |
/// | `class_weights` (optional, default 1) | `[n]`, for `n` classes | f32 | any |
/// | `dloss` (optional, default 1) | as `loss` | f32 | any |
/// | `loss` (written) | rank 0 for [`Reduction::Mean`] and [`Reduction::Sum`]; that of `logits` without that axis for [`Reduction::None`] | f32 | contiguous; must not overlap another tensor |
/// | `dlogits` (written) | as `logits` | as `logits` | any where no two indices refer to one element; may be `logits` itself, and must not overlap it otherwise |
///
/// A row whose target is [`ignore_index`](Self::ignore_index) has loss 0 and gradient 0, whatever
/// its logits are. A row has NaN for both if its target is not a class, or if its logits contain
/// NaN or `+inf`, or are all `-inf`. `g` is [`gradient_scale`](Self::gradient_scale); for
/// [`Reduction::Mean`], it is divided by the number of rows that are not ignored, or by the sum of
/// the weights of their targets. Where that divisor is 0, the mean is NaN. With
/// [`dloss`](Self::dloss), `g` is also multiplied by the gradient with respect to the loss.
///
/// # Numerics
/// Computed in f32; losses and gradients are rounded once, and losses are added up in a fixed
/// order. With label smoothing, logits are added up too: if their sum is beyond 3.4e38, the loss is
/// infinite or NaN. Without negative weights, a finite loss is at least 0. Error bound:
/// [`reference::cross_entropy`](mod@crate::reference::cross_entropy). Deterministic: the same bits
/// every run on one kind of device.
///
/// # Async
/// Enqueued on `stream`; returns before completion. Device faults surface at the next synchronize.
///
/// # Errors
/// [`ShapeError::Axis`](crate::ShapeError::Axis),
/// [`ArgumentError::Value`](crate::ArgumentError::Value) (label smoothing outside of 0 to 1),
/// [`ArgumentError::Unsupported`](crate::ArgumentError::Unsupported) (a kernel that does not
/// exist), [`Error::Shape`], [`Error::Device`]. No launch happens on error.
///
/// # Performance
/// One launch over the rows reads the logits once and writes the gradient once, if it is requested.
/// For this, the classes must be contiguous, and the other dimensions must merge into one with a
/// single stride. Otherwise the logits are copied to rows, and the gradient is copied to `dlogits`,
/// which is another read and write each (probabilities likewise). Label smoothing together with class weights reads rows two
/// more times, from shared memory if they fit. So do probabilities with class weights, or where their rows
/// and those of the logits do not begin equally far behind a multiple of 16 bytes. [`Reduction::Mean`] of
/// classes needs a launch over the targets
/// before; [`Reduction::Mean`] and [`Reduction::Sum`] need one over the losses after.
///
/// # Examples
/// ```
/// # fn main() -> warpsmith::Result<()> {
/// use warpsmith::{CrossEntropy, Device, Tensor};
/// let device = Device::emulator()?;
/// let stream = device.stream()?;
/// let logits = Tensor::from_slice(&device, &[2, 2], &[0.0_f32, 0.0, 1.0, 2.0])?;
/// let targets = Tensor::from_slice(&device, &[2], &[1_i64, -100])?;
/// let out = CrossEntropy::new(&logits, &targets).gradient().run(&stream)?;
/// assert!((out.loss.item()? - 2.0_f32.ln()).abs() < 1e-6);
/// assert_eq!(out.dlogits.to_vec()?, [0.5, -0.5, 0.0, 0.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is computed until `run` or `run_into`"]
pub struct CrossEntropy<'a, T: Float> {
    logits: &'a Tensor<T>,
    targets: Targets<'a, T>,
    weights: Option<&'a Tensor<f32>>,
    axes: Selected,
    ignore_index: i64,
    label_smoothing: f32,
    gradient_scale: f32,
    dloss: Option<&'a Tensor<f32>>,
    reduction: Reduction,
    /// Whether new outputs include the gradient.
    has_gradient: bool,
    batch_invariant: bool,
    kernel: Option<&'a str>,
}

impl<'a, T: Float> CrossEntropy<'a, T> {
    /// The mean loss over rows along the last axis; rows with target -100 are ignored.
    pub fn new(logits: &'a Tensor<T>, targets: impl Into<Targets<'a, T>>) -> Self {
        Self {
            logits,
            targets: targets.into(),
            weights: None,
            axes: Selected::these(logits.rank(), &[-1]),
            ignore_index: -100,
            label_smoothing: 0.0,
            gradient_scale: 1.0,
            dloss: None,
            reduction: Reduction::Mean,
            has_gradient: false,
            batch_invariant: false,
            kernel: None,
        }
    }

    with_kernel!(kernel);
    plans!("CrossEntropy", self => self);

    /// Sets the axis of the classes, such as 1 for images with channels first. A negative axis counts
    /// from the end.
    pub fn axis(mut self, axis: isize) -> Self {
        self.axes = Selected::these(self.logits.rank(), &[axis]);
        self
    }

    /// Sets the target value that marks a row to be ignored (default -100).
    pub fn ignore_index(mut self, class: i64) -> Self {
        self.ignore_index = class;
        self
    }

    /// Sets the weights of the classes, `[n]`; see [`CrossEntropy`] for their effect.
    pub fn class_weights(mut self, weights: &'a Tensor<f32>) -> Self {
        self.weights = Some(weights);
        self
    }

    /// Sets the label smoothing, 0 to 1: the share of the target distribution that is spread evenly
    /// over all classes.
    pub fn label_smoothing(mut self, share: f32) -> Self {
        self.label_smoothing = share;
        self
    }

    /// Sets the factor of the gradient (default 1): the gradient with respect to the loss, if the
    /// loss is processed further, or the scale of mixed-precision training.
    pub fn gradient_scale(mut self, scale: f32) -> Self {
        self.gradient_scale = scale;
        self
    }

    /// Sets the gradient with respect to the loss (default 1), with the shape of the loss: for
    /// [`Reduction::None`] a number for each row. It is read when the kernel runs.
    pub fn dloss(mut self, dloss: &'a Tensor<f32>) -> Self {
        self.dloss = Some(dloss);
        self
    }

    /// Sets how the losses of the rows are reduced (default: mean).
    pub fn reduction(mut self, reduction: Reduction) -> Self {
        self.reduction = reduction;
        self
    }

    /// Whether the bits of a row's loss and gradient depend on this row alone (default false), not on the
    /// other rows, their number or the place of the row. ([`Reduction::Mean`] and [`Reduction::Sum`] add
    /// up all rows, and the mean's gradient is divided by their number.) Rows of a multiple of 16 bytes
    /// that do not begin at one are then copied, and others are gone through element by element.
    pub fn batch_invariant(mut self, batch_invariant: bool) -> Self {
        self.batch_invariant = batch_invariant;
        self
    }

    /// Also computes the gradient with respect to the logits, from the same read of them.
    pub fn gradient(mut self) -> WithGradient<Self> {
        self.has_gradient = true;
        WithGradient(self)
    }

    /// Enqueues the loss and returns it, a new tensor.
    ///
    /// # Errors
    /// See [`CrossEntropy`].
    pub fn run(&self, stream: &Stream) -> Result<Tensor<f32>> {
        Operation::run(self, stream).map(|(loss, _)| loss)
    }

    /// Enqueues the loss into `loss`.
    ///
    /// # Errors
    /// See [`CrossEntropy`].
    pub fn run_into(&self, loss: &Tensor<f32>, stream: &Stream) -> Result<()> {
        Operation::run_into(self, &(loss.clone(), None), stream)
    }

    /// The error model of the kernels, for the bound of the reference.
    ///
    /// # Errors
    /// [`ShapeError::Axis`](crate::ShapeError::Axis).
    pub fn model(&self) -> Result<Model> {
        let (rows, n) = self.axes.rows_of(self.logits)?.extents(self.logits.shape());
        let blocks = total_blocks(rows as u64) as usize;
        let of_thread = |rows: usize| rows.div_ceil(MAX_THREADS as usize) + 16;
        let totals = match blocks {
            1 => of_thread(rows),
            blocks => of_thread(rows.div_ceil(blocks)) + of_thread(blocks),
        };
        let mut model = model(n, MOST_OWN);
        model.additions = model.additions.max(totals);
        Ok(model)
    }

    /// Memory for the losses of the rows: the result itself, if it is not reduced.
    fn losses(&self, loss: &Tensor<f32>, rows: usize, stream: &Stream) -> Result<Tensor<f32>> {
        match self.reduction {
            Reduction::None => Ok(loss.clone()),
            Reduction::Mean | Reduction::Sum => Tensor::empty(stream, &[rows]),
        }
    }

    /// Shape of the loss.
    fn of_loss(&self, axes: &RowAxes) -> Result<Dims<usize>> {
        match self.reduction {
            Reduction::None => axes.of_rows(self.logits.shape()),
            Reduction::Mean | Reduction::Sum => Dims::new(&[]),
        }
    }

    /// How the rows of `all` lie, of which the first `inputs` are read together.
    fn alignment(
        &self,
        all: Vec<Option<&Tensor<T>>>,
        inputs: usize,
        axes: &RowAxes,
    ) -> Result<Alignment> {
        let (_, n) = axes.extents(self.logits.shape());
        match self.batch_invariant {
            true => Ok(invariant_alignment::<T>(n)),
            false => Rows::alignment(all, inputs, axes),
        }
    }

    /// Whether the targets are probabilities.
    fn are_probabilities(&self) -> bool {
        matches!(self.targets, Targets::Probabilities(_))
    }
}

impl<T: Float> Operation for CrossEntropy<'_, T> {
    type Element = T;
    /// The loss, and the gradient if it is requested.
    type Outputs = (Tensor<f32>, Option<Tensor<T>>);
    type Desc = RowDesc;
    type On<'b>
        = CrossEntropy<'b, T>
    where
        Self: 'b;

    fn name(&self) -> &'static str {
        "cross_entropy"
    }

    fn kernel(&self) -> Option<&str> {
        self.kernel
    }

    fn check(&self, stream: &Stream) -> Result<RowAxes> {
        check::device("logits", self.logits, stream)?;
        let axes = self.axes.rows_of(self.logits)?;
        let shape = self.logits.shape();
        self.targets.check(shape, &axes, stream)?;
        if let Some(weights) = self.weights {
            let (_, n) = axes.extents(shape);
            check::input("class_weights", weights, &[n], stream)?;
        }
        if let Some(dloss) = self.dloss {
            check::input("dloss", dloss, &self.of_loss(&axes)?, stream)?;
        }
        match (0.0..=1.0).contains(&self.label_smoothing) {
            true => Ok(axes),
            false => Err(Error::value(
                "label smoothing",
                format!("{:?}", self.label_smoothing),
                "a number from 0 to 1",
            )),
        }
    }

    fn check_outputs(
        &self,
        (loss, dlogits): &Self::Outputs,
        axes: &RowAxes,
        stream: &Stream,
    ) -> Result<()> {
        check::output("loss", loss, &self.of_loss(axes)?, stream)?;
        check::contiguous("loss", loss)?;
        check::no_overlap("loss", loss, "logits", self.logits)?;
        self.targets.check_apart("loss", loss)?;
        if let Some(weights) = self.weights {
            check::no_overlap("loss", loss, "class_weights", weights)?;
        }
        if let Some(dloss) = self.dloss {
            check::no_overlap("loss", loss, "dloss", dloss)?;
        }
        let Some(dlogits) = dlogits else {
            return Ok(());
        };
        check::output("dlogits", dlogits, self.logits.shape(), stream)?;
        check::no_partial_overlap("dlogits", dlogits, "logits", self.logits)?;
        self.targets.check_apart("dlogits", dlogits)?;
        check::no_overlap("dlogits", dlogits, "loss", loss)?;
        if let Some(dloss) = self.dloss {
            check::no_overlap("dlogits", dlogits, "dloss", dloss)?;
        }
        match self.weights {
            Some(weights) => check::no_overlap("dlogits", dlogits, "class_weights", weights),
            None => Ok(()),
        }
    }

    fn new_outputs(&self, axes: &RowAxes, stream: &Stream) -> Result<Self::Outputs> {
        let loss = Tensor::empty(stream, &self.of_loss(axes)?)?;
        let dlogits = match self.has_gradient {
            true => Some(Tensor::empty(stream, self.logits.shape())?),
            false => None,
        };
        Ok((loss, dlogits))
    }

    /// Without classes there are rows all the same: every target that is not ignored is invalid then.
    /// Of probabilities there is nothing to add up.
    fn describe(&self, out: Option<&Self::Outputs>, axes: &RowAxes) -> Result<Option<RowDesc>> {
        let (rows, n) = axes.extents(self.logits.shape());
        if rows == 0 || (n == 0 && self.are_probabilities()) {
            return Ok(None);
        }
        let dlogits = out.and_then(|(_, dlogits)| dlogits.as_ref());
        let (op, all) = match self.targets {
            Targets::Classes(_) => (RowOp::CrossEntropy, vec![Some(self.logits), dlogits]),
            Targets::Probabilities(of) => {
                let all = vec![Some(self.logits), Some(of), dlogits];
                (RowOp::SoftCrossEntropy, all)
            }
        };
        let inputs = all.len() - 1;
        // The kernels that hold rows on chip have no room for another number per class.
        let is_soft = self.are_probabilities();
        let has_kernel = self.weights.is_none() || (self.label_smoothing == 0.0 && !is_soft);
        let alignment = match has_kernel {
            // One kernel of probabilities takes all rows that lie alike.
            true => match self.alignment(all, inputs, axes)? {
                Alignment::Vectors if is_soft => Alignment::Alike,
                alignment => alignment,
            },
            false => Alignment::Apart,
        };
        let has_gradient = out.map_or(self.has_gradient, |(_, dlogits)| dlogits.is_some());
        Ok(Some(RowDesc {
            outputs: u32::from(has_gradient),
            batch_invariant: self.batch_invariant,
            ..RowDesc::new(op, T::DTYPE, (rows, n), alignment, inputs as u32)
        }))
    }

    fn launch(
        &self,
        candidate: &Candidate,
        (loss, dlogits): &Self::Outputs,
        axes: &RowAxes,
        stream: &Stream,
    ) -> Result<()> {
        let (rows, n) = axes.extents(self.logits.shape());
        let variant = candidate.entry.variant;
        let (inputs, factor) = (
            self.inputs(Some(candidate), axes, stream)?,
            self.new_factor(stream)?,
        );
        let (factor, losses) = (factor.as_ref(), self.losses(loss, rows, stream)?);
        let x = Rows::read_by(candidate, self.logits, axes, stream)?;
        let dx = dlogits.as_ref();
        let dx = dx
            .map(|dx| Rows::written_by(candidate, dx, axes, stream))
            .transpose()?;
        self.count(&inputs, factor, variant, (rows, n), stream)?;
        let (of_gradient, stride) = self.factors(factor, dx.is_some(), stream)?;
        let launch = Launch::new(stream, candidate);
        let mut params = launch.params();
        if factor.is_some() && variant.begins_early() {
            params.flags |= flags::EARLY;
        }
        let of_dx = dx.as_ref().map_or(0, |dx| dx.stride);
        params.strides[..3].copy_from_slice(&[x.stride, of_dx, stride]);
        params.ignore_index = self.ignore_index;
        params.epsilon = self.label_smoothing;
        params.scale = self.gradient_scale;
        let written = dx.as_ref().map(|dx| &dx.tensor);
        let (weights, of_gradient) = (inputs.weights.as_ref(), of_gradient.as_ref());
        // SAFETY: extents and strides are those of the tensors, whose elements lie inside of their
        // storage. There is one target and one loss per row, and one weight per class, or none.
        // Probabilities have rows as the logits. There is one factor per row, or for all, or none. dx is
        // injective, and is x or overlaps nothing.
        unsafe {
            match &inputs.targets {
                Of::Classes(targets) => {
                    let memory = (&x.tensor, targets, weights, &losses, written, of_gradient);
                    launch.run(stream, memory, &params)
                }
                Of::Probabilities(rows) => {
                    params.flags |= flags::PROBABILITIES;
                    params.strides[..4].copy_from_slice(&[x.stride, rows.stride, stride, of_dx]);
                    let memory = (
                        &x.tensor,
                        &rows.tensor,
                        weights,
                        &losses,
                        written,
                        of_gradient,
                    );
                    launch.run(stream, memory, &params)
                }
            }
        }?;
        if let (Some(dx), Some(dlogits)) = (&dx, dlogits) {
            dx.deliver(dlogits, axes, stream)?;
        }
        self.reduce(&losses, factor, loss, variant, stream)
    }

    fn launch_without_rows(
        &self,
        (loss, _): &Self::Outputs,
        axes: &RowAxes,
        stream: &Stream,
    ) -> Result<()> {
        if self.reduction == Reduction::None {
            return loss.fill(0.0, stream);
        }
        let extents = axes.extents(self.logits.shape());
        let (inputs, factor) = (self.inputs(None, axes, stream)?, self.new_factor(stream)?);
        let (factor, losses) = (factor.as_ref(), self.losses(loss, 0, stream)?);
        self.count(&inputs, factor, Variant::Streaming, extents, stream)?;
        self.reduce(&losses, factor, loss, Variant::Streaming, stream)
    }

    fn rows(&self) -> Vec<&Tensor<T>> {
        match self.targets {
            Targets::Classes(_) => vec![self.logits],
            Targets::Probabilities(of) => vec![self.logits, of],
        }
    }

    fn on<'b>(&'b self, rows: &'b [Tensor<T>]) -> CrossEntropy<'b, T> {
        CrossEntropy {
            logits: &rows[0],
            targets: match self.targets {
                Targets::Classes(_) => self.targets,
                Targets::Probabilities(_) => Targets::Probabilities(&rows[1]),
            },
            ..*self
        }
    }

    fn written((loss, dlogits): &Self::Outputs) -> Written<'_, T> {
        Written {
            sums: vec![loss],
            ..Written::rows(dlogits)
        }
    }
}
