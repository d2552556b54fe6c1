//! Softmax, log-softmax, and their gradients.

use super::operation::{Operation, Written, plans, with_kernel};
use super::plan::{Candidate, RowDesc};
use super::{Launch, MOST_OWN, MOST_OWN_OTHERWISE, Rows, model};
use crate::ops::axes::{RowAxes, Selected, select_axes};
use crate::ops::check;
use crate::ops::float::Float;
use crate::reference::Model;
use crate::{Result, Stream, Tensor};
use abi::rows::{RowOp, flags};

macro_rules! forward {
    ($name:ident, $operation:literal, $flags:expr, $formula:literal, $special:literal, $reference:literal,
        $example:literal) => {
        #[doc = $formula]
        ///
        /// | tensor | shape | dtype | strides (elements) |
        /// |---|---|---|---|
        /// | `x` | any, with 1 to 8 dimensions; the elements along the selected axes form a row (default: the last axis) | f32, f16, bf16 | any; see Performance |
        /// | `y` (written) | as `x` | as `x` | any where no two indices refer to one element; may be `x` itself, and must not overlap it otherwise |
        ///
        #[doc = $special]
        ///
        /// # Numerics
        /// Computed in f32, and rounded once. Exponentials of the differences from the maximum use
        /// the instruction `ex2.approx`. Error bound:
        #[doc = $reference]
        /// Deterministic: the same bits every run on one kind of device.
        ///
        /// # Async
        /// Enqueued on `stream`; returns before completion. Device faults surface at the next
        /// synchronize.
        ///
        /// # Errors
        /// [`ShapeError::Axis`](crate::ShapeError::Axis),
        /// [`ArgumentError::Value`](crate::ArgumentError::Value) (no axes),
        /// [`ArgumentError::Unsupported`](crate::ArgumentError::Unsupported) (a kernel that does
        /// not exist), [`Error::Shape`](crate::Error::Shape),
        /// [`Error::Device`](crate::Error::Device). No launch happens on error.
        ///
        /// # Performance
        /// One launch, one read and one write, if the elements of a row are contiguous and the
        /// other dimensions merge into one with a single stride. The last axes of contiguous
        /// tensors do. Otherwise `x` is copied to rows first, or the result is copied to `y`. Each
        /// copy is another read and write. Rows of a multiple of 16 bytes are fastest.
        /// [`plan`](Self::plan) shows the memory that holds them.
        ///
        /// # Sources
        /// Milakov and Gimelshein, Online normalizer calculation for softmax, arXiv:1805.02867.
        ///
        /// # Examples
        /// ```
        /// # fn main() -> warpsmith::Result<()> {
        #[doc = $example]
        /// # Ok(())
        /// # }
        /// ```
        #[derive(Clone, Copy, Debug)]
        #[must_use = "nothing is computed until `run` or `run_into`"]
        pub struct $name<'a, T: Float>(Forward<'a, T>);

        impl<'a, T: Float> $name<'a, T> {
            /// The operation along the last axis of `x`.
            pub fn new(x: &'a Tensor<T>) -> Self {
                Self(Forward {
                    x,
                    axes: Selected::these(x.rank(), &[-1]),
                    name: $operation,
                    flags: $flags,
                    kernel: None,
                })
            }

            select_axes!(0.axes, 0.x);
            with_kernel!(0.kernel);

            /// Enqueues the operation and returns its result, a new contiguous tensor.
            ///
            /// # Errors
            #[doc = concat!("See [`", stringify!($name), "`].")]
            pub fn run(&self, stream: &Stream) -> Result<Tensor<T>> {
                self.0.run(stream)
            }

            /// Enqueues the operation into `y`, which may be `x` itself.
            ///
            /// # Errors
            #[doc = concat!("See [`", stringify!($name), "`].")]
            pub fn run_into(&self, y: &Tensor<T>, stream: &Stream) -> Result<()> {
                self.0.run_into(y, stream)
            }

            plans!(stringify!($name), self => &self.0);

            /// The error model of the kernels, for the bound of the reference.
            ///
            /// # Errors
            /// [`ShapeError::Axis`](crate::ShapeError::Axis) and
            /// [`ArgumentError::Value`](crate::ArgumentError::Value) for invalid axes.
            pub fn model(&self) -> Result<Model> {
                Ok(model(
                    self.0.axes.rows_of(self.0.x)?.extents(self.0.x.shape()).1,
                    MOST_OWN,
                ))
            }
        }
    };
}

