//! Softmax, log-softmax, and their gradients.

use super::{Launch, MOST_OWN, MOST_OWN_OTHERWISE, Rows, model, shape};
use crate::error::named;
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
        /// [`Error::Shape`](crate::Error::Shape), [`Error::Device`](crate::Error::Device). No
        /// launch happens on error.
        ///
        /// # Performance
        /// One launch, one read and one write, if the elements of a row are contiguous and the
        /// other dimensions merge into one with a single stride, as for the last axes of contiguous
        /// tensors. Otherwise `x` is copied to rows first, or the result to `y` afterwards, which
        /// is another read and write each. Rows of a multiple of 16 bytes are fastest;
        /// [`abi::rows`](https://docs.rs/warpsmith-abi) chooses where they are held on chip.
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
        pub struct $name<'a, T: Float> {
            x: &'a Tensor<T>,
            axes: Selected,
        }

        impl<'a, T: Float> $name<'a, T> {
            /// The operation along the last axis of `x`.
            pub fn new(x: &'a Tensor<T>) -> Self {
                Self {
                    x,
                    axes: Selected::these(x.rank(), &[-1]),
                }
            }

            select_axes!(axes, x);

            /// Enqueues the operation and returns its result, a new contiguous tensor.
            ///
            /// # Errors
            #[doc = concat!("See [`", stringify!($name), "`].")]
            pub fn run(&self, stream: &Stream) -> Result<Tensor<T>> {
                named($operation, || {
                    let axes = self.validate(stream)?;
                    let y = Tensor::empty(stream, self.x.shape())?;
                    launch_forward(self.x, &y, &axes, $flags, stream)?;
                    Ok(y)
                })
            }

            /// Enqueues the operation into `y`, which may be `x` itself.
            ///
            /// # Errors
            #[doc = concat!("See [`", stringify!($name), "`].")]
            pub fn run_into(&self, y: &Tensor<T>, stream: &Stream) -> Result<()> {
                named($operation, || {
                    let axes = self.validate(stream)?;
                    check::output("y", y, self.x.shape(), stream)?;
                    check::no_partial_overlap("y", y, "x", self.x)?;
                    launch_forward(self.x, y, &axes, $flags, stream)
                })
            }

            /// The error model of the kernels, for the bound of the reference.
            ///
            /// # Errors
            /// [`ShapeError::Axis`](crate::ShapeError::Axis) and
            /// [`ArgumentError::Value`](crate::ArgumentError::Value) for invalid axes.
            pub fn model(&self) -> Result<Model> {
                Ok(model(
                    self.axes.rows_of(self.x)?.extents(self.x.shape()).1,
                    MOST_OWN,
                ))
            }

            fn validate(&self, stream: &Stream) -> Result<RowAxes> {
                check::device("x", self.x, stream)?;
                self.axes.rows_of(self.x)
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
    "A row that contains NaN or `+inf`, or consists of `-inf` only, becomes NaN; in other rows `-inf` stays `-inf`.",
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
        pub struct $name<'a, T: Float> {
            y: &'a Tensor<T>,
            dy: &'a Tensor<T>,
            axes: Selected,
        }

        impl<'a, T: Float> $name<'a, T> {
            /// The gradient along the last axis, from the result `y` and its gradient `dy`.
            pub fn new(y: &'a Tensor<T>, dy: &'a Tensor<T>) -> Self {
                Self {
                    y,
                    dy,
                    axes: Selected::these(y.rank(), &[-1]),
                }
            }

            select_axes!(axes, y);

            /// Enqueues the gradient and returns `dx`, a new contiguous tensor.
            ///
            /// # Errors
            #[doc = concat!("See [`", stringify!($of), "`].")]
            pub fn run(&self, stream: &Stream) -> Result<Tensor<T>> {
                named($operation, || {
                    let axes = self.validate(stream)?;
                    let dx = Tensor::empty(stream, self.y.shape())?;
                    launch_backward(self.y, self.dy, &dx, &axes, $flags, stream)?;
                    Ok(dx)
                })
            }

            /// Enqueues the gradient into `dx`, which may be `y` or `dy` itself.
            ///
            /// # Errors
            #[doc = concat!("See [`", stringify!($of), "`].")]
            pub fn run_into(&self, dx: &Tensor<T>, stream: &Stream) -> Result<()> {
                named($operation, || {
                    let axes = self.validate(stream)?;
                    check::output("dx", dx, self.y.shape(), stream)?;
                    check::no_partial_overlap("dx", dx, "y", self.y)?;
                    check::no_partial_overlap("dx", dx, "dy", self.dy)?;
                    launch_backward(self.y, self.dy, dx, &axes, $flags, stream)
                })
            }

            /// The error model of the kernels, for the bound of the reference.
            ///
            /// # Errors
            /// [`ShapeError::Axis`](crate::ShapeError::Axis) and
            /// [`ArgumentError::Value`](crate::ArgumentError::Value) for invalid axes.
            pub fn model(&self) -> Result<Model> {
                Ok(model(self.axes.rows_of(self.y)?.extents(self.y.shape()).1, MOST_OWN_OTHERWISE))
            }

            fn validate(&self, stream: &Stream) -> Result<RowAxes> {
                check::device("y", self.y, stream)?;
                check::input("dy", self.dy, self.y.shape(), stream)?;
                self.axes.rows_of(self.y)
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

fn launch_forward<T: Float>(
    x: &Tensor<T>,
    y: &Tensor<T>,
    axes: &RowAxes,
    op_flags: u32,
    stream: &Stream,
) -> Result<()> {
    if y.is_empty() {
        return Ok(());
    }
    let (rows, n) = axes.extents(y.shape());
    let to = y;
    let (x, y) = (
        Rows::read(x, axes, stream)?,
        Rows::written(to, axes, stream)?,
    );
    let is_aligned = x.is_aligned() && y.is_aligned();
    let shape = shape(T::DTYPE, n, is_aligned, 1);
    let launch = Launch::new(stream, RowOp::Softmax, T::DTYPE, rows, &shape)?;
    let mut params = launch.params(rows, n);
    params.strides[..2].copy_from_slice(&[x.stride, y.stride]);
    params.flags |= op_flags;
    // SAFETY: extents and strides are those of x and y, whose elements lie inside of their storage;
    // y is injective, and is x or does not overlap it.
    unsafe { launch.run(stream, (&x.tensor, &y.tensor), &params) }?;
    y.deliver(to, axes, stream)
}

fn launch_backward<T: Float>(
    y: &Tensor<T>,
    dy: &Tensor<T>,
    dx: &Tensor<T>,
    axes: &RowAxes,
    op_flags: u32,
    stream: &Stream,
) -> Result<()> {
    if dx.is_empty() {
        return Ok(());
    }
    let (rows, n) = axes.extents(dx.shape());
    let to = dx;
    let (y, dy) = (Rows::read(y, axes, stream)?, Rows::read(dy, axes, stream)?);
    let dx = Rows::written(to, axes, stream)?;
    let is_aligned = y.is_aligned() && dy.is_aligned() && dx.is_aligned();
    let shape = shape(T::DTYPE, n, is_aligned, 2);
    let launch = Launch::new(stream, RowOp::SoftmaxGrad, T::DTYPE, rows, &shape)?;
    let mut params = launch.params(rows, n);
    params.strides[..3].copy_from_slice(&[y.stride, dy.stride, dx.stride]);
    params.flags |= op_flags;
    // SAFETY: extents and strides are those of the tensors, whose elements lie inside of their
    // storage; dx is injective, and is an input or does not overlap it.
    unsafe { launch.run(stream, (&y.tensor, &dy.tensor, &dx.tensor), &params) }?;
    dx.deliver(to, axes, stream)
}
