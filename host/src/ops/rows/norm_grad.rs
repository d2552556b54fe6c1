//! Gradients of layer norm and RMS norm.

mod columns;

use super::operation::{Operation, Written, plans, with_kernel};
use super::plan::{Candidate, RowDesc};
use super::weights::{self, ParamElement, Weights, argument};
use super::{Launch, Rows, norm_model};
use crate::ops::axes::{RowAxes, Selected, select_axes};
use crate::ops::check;
use crate::ops::float::Float;
use crate::reference::norm::NormModel;
use crate::{Error, Result, Stream, Tensor};
use abi::rows::{Alignment, RowOp, RowParams, RowShape, flags};
use columns::Placed;

/// Most columns that are added up: the kernels number them by 32 bits.
const MAX_COLUMNS: u64 = 1 << 32;

/// The outputs of a norm's gradient: its results, or the tensors to write them to.
#[derive(Clone, Debug)]
pub struct NormGradients<T: Float> {
    /// The gradient with respect to `x`, with its shape.
    pub dx: Tensor<T>,
    /// The gradient with respect to the weight, with the shape of a row. `None` if it is not
    /// computed.
    pub dweight: Option<Tensor<f32>>,
    /// The gradient with respect to the bias, with the shape of a row. `None` if it is not
    /// computed.
    pub dbias: Option<Tensor<f32>>,
}

/// The operands and options of both gradients.
#[derive(Clone, Debug)]
struct NormGrad<'a, T: Float> {
    x: &'a Tensor<T>,
    axes: Selected,
    dy: &'a Tensor<T>,
    mean: Option<&'a Tensor<f32>>,
    rstd: &'a Tensor<f32>,
    weight: Option<Weights<T>>,
    dsum: Option<&'a Tensor<T>>,
    /// Whether `run` computes the bias's gradient even without a weight.
    has_bias: bool,
    name: &'static str,
    kernel: Option<&'a str>,
}

