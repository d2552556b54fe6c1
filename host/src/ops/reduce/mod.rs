//! Reductions.

mod launch;
mod number;
mod view;

use crate::ops::copy::strided_copy;
use crate::ops::{check, model};
use crate::reference::Model;
use crate::{DType, Element, Error, Result, Stream, Tensor};
use abi::reduce::{Family, ReduceEntry, ReduceOp, ReducePlan, ReduceView};
use view::Axes;

pub use number::{Countable, Reducible};

/// A reduction over all elements, one axis or several axes.
///
/// | tensor | shape | dtype | strides (elements) |
/// |---|---|---|---|
/// | `x` | any, up to 8 dimensions | f32, f16, bf16, f64, i32, i64; u8 and i8 for indices, counts and truth values | any; see Performance |
/// | second operand of [`dot`](Reduce::dot) | as `x` | as `x` | any |
/// | result (written) | that of `x` without the reduced axes, or with extent 1 there ([`keep_dims`](Reduce::keep_dims)); rank 0 for all elements | as the table below says | any where no two indices refer to one element; must not overlap an operand |
///
/// The dtype of the result depends on the operation, on the method that runs it, and on the dtype
/// of `x`:
///
/// | operations | method | f32, f16, bf16 | f64 | i32, i64 |
/// |---|---|---|---|---|
/// | sum, prod, max, min, norm1, norm_inf, dot | [`run`](Reduce::run) | f32 | f64 | i64 |
/// | mean, norm2, logsumexp, variance, std | [`run`](Reduce::run) | f32 | f64 | - |
/// | all of these | [`run_f64`](Reduce::run_f64) | f64 | f64 | f64 |
/// | all of these | [`run_rounded`](Reduce::run_rounded) | as `x` | f64 | i64 of i64, where `run` has one |
/// | argmax, argmin, count_nonzero, any, all; of u8 and i8 too | [`run_indices`](Reduce::run_indices) | i64 | i64 | i64 |
///
/// # Special values
/// A NaN makes every value NaN, and is the index of argmax and argmin (the first one); it is not
/// zero. Of equals the lowest index counts, and -0 equals +0; which of them the largest is, is not
/// said. Infinite elements have the results that arithmetic says; the variance is NaN then, and the mean
/// beside it ([`run_with_mean`](Reduce::run_with_mean)) infinite or NaN. An index counts along the axis,
/// over several in row-major order.
///
/// Without elements to reduce, sums, counts and norms are 0, products 1, logsumexp `-inf`, mean,
/// variance and std NaN, `any` 0 and `all` 1. max, min, argmax and argmin are an error then, unless
/// the result has no elements either. The divisor of variance and std is `n - ddof`
/// ([`ddof`](Reduce::ddof)), but not below 0; where it is 0, the result is NaN or infinite.
///
/// # Numerics
/// Computed in the dtype of the result. Integers wrap on overflow of i64. Sums of floats are
/// compensated along the axis and combined in a tree, so the error is a few roundings of Σ|x|,
/// independent of the length of the axis ([`ReducePlan::additions`](abi::reduce::ReducePlan)).
/// Products round at every factor. A mean is the sum by n, and norm2 computes squares, in the
/// result's dtype: they overflow where these do. Variances use Welford's recurrence, with partial
/// results merged by sets. Error bound: [`reference::reduce`](crate::reference::reduce).
/// Deterministic: the same bits every run and on every device, for the same shape, strides and
/// alignment.
///
/// # Async
/// Enqueued on `stream`, one launch, after that of a copy if there has to be one; returns before
/// completion. Device faults surface at the next synchronize.
///
/// # Errors
/// [`Error::OutOfBounds`] (an axis that `x` does not have), [`Error::InvalidValue`] (max, min,
/// argmax or argmin without elements; a method that the operation does not have; an option of
/// another operation), [`Error::ShapeMismatch`], [`Error::StrideMismatch`], [`Error::Overlap`],
/// [`Error::DeviceMismatch`], [`Error::OutOfMemory`], [`Error::Driver`]. No launch happens on
/// error.
///
/// # Performance
/// `x` is read once and in place, if the kept dimensions and the reduced dimensions each merge into
/// at most two dimensions with one stride. Otherwise it is copied first. For argmax and argmin, u8
/// and i8 are converted to f16 first, in memory for the call: of n bytes, 5 n are moved. See
/// `docs/reduce.md`.
///
/// # Sources
/// Knuth's two-sum for compensated sums; Welford's recurrence for variances, merged as by Chan,
/// Golub and LeVeque.
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
/// let all = Reduce::new(ReduceOp::Variance, &x).axes(&[0, 1]).ddof(1);
/// let [variance, mean] = all.run_with_mean(&stream)?;
/// assert_eq!((variance.item()?, mean.item()?), (3.5, 3.5));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is computed until one of the `run`s"]
pub struct Reduce<'a, T: Countable> {
    op: ReduceOp,
    x: &'a Tensor<T>,
    y: Option<&'a Tensor<T>>,
    /// `None`: all axes.
    axes: Option<Axes>,
    /// The first requested axis that `x` does not have.
    bad_axis: Option<usize>,
    keep_dims: bool,
    ddof: u64,
}

