//! Layer norm and RMS norm.

mod outputs;
mod placed;

pub use outputs::Normalized;

use super::operation::{Operation, Written, plans, with_kernel};
use super::plan::{Candidate, RowDesc};
use super::weights::{self, ParamElement, Weights, argument};
use super::{Launch, Rows, invariant_alignment, norm_model};
use crate::ops::axes::{RowAxes, Selected, select_axes};
use crate::ops::check;
use crate::ops::float::Float;
use crate::reference::norm::NormModel;
use crate::{Error, Result, Stream, Tensor};
use abi::rows::{Alignment, RowOp, RowShape, flags};
use outputs::y_alone;
use placed::Placed;

/// A norm with the statistics of its rows, by [`LayerNorm::stats`] or [`RmsNorm::stats`].
#[derive(Clone, Debug)]
#[must_use = "nothing is computed until `run` or `run_into`"]
pub struct WithStats<Op>(Op);

/// The operands and options of both norms.
#[derive(Clone, Debug)]
struct Norm<'a, T: Float> {
    x: &'a Tensor<T>,
    axes: Selected,
    residual: Option<&'a Tensor<T>>,
    weight: Option<Weights<T>>,
    bias: Option<Weights<T>>,
    epsilon: f32,
    is_centered: bool,
    /// Whether `run` returns every output, or `y` alone.
    has_stats: bool,
    batch_invariant: bool,
    name: &'static str,
    kernel: Option<&'a str>,
}

