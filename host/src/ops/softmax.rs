//! Softmax.

use crate::ops::copy::{contiguous, strided_copy};
use crate::ops::float::Float;
use crate::ops::view::merge;
use crate::ops::{check, kernels, model};
use crate::reference::Model;
use crate::{Error, LaunchConfig, MAX_RANK, Result, Stream, Tensor};
use spec::softmax::{SoftmaxEntry, SoftmaxParams, THREADS, grid_blocks};

/// Softmax along an axis: `y_i = exp(x_i - max) / sum_j exp(x_j - max)`.
///
/// | tensor | shape | dtype | strides (elements) |
/// |---|---|---|---|
/// | `x` | any of 1 to 8 dimensions | f32, f16, bf16 | any; see Performance |
/// | `y` (written) | as `x` | as `x` | any that give each element a place of its own; may be `x` itself, and must not overlap it otherwise |
///
/// A row with a NaN or `+inf`, or of nothing but `-inf`, becomes NaN, as the formula says.
///
/// # Numerics
/// Computed in f32, rounded once. Error bound:
/// [`reference::softmax`](crate::reference::softmax). Deterministic: same bits every run, on every
/// device.
///
/// # Async
/// Enqueued on `stream`; returns before completion. Device faults surface at the next synchronize.
///
/// # Errors
/// [`Error::OutOfBounds`] (the axis, and any axis of a tensor without
/// dimensions), [`Error::ShapeMismatch`],
/// [`Error::StrideMismatch`],
/// [`Error::Overlap`],
/// [`Error::DeviceMismatch`],
/// [`Error::OutOfMemory`], [`Error::Driver`]. No
/// launch happens on error.
///
/// # Performance
/// One launch where all dimensions but the axis step evenly through memory, in `x` and in `y`: so
/// it is for the last or first axis of contiguous tensors. Else `x` is copied to rows first and the
/// result copied to its place.
///
/// # Examples
/// ```
/// # fn main() -> warpsmith::Result<()> {
/// use ndarray::array;
/// use warpsmith::{Device, Softmax, Tensor};
/// let device = Device::emulator()?;
/// let stream = device.stream()?;
/// let x = Tensor::from_ndarray(&device, &array![[1.0_f32, 1.0], [0.0, f32::NEG_INFINITY]])?;
/// let y = Softmax::new(&x).run(&stream)?;
/// assert_eq!(y.to_ndarray()?, array![[0.5, 0.5], [1.0, 0.0]].into_dyn());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is computed until `run` or `run_into`"]
pub struct Softmax<'a, T: Float> {
    x: &'a Tensor<T>,
    axis: Option<usize>,
}

impl<'a, T: Float> Softmax<'a, T> {
    /// Along the last axis.
    pub fn new(x: &'a Tensor<T>) -> Self {
        Self { x, axis: None }
    }

    /// Along this axis.
    pub fn axis(mut self, axis: usize) -> Self {
        self.axis = Some(axis);
        self
    }

    /// The result in a new, contiguous tensor.
    ///
    /// # Errors
    /// See [`Softmax`].
    pub fn run(&self, stream: &Stream) -> Result<Tensor<T>> {
        let axis = self.validate(stream)?;
        let y = Tensor::empty(stream, self.x.shape())?;
        self.launch(axis, &y, stream)?;
        Ok(y)
    }

    /// The result into `y`, which may be `x` itself.
    ///
    /// # Errors
    /// See [`Softmax`].
    pub fn run_into(&self, y: &Tensor<T>, stream: &Stream) -> Result<()> {
        let axis = self.validate(stream)?;
        check::output("y", y, self.x.shape(), stream)?;
        check::no_partial_overlap("y", y, "x", self.x)?;
        self.launch(axis, y, stream)
    }

    /// How the kernel computes, for the bound of [`reference::softmax`](crate::reference).
    ///
    /// # Errors
    /// [`Error::OutOfBounds`]: the axis.
    pub fn model(&self) -> Result<Model> {
        let n = self.x.shape()[self.checked_axis()?];
        Ok(model::sum(spec::softmax::additions(n as u64)))
    }

    fn checked_axis(&self) -> Result<usize> {
        let axis = self.axis.unwrap_or(self.x.rank().saturating_sub(1));
        check::axis(self.x, axis)?;
        Ok(axis)
    }

    fn validate(&self, stream: &Stream) -> Result<usize> {
        check::device("x", self.x, stream)?;
        self.checked_axis()
    }

    fn launch(&self, axis: usize, y: &Tensor<T>, stream: &Stream) -> Result<()> {
        if y.is_empty() {
            return Ok(());
        }
        let mut axes: [usize; MAX_RANK] = std::array::from_fn(|axis| axis);
        let axes = &mut axes[..y.rank()];
        axes[axis..].rotate_left(1);
        let (x, y) = (self.x.permute(axes)?, y.permute(axes)?);
        if let (Some(of_x), Some(of_y)) = (Rows::of(&x), Rows::of(&y)) {
            return launch_rows(&x, of_x, &y, of_y, stream);
        }
        let x = contiguous(&x, stream)?;
        let dense = Tensor::empty(stream, y.shape())?;
        let (Some(of_x), Some(of_y)) = (Rows::of(&x), Rows::of(&dense)) else {
            return Err(Error::Bug("a contiguous tensor does not step evenly"));
        };
        launch_rows(&x, of_x, &dense, of_y, stream)?;
        strided_copy(&dense, &y, stream)
    }
}

/// A tensor as rows of its last dimension: extents and strides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rows {
    rows: (usize, i64),
    n: (usize, i64),
}

impl Rows {
    fn of<T: Float>(x: &Tensor<T>) -> Option<Self> {
        let ((&n, outer), (&stride, outer_strides)) =
            (x.shape().split_last()?, x.strides().split_last()?);
        Some(Self {
            rows: merge(outer, outer_strides)?,
            n: (n, stride),
        })
    }
}

fn launch_rows<T: Float>(
    x: &Tensor<T>,
    of_x: Rows,
    y: &Tensor<T>,
    of_y: Rows,
    stream: &Stream,
) -> Result<()> {
    let (rows, n) = (of_x.rows.0 as u64, of_x.n.0 as u64);
    let params = SoftmaxParams {
        rows,
        n,
        x_row_stride: of_x.rows.1,
        x_stride: of_x.n.1,
        y_row_stride: of_y.rows.1,
        y_stride: of_y.n.1,
    };
    let kernel = kernels::kernel(stream, SoftmaxEntry { dtype: T::DTYPE })?;
    let config = LaunchConfig::linear(grid_blocks(rows, n), THREADS);
    // SAFETY: extents and strides are those of x and y, whose elements lie inside of their
    // storage; y is injective, and is x or does not overlap it.
    unsafe { kernel.launch(stream, config, (x, y, params)) }
}
