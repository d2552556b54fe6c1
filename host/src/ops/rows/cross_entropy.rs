//! Cross-entropy.

use super::axes::{Along, RowAxes};
use super::{Launch, MOST_OWN, Rows, input, model, shape};
use crate::ops::float::Float;
use crate::ops::{check, kernels};
use crate::reference::Model;
use crate::{Error, LaunchConfig, Result, Stream, Tensor};
use spec::rows::{Form, MAX_THREADS, RowOp, RowParams, flags};

/// What becomes of the losses of all rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// They are the result.
    None,
    /// Their mean over rows whose target is not ignored.
    #[default]
    Mean,
    /// Their sum.
    Sum,
}

/// Cross-entropy of logits against a class each, and its gradient in the same launch:
/// `loss = ln sum_j exp(x_j) - (1 - s) x_target - s mean(x)` with label smoothing `s`, and
/// `dlogits = g (softmax(x) - (1 - s) [j = target] - s / n)`.
///
/// With weights w of the classes, each class's own loss `l_j = ln sum exp(x) - x_j` counts `w_j`
/// times: `loss = (1 - s) w_target l_target + s / n sum_j w_j l_j`; the mean is over the weights of
/// the targets.
///
/// | tensor | shape | dtype | strides (elements) |
/// |---|---|---|---|
/// | `logits` | any of 1 to 8 dimensions; classes are along an axis, the last one unless told | f32, f16, bf16 | any; see Performance |
/// | `targets` | `logits`' shape without that axis | i64 | any |
/// | `class_weights` (optional: else 1) | `[n]`, a weight a class | f32 | any |
/// | `loss` (written) | none of [`Reduction::Mean`] and [`Reduction::Sum`]; as `targets` of [`Reduction::None`] | f32 | contiguous; overlaps nothing |
/// | `dlogits` (written) | as `logits` | as `logits` | any that give each element a place of its own; may be `logits` itself, and must not overlap them otherwise |
///
/// A row whose target is [`ignore_index`](Self::ignore_index) has loss and gradient 0, whatever its
/// logits are. One whose target is no class, or with NaN, `+inf` or nothing but `-inf` among its
/// logits, has NaN for both. The mean of no rows is NaN. `g` is
/// [`gradient_scale`](Self::gradient_scale), over the number of rows that are not ignored, or the sum
/// of their targets' weights, of [`Reduction::Mean`]. Where that is 0, the mean is NaN.
///
/// # Numerics
/// Computed in f32, losses and gradients rounded once; losses are added up in a fixed order. Error
/// bound: [`reference::cross_entropy`](mod@crate::reference::cross_entropy). Deterministic: same bits
/// every run, on one kind of device.
///
/// # Async
/// Enqueued on `stream`; returns before completion. Device faults surface at the next synchronize.
///
/// # Errors
/// [`Error::OutOfBounds`] (the axis, and any axis of logits without dimensions), [`Error::InvalidValue`] (label smoothing not
/// in 0..=1), [`Error::ShapeMismatch`], [`Error::StrideMismatch`], [`Error::Overlap`],
/// [`Error::DeviceMismatch`], [`Error::OutOfMemory`], [`Error::Driver`]. No launch happens on error.
///
/// # Performance
/// One launch, one read of the logits and, where it is asked for, one write of their gradient, where
/// classes are neighbours and all other dimensions step evenly; else logits are copied to rows, and
/// their gradient to its place: another read and write each. Smoothing
/// together with weights reads rows two times more, from shared memory where they fit. Before it one
/// over the targets ([`Reduction::Mean`]), after it one over the losses.
///
/// # Examples
/// ```
/// # fn main() -> warpsmith::Result<()> {
/// use warpsmith::{CrossEntropy, Device, Tensor};
/// let device = Device::emulator()?;
/// let stream = device.stream()?;
/// let logits = Tensor::from_slice(&device, &[2, 2], &[0.0_f32, 0.0, 1.0, 2.0])?;
/// let targets = Tensor::from_slice(&device, &[2], &[1_i64, -100])?;
/// let (loss, dlogits) = CrossEntropy::new(&logits, &targets).run_with_gradient(&stream)?;
/// assert!((loss.item()? - 2.0_f32.ln()).abs() < 1e-6);
/// assert_eq!(dlogits.to_vec()?, [0.5, -0.5, 0.0, 0.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is computed until one of the `run`s"]
pub struct CrossEntropy<'a, T: Float> {
    logits: &'a Tensor<T>,
    targets: &'a Tensor<i64>,
    weights: Option<&'a Tensor<f32>>,
    along: Along,
    ignore_index: i64,
    label_smoothing: f32,
    gradient_scale: f32,
    reduction: Reduction,
}