forward! {
    Softmax, "softmax", 0,
    "Softmax along one or several axes: `y_i = exp(x_i - max) / sum_j exp(x_j - max)`.",
    "A row that contains NaN or `+inf`, or consists of `-inf` only, becomes NaN, as the formula says.",
    "[`reference::softmax`](crate::reference::softmax).",
    "use ndarray::array;
use warpsmith::{Device, Softmax, Tensor};
let device = Device::emulator()?;
let stream = device.stream()?;
let x = Tensor::from_ndarray(&device, &array![[1.0_f32, 1.0], [0.0, f32::NEG_INFINITY]])?;
let y = Softmax::new(&x).run(&stream)?;
assert_eq!(y.to_ndarray()?, array![[0.5, 0.5], [1.0, 0.0]].into_dyn());"
}

forward! {
    LogSoftmax, "log_softmax", flags::LOG,
    "Logarithm of softmax along one or several axes: `y_i = x_i - max - ln sum_j exp(x_j - max)`.",
    "A row that contains NaN or `+inf`, or consists of `-inf` only, becomes NaN; in other rows `-inf` stays `-inf`, and nothing is above 0.",
    "[`reference::log_softmax`](fn@crate::reference::softmax::log_softmax).",
    "use ndarray::array;
use warpsmith::{Device, LogSoftmax, Tensor};
let device = Device::emulator()?;
let stream = device.stream()?;
let x = Tensor::from_ndarray(&device, &array![[3.0_f32, f32::NEG_INFINITY]])?;
let y = LogSoftmax::new(&x).run(&stream)?;
assert_eq!(y.to_vec()?, [0.0, f32::NEG_INFINITY]);"
}

macro_rules! backward {
    ($name:ident, $operation:literal, $of:ident, $flags:expr, $formula:literal, $reference:literal, $example:literal) => {
        #[doc = $formula]
        ///
        /// | tensor | shape | dtype | strides (elements) |
        /// |---|---|---|---|
        #[doc = concat!("| `y`, the result of [`", stringify!($of), "`] | any, with 1 to 8 dimensions | f32, f16, bf16 | any; see there |")]
        /// | `dy`, the gradient with respect to `y` | as `y` | as `y` | any |
        /// | `dx` (written), the gradient with respect to the input | as `y` | as `y` | any where no two indices refer to one element; may be `y` or `dy` itself, and must not overlap them otherwise |
        ///
        /// # Numerics
        /// Computed in f32, and rounded once. Error bound:
        #[doc = $reference]
        /// Deterministic: the same bits every run on one kind of device.
        ///
        /// # Async, Errors, Performance
        #[doc = concat!("As for [`", stringify!($of), "`], with two reads and one write.")]
        ///
        /// # Examples
        /// ```
        /// # fn main() -> warpsmith::Result<()> {
        #[doc = $example]
        /// # Ok(())
        /// # }
        /// ```
        #[derive(Clone, Copy, Debug)]
        #[must_use = "nothing is computed until `run` or `run_into`"]
        pub struct $name<'a, T: Float>(Backward<'a, T>);

        impl<'a, T: Float> $name<'a, T> {
            /// The gradient along the last axis, from the result `y` and its gradient `dy`.
            pub fn new(y: &'a Tensor<T>, dy: &'a Tensor<T>) -> Self {
                Self(Backward {
                    y,
                    dy,
                    axes: Selected::these(y.rank(), &[-1]),
                    name: $operation,
                    flags: $flags,
                    kernel: None,
                })
            }

            select_axes!(0.axes, 0.y);
            with_kernel!(0.kernel);

            /// Enqueues the gradient and returns `dx`, a new contiguous tensor.
            ///
            /// # Errors
            #[doc = concat!("See [`", stringify!($of), "`].")]
            pub fn run(&self, stream: &Stream) -> Result<Tensor<T>> {
                self.0.run(stream)
            }

            /// Enqueues the gradient into `dx`, which may be `y` or `dy` itself.
            ///
            /// # Errors
            #[doc = concat!("See [`", stringify!($of), "`].")]
            pub fn run_into(&self, dx: &Tensor<T>, stream: &Stream) -> Result<()> {
                self.0.run_into(dx, stream)
            }

            plans!(stringify!($of), self => &self.0);

            /// The error model of the kernels, for the bound of the reference.
            ///
            /// # Errors
            /// [`ShapeError::Axis`](crate::ShapeError::Axis) and
            /// [`ArgumentError::Value`](crate::ArgumentError::Value) for invalid axes.
            pub fn model(&self) -> Result<Model> {
                Ok(model(self.0.axes.rows_of(self.0.y)?.extents(self.0.y.shape()).1, MOST_OWN_OTHERWISE))
            }
        }
    };
}