/// A kind of result: values, values rounded to the dtype of the elements, values in f64, or indices
/// and counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Values,
    Rounded,
    Wide,
    Indices,
}

impl<'a, T: Countable> Reduce<'a, T> {
    /// `op` over all elements of `x`.
    pub fn new(op: ReduceOp, x: &'a Tensor<T>) -> Self {
        Self {
            op,
            x,
            y: None,
            axes: None,
            bad_axis: None,
            keep_dims: false,
            ddof: 0,
        }
    }

    /// The operation.
    pub fn op(&self) -> ReduceOp {
        self.op
    }

    /// Reduces this axis only.
    pub fn axis(self, axis: usize) -> Self {
        self.axes(&[axis])
    }

    /// Reduces these axes together. Their order does not matter, and a repeated one counts once.
    /// Without axes, every element is reduced by itself.
    pub fn axes(mut self, axes: &[usize]) -> Self {
        let rank = self.x.rank();
        self.bad_axis = axes.iter().copied().find(|&axis| axis >= rank);
        let good = axes.iter().filter(|&&axis| axis < rank);
        self.axes = Some(good.fold(Axes::NONE, |axes, &axis| axes.with(axis)));
        self
    }

    /// Keeps the reduced axes as dimensions of extent 1, so that the result broadcasts with `x`.
    pub fn keep_dims(mut self) -> Self {
        self.keep_dims = true;
        self
    }

    /// Enqueues the reduction and returns indices, counts or truth values (1 and 0), in a new
    /// contiguous tensor.
    ///
    /// # Errors
    /// See [`Reduce`].
    pub fn run_indices(&self, stream: &Stream) -> Result<Tensor<i64>> {
        self.run_typed(Kind::Indices, stream)
    }

    /// Enqueues the reduction of indices, counts or truth values into `y`.
    ///
    /// # Errors
    /// See [`Reduce`].
    pub fn run_indices_into(&self, y: &Tensor<i64>, stream: &Stream) -> Result<()> {
        self.run_typed_into(Kind::Indices, y, stream)
    }
}

impl<'a, T: Reducible> Reduce<'a, T> {
    /// The dot product `sum x_i y_i`, over all elements or along axes.
    pub fn dot(x: &'a Tensor<T>, y: &'a Tensor<T>) -> Self {
        Self {
            y: Some(y),
            ..Self::new(ReduceOp::Dot, x)
        }
    }

    /// Makes variance and std divide by `n - ddof` instead of `n`: 1 is Bessel's correction.
    pub fn ddof(mut self, ddof: u64) -> Self {
        self.ddof = ddof;
        self
    }

    /// Enqueues the reduction and returns its values, a new contiguous tensor.
    ///
    /// # Errors
    /// See [`Reduce`].
    pub fn run(&self, stream: &Stream) -> Result<Tensor<T::Value>> {
        self.run_typed(Kind::Values, stream)
    }

    /// Enqueues the reduction of values into `y`.
    ///
    /// # Errors
    /// See [`Reduce`].
    pub fn run_into(&self, y: &Tensor<T::Value>, stream: &Stream) -> Result<()> {
        self.run_typed_into(Kind::Values, y, stream)
    }

    /// As [`run`](Reduce::run), with results rounded once to the dtype of `x`, to nearest even: f16
    /// and bf16 results have half the bytes. They are computed as `run` computes them; f32, f64 and
    /// i64 have the same results as there. A new contiguous tensor.
    ///
    /// # Errors
    /// See [`Reduce`]; [`Error::InvalidValue`] for i32, whose results are i64.
    pub fn run_rounded(&self, stream: &Stream) -> Result<Tensor<T>> {
        self.run_typed(Kind::Rounded, stream)
    }

