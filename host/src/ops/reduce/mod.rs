//! Reductions.

mod costs;
mod launch;
mod number;
mod plan;
mod view;

use self::plan::ReduceDesc;
use crate::error::named;
use crate::ops::axes::Selected;
use crate::ops::copy::strided_copy;
use crate::ops::plan::{Desc, Plan, Tuning, choose_on};
use crate::ops::{check, model};
use crate::reference::Model;
use crate::{DType, Element, Error, Result, Stream, Tensor};
use abi::reduce::{Family, ReduceEntry, ReduceOp};
use std::marker::PhantomData;

pub(super) use costs::ReduceCosts;
pub use number::{Countable, Reducible};

/// The operation's name in errors, plans and the file of tuned choices.
const NAME: &str = ReduceDesc::OPERATION;

/// A reduction over all elements, one axis or several axes.
///
/// | tensor | shape | dtype | strides (elements) |
/// |---|---|---|---|
/// | `x` | any, up to 8 dimensions | f32, f16, bf16, f64, i32, i64, u8, i8; not u8 and i8 for dot | any; see Performance |
/// | second operand of [`dot`](Reduce::dot) | as `x` | as `x` | any |
/// | result (written) | that of `x` without the reduced axes, or with extent 1 there ([`keep_dims`](Reduce::keep_dims)); rank 0 for all elements | as the table below says | any where no two indices refer to one element; must not overlap an operand |
///
/// The operation and the dtype of `x` determine which dtypes the result can have. The first of a
/// cell is the default; [`output`](Reduce::output) selects another one.
///
/// | operations | f32 | f16, bf16 | f64 | i32, i64, u8, i8 |
/// |---|---|---|---|---|
/// | sum, prod, max, min, norm1, norm_inf, dot | f32, f64 | f32, as `x`, f64 | f64 | i64, f64 |
/// | mean, norm2, logsumexp, variance, std | f32, f64 | f32, as `x`, f64 | f64 | f64 |
/// | argmax, argmin, count_nonzero, any, all | i64 | i64 | i64 | i64 |
///
/// [`Reduce::new`] sets the dtype of the result to f32 or f64 for floats and to i64 for integers,
/// for every operation. If the table does not list this dtype, set another one by
/// [`output`](Reduce::output): `output::<i64>()` for the argmax of floats, `output::<f64>()` for
/// the mean of integers.
///
/// # Special values
/// If an element is NaN, every value is NaN, and argmax and argmin give the index of the first NaN.
/// Counts treat NaN as not zero. Among equal elements, argmax and argmin give the lowest index; -0
/// equals +0. Infinities follow arithmetic: the variance is then NaN, and the mean beside it
/// ([`mean`](Reduce::mean)) infinite or NaN. An index counts along the axis; over several axes it
/// counts in row-major order.
///
/// For finite elements:
/// - A norm2 is right wherever the dtype of the result has the norm: squares neither overflow nor
///   underflow on the way.
/// - A product with a factor 0 is 0. Other products are computed in an unspecified order. If a
///   partial product leaves the range, it is infinite or 0, and the result is too, even if the whole
///   product is within the range.
/// - Sums, means and dots are added in an unspecified order. If a partial sum leaves the range, the
///   result is infinite or NaN, even if the whole sum is within the range.
/// - `output::<f64>()` does not overflow for sums of f32, f16 and bf16.
///
/// Without elements to reduce, sums, counts and norms are 0, products 1, logsumexp `-inf`, mean,
/// variance and std NaN, `any` 0 and `all` 1. max, min, argmax and argmin are then an error, unless
/// the result has no elements either. The divisor of variance and std is `n - ddof`
/// ([`ddof`](Reduce::ddof)), but at least 0. If it is 0, the result is NaN or infinite.
///
/// # Numerics
/// Computed in the dtype of the result; results in f16 and bf16 are computed in f32 and rounded once,
/// to nearest even. Integers wrap on overflow of i64. Sums of floats are compensated along the axis
/// and combined in a tree. So the error is a few roundings of Σ|x|, independent of the length of the
/// axis ([`model`](Reduce::model)). Products round at every factor. A mean is the sum divided by n.
/// Variances use Welford's recurrence, and partial results are merged by sets. Error bound:
/// [`reference::reduce`](crate::reference::reduce). Deterministic: the same bits every run and on
/// every device, for the same shape, strides and alignment, unless
/// [`with_kernel`](Reduce::with_kernel) or [`autotune`](Reduce::autotune) chose the kernel.
///
/// # Async
/// Enqueued on `stream` as one launch, after a copy if one is needed; returns before completion.
/// Device faults surface at the next synchronize.
///
/// # Errors
/// [`Error::Shape`], [`Error::Device`] and [`ShapeError::Axis`](crate::ShapeError::Axis).
/// [`ArgumentError::Value`](crate::ArgumentError::Value): max, min, argmax or argmin without
/// elements; a dtype that the result cannot have; an option of another operation.
/// [`ArgumentError::Unsupported`](crate::ArgumentError::Unsupported): `with_kernel` with a name
/// that is not in the plan. No launch happens on error.
///
/// # Performance
/// `x` is read once and in place, if the kept dimensions and the reduced dimensions each merge into
/// at most two dimensions with one stride. Otherwise it is copied first. Counts, `any` and `all`
/// read u8 and i8 directly. Other operations convert them first, in temporary memory: for argmax
/// and argmin to f16, which moves 5 n bytes for n bytes, else to i32, which moves 9 n. See
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
/// let largest = Reduce::new(ReduceOp::Argmax, &x).axis(-1).output::<i64>().run(&stream)?;
/// assert_eq!(largest.to_vec()?, [1, 0]);
/// let all = Reduce::new(ReduceOp::Variance, &x).ddof(1).mean().run(&stream)?;
/// assert_eq!((all.value.item()?, all.mean.item()?), (3.5, 3.5));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is computed until `run` or `run_into`"]
pub struct Reduce<'a, T: Countable, O: Element = <T as Countable>::Value> {
    op: ReduceOp,
    x: &'a Tensor<T>,
    y: Option<&'a Tensor<T>>,
    axes: Selected,
    keep_dims: bool,
    ddof: u64,
    kernel: Option<&'a str>,
    output: PhantomData<O>,
}