backward! {
    SoftmaxGrad, "softmax_grad", Softmax, 0,
    "Gradient of softmax along one or several axes: `dx_i = y_i (dy_i - sum_j y_j dy_j)`.",
    "[`reference::softmax_grad`](fn@crate::reference::softmax_grad::softmax_grad).",
    "use ndarray::array;
use warpsmith::{Device, SoftmaxGrad, Tensor};
let device = Device::emulator()?;
let stream = device.stream()?;
let y = Tensor::from_ndarray(&device, &array![[0.5_f32, 0.5]])?;
let dy = Tensor::from_ndarray(&device, &array![[1.0_f32, 0.0]])?;
let dx = SoftmaxGrad::new(&y, &dy).run(&stream)?;
assert_eq!(dx.to_vec()?, [0.25, -0.25]);"
}

backward! {
    LogSoftmaxGrad, "log_softmax_grad", LogSoftmax, flags::LOG,
    "Gradient of log-softmax along one or several axes: `dx_i = dy_i - exp(y_i) sum_j dy_j`.",
    "[`reference::log_softmax_grad`](fn@crate::reference::softmax_grad::log_softmax_grad).",
    "use ndarray::array;
use warpsmith::{Device, LogSoftmaxGrad, Tensor};
let device = Device::emulator()?;
let stream = device.stream()?;
let y = Tensor::from_ndarray(&device, &array![[0.0_f32, f32::NEG_INFINITY]])?;
let dy = Tensor::from_ndarray(&device, &array![[1.0_f32, 1.0]])?;
let dx = LogSoftmaxGrad::new(&y, &dy).run(&stream)?;
assert_eq!(dx.to_vec()?, [-1.0, 1.0]);"
}

/// The operands and options of softmax and log-softmax.
#[derive(Clone, Copy, Debug)]
struct Forward<'a, T: Float> {
    x: &'a Tensor<T>,
    axes: Selected,
    name: &'static str,
    flags: u32,
    kernel: Option<&'a str>,
}

impl<T: Float> Operation for Forward<'_, T> {
    type Element = T;
    type Outputs = Tensor<T>;
    type Desc = RowDesc;
    type On<'b>
        = Forward<'b, T>
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
        self.axes.rows_of(self.x)
    }

    fn check_outputs(&self, y: &Tensor<T>, _: &RowAxes, stream: &Stream) -> Result<()> {
        check::output("y", y, self.x.shape(), stream)?;
        check::no_partial_overlap("y", y, "x", self.x)
    }

    fn new_outputs(&self, _: &RowAxes, stream: &Stream) -> Result<Tensor<T>> {
        Tensor::empty(stream, self.x.shape())
    }

    fn describe(&self, y: Option<&Tensor<T>>, axes: &RowAxes) -> Result<Option<RowDesc>> {
        let all = [Some(self.x), y];
        describe(RowOp::Softmax, self.x, all, 1, axes)
    }

    fn launch(
        &self,
        candidate: &Candidate,
        to: &Tensor<T>,
        axes: &RowAxes,
        stream: &Stream,
    ) -> Result<()> {
        let x = Rows::read(self.x, axes, stream)?;
        let y = Rows::written(to, axes, stream)?;
        let launch = Launch::new(stream, candidate);
        let mut params = launch.params();
        params.strides[..2].copy_from_slice(&[x.stride, y.stride]);
        params.flags |= self.flags;
        // SAFETY: extents and strides are those of x and y, whose elements lie inside of their
        // storage; y is injective, and is x or does not overlap it.
        unsafe { launch.run(stream, (&x.tensor, &y.tensor), &params) }?;
        y.deliver(to, axes, stream)
    }

    fn rows(&self) -> Vec<&Tensor<T>> {
        vec![self.x]
    }

    fn on<'b>(&'b self, rows: &'b [Tensor<T>]) -> Forward<'b, T> {
        Forward {
            x: &rows[0],
            ..*self
        }
    }

    fn written(y: &Tensor<T>) -> Written<'_, T> {
        Written::rows([y])
    }
}