    /// As [`run_into`](Reduce::run_into), of the shape that `Reduce` says, with results rounded as by
    /// [`run_rounded`](Reduce::run_rounded).
    ///
    /// # Errors
    /// See [`run_rounded`](Reduce::run_rounded).
    pub fn run_rounded_into(&self, y: &Tensor<T>, stream: &Stream) -> Result<()> {
        self.run_typed_into(Kind::Rounded, y, stream)
    }

    /// As [`run`](Reduce::run), computed in f64.
    ///
    /// # Errors
    /// See [`Reduce`].
    pub fn run_f64(&self, stream: &Stream) -> Result<Tensor<f64>> {
        self.run_typed(Kind::Wide, stream)
    }

    /// As [`run_into`](Reduce::run_into), computed in f64.
    ///
    /// # Errors
    /// See [`Reduce`].
    pub fn run_f64_into(&self, y: &Tensor<f64>, stream: &Stream) -> Result<()> {
        self.run_typed_into(Kind::Wide, y, stream)
    }

    /// Enqueues variance or std, and returns it with the mean, which the same pass computes.
    ///
    /// # Errors
    /// See [`Reduce`].
    pub fn run_with_mean(&self, stream: &Stream) -> Result<[Tensor<T::Value>; 2]> {
        let (entry, shape) = self.validate(Kind::Values, stream)?;
        self.check_has_mean()?;
        let y = Tensor::empty(stream, &shape)?;
        let mean = Tensor::empty(stream, &shape)?;
        self.launch(entry, &y, Some(&mean), stream)?;
        Ok([y, mean])
    }

    /// Enqueues variance or std into `y`, and the mean into `mean`; both must be contiguous.
    ///
    /// # Errors
    /// See [`Reduce`].
    pub fn run_with_mean_into(
        &self,
        y: &Tensor<T::Value>,
        mean: &Tensor<T::Value>,
        stream: &Stream,
    ) -> Result<()> {
        let (entry, shape) = self.validate(Kind::Values, stream)?;
        self.check_has_mean()?;
        for (name, output) in [("y", y), ("mean", mean)] {
            self.check_output(name, output, &shape, stream)?;
            if !output.is_contiguous() {
                return Err(Error::StrideMismatch {
                    operand: name,
                    got: output.strides().into(),
                    want: "a contiguous tensor".into(),
                });
            }
        }
        check::no_overlap("y", y, "mean", mean)?;
        self.launch(entry, y, Some(mean), stream)
    }

    /// The error model of the kernels, for the bound of [`reference::reduce`](crate::reference).
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] for an axis that `x` does not have.
    pub fn model(&self) -> Result<Model> {
        let plan = self.plan()?;
        let additions = match self.op.family() {
            Family::Lse | Family::Moments => plan.additions() + plan.chain(),
            _ => plan.additions(),
        };
        Ok(model::sum(additions))
    }

    /// How the reduction is split into work items, which determines the association of sums and
    /// thereby the bits of the result.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] for an axis that `x` does not have.
    pub fn plan(&self) -> Result<ReducePlan> {
        let axes = self.checked_axes()?;
        let of = |wide| ReduceEntry::of(self.op.family(), T::DTYPE, wide);
        let entry = of(false).or_else(|| of(true));
        let entry = entry.ok_or(Error::Bug("a dtype without an entry"))?;
        let direct = self.plan_of(self.x, axes, entry);
        Ok(direct.map_or_else(
            || {
                let extents = self.x.shape().iter().enumerate();
                let (mut outer, mut n) = (1, 1);
                for (axis, &extent) in extents {
                    *(if axes.has(axis) { &mut n } else { &mut outer }) *= extent as u64;
                }
                ReducePlan::of(
                    entry,
                    &ReduceView::contiguous(outer, n, 1),
                    self.y.is_none(),
                )
            },
            |(_, plan, _)| plan,
        ))
    }

    fn check_has_mean(&self) -> Result<()> {
        match self.op {
            ReduceOp::Variance | ReduceOp::Std => Ok(()),
            op => Err(refused(
                op,
                "variance or std, which have a mean beside them",
            )),
        }
    }
}

