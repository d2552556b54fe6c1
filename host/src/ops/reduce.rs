//! Reductions.

use crate::ops::copy::{contiguous, strided_copy};
use crate::ops::float::Float;
use crate::ops::view::merge;
use crate::ops::{check, kernels, model};
use crate::reference::Model;
use crate::{DeviceBuffer, Element, Error, LaunchConfig, Result, Stream, Tensor};
use spec::reduce::{FinalEntry, ReduceEntry, ReduceOp, ReduceParams, ReducePlan, THREADS};

/// Reduction over one axis, or over everything: sum, mean, max, min, argmax, argmin, logsumexp.
///
/// | tensor | shape | dtype | strides (elements) |
/// |---|---|---|---|
/// | `x` | any, up to 8 dimensions | f32, f16, bf16 | any; see Performance |
/// | `y` (written) | `x`'s without the axis, or with extent 1 there ([`keep_dims`](Reduce::keep_dims)); over everything no dimension | f32; i64 of argmax and argmin | any that give each element a place of its own; must not overlap `x` |
///
/// An index counts along the axis, over everything in row-major order; of equals, the lowest
/// counts. A NaN makes every value NaN, and is the index of argmax and argmin (the first one).
/// Of an empty axis, sum is 0, mean NaN and logsumexp `-inf`; max, min, argmax and argmin are an
/// error, unless `y` has no elements.
///
/// # Numerics
/// Sums in f32 along a fixed tree ([`ReducePlan::additions`] additions at most); max and min are
/// exact. Error bound: [`reference::reduce`](crate::reference::reduce). Deterministic: same bits
/// every run, on every device.
///
/// # Async
/// Enqueued on `stream`, one or two launches; returns before completion. Device faults surface at
/// the next synchronize.
///
/// # Errors
/// [`Error::OutOfBounds`] (the axis), [`Error::InvalidValue`] (the maximum of nothing; values asked
/// of argmax or indices of another operation), [`Error::ShapeMismatch`],
/// [`Error::StrideMismatch`], [`Error::Overlap`], [`Error::DeviceMismatch`],
/// [`Error::OutOfMemory`], [`Error::Driver`]. No launch happens on error.
///
/// # Performance
/// `x` is read once, where it lies, as long as the dimensions before the axis step evenly through
/// memory, and those after it; else it is copied first. Long axes need memory for partial results:
/// at most 16 bytes for 256 elements.
///
/// # Examples
/// ```
/// # fn main() -> warpsmith::Result<()> {
/// use ndarray::array;
/// use warpsmith::{Device, Reduce, ReduceOp, Tensor};
/// let device = Device::emulator()?;
/// let stream = device.stream()?;
/// let x = Tensor::from_ndarray(&device, &array![[1.0_f32, 5.0, 2.0], [6.0, 3.0, 4.0]])?;
/// let sums = Reduce::new(ReduceOp::Sum, &x).axis(0).run(&stream)?;
/// assert_eq!(sums.to_vec()?, [7.0, 8.0, 6.0]);
/// let largest = Reduce::new(ReduceOp::Argmax, &x).axis(1).run_indices(&stream)?;
/// assert_eq!(largest.to_vec()?, [1, 0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is computed until `run`, `run_indices` or one of the `_into`"]
pub struct Reduce<'a, T: Float> {
    op: ReduceOp,
    x: &'a Tensor<T>,
    axis: Option<usize>,
    keep_dims: bool,
}

impl<'a, T: Float> Reduce<'a, T> {
    /// `op` over all elements of `x`.
    pub fn new(op: ReduceOp, x: &'a Tensor<T>) -> Self {
        Self {
            op,
            x,
            axis: None,
            keep_dims: false,
        }
    }

    /// Over this axis only.
    pub fn axis(mut self, axis: usize) -> Self {
        self.axis = Some(axis);
        self
    }

    /// Keeps what is reduced as dimensions of extent 1, so that the result broadcasts with `x`.
    pub fn keep_dims(mut self) -> Self {
        self.keep_dims = true;
        self
    }

    /// The values in a new tensor; for every operation but argmax and argmin.
    ///
    /// # Errors
    /// See [`Reduce`].
    pub fn run(&self, stream: &Stream) -> Result<Tensor<f32>> {
        self.run_typed(false, stream)
    }

    /// The values into `y`.
    ///
    /// # Errors
    /// See [`Reduce`].
    pub fn run_into(&self, y: &Tensor<f32>, stream: &Stream) -> Result<()> {
        self.run_typed_into(false, y, stream)
    }

    /// The indices in a new tensor; for argmax and argmin.
    ///
    /// # Errors
    /// See [`Reduce`].
    pub fn run_indices(&self, stream: &Stream) -> Result<Tensor<i64>> {
        self.run_typed(true, stream)
    }

    /// The indices into `y`.
    ///
    /// # Errors
    /// See [`Reduce`].
    pub fn run_indices_into(&self, y: &Tensor<i64>, stream: &Stream) -> Result<()> {
        self.run_typed_into(true, y, stream)
    }

    /// How the kernels compute, for the bound of [`reference::reduce`](crate::reference).
    ///
    /// # Errors
    /// [`Error::OutOfBounds`]: the axis.
    pub fn model(&self) -> Result<Model> {
        if let Some(axis) = self.axis {
            check::axis(self.x, axis)?;
        }
        let view = match View::of(self.x, self.axis) {
            Some(view) => view,
            None => View::of_contiguous(self.x.shape(), self.axis),
        };
        Ok(model::sum(view.plan().additions(view.n.0 as u64)))
    }

    fn run_typed<Out: Element>(&self, indices: bool, stream: &Stream) -> Result<Tensor<Out>> {
        let shape = self.validate(indices, stream)?;
        let y = Tensor::empty(stream, &shape)?;
        self.launch(&y, stream)?;
        Ok(y)
    }