macro_rules! norm {
    ($name:ident, $operation:literal, $is_centered:literal, $formula:literal, $rows:literal, $example:literal,
        { $($extra:item)* }) => {
        #[doc = $formula]
        ///
        /// | tensor | shape | dtype | strides (elements) |
        /// |---|---|---|---|
        /// | `x` | any, with 1 to 8 dimensions; the elements along the selected axes form a row (default: the last axis) | f32, f16, bf16 | any; see Performance |
        /// | `residual` (optional) | as `x` | as `x` | any |
        #[doc = $rows]
        /// | `y`, `sum` (written) | as `x` | as `x` | any where no two indices refer to one element; each may be `x` or `residual` itself, and must not overlap any other operand |
        /// | `mean`, `rstd` (written) | `x`'s shape without the axes | f32 | contiguous; must overlap nothing else |
        ///
        /// `x + residual` is rounded to the dtype of `x` before it is normalised. A row that
        /// contains NaN or an infinity becomes NaN, and so does its `rstd`. The mean of a row with an
        /// infinity is an infinity or NaN. `mean` and `rstd` of rows without elements are NaN.
        /// Squares are summed up in f32: if their sum is beyond 3.4e38 (for example with elements
        /// from 1e19 on), `rstd` and the row are NaN. Layer norm also sums up the elements: if this
        /// sum is beyond 3.4e38, the mean is infinite or NaN, and the row is NaN.
        ///
        /// # Numerics
        /// Computed in f32, and rounded once. The variance is a sum of squared deviations from the
        /// mean, not a difference of squares. Error bound:
        /// [`reference::norm`](mod@crate::reference::norm). Deterministic: the same bits every run and
        /// on every device of one compute capability, unless [`autotune`](Self::autotune) has chosen
        /// another kernel.
        ///
        /// # Async
        /// Enqueued on `stream`; returns before completion. Device faults surface at the next
        /// synchronize.
        ///
        /// # Errors
        /// [`Error::Shape`], [`Error::Device`] and [`ShapeError::Axis`](crate::ShapeError::Axis).
        /// [`ArgumentError::Value`](crate::ArgumentError::Value): no axes; an epsilon that is
        /// negative or not finite; an output `sum` without a residual; an output `mean` of RMS
        /// norm; weight and bias of two dtypes.
        /// [`ArgumentError::Unsupported`](crate::ArgumentError::Unsupported): a kernel that does
        /// not exist. No launch happens on error.
        ///
        /// # Performance
        /// One launch reads or writes every tensor once, if the elements of a row are contiguous
        /// and the other dimensions merge into one. The last axes of contiguous tensors do. A
        /// tensor with another layout is copied. Rows of a multiple of 16 bytes are fastest. Other
        /// rows, other compute capabilities than 9.0, and f16 with weights in f32 use a kernel
        /// without vector accesses. This kernel needs a separate launch to add a residual.
        ///
        /// # Sources
        /// Ba, Kiros and Hinton, Layer Normalization, arXiv:1607.06450; Zhang and Sennrich, Root
        /// Mean Square Layer Normalization, arXiv:1910.07467.
        ///
        /// # Examples
        /// ```
        /// # fn main() -> warpsmith::Result<()> {
        #[doc = $example]
        /// # Ok(())
        /// # }
        /// ```
        #[derive(Clone, Debug)]
        #[must_use = "nothing is computed until `run` or `run_into`"]
        pub struct $name<'a, T: Float>(Norm<'a, T>);

        impl<'a, T: Float> $name<'a, T> {
            /// A norm along the last axis of `x`, with an epsilon of 10⁻⁵.
            pub fn new(x: &'a Tensor<T>) -> Self {
                Self(Norm {
                    x,
                    axes: Selected::these(x.rank(), &[-1]),
                    residual: None,
                    weight: None,
                    bias: None,
                    epsilon: 1e-5,
                    is_centered: $is_centered,
                    has_stats: false,
                    batch_invariant: false,
                    name: $operation,
                    kernel: None,
                })
            }

            select_axes!(0.axes, 0.x);
            with_kernel!(0.kernel);
            plans!(stringify!($name), self => &self.0);

            /// Whether the bits of a row depend on this row alone (default false), not on the other rows,
            /// their number or the place of the row. Rows of a multiple of 16 bytes that do not begin at
            /// one are then copied, and others are gone through element by element.
            pub fn batch_invariant(mut self, batch_invariant: bool) -> Self {
                self.0.batch_invariant = batch_invariant;
                self
            }

            /// Sets the number that is added to the variance, or to the mean of squares.
            pub fn epsilon(mut self, epsilon: f32) -> Self {
                self.0.epsilon = epsilon;
                self
            }

            /// Sets the residual, which is added to `x` before the normalisation.
            pub fn residual(mut self, residual: &'a Tensor<T>) -> Self {
                self.0.residual = Some(residual);
                self
            }

            /// Sets the weight that the normalised rows are multiplied by, in the dtype of `x` or
            /// in f32.
            pub fn weight<W: ParamElement<T>>(mut self, weight: &Tensor<W>) -> Self {
                self.0.weight = Some(Weights::of(weight));
                self
            }

            $($extra)*

            /// Enqueues the norm and returns `y`, a new contiguous tensor.
            ///
            /// # Errors
            #[doc = concat!("See [`", stringify!($name), "`].")]
            pub fn run(&self, stream: &Stream) -> Result<Tensor<T>> {
                self.0.run(stream).map(|out| out.y)
            }

            /// Enqueues the norm into `y`.
            ///
            /// # Errors
            #[doc = concat!("See [`", stringify!($name), "`].")]
            pub fn run_into(&self, y: &Tensor<T>, stream: &Stream) -> Result<()> {
                self.0.run_into(&y_alone(y.clone()), stream)
            }

            /// Also gives what the gradient needs: [`Normalized`].
            pub fn stats(mut self) -> WithStats<Self> {
                self.0.has_stats = true;
                WithStats(self)
            }

            /// The error model of the kernels, for the bound of the reference.
            ///
            /// # Errors
            /// [`ShapeError::Axis`](crate::ShapeError::Axis) and
            /// [`ArgumentError::Value`](crate::ArgumentError::Value) for invalid axes.
            pub fn model(&self) -> Result<NormModel> {
                Ok(norm_model(self.0.axes.rows_of(self.0.x)?.extents(self.0.x.shape()).1))
            }
        }

        impl<T: Float> WithStats<$name<'_, T>> {
            /// Enqueues the norm and returns its results, new contiguous tensors; `sum` is one of
            /// them if there is a residual.
            ///
            /// # Errors
            #[doc = concat!("See [`", stringify!($name), "`].")]
            pub fn run(&self, stream: &Stream) -> Result<Normalized<T>> {
                self.0.0.run(stream)
            }

            /// Enqueues the norm into the tensors of `out`; outputs that are `None` are not
            /// written.
            ///
            /// # Errors
            #[doc = concat!("See [`", stringify!($name), "`].")]
            pub fn run_into(&self, out: &Normalized<T>, stream: &Stream) -> Result<()> {
                self.0.0.run_into(out, stream)
            }

            plans!(stringify!($name), self => &self.0.0);
        }
    };
}