impl<'a, T: Countable> Reduce<'a, T> {
    /// `op` over all elements of `x`.
    pub fn new(op: ReduceOp, x: &'a Tensor<T>) -> Self {
        Self {
            op,
            x,
            y: None,
            axes: Selected::all(x.rank()),
            keep_dims: false,
            ddof: 0,
            kernel: None,
            output: PhantomData,
        }
    }
}

impl<'a, T: Countable, O: Element> Reduce<'a, T, O> {
    /// The operation.
    pub fn op(&self) -> ReduceOp {
        self.op
    }

    /// Reduces this axis only. A negative axis counts from the end.
    pub fn axis(self, axis: isize) -> Self {
        self.axes(&[axis])
    }

    /// Reduces these axes together. Negative axes count from the end. Their order does not matter,
    /// and a repeated one counts once. Without axes, every element is reduced by itself.
    pub fn axes(mut self, axes: &[isize]) -> Self {
        self.axes = Selected::these(self.x.rank(), axes);
        self
    }

    /// Keeps the reduced axes as dimensions of extent 1, so that the result broadcasts with `x`.
    pub fn keep_dims(mut self) -> Self {
        self.keep_dims = true;
        self
    }

    /// Makes variance and std divide by `n - ddof` instead of `n`: 1 is Bessel's correction.
    pub fn ddof(mut self, ddof: u64) -> Self {
        self.ddof = ddof;
        self
    }