impl<T: Countable> Reduce<'_, T> {
    fn checked_axes(&self) -> Result<Axes> {
        if let Some(axis) = self.bad_axis {
            check::axis(self.x, axis)?;
        }
        Ok(self.axes.unwrap_or(Axes::all(self.x.rank())))
    }

    fn run_typed<Out: Element>(&self, kind: Kind, stream: &Stream) -> Result<Tensor<Out>> {
        let (entry, shape) = self.validate(kind, stream)?;
        let y = Tensor::empty(stream, &shape)?;
        self.launch(entry, &y, None, stream)?;
        Ok(y)
    }

    fn run_typed_into<Out: Element>(
        &self,
        kind: Kind,
        y: &Tensor<Out>,
        stream: &Stream,
    ) -> Result<()> {
        let (entry, shape) = self.validate(kind, stream)?;
        self.check_output("y", y, &shape, stream)?;
        if y.is_contiguous() {
            return self.launch(entry, y, None, stream);
        }
        let dense = Tensor::empty(stream, &shape)?;
        self.launch(entry, &dense, None, stream)?;
        strided_copy(&dense, y, stream)
    }

    fn check_output<Out: Element>(
        &self,
        name: &'static str,
        output: &Tensor<Out>,
        shape: &[usize],
        stream: &Stream,
    ) -> Result<()> {
        check::output(name, output, shape, stream)?;
        check::no_overlap(name, output, "x", self.x)?;
        self.y.map_or(Ok(()), |y| {
            check::no_overlap(name, output, "the second operand", y)
        })
    }

    /// Checks the operands; the kernel's entry, and the shape of the result.
    fn validate(&self, kind: Kind, stream: &Stream) -> Result<(ReduceEntry, Vec<usize>)> {
        check::device("x", self.x, stream)?;
        if let Some(y) = self.y {
            check::device("the second operand", y, stream)?;
            if y.shape() != self.x.shape() {
                let want = format!("{:?}, as `x`", self.x.shape());
                return Err(check::shape_mismatch("the second operand", y, want));
            }
        }
        let entry = self.entry(kind)?;
        let axes = self.checked_axes()?;
        let extents = self.x.shape().iter().enumerate();
        let shape: Vec<usize> = extents
            .filter_map(|(axis, &extent)| match axes.has(axis) {
                false => Some(extent),
                true => self.keep_dims.then_some(1),
            })
            .collect();
        if self.x.is_empty() && !shape.contains(&0) && self.op.needs_elements() {
            return Err(Error::InvalidValue {
                what: "extent to reduce",
                got: "0".into(),
                want: format!("at least 1: {} of nothing has no value", self.op.name()).into(),
            });
        }
        Ok((entry, shape))
    }

    fn entry(&self, kind: Kind) -> Result<ReduceEntry> {
        let op = self.op;
        if op == ReduceOp::Dot && self.y.is_none() {
            return Err(refused(
                op,
                "an operation with one operand; `Reduce::dot` takes two",
            ));
        }
        if self.ddof != 0 && !matches!(op, ReduceOp::Variance | ReduceOp::Std) {
            return Err(refused(
                op,
                "variance or std, which have degrees of freedom",
            ));
        }
        let is_integer = matches!(T::DTYPE, DType::I32 | DType::I64);
        match kind {
            Kind::Indices if !op.is_index() => Err(refused(
                op,
                "argmax, argmin, count_nonzero, any or all; run for the others",
            )),
            Kind::Values | Kind::Rounded | Kind::Wide if op.is_index() => Err(refused(
                op,
                "an operation with values; run_indices for argmax, argmin, count_nonzero, any and all",
            )),
            Kind::Values | Kind::Rounded if is_integer && !op.is_of_integers() => Err(refused(
                op,
                "an operation with an integer result; run_f64 for the others",
            )),
            Kind::Rounded if T::DTYPE == DType::I32 => Err(Error::InvalidValue {
                what: "dtype of rounded results",
                got: "i32".into(),
                want: "f32, f16, bf16, f64 or i64; run gives i64".into(),
            }),
            _ => {
                let entry = ReduceEntry::of(op.family(), read_as::<T>(op), kind == Kind::Wide);
                entry.ok_or(Error::Bug("a dtype without an entry"))
            }
        }
    }
}

/// The dtype in which kernels read elements of `T`: another one where they are converted first.
fn read_as<T: Countable>(op: ReduceOp) -> DType {
    match ReduceEntry::of(op.family(), T::DTYPE, false) {
        Some(_) => T::DTYPE,
        None => T::READ_AS,
    }
}

fn refused(op: ReduceOp, want: &str) -> Error {
    Error::InvalidValue {
        what: "reduction",
        got: op.name().into(),
        want: want.into(),
    }
}