norm! {
    LayerNorm, "layer_norm", true,
    "Layer norm along one or several axes: `y = (h - mean) rstd weight + bias` with `h = x + residual` and `rstd = 1 / √(variance + epsilon)`. The variance divides by `n`, not by `n - 1`.",
    "| `weight` (optional, default 1) | that of a row: the extents of `x` along the selected axes, in the order of `x` | as `x`, or f32 | any |
| `bias` (optional, default 0) | as `weight` | as `weight` | any |",
    "use ndarray::array;
use warpsmith::{Device, LayerNorm, Tensor};
let device = Device::emulator()?;
let stream = device.stream()?;
let x = Tensor::from_ndarray(&device, &array![[1.0_f32, 3.0], [5.0, 5.0]])?;
let bias = Tensor::from_slice(&device, &[2], &[0.5_f32, 0.5])?;
let y = LayerNorm::new(&x).bias(&bias).epsilon(0.0).run(&stream)?;
assert_eq!(y.index_axis(0, 0)?.to_vec()?, [-0.5, 1.5]);",
    {
        /// Sets the bias that is added last, in the dtype of `x` or in f32.
        pub fn bias<W: ParamElement<T>>(mut self, bias: &Tensor<W>) -> Self {
            self.0.bias = Some(Weights::of(bias));
            self
        }
    }
}

norm! {
    RmsNorm, "rms_norm", false,
    "RMS norm along one or several axes: `y = h rstd weight` with `h = x + residual` and `rstd = 1 / √(mean of h² + epsilon)`.",
    "| `weight` (optional, default 1) | that of a row: the extents of `x` along the selected axes, in the order of `x` | as `x`, or f32 | any |",
    "use ndarray::array;
use warpsmith::{Device, RmsNorm, Tensor};
let device = Device::emulator()?;
let stream = device.stream()?;
let x = Tensor::from_ndarray(&device, &array![[3.0_f32, -3.0]])?;
let residual = Tensor::from_ndarray(&device, &array![[1.0_f32, -1.0]])?;
let out = RmsNorm::new(&x).residual(&residual).epsilon(0.0).stats().run(&stream)?;
assert_eq!(out.y.to_vec()?, [1.0, -1.0]);
assert_eq!(out.sum.map(|sum| sum.to_vec()).transpose()?, Some(vec![4.0, -4.0]));",
    {}
}