/// The operands and options of gradients of softmax and log-softmax.
#[derive(Clone, Copy, Debug)]
struct Backward<'a, T: Float> {
    y: &'a Tensor<T>,
    dy: &'a Tensor<T>,
    axes: Selected,
    name: &'static str,
    flags: u32,
    kernel: Option<&'a str>,
}

impl<T: Float> Operation for Backward<'_, T> {
    type Element = T;
    type Outputs = Tensor<T>;
    type Desc = RowDesc;
    type On<'b>
        = Backward<'b, T>
    where
        Self: 'b;

    fn name(&self) -> &'static str {
        self.name
    }

    fn kernel(&self) -> Option<&str> {
        self.kernel
    }

    fn check(&self, stream: &Stream) -> Result<RowAxes> {
        check::device("y", self.y, stream)?;
        check::input("dy", self.dy, self.y.shape(), stream)?;
        self.axes.rows_of(self.y)
    }

    fn check_outputs(&self, dx: &Tensor<T>, _: &RowAxes, stream: &Stream) -> Result<()> {
        check::output("dx", dx, self.y.shape(), stream)?;
        check::no_partial_overlap("dx", dx, "y", self.y)?;
        check::no_partial_overlap("dx", dx, "dy", self.dy)
    }

    fn new_outputs(&self, _: &RowAxes, stream: &Stream) -> Result<Tensor<T>> {
        Tensor::empty(stream, self.y.shape())
    }

    fn describe(&self, dx: Option<&Tensor<T>>, axes: &RowAxes) -> Result<Option<RowDesc>> {
        let all = [Some(self.y), Some(self.dy), dx];
        describe(RowOp::SoftmaxGrad, self.y, all, 2, axes)
    }

    fn launch(
        &self,
        candidate: &Candidate,
        to: &Tensor<T>,
        axes: &RowAxes,
        stream: &Stream,
    ) -> Result<()> {
        let y = Rows::read(self.y, axes, stream)?;
        let dy = Rows::read(self.dy, axes, stream)?;
        let dx = Rows::written(to, axes, stream)?;
        let launch = Launch::new(stream, candidate);
        let mut params = launch.params();
        params.strides[..3].copy_from_slice(&[y.stride, dy.stride, dx.stride]);
        params.flags |= self.flags;
        // SAFETY: extents and strides are those of the tensors, whose elements lie inside of their
        // storage; dx is injective, and is an input or does not overlap it.
        unsafe { launch.run(stream, (&y.tensor, &dy.tensor, &dx.tensor), &params) }?;
        dx.deliver(to, axes, stream)
    }

    fn rows(&self) -> Vec<&Tensor<T>> {
        vec![self.y, self.dy]
    }

    fn on<'b>(&'b self, rows: &'b [Tensor<T>]) -> Backward<'b, T> {
        Backward {
            y: &rows[0],
            dy: &rows[1],
            ..*self
        }
    }

    fn written(dx: &Tensor<T>) -> Written<'_, T> {
        Written::rows([dx])
    }
}

/// Describes rows of tensors with the shape of `like`, of which `inputs` are read; `None` if they
/// are empty.
fn describe<'b, T: Float>(
    op: RowOp,
    like: &Tensor<T>,
    all: impl IntoIterator<Item = Option<&'b Tensor<T>>>,
    inputs: usize,
    axes: &RowAxes,
) -> Result<Option<RowDesc>> {
    if like.is_empty() {
        return Ok(None);
    }
    let alignment = Rows::alignment(all, inputs, axes)?;
    let extents = axes.extents(like.shape());
    Ok(Some(RowDesc::new(
        op,
        T::DTYPE,
        extents,
        alignment,
        inputs as u32,
    )))
}