    /// Sets the dtype of the result; [`Reduce`] has a table of them.
    pub fn output<U: Element>(self) -> Reduce<'a, T, U> {
        self.over(self.x, self.y)
    }

    /// Also gives the mean, which the pass of variance and std computes.
    pub fn mean(self) -> WithMean<Self> {
        WithMean(self)
    }

    /// Runs the candidate of the [`plan`](Self::plan) with this name, or fails. Other candidates may
    /// round sums differently.
    pub fn with_kernel(mut self, name: &'a str) -> Self {
        self.kernel = Some(name);
        self
    }

    /// Enqueues the reduction and returns its result, a new contiguous tensor.
    ///
    /// # Errors
    /// See [`Reduce`].
    pub fn run(&self, stream: &Stream) -> Result<Tensor<O>> {
        named(NAME, || {
            let (entry, shape) = self.validate(stream)?;
            let y = Tensor::empty(stream, &shape)?;
            self.launch(entry, &y, None, stream)?;
            Ok(y)
        })
    }

    /// Enqueues the reduction into `y`.
    ///
    /// # Errors
    /// See [`Reduce`].
    pub fn run_into(&self, y: &Tensor<O>, stream: &Stream) -> Result<()> {
        named(NAME, || {
            let (entry, shape) = self.validate(stream)?;
            self.check_output("y", y, &shape, stream)?;
            if y.is_contiguous() {
                return self.launch(entry, y, None, stream);
            }
            let dense = Tensor::empty(stream, &shape)?;
            self.launch(entry, &dense, None, stream)?;
            strided_copy(&dense, y, stream)
        })
    }

    /// The kernel that [`run`](Self::run) would launch, and the other candidates.
    ///
    /// # Errors
    /// See [`Reduce`].
    pub fn plan(&self, stream: &Stream) -> Result<Plan> {
        named(NAME, || {
            let (entry, shape) = self.validate(stream)?;
            match shape.contains(&0) {
                true => Ok(Plan::empty()),
                false => Plan::of(&self.source(entry)?.desc, self.kernel, stream),
            }
        })
    }

    /// Measures the candidates with these tensors, as [`Gemm::autotune`](crate::Gemm::autotune) does.
    ///
    /// # Errors
    /// See [`Reduce`]; also the first candidate's error or fault, if all fail.
    pub fn autotune(&self, stream: &Stream) -> Result<Tuning> {
        named(NAME, || {
            let (entry, shape) = self.validate(stream)?;
            match shape.contains(&0) {
                true => Ok(Tuning::empty()),
                false => self.tune(entry, &Tensor::empty(stream, &shape)?, stream),
            }
        })
    }
}

/// Variance or std with the mean, by [`Reduce::mean`].
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is computed until `run` or `run_into`"]
pub struct WithMean<Op>(Op);

/// A variance or standard deviation with the mean: results, or the tensors to write them to.
#[derive(Clone, Debug)]
pub struct Moments<O: Element> {
    /// The variance or the standard deviation.
    pub value: Tensor<O>,
    /// The mean, of the same shape.
    pub mean: Tensor<O>,
}

impl<T: Countable, O: Element> WithMean<Reduce<'_, T, O>> {
    /// Enqueues the reduction and returns both results, new contiguous tensors.
    ///
    /// # Errors
    /// See [`Reduce`].
    pub fn run(&self, stream: &Stream) -> Result<Moments<O>> {
        named(NAME, || {
            let (entry, shape) = self.validate(stream)?;
            let out = Moments {
                value: Tensor::empty(stream, &shape)?,
                mean: Tensor::empty(stream, &shape)?,
            };
            self.0.launch(entry, &out.value, Some(&out.mean), stream)?;
            Ok(out)
        })
    }

    /// Enqueues the reduction into the tensors of `out`; both must be contiguous.
    ///
    /// # Errors
    /// See [`Reduce`].
    pub fn run_into(&self, out: &Moments<O>, stream: &Stream) -> Result<()> {
        named(NAME, || {
            let (entry, shape) = self.validate(stream)?;
            for (name, output) in [("value", &out.value), ("mean", &out.mean)] {
                self.0.check_output(name, output, &shape, stream)?;
                check::contiguous(name, output)?;
            }
            check::no_overlap("value", &out.value, "mean", &out.mean)?;
            self.0.launch(entry, &out.value, Some(&out.mean), stream)
        })
    }

    /// The kernel that [`run`](Self::run) would launch, and the other candidates.
    ///
    /// # Errors
    /// See [`Reduce`].
    pub fn plan(&self, stream: &Stream) -> Result<Plan> {
        named(NAME, || self.validate(stream))?;
        self.0.plan(stream)
    }

    fn validate(&self, stream: &Stream) -> Result<(ReduceEntry, Vec<usize>)> {
        let (entry, shape) = self.0.validate(stream)?;
        match self.0.op {
            ReduceOp::Variance | ReduceOp::Std if entry.out() == O::DTYPE => Ok((entry, shape)),
            ReduceOp::Variance | ReduceOp::Std => Err(refused_dtype::<O>(entry.out().name())),
            op => Err(refused(
                op,
                "variance or std, which have a mean beside them",
            )),
        }
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
}