impl<T: Float> Norm<'_, T> {
    fn check_rows(&self, out: &Normalized<T>, stream: &Stream) -> Result<()> {
        for (operand, written) in [("y", Some(&out.y)), ("sum", out.sum.as_ref())] {
            let Some(written) = written else { continue };
            check::output(operand, written, self.x.shape(), stream)?;
            check::no_partial_overlap(operand, written, "x", self.x)?;
            if let Some(residual) = self.residual {
                check::no_partial_overlap(operand, written, "residual", residual)?;
            }
            weights::no_overlap(operand, written, self.weights())?;
        }
        let Some(sum) = &out.sum else { return Ok(()) };
        if self.residual.is_none() {
            return Err(Error::value("sum", "asked for", "a residual, or no sum"));
        }
        check::no_overlap("sum", sum, "y", &out.y)
    }

    fn check_weights(&self, axes: &RowAxes, stream: &Stream) -> Result<()> {
        let of_row = axes.of_row(self.x.shape())?;
        for (operand, weights) in self.weights() {
            let Some(weights) = weights else { continue };
            weights.check(operand, &of_row, stream)?;
        }
        match (&self.weight, &self.bias) {
            (Some(weight), Some(bias)) if weight.is_other() != bias.is_other() => {
                Err(Error::value(
                    "dtype of bias",
                    bias.dtype().name(),
                    format!("{}, that of weight", weight.dtype().name()),
                ))
            }
            _ => Ok(()),
        }
    }

    fn weights(&self) -> [(&'static str, &Option<Weights<T>>); 2] {
        [("weight", &self.weight), ("bias", &self.bias)]
    }

    /// Whether weights are of another dtype than the rows.
    fn has_f32_weights(&self) -> bool {
        let weights = self.weights().into_iter();
        weights
            .filter_map(|(_, weights)| weights.as_ref())
            .any(Weights::is_other)
    }
}