impl<'a, T: Float> CrossEntropy<'a, T> {
    /// The mean over rows, of which those with target -100 are ignored.
    pub fn new(logits: &'a Tensor<T>, targets: &'a Tensor<i64>) -> Self {
        Self {
            logits,
            targets,
            weights: None,
            along: Along::Last(1),
            ignore_index: -100,
            label_smoothing: 0.0,
            gradient_scale: 1.0,
            reduction: Reduction::Mean,
        }
    }

    /// Classes are along this axis: the second one of images, say.
    pub fn axis(mut self, axis: usize) -> Self {
        self.along = Along::these(&[axis]);
        self
    }

    /// The target that says that a row does not count.
    pub fn ignore_index(mut self, class: i64) -> Self {
        self.ignore_index = class;
        self
    }

    /// How often a row counts whose target is this class.
    pub fn class_weights(mut self, weights: &'a Tensor<f32>) -> Self {
        self.weights = Some(weights);
        self
    }

    /// The share of a target that all classes have evenly, 0 to 1.
    pub fn label_smoothing(mut self, share: f32) -> Self {
        self.label_smoothing = share;
        self
    }

    /// What the gradient is multiplied by: that of the loss, if it goes on.
    pub fn gradient_scale(mut self, scale: f32) -> Self {
        self.gradient_scale = scale;
        self
    }

    /// What becomes of the losses of all rows.
    pub fn reduction(mut self, reduction: Reduction) -> Self {
        self.reduction = reduction;
        self
    }

    /// The loss in a new tensor.
    ///
    /// # Errors
    /// See [`CrossEntropy`].
    pub fn run(&self, stream: &Stream) -> Result<Tensor<f32>> {
        let loss = self.new_loss(stream)?;
        self.run_into(&loss, None, stream)?;
        Ok(loss)
    }

    /// The loss and the gradient of the logits, in new tensors.
    ///
    /// # Errors
    /// See [`CrossEntropy`].
    pub fn run_with_gradient(&self, stream: &Stream) -> Result<(Tensor<f32>, Tensor<T>)> {
        let loss = self.new_loss(stream)?;
        let dlogits = Tensor::empty(stream, self.logits.shape())?;
        self.run_into(&loss, Some(&dlogits), stream)?;
        Ok((loss, dlogits))
    }

    /// The loss into `loss`, and the gradient into `dlogits` where it is asked for.
    ///
    /// # Errors
    /// See [`CrossEntropy`].
    pub fn run_into(
        &self,
        loss: &Tensor<f32>,
        dlogits: Option<&Tensor<T>>,
        stream: &Stream,
    ) -> Result<()> {
        let axes = self.validate(loss, dlogits, stream)?;
        let (rows, n) = axes.extents(self.logits.shape());
        let totals = totals(rows, n);
        let inputs = Inputs {
            targets: self.targets.contiguous(stream)?,
            weights: self
                .weights
                .map(|weights| weights.contiguous(stream))
                .transpose()?,
        };
        let factor = match self.reduction {
            Reduction::Mean => Some(Tensor::<f32>::empty(stream, &[])?),
            Reduction::None | Reduction::Sum => None,
        };
        let losses = match self.reduction {
            Reduction::None => loss.clone(),
            Reduction::Mean | Reduction::Sum => Tensor::empty(stream, &[rows])?,
        };
        // Of no classes, too: every target that counts is none of them.
        let outputs = (&losses, dlogits);
        let form = self.launch(&inputs, outputs, factor.as_ref(), &axes, stream)?;
        if self.reduction == Reduction::None {
            return Ok(());
        }
        let kernel = kernels::kernel(stream, form.total_entry())?;
        let config = LaunchConfig::linear(1, totals.threads);
        // SAFETY: a loss a row, one number or none, and one number.
        unsafe { kernel.launch(stream, config, (&losses, factor.as_ref(), loss, totals)) }
    }

    /// How the kernels compute, for the bound of the reference.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`]: the axis.
    pub fn model(&self) -> Result<Model> {
        let (rows, n) = self.along.of(self.logits)?.extents(self.logits.shape());
        let totals = rows.div_ceil(MAX_THREADS as usize) + 16;
        let mut model = model(n, MOST_OWN);
        model.additions = model.additions.max(totals);
        Ok(model)
    }

    fn new_loss(&self, stream: &Stream) -> Result<Tensor<f32>> {
        match self.reduction {
            Reduction::None => Tensor::empty(stream, self.targets.shape()),
            Reduction::Mean | Reduction::Sum => Tensor::empty(stream, &[]),
        }
    }