    fn run_typed_into<Out: Element>(
        &self,
        indices: bool,
        y: &Tensor<Out>,
        stream: &Stream,
    ) -> Result<()> {
        let shape = self.validate(indices, stream)?;
        check::output("y", y, &shape, stream)?;
        check::no_overlap("y", y, "x", self.x)?;
        if y.is_contiguous() {
            return self.launch(y, stream);
        }
        let dense = Tensor::empty(stream, &shape)?;
        self.launch(&dense, stream)?;
        strided_copy(&dense, y, stream)
    }

    /// The result's shape.
    fn validate(&self, indices: bool, stream: &Stream) -> Result<Vec<usize>> {
        check::device("x", self.x, stream)?;
        if self.op.is_index() != indices {
            let (want, call) = match indices {
                true => ("argmax or argmin", "run for the others"),
                false => (
                    "an operation with values",
                    "run_indices for argmax and argmin",
                ),
            };
            return Err(Error::InvalidValue {
                what: "reduction",
                got: self.op.name().into(),
                want: format!("{want}; {call}").into(),
            });
        }
        let shape = match self.axis {
            Some(axis) => {
                check::axis(self.x, axis)?;
                let mut shape = self.x.shape().to_vec();
                if self.keep_dims {
                    shape[axis] = 1;
                } else {
                    shape.remove(axis);
                }
                shape
            }
            None if self.keep_dims => vec![1; self.x.rank()],
            None => Vec::new(),
        };
        let has_value = matches!(
            self.op,
            ReduceOp::Sum | ReduceOp::Mean | ReduceOp::Logsumexp
        );
        if self.x.is_empty() && !shape.contains(&0) && !has_value {
            return Err(Error::InvalidValue {
                what: "extent to reduce",
                got: "0".into(),
                want: format!("at least 1: {} of nothing has no value", self.op.name()).into(),
            });
        }
        Ok(shape)
    }

    /// Launches what was validated, into a contiguous `y`.
    fn launch<Out: Element>(&self, y: &Tensor<Out>, stream: &Stream) -> Result<()> {
        if y.is_empty() {
            return Ok(());
        }
        let (x, view) = match View::of(self.x, self.axis) {
            Some(view) => (self.x.clone(), view),
            None => (
                contiguous(self.x, stream)?,
                View::of_contiguous(self.x.shape(), self.axis),
            ),
        };
        let View { outer, n, inner } = view;
        let plan = view.plan();
        let params = ReduceParams {
            outer: outer.0 as u64,
            n: n.0 as u64,
            inner: inner.0 as u64,
            outer_stride: outer.1,
            axis_stride: n.1,
            inner_stride: inner.1,
            chunks: plan.chunks,
            chunk_len: plan.chunk_len,
        };
        let entry = ReduceEntry {
            op: self.op,
            dtype: T::DTYPE,
            strategy: plan.strategy,
        };
        let first = kernels::kernel(stream, entry)?;
        let config = LaunchConfig::linear(plan.blocks, THREADS);
        if plan.chunks == 1 {
            let none: Option<&DeviceBuffer<u64>> = None;
            // SAFETY: the view's extents and strides are x's, whose elements lie inside of its
            // storage; y is contiguous, has outer * inner elements of the operation's type and
            // does not overlap x; one chunk needs no partials.
            return unsafe { first.launch(stream, config, (&x, none, y, params)) };
        }
        let last = kernels::kernel(stream, FinalEntry { op: self.op })?;
        let bytes = y.len() * plan.chunks as usize * self.op.partial_bytes();
        let partials = DeviceBuffer::<u64>::uninit(stream, bytes.div_ceil(8))?;
        // SAFETY: as above; partials has room for outer * chunks * inner of them.
        unsafe { first.launch(stream, config, (&x, &partials, y, params)) }?;
        let config = LaunchConfig::linear(plan.final_blocks, THREADS);
        // SAFETY: as above; the first launch, earlier on this stream, wrote all partials.
        unsafe { last.launch(stream, config, (&partials, y, params)) }
    }
}

/// A tensor as `[outer, n, inner]`: extents and strides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct View {
    outer: (usize, i64),
    n: (usize, i64),
    inner: (usize, i64),
}

impl View {
    /// `None` where the dimensions on one side of the axis do not step evenly.
    fn of<T: Element>(x: &Tensor<T>, axis: Option<usize>) -> Option<Self> {
        let (shape, strides) = (x.shape(), x.strides());
        let Some(axis) = axis else {
            return Some(Self {
                outer: (1, 0),
                n: merge(shape, strides)?,
                inner: (1, 0),
            });
        };
        Some(Self {
            outer: merge(&shape[..axis], &strides[..axis])?,
            n: (shape[axis], strides[axis]),
            inner: merge(&shape[axis + 1..], &strides[axis + 1..])?,
        })
    }

    /// Of a contiguous tensor of this shape.
    fn of_contiguous(shape: &[usize], axis: Option<usize>) -> Self {
        let (before, n, after) = match axis {
            Some(axis) => (&shape[..axis], shape[axis], &shape[axis + 1..]),
            None => (&[][..], shape.iter().product(), &[][..]),
        };
        let inner: usize = after.iter().product();
        let outer = before.iter().product();
        Self {
            outer: (outer, n.wrapping_mul(inner) as i64),
            n: (n, inner as i64),
            inner: (inner, 1),
        }
    }

    fn plan(&self) -> ReducePlan {
        let Self { outer, n, inner } = self;
        ReducePlan::new(outer.0 as u64, n.0 as u64, inner.0 as u64, n.1, inner.1)
    }
}