impl<T: Float> Operation for Norm<'_, T> {
    type Element = T;
    type Outputs = Normalized<T>;
    type Desc = RowDesc;
    type On<'b>
        = Norm<'b, T>
    where
        Self: 'b;

    fn name(&self) -> &'static str {
        self.name
    }

    fn kernel(&self) -> Option<&str> {
        self.kernel
    }

    fn check(&self, stream: &Stream) -> Result<RowAxes> {
        check::device("x", self.x, stream)?;
        let axes = self.axes.rows_of(self.x)?;
        if !(self.epsilon >= 0.0 && self.epsilon.is_finite()) {
            return Err(Error::value(
                "epsilon",
                format!("{:?}", self.epsilon),
                "a finite number that is not negative",
            ));
        }
        if let Some(residual) = self.residual {
            check::input("residual", residual, self.x.shape(), stream)?;
        }
        self.check_weights(&axes, stream)?;
        Ok(axes)
    }

    fn check_outputs(&self, out: &Normalized<T>, axes: &RowAxes, stream: &Stream) -> Result<()> {
        self.check_rows(out, stream)?;
        if out.mean.is_some() && !self.is_centered {
            return Err(Error::value(
                "mean",
                "asked for",
                "none: RMS norm has no mean",
            ));
        }
        for (operand, kept) in [("mean", &out.mean), ("rstd", &out.rstd)] {
            let Some(kept) = kept else { continue };
            check::output(operand, kept, &axes.of_rows(self.x.shape())?, stream)?;
            check::contiguous(operand, kept)?;
            let of_rows = [
                ("x", Some(self.x)),
                ("residual", self.residual),
                ("y", Some(&out.y)),
                ("sum", out.sum.as_ref()),
            ];
            for (other, tensor) in of_rows {
                tensor.map_or(Ok(()), |t| check::no_overlap(operand, kept, other, t))?;
            }
            weights::no_overlap(operand, kept, self.weights())?;
        }
        if let (Some(mean), Some(rstd)) = (&out.mean, &out.rstd) {
            check::no_overlap("mean", mean, "rstd", rstd)?;
        }
        Ok(())
    }

    fn new_outputs(&self, axes: &RowAxes, stream: &Stream) -> Result<Normalized<T>> {
        let shape = self.x.shape();
        let y = Tensor::empty(stream, shape)?;
        if !self.has_stats {
            return Ok(y_alone(y));
        }
        let rows = axes.of_rows(shape)?;
        Ok(Normalized {
            y,
            sum: match self.residual {
                Some(_) => Some(Tensor::empty(stream, shape)?),
                None => None,
            },
            mean: match self.is_centered {
                true => Some(Tensor::empty(stream, &rows)?),
                false => None,
            },
            rstd: Some(Tensor::empty(stream, &rows)?),
        })
    }

    fn describe(&self, out: Option<&Normalized<T>>, axes: &RowAxes) -> Result<Option<RowDesc>> {
        if self.x.is_empty() {
            return Ok(None);
        }
        let (y, sum) = (out.map(|out| &out.y), out.and_then(|out| out.sum.as_ref()));
        let all = [Some(self.x), self.residual, y, sum];
        let weights = [&self.weight, &self.bias].into_iter().flatten();
        let inputs = 1 + usize::from(self.residual.is_some());
        let extents = axes.extents(self.x.shape());
        let alignment = match weights.clone().all(Weights::lie_aligned) {
            true if self.batch_invariant => invariant_alignment::<T>(extents.1),
            true => Rows::alignment(all, inputs, axes)?,
            false => Alignment::Apart,
        };
        let op = match self.has_f32_weights() {
            true => RowOp::NormF32,
            false => RowOp::Norm,
        };
        let has_sum = match out {
            Some(out) => out.sum.is_some(),
            None => self.has_stats && self.residual.is_some(),
        };
        let desc = RowDesc::new(op, T::DTYPE, extents, alignment, inputs as u32);
        Ok(Some(RowDesc {
            shape: RowShape {
                is_dense: desc.shape.is_any()
                    && Rows::are_dense([Some(self.x), self.residual], axes)?,
                is_centered: self.is_centered,
                has_bias: self.bias.is_some(),
                ..desc.shape
            },
            outputs: 1 + u32::from(has_sum),
            batch_invariant: self.batch_invariant,
            ..desc
        }))
    }

    fn launch(
        &self,
        candidate: &Candidate,
        out: &Normalized<T>,
        axes: &RowAxes,
        stream: &Stream,
    ) -> Result<()> {
        let contiguous = |weights: &Option<Weights<T>>| {
            let weights = weights.as_ref();
            weights
                .map(|weights| weights.contiguous(stream))
                .transpose()
        };
        let (weight, bias) = (contiguous(&self.weight)?, contiguous(&self.bias)?);
        let tensors = Placed::new(self, candidate, (out, axes), stream)?;
        let launch = Launch::new(stream, candidate);
        let mut params = launch.params();
        params.scale = 1.0 / params.n as f32;
        params.epsilon = self.epsilon;
        if self.is_centered {
            params.flags |= flags::CENTER;
        }
        if self.has_f32_weights() {
            params.flags |= flags::F32_WEIGHTS;
        }
        let (weight, bias) = (argument(weight.as_ref()), argument(bias.as_ref()));
        let made = match candidate.is_held() {
            true => None,
            false => tensors.added(axes, stream)?,
        };
        tensors.launch(&launch, params, (weight, bias), out, made.as_ref(), stream)?;
        if let (Some(placed), Some(sum)) = (&tensors.sum, &out.sum) {
            placed.deliver(sum, axes, stream)?;
        }
        tensors.y.deliver(&out.y, axes, stream)
    }

    /// Rows without elements have no mean.
    fn launch_without_rows(&self, out: &Normalized<T>, _: &RowAxes, stream: &Stream) -> Result<()> {
        let mut kept = [&out.mean, &out.rstd].into_iter().flatten();
        kept.try_for_each(|kept| kept.fill(f32::NAN, stream))
    }

    fn rows(&self) -> Vec<&Tensor<T>> {
        [Some(self.x), self.residual]
            .into_iter()
            .flatten()
            .collect()
    }

    fn on<'b>(&'b self, rows: &'b [Tensor<T>]) -> Norm<'b, T> {
        Norm {
            x: &rows[0],
            residual: rows.get(1),
            ..self.clone()
        }
    }

    fn written(out: &Normalized<T>) -> Written<'_, T> {
        let sums = [&out.mean, &out.rstd].into_iter().flatten();
        Written {
            sums: sums.collect(),
            ..Written::rows([Some(&out.y), out.sum.as_ref()].into_iter().flatten())
        }
    }
}