impl<'a, T: Countable, O: Element> Reduce<'a, T, O> {
    /// The error model of the kernel that runs, for the bound of
    /// [`reference::reduce`](crate::reference).
    ///
    /// # Errors
    /// [`ShapeError::Axis`](crate::ShapeError::Axis), and
    /// [`ArgumentError::Unsupported`](crate::ArgumentError::Unsupported) (`with_kernel`).
    pub fn model(&self) -> Result<Model> {
        named(NAME, || {
            let of = |wide| ReduceEntry::of(self.op.family(), read_as::<T>(self.op), wide);
            // Of a result that cannot be, the model is that of the default.
            let entry = of(self.is_wide().unwrap_or(false)).or_else(|| of(true));
            let entry = entry.ok_or(Error::Bug("a dtype without an entry"))?;
            if self.x.is_empty() {
                return Ok(model::sum(0)); // nothing is added
            }
            let source = self.source(entry)?;
            let (candidate, _) = choose_on(&source.desc, self.kernel, self.x.device())?;
            let layout = candidate.decision;
            Ok(model::sum(match self.op.family() {
                Family::Lse | Family::Moments => layout.additions() + layout.chain(),
                _ => layout.additions(),
            }))
        })
    }

    /// The same reduction over another tensor of this shape, with another dtype of the result.
    fn over<'x, U: Countable, P: Element>(
        &self,
        x: &'x Tensor<U>,
        y: Option<&'x Tensor<U>>,
    ) -> Reduce<'x, U, P>
    where
        'a: 'x,
    {
        Reduce {
            op: self.op,
            x,
            y,
            axes: self.axes,
            keep_dims: self.keep_dims,
            ddof: self.ddof,
            kernel: self.kernel,
            output: PhantomData,
        }
    }

    fn check_output(
        &self,
        name: &'static str,
        output: &Tensor<O>,
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
    fn validate(&self, stream: &Stream) -> Result<(ReduceEntry, Vec<usize>)> {
        check::device("x", self.x, stream)?;
        if let Some(y) = self.y {
            check::device("the second operand", y, stream)?;
            if y.shape() != self.x.shape() {
                let want = format!("{:?}, as `x`", self.x.shape());
                return Err(check::shape_mismatch("the second operand", y, want));
            }
        }
        let entry = self.entry()?;
        let axes = self.axes.checked(self.x.rank())?;
        let extents = self.x.shape().iter().enumerate();
        let shape: Vec<usize> = extents
            .filter_map(|(axis, &extent)| match axes.has(axis) {
                false => Some(extent),
                true => self.keep_dims.then_some(1),
            })
            .collect();
        if self.x.is_empty() && !shape.contains(&0) && self.op.needs_elements() {
            return Err(Error::value(
                "extent to reduce",
                "0",
                format!("at least 1: {} of nothing has no value", self.op.name()),
            ));
        }
        Ok((entry, shape))
    }

    fn entry(&self) -> Result<ReduceEntry> {
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
        let is_wide = self.is_wide()?;
        let entry = ReduceEntry::of(op.family(), read_as::<T>(op), is_wide);
        entry.ok_or(Error::Bug("a dtype without an entry"))
    }

    /// Whether the kernel computes in f64 though `x` has another dtype.
    ///
    /// # Errors
    /// [`ArgumentError::Value`](crate::ArgumentError::Value) for a result that the operation does
    /// not have in this dtype.
    fn is_wide(&self) -> Result<bool> {
        let (output, op) = (O::DTYPE, self.op);
        let is_integer = T::Value::DTYPE == DType::I64;
        let (is_default, is_own) = (output == T::Value::DTYPE, output == T::DTYPE);
        match op.is_index() {
            true if output == DType::I64 => Ok(false),
            true => Err(refused_dtype::<O>(&format!(
                "i64 for {}: `output::<i64>()`",
                op.name()
            ))),
            false if is_integer && !op.is_of_integers() => match output {
                DType::F64 => Ok(true),
                _ => Err(refused_dtype::<O>(&format!(
                    "f64 for {} of integers: `output::<f64>()`",
                    op.name()
                ))),
            },
            false if is_default || (is_own && !is_integer) => Ok(false),
            false if output == DType::F64 => Ok(true),
            false if is_integer => Err(refused_dtype::<O>("i64 or f64")),
            false => Err(refused_dtype::<O>(&format!("f32, f64 or {}", T::DTYPE))),
        }
    }
}

/// The dtype in which kernels read elements of `T`: another one where they are converted first.
fn read_as<T: Countable>(op: ReduceOp) -> DType {
    match ReduceEntry::of(op.family(), T::DTYPE, false) {
        Some(_) => T::DTYPE,
        None => T::READ_AS[usize::from(!op.is_index())],
    }
}

fn refused(op: ReduceOp, want: &str) -> Error {
    Error::value("reduction", op.name(), want)
}

fn refused_dtype<O: Element>(want: &str) -> Error {
    Error::value("dtype of the result", O::DTYPE.name(), want)
}