    fn validate(
        &self,
        loss: &Tensor<f32>,
        dlogits: Option<&Tensor<T>>,
        stream: &Stream,
    ) -> Result<RowAxes> {
        check::device("logits", self.logits, stream)?;
        let axes = self.along.of(self.logits)?;
        let shape = self.logits.shape();
        let of_rows: &[usize] = &axes.of_rows(shape)?;
        input("targets", self.targets, of_rows, stream)?;
        if let Some(weights) = self.weights {
            let (_, n) = axes.extents(shape);
            input("class_weights", weights, &[n], stream)?;
            check::no_overlap("loss", loss, "class_weights", weights)?;
            if let Some(dlogits) = dlogits {
                check::no_overlap("dlogits", dlogits, "class_weights", weights)?;
            }
        }
        if !(0.0..=1.0).contains(&self.label_smoothing) {
            return Err(Error::InvalidValue {
                what: "label smoothing",
                got: self.label_smoothing.to_string().into(),
                want: "a number from 0 to 1".into(),
            });
        }
        let of_loss = match self.reduction {
            Reduction::None => of_rows,
            Reduction::Mean | Reduction::Sum => &[],
        };
        check::output("loss", loss, of_loss, stream)?;
        super::norm::contiguous_row("loss", loss)?;
        check::no_overlap("loss", loss, "logits", self.logits)?;
        check::no_overlap("loss", loss, "targets", self.targets)?;
        if let Some(dlogits) = dlogits {
            check::output("dlogits", dlogits, shape, stream)?;
            check::no_partial_overlap("dlogits", dlogits, "logits", self.logits)?;
            check::no_overlap("dlogits", dlogits, "targets", self.targets)?;
            check::no_overlap("dlogits", dlogits, "loss", loss)?;
        }
        Ok(axes)
    }

    /// Launches the factor's kernel, where there is one, and right after it that of the rows, whose
    /// form is returned.
    fn launch(
        &self,
        inputs: &Inputs,
        (losses, dlogits): (&Tensor<f32>, Option<&Tensor<T>>),
        factor: Option<&Tensor<f32>>,
        axes: &RowAxes,
        stream: &Stream,
    ) -> Result<Form> {
        let (rows, n) = axes.extents(self.logits.shape());
        if rows == 0 {
            self.count(inputs, factor, Form::Loose, (rows, n), stream)?;
            return Ok(Form::Loose);
        }
        let x = Rows::read(self.logits, axes, stream)?;
        let dx = dlogits
            .map(|dx| Rows::written(dx, axes, stream))
            .transpose()?;
        // Those that hold rows have no room for a number more a class.
        let has_kernel = self.weights.is_none() || self.label_smoothing == 0.0;
        let is_aligned = x.is_aligned() && dx.as_ref().is_none_or(Rows::is_aligned);
        let shape = shape(T::DTYPE, n, has_kernel && is_aligned, 1);
        let launch = Launch::new(stream, RowOp::CrossEntropy, T::DTYPE, rows, &shape)?;
        let form = launch.entry.form;
        self.count(inputs, factor, form, (rows, n), stream)?;
        let mut params = launch.params(rows, n);
        if factor.is_some() && form.begins_early() {
            params.flags |= flags::EARLY;
        }
        params.strides[..2].copy_from_slice(&[x.stride, dx.as_ref().map_or(0, |dx| dx.stride)]);
        params.ignore_index = self.ignore_index;
        params.epsilon = self.label_smoothing;
        params.scale = self.gradient_scale;
        let written = dx.as_ref().map(|dx| &dx.tensor);
        let (targets, weights) = (&inputs.targets, inputs.weights.as_ref());
        let arguments = (&x.tensor, targets, weights, losses, written, factor, params);
        // SAFETY: extents and strides are those of the tensors, whose elements lie inside of their
        // storage; there is a target and a loss a row, and a weight a class or none; dx is injective, and is x or overlaps nothing.
        unsafe { launch.run(stream, arguments) }?;
        if let (Some(dx), Some(dlogits)) = (dx, dlogits) {
            dx.deliver(dlogits, axes, stream)?;
        }
        Ok(form)
    }

    /// Launches the kernel of the factor, where there is one, before one of rows of this form.
    fn count(
        &self,
        inputs: &Inputs,
        factor: Option<&Tensor<f32>>,
        form: Form,
        (rows, n): (usize, usize),
        stream: &Stream,
    ) -> Result<()> {
        let Some(factor) = factor else {
            return Ok(());
        };
        let mut totals = totals(rows, n);
        totals.ignore_index = self.ignore_index;
        let kernel = kernels::kernel(stream, form.weight_entry())?;
        let config = LaunchConfig::linear(1, totals.threads);
        let arguments = (&inputs.targets, inputs.weights.as_ref(), factor, totals);
        // SAFETY: a target a row, a weight a class or none, and one number.
        unsafe { kernel.launch(stream, config, arguments) }
    }
}

/// What is read beside the logits, without gaps.
struct Inputs {
    targets: Tensor<i64>,
    weights: Option<Tensor<f32>>,
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
    }
}