macro_rules! gradient {
    ($name:ident, $of:ident, $formula:literal, $kept:literal, $example:literal,
        { $($new:item)* }) => {
        #[doc = $formula]
        ///
        /// | tensor | shape | dtype | strides (elements) |
        /// |---|---|---|---|
        /// | `x`, the input of the normalisation: `x` of the forward pass, or its `sum` if it had a residual | any, with 1 to 8 dimensions | f32, f16, bf16 | any |
        /// | `dy`, the gradient with respect to `y` | as `x` | as `x` | any |
        #[doc = $kept]
        /// | `weight` (optional: else 1) | as in the forward | as `x`, or f32 | any |
        /// | `sum_gradient` (optional) | as `x`: the gradient of `sum` from other uses, added to `dx` | as `x` | any |
        /// | `dx` (written) | as `x`; also the gradient of the residual | as `x` | any where no two indices refer to one element; may be `x`, `dy` or `sum_gradient` itself, and must not overlap any other operand |
        /// | `dweight`, `dbias` (written; the latter of layer norm only) | as `weight` | f32 | contiguous; must not overlap another operand or each other |
        ///
        /// # Numerics
        /// Computed in f32; `dx` is rounded once. `dweight` and `dbias` are added up in two passes,
        /// without atomics, in an order that depends on the kernel, shape and strides only. Error bound:
        /// [`reference::norm_grad`](mod@crate::reference::norm_grad). Deterministic: the same bits
        /// every run and on every device of one compute capability, unless
        /// [`autotune`](Self::autotune) has chosen another kernel. The square of `rstd` has to be
        /// finite. It is, if the sum of variance and epsilon is at least 3e-39.
        ///
        /// # Async, Errors
        #[doc = concat!("As for [`", stringify!($of), "`](crate::", stringify!($of), "); also")]
        /// [`ShapeError::OutOfBounds`](crate::ShapeError::OutOfBounds) for the gradient of a weight
        /// or a bias of more than 2^32 elements.
        ///
        /// # Performance
        /// One launch reads `x` and `dy` once and writes `dx` once. `dweight` and `dbias` need
        /// another small launch, over partial sums: at most 1,056 per column. A slower kernel reads
        /// rows twice (once if a row fits the shared memory of a block), and once more for
        /// `dweight` and `dbias`. It runs in these cases:
        ///
        /// - Rows are longer than 262,144 elements of 16 bits (131,072 of f32, or of bf16 with a
        ///   weight in f32).
        /// - Rows are longer than 131,072 elements, and do not begin at multiples of 16 bytes or are
        ///   not whole multiples.
        /// - The compute capability is not 9.0.
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
        pub struct $name<'a, T: Float>(NormGrad<'a, T>);

        impl<'a, T: Float> $name<'a, T> {
            $($new)*

            select_axes!(0.axes, 0.x);
            with_kernel!(0.kernel);
            plans!(stringify!($of), self => &self.0);

            /// Sets the weight of the forward pass, in the dtype of `x` or in f32.
            pub fn weight<W: ParamElement<T>>(mut self, weight: &Tensor<W>) -> Self {
                self.0.weight = Some(Weights::of(weight));
                self
            }

            /// Sets the gradient that reaches the sum of `x` and the residual from elsewhere, such
            /// as the residual branch of the next layer. It is added to `dx`.
            pub fn sum_gradient(mut self, dsum: &'a Tensor<T>) -> Self {
                self.0.dsum = Some(dsum);
                self
            }

            /// Enqueues all gradients and returns them in new contiguous tensors. Those with
            /// respect to weight and bias are computed if a weight is set; that of the bias of a
            /// [`LayerNorm`](crate::LayerNorm) without a weight is computed after
            /// [`LayerNormGrad::bias_gradient`](crate::LayerNormGrad::bias_gradient).
            ///
            /// # Errors
            #[doc = concat!("See [`", stringify!($of), "`](crate::", stringify!($of), ").")]
            pub fn run(&self, stream: &Stream) -> Result<NormGradients<T>> {
                self.0.run(stream)
            }

            /// Enqueues the gradients into the tensors of `out`; outputs that are `None` are not
            /// computed.
            ///
            /// # Errors
            #[doc = concat!("See [`", stringify!($of), "`](crate::", stringify!($of), ").")]
            pub fn run_into(&self, out: &NormGradients<T>, stream: &Stream) -> Result<()> {
                self.0.run_into(out, stream)
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
    };
}

gradient! {
    LayerNormGrad, LayerNorm,
    "Gradient of layer norm: with `z = (x - mean) rstd` and `w = weight dy`, `dx = rstd (w - mean(w) - z mean(w z))`, `dweight = sum of dy z`, `dbias = sum of dy` over rows.",
    "| `mean`, `rstd`, as kept by the forward pass | that of `x` without the axes of a row | f32 | contiguous |",
    "use warpsmith::{Device, LayerNorm, LayerNormGrad, Tensor};
let device = Device::emulator()?;
let stream = device.stream()?;
let x = Tensor::from_slice(&device, &[1, 2], &[1.0_f32, 3.0])?;
let dy = Tensor::from_slice(&device, &[1, 2], &[1.0_f32, 0.0])?;
let weight = Tensor::from_slice(&device, &[2], &[2.0_f32, 2.0])?;
let kept = LayerNorm::new(&x).weight(&weight).epsilon(0.0).stats().run(&stream)?;
if let (Some(mean), Some(rstd)) = (&kept.mean, &kept.rstd) {
    let gradients = LayerNormGrad::new(&x, mean, rstd, &dy).weight(&weight).run(&stream)?;
    assert_eq!(gradients.dx.to_vec()?, [0.0, 0.0]); // two elements: y does not depend on x
    assert_eq!(gradients.dweight.map(|d| d.to_vec()).transpose()?, Some(vec![-1.0, 0.0]));
}",
    {
        /// Makes [`run`](Self::run) compute the bias's gradient though no weight is set: for a layer
        /// norm with a bias alone.
        pub fn bias_gradient(mut self) -> Self {
            self.0.has_bias = true;
            self
        }

        /// The gradient along the last axis, from what the forward pass kept and the gradient `dy`
        /// ([`LayerNorm::stats`](crate::LayerNorm::stats)).
        pub fn new(
            x: &'a Tensor<T>,
            mean: &'a Tensor<f32>,
            rstd: &'a Tensor<f32>,
            dy: &'a Tensor<T>,
        ) -> Self {
            Self(NormGrad {
                x,
                axes: Selected::these(x.rank(), &[-1]),
                dy,
                mean: Some(mean),
                rstd,
                weight: None,
                dsum: None,
                has_bias: false,
                name: "layer_norm_grad",
                kernel: None,
            })
        }
    }
}

gradient! {
    RmsNormGrad, RmsNorm,
    "Gradient of RMS norm: with `z = x rstd` and `w = weight dy`, `dx = rstd (w - z mean(w z))`, `dweight = sum of dy z` over rows.",
    "| `rstd`, as kept by the forward pass | that of `x` without the axes of a row | f32 | contiguous |",
    "use warpsmith::{Device, RmsNorm, RmsNormGrad, Tensor};
let device = Device::emulator()?;
let stream = device.stream()?;
let x = Tensor::from_slice(&device, &[1, 2], &[2.0_f32, -2.0])?;
let dy = Tensor::from_slice(&device, &[1, 2], &[1.0_f32, 1.0])?;
let kept = RmsNorm::new(&x).epsilon(0.0).stats().run(&stream)?;
if let Some(rstd) = &kept.rstd {
    let gradients = RmsNormGrad::new(&x, rstd, &dy).run(&stream)?;
    assert_eq!(gradients.dx.to_vec()?, [0.5, 0.5]);
}",
    {
        /// The gradient along the last axis, from what the forward pass kept and the gradient `dy`
        /// ([`RmsNorm::stats`](crate::RmsNorm::stats)).
        pub fn new(x: &'a Tensor<T>, rstd: &'a Tensor<f32>, dy: &'a Tensor<T>) -> Self {
            Self(NormGrad {
                x,
                axes: Selected::these(x.rank(), &[-1]),
                dy,
                mean: None,
                rstd,
                weight: None,
                dsum: None,
                has_bias: false,
                name: "rms_norm_grad",
                kernel: None,
            })
        }
    }
}

impl<T: Float> NormGrad<'_, T> {
    /// Checks that the gradients of a weight or a bias have few enough elements.
    fn check_columns(&self, axes: &RowAxes) -> Result<()> {
        let (_, n) = axes.extents(self.x.shape());
        match n as u64 {
            ..=MAX_COLUMNS => Ok(()),
            got => Err(Error::out_of_bounds(
                "length of rows of which weight or bias have gradients",
                got,
                MAX_COLUMNS + 1,
            )),
        }
    }

    /// Whether the gradients of the weight and of the bias are among new outputs.
    fn new_sums(&self) -> [bool; 2] {
        let has_weight = self.weight.is_some();
        [
            has_weight,
            self.has_bias || (self.mean.is_some() && has_weight),
        ]
    }

    fn has_f32_weight(&self) -> bool {
        self.weight.as_ref().is_some_and(Weights::is_other)
    }

    /// The tensors that the forward pass kept.
    fn kept(&self) -> impl Iterator<Item = (&'static str, &Tensor<f32>)> {
        let kept = [("mean", self.mean), ("rstd", Some(self.rstd))];
        kept.into_iter()
            .filter_map(|(name, kept)| Some((name, kept?)))
    }

    /// Checks the gradient of a weight or a bias.
    fn check_sums(
        &self,
        (operand, sums): (&'static str, &Tensor<f32>),
        dx: &Tensor<T>,
        axes: &RowAxes,
        stream: &Stream,
    ) -> Result<()> {
        check::output(operand, sums, &axes.of_row(self.x.shape())?, stream)?;
        check::contiguous(operand, sums)?;
        check::no_overlap(operand, sums, "x", self.x)?;
        check::no_overlap(operand, sums, "dy", self.dy)?;
        check::no_overlap(operand, sums, "dx", dx)?;
        if let Some(dsum) = self.dsum {
            check::no_overlap(operand, sums, "sum_gradient", dsum)?;
        }
        for (other, kept) in self.kept() {
            check::no_overlap(operand, sums, other, kept)?;
        }
        weights::no_overlap(operand, sums, [("weight", &self.weight)])
    }
}

impl<T: Float> Operation for NormGrad<'_, T> {
    type Element = T;
    type Outputs = NormGradients<T>;
    type Desc = RowDesc;
    type On<'b>
        = NormGrad<'b, T>
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
        let shape = self.x.shape();
        let (of_rows, of_row) = (axes.of_rows(shape)?, axes.of_row(shape)?);
        check::input("dy", self.dy, shape, stream)?;
        for (operand, kept) in self.kept() {
            check::input(operand, kept, &of_rows, stream)?;
            check::contiguous(operand, kept)?;
        }
        if let Some(dsum) = self.dsum {
            check::input("sum_gradient", dsum, shape, stream)?;
        }
        if let Some(weight) = &self.weight {
            weight.check("weight", &of_row, stream)?;
        }
        Ok(axes)
    }

    fn check_outputs(&self, out: &NormGradients<T>, axes: &RowAxes, stream: &Stream) -> Result<()> {
        if out.dbias.is_some() && self.mean.is_none() {
            return Err(Error::value(
                "dbias",
                "asked for",
                "none: RMS norm has no bias",
            ));
        }
        if out.dweight.is_some() || out.dbias.is_some() {
            self.check_columns(axes)?;
        }
        check::output("dx", &out.dx, self.x.shape(), stream)?;
        check::no_partial_overlap("dx", &out.dx, "x", self.x)?;
        check::no_partial_overlap("dx", &out.dx, "dy", self.dy)?;
        if let Some(dsum) = self.dsum {
            check::no_partial_overlap("dx", &out.dx, "sum_gradient", dsum)?;
        }
        for (operand, kept) in self.kept() {
            check::no_overlap("dx", &out.dx, operand, kept)?;
        }
        weights::no_overlap("dx", &out.dx, [("weight", &self.weight)])?;
        for (operand, sums) in [("dweight", &out.dweight), ("dbias", &out.dbias)] {
            let Some(sums) = sums else { continue };
            self.check_sums((operand, sums), &out.dx, axes, stream)?;
        }
        if let (Some(dweight), Some(dbias)) = (&out.dweight, &out.dbias) {
            check::no_overlap("dweight", dweight, "dbias", dbias)?;
        }
        Ok(())
    }

    fn new_outputs(&self, axes: &RowAxes, stream: &Stream) -> Result<NormGradients<T>> {
        let [has_weight, has_bias] = self.new_sums();
        if has_weight || has_bias {
            self.check_columns(axes)?;
        }
        let of_row = axes.of_row(self.x.shape())?;
        let sums = |is_there: bool| match is_there {
            true => Tensor::empty(stream, &of_row).map(Some),
            false => Ok(None),
        };
        Ok(NormGradients {
            dx: Tensor::empty(stream, self.x.shape())?,
            dweight: sums(has_weight)?,
            dbias: sums(has_bias)?,
        })
    }

    fn describe(&self, out: Option<&NormGradients<T>>, axes: &RowAxes) -> Result<Option<RowDesc>> {
        if self.x.is_empty() {
            return Ok(None);
        }
        let all = [
            Some(self.x),
            Some(self.dy),
            self.dsum,
            out.map(|out| &out.dx),
        ];
        let alignment = match self.weight.as_ref().is_none_or(Weights::lie_aligned) {
            true => Rows::alignment(all, 2, axes)?,
            false => Alignment::Apart,
        };
        let op = match self.has_f32_weight() {
            true => RowOp::NormGradF32,
            false => RowOp::NormGrad,
        };
        let extents = axes.extents(self.x.shape());
        let desc = RowDesc::new(op, T::DTYPE, extents, alignment, 2);
        let read = [Some(self.x), Some(self.dy), self.dsum];
        Ok(Some(RowDesc {
            shape: RowShape {
                inputs: 2 + u32::from(self.dsum.is_some()),
                is_dense: desc.shape.is_any() && Rows::are_dense(read, axes)?,
                ..desc.shape
            },
            ..desc
        }))
    }

    fn launch(
        &self,
        candidate: &Candidate,
        out: &NormGradients<T>,
        axes: &RowAxes,
        stream: &Stream,
    ) -> Result<()> {
        let (rows, n) = axes.extents(self.x.shape());
        let weight = self.weight.as_ref();
        let weight = weight.map(|weight| weight.contiguous(stream)).transpose()?;
        let read = |x: &Tensor<T>| Rows::read(x, axes, stream);
        let placed = Placed {
            x: read(self.x)?,
            dy: read(self.dy)?,
            dsum: self.dsum.map(read).transpose()?,
            dx: Rows::written(&out.dx, axes, stream)?,
        };
        let launch = Launch::new(stream, candidate);
        let mut params = launch.params();
        params.scale = 1.0 / n as f32;
        params.strides[..4].copy_from_slice(&placed.strides());
        if self.mean.is_some() {
            params.flags |= flags::CENTER;
        }
        if self.has_f32_weight() {
            params.flags |= flags::F32_WEIGHTS;
        }
        let parts = match candidate.is_held() {
            true => candidate.groups() as usize,
            false => columns::parts(rows),
        };
        let partial = |sums: &Option<Tensor<f32>>| match sums {
            Some(_) => Tensor::<f32>::empty(stream, &[parts, n]).map(Some),
            None => Ok(None),
        };
        let sums = [partial(&out.dweight)?, partial(&out.dbias)?];
        if !candidate.is_held() && sums.iter().any(Option::is_some) {
            // Before dx, which may be written over x or dy.
            self.columns(&placed, &sums, parts, params, stream)?;
        }
        let kept = match candidate.is_held() {
            true => [sums[0].as_ref(), sums[1].as_ref()],
            false => [None; 2],
        };
        let weight = argument(weight.as_ref());
        let enqueue = |pace: u64| {
            let params = RowParams { pace, ..params };
            let memory = placed.memory(self, weight, kept);
            // SAFETY: extents and strides are those of the tensors, whose elements lie inside of
            // their storage. dx is injective, and is an input or overlaps none. There is a row of
            // partial sums for each group of the grid.
            unsafe { launch.run(stream, memory, &params) }
        };
        let workspaces = stream.device().workspaces();
        workspaces.lend(launch.pace(stream), stream, enqueue)?;
        placed.dx.deliver(&out.dx, axes, stream)?;
        columns::finish(&sums, out, (parts, params), stream)
    }

    fn launch_without_rows(
        &self,
        out: &NormGradients<T>,
        _: &RowAxes,
        stream: &Stream,
    ) -> Result<()> {
        let mut sums = [&out.dweight, &out.dbias].into_iter().flatten();
        sums.try_for_each(|sums| sums.fill(0.0, stream))
    }

    fn rows(&self) -> Vec<&Tensor<T>> {
        let all = [Some(self.x), Some(self.dy), self.dsum];
        all.into_iter().flatten().collect()
    }

    fn on<'b>(&'b self, rows: &'b [Tensor<T>]) -> NormGrad<'b, T> {
        NormGrad {
            x: &rows[0],
            dy: &rows[1],
            dsum: rows.get(2),
            ..self.clone()
        }
    }

    fn written(out: &NormGradients<T>) -> Written<'_, T> {
        let sums = [&out.dweight, &out.dbias].into_iter().flatten();
        Written {
            sums: sums.collect(),
            ..Written::rows([&out.dx])
        }
    }
}
