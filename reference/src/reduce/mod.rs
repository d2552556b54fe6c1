//! Reductions over all elements, one axis or several axes.
//!
//! Special values: if an element is NaN, every value is NaN, and argmax and argmin return its
//! index; NaN counts as nonzero. Among equal elements, the lowest index counts. Over several axes,
//! an index counts in row-major order. Without elements, sums, counts and norms are 0, products 1,
//! logsumexp `-inf`, mean and variance NaN; maximum, minimum and their indices do not exist
//! ([`ReferenceError::EmptyAxis`]).
//!
//! # Bounds
//!
//! `g(k)` is `k u / (1 - k u)` with the unit roundoff `u` of the dtype that the implementation
//! computes in, and `eta` is its smallest subnormal. The reference's own sums are compensated
//! (Neumaier), so their error is of second order.
//!
//! - sum, norm1: `g(additions) sum |x|`; additions never round a subnormal result. Dot: one more
//!   rounding, and `n eta`.
//! - mean: the same over `n`, with two more roundings (`n` and the division).
//! - norm2: `s = sum x^2` is within `g(additions + 1) s`, as squares are scaled where they leave the
//!   range; a root halves relative errors.
//! - prod: `g(2 n)` relatively, as every element brings one rounding; a partial product that
//!   underflows errs by `eta`, times what follows, at most `prod max(|x|, 1)`. Where that
//!   overflows, or where infinite elements meet ones that may have underflowed, there is no bound.
//!   A finite product with an element 0 is exact.
//! - max, min, norm_inf, indices, counts: exact.
//! - logsumexp `m + ln L`, `L = sum exp(x - m)`: `L` is within `L (1 + E)`, `E` as in
//!   [`crate::softmax`], which moves its logarithm by at most `-ln(1 - E)`. `ln` itself errs by its
//!   ulps; changes of base and the final sum by `gamma(7) |m| + gamma(3) |ln L|`. All of it is
//!   proportional to `u`.
//! - variance: means of sets err by `e = g(4 additions) max |x|`, so squared distances by
//!   `2 |d| e + e^2`, and their sum S by `g(4 additions) S + 2 e sqrt(n S) + n e^2`; std as a root.
//!
//! Where the sum of what is added exceeds the largest number, a partial sum may overflow: the bound
//! is infinite.

use abi::DType;
use abi::reduce::ReduceOp;
use ndarray::{ArrayD, ArrayViewD, IxDyn};
use rayon::prelude::*;

use crate::precision::{Format, U32};
use crate::softmax::{Row, Scores, max_or_nan};
use crate::sum::total;
use crate::{Expected, Model, ReferenceError};

/// Where a dot product is.
const OF_DOT: &str = "reduce::dot has it, of two arrays";

/// The result of a reduction.
#[derive(Clone, Debug, PartialEq)]
pub enum Reduced {
    /// Values.
    Values(Expected),
    /// Indices, counts and truth values.
    Indices(ArrayD<i64>),
}

/// Options of a reduction.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Variance and std divide by `n - ddof`.
    pub ddof: u64,
    /// The dtype in which the implementation computes and returns values: f32 or f64.
    pub dtype: DType,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ddof: 0,
            dtype: DType::F32,
        }
    }
}

/// Reduces `x` over `axes`, which are removed from the shape; `None` reduces all elements to rank
/// 0.
///
/// # Errors
/// [`ReferenceError::AxisOutOfRange`], [`ReferenceError::EmptyAxis`];
/// [`ReferenceError::Operation`] for a dot product; [`ReferenceError::Dtype`] for options of a
/// dtype that is neither f32 nor f64.
pub fn reduce(
    op: ReduceOp,
    x: &ArrayViewD<'_, f64>,
    axes: Option<&[usize]>,
    options: &Options,
    model: &Model,
) -> Result<Reduced, ReferenceError> {
    if op == ReduceOp::Dot {
        return Err(ReferenceError::operation(op, OF_DOT));
    }
    let (shape, lanes) = lanes(op, x, axes)?;
    if op.is_index() {
        let indices: Vec<i64> = lanes.par_iter().map(|lane| index(op, lane)).collect();
        return Ok(Reduced::Indices(of_shape(&shape, indices)));
    }
    let unit = Unit::of(options.dtype)?;
    let values = values(&shape, lanes, options, |lane| {
        value(op, lane, options.ddof, &unit, model)
    });
    Ok(Reduced::Values(values?))
}

/// The dot products of `x` and `y`, which have the same shape, over `axes` or all elements.
///
/// # Errors
/// [`ReferenceError::ShapeMismatch`], [`ReferenceError::AxisOutOfRange`];
/// [`ReferenceError::Dtype`] for options of a dtype that is neither f32 nor f64.
pub fn dot(
    x: &ArrayViewD<'_, f64>,
    y: &ArrayViewD<'_, f64>,
    axes: Option<&[usize]>,
    options: &Options,
    model: &Model,
) -> Result<Expected, ReferenceError> {
    let unit = Unit::of(options.dtype)?;
    ReferenceError::unless_shape_of("x", x.shape(), "y", y.shape())?;
    let (shape, lanes_x) = lanes(ReduceOp::Dot, x, axes)?;
    let (_, lanes_y) = lanes(ReduceOp::Dot, y, axes)?;
    let pairs: Vec<_> = lanes_x.into_iter().zip(lanes_y).collect();
    values(&shape, pairs, options, |(x, y)| {
        let products: Vec<f64> = x.iter().zip(y).map(|(x, y)| x * y).collect();
        let size = total(products.iter().map(|x| x.abs()));
        let error = unit.growth(model.additions + 1) * size + x.len() as f64 * unit.eta;
        (
            total(products.iter().copied()),
            unit.unless_overflow(size, error),
        )
    })
}

/// Reductions of integers, in wrapping 64-bit arithmetic.
///
/// # Errors
/// [`ReferenceError::AxisOutOfRange`], [`ReferenceError::EmptyAxis`]; [`ReferenceError::Operation`]
/// for one whose result is not an integer, and for a dot product.
pub fn integers(
    op: ReduceOp,
    x: &ArrayViewD<'_, i64>,
    axes: Option<&[usize]>,
) -> Result<ArrayD<i64>, ReferenceError> {
    let of = of_integers(op)?;
    let (shape, lanes) = lanes(op, x, axes)?;
    let results = lanes.iter().map(|lane| of(lane)).collect();
    Ok(of_shape(&shape, results))
}

/// The function of a lane of integers.
fn of_integers(op: ReduceOp) -> Result<fn(&[i64]) -> i64, ReferenceError> {
    fn count(lane: &[i64]) -> usize {
        lane.iter().filter(|&&x| x != 0).count()
    }
    Ok(match op {
        ReduceOp::Sum => |lane| lane.iter().copied().fold(0, i64::wrapping_add),
        ReduceOp::Norm1 => |lane| {
            let sizes = lane.iter().map(|x| x.wrapping_abs());
            sizes.fold(0, i64::wrapping_add)
        },
        ReduceOp::NormInf => |lane| {
            let sizes = lane.iter().map(|x| x.wrapping_abs());
            sizes.max().unwrap_or(0)
        },
        ReduceOp::Prod => |lane| lane.iter().copied().fold(1, i64::wrapping_mul),
        ReduceOp::Max => |lane| lane.iter().copied().max().unwrap_or(i64::MIN),
        ReduceOp::Min => |lane| lane.iter().copied().min().unwrap_or(i64::MAX),
        ReduceOp::Argmax => |lane| {
            let places = lane.iter().enumerate();
            let best = places.min_by_key(|&(i, x)| (std::cmp::Reverse(x), i));
            best.map_or(0, |(i, _)| i as i64)
        },
        ReduceOp::Argmin => |lane| {
            let best = lane.iter().enumerate().min_by_key(|&(i, x)| (x, i));
            best.map_or(0, |(i, _)| i as i64)
        },
        ReduceOp::CountNonzero => |lane| count(lane) as i64,
        ReduceOp::Any => |lane| i64::from(count(lane) > 0),
        ReduceOp::All => |lane| i64::from(count(lane) == lane.len()),
        ReduceOp::Mean
        | ReduceOp::Norm2
        | ReduceOp::Logsumexp
        | ReduceOp::Variance
        | ReduceOp::Std => {
            let want =
                "an operation with an integer result; reduce::reduce has this one, in f32 or f64";
            return Err(ReferenceError::operation(op, want));
        }
        ReduceOp::Dot => return Err(ReferenceError::operation(op, OF_DOT)),
    })
}

/// The shape of the result, and for each of its elements the elements of `x` that it reduces, in
/// row-major order of the axes.
fn lanes<T: Copy>(
    op: ReduceOp,
    x: &ArrayViewD<'_, T>,
    axes: Option<&[usize]>,
) -> Result<(IxDyn, Vec<Vec<T>>), ReferenceError> {
    let rank = x.ndim();
    let all: Vec<usize> = (0..rank).collect();
    let axes = axes.unwrap_or(&all);
    if let Some(&axis) = axes.iter().find(|&&axis| axis >= rank) {
        return Err(ReferenceError::AxisOutOfRange { axis, rank });
    }
    let (reduced, kept): (Vec<usize>, Vec<usize>) = (0..rank).partition(|axis| axes.contains(axis));
    let shape: Vec<usize> = kept.iter().map(|&axis| x.shape()[axis]).collect();
    let outputs: usize = shape.iter().product();
    let n: usize = reduced.iter().map(|&axis| x.shape()[axis]).product();
    if n == 0 && outputs > 0 && op.needs_elements() {
        return Err(ReferenceError::EmptyAxis { op: op.name() });
    }
    let order: Vec<usize> = kept.iter().chain(&reduced).copied().collect();
    let ordered = x.view().permuted_axes(IxDyn(&order));
    let elements: Vec<T> = ordered.iter().copied().collect();
    let lanes = match n {
        0 => vec![Vec::new(); outputs],
        n => elements.chunks(n).map(<[T]>::to_vec).collect(),
    };
    Ok((IxDyn(&shape), lanes))
}

fn values<L: Sync>(
    shape: &IxDyn,
    lanes: Vec<L>,
    options: &Options,
    value: impl Fn(&L) -> (f64, f64) + Send + Sync,
) -> Result<Expected, ReferenceError> {
    let results: Vec<(f64, f64)> = lanes.par_iter().map(value).collect();
    let (values, errors): (Vec<f64>, Vec<f64>) = results.into_iter().unzip();
    let errors = of_shape(shape, errors);
    Expected::rounded_to(options.dtype, of_shape(shape, values), &errors)
}

fn of_shape<T: Clone>(shape: &IxDyn, elements: Vec<T>) -> ArrayD<T> {
    ArrayD::from_shape_vec(shape.clone(), elements)
        .unwrap_or_else(|error| unreachable!("one element was computed a lane: {error}"))
}

/// The arithmetic of an implementation.
#[derive(Clone, Copy)]
struct Unit {
    /// Unit roundoff.
    roundoff: f64,
    /// Smallest subnormal.
    eta: f64,
    /// Largest number.
    max: f64,
}

impl Unit {
    fn of(dtype: DType) -> Result<Self, ReferenceError> {
        let format = match dtype {
            DType::F32 | DType::F64 => Format::of(dtype),
            _ => None,
        };
        let format = format.ok_or(ReferenceError::Dtype {
            operand: "the dtype of options",
            got: dtype,
            want: "there are bounds of computations in f32 and f64",
        })?;
        Ok(Self {
            roundoff: format.unit_roundoff(),
            // Half of the smallest f64 is not an f64.
            eta: (2.0 * format.half_subnormal()).max(f64::from_bits(1)),
            max: format.max,
        })
    }

    /// Relative error of `n` roundings in a row.
    fn growth(&self, n: usize) -> f64 {
        let nu = n as f64 * self.roundoff;
        if nu < 1.0 {
            nu / (1.0 - nu)
        } else {
            f64::INFINITY
        }
    }

    fn unless_overflow(&self, size: f64, error: f64) -> f64 {
        if size < self.max {
            error
        } else {
            f64::INFINITY
        }
    }
}

fn index(op: ReduceOp, lane: &[f64]) -> i64 {
    let count = lane.iter().filter(|&&x| x != 0.0).count();
    let beats = |x: f64, best: f64| match op {
        ReduceOp::Argmax => x > best,
        _ => x < best,
    };
    match op {
        ReduceOp::CountNonzero => return count as i64,
        ReduceOp::Any => return i64::from(count > 0),
        ReduceOp::All => return i64::from(count == lane.len()),
        _ => {}
    }
    let mut best_idx = 0;
    for (i, &x) in lane.iter().enumerate() {
        let best = lane[best_idx];
        if !best.is_nan() && (x.is_nan() || beats(x, best)) {
            best_idx = i;
        }
    }
    best_idx as i64
}

/// The value and its error before output rounding.
fn value(op: ReduceOp, lane: &[f64], ddof: u64, unit: &Unit, model: &Model) -> (f64, f64) {
    let n = lane.len() as f64;
    let xs = || lane.iter().copied();
    let size = || total(xs().map(f64::abs));
    let largest = |f: fn(f64) -> f64, of_none: f64| xs().map(f).fold(of_none, max_or_nan);
    let k = model.additions;
    match op {
        ReduceOp::Sum => (
            total(xs()),
            unit.unless_overflow(size(), unit.growth(k) * size()),
        ),
        ReduceOp::Norm1 => (
            size(),
            unit.unless_overflow(size(), unit.growth(k) * size()),
        ),
        ReduceOp::Mean => {
            let error = unit.growth(k + 2) * size() / n + unit.eta;
            (total(xs()) / n, unit.unless_overflow(size(), error))
        }
        ReduceOp::Norm2 => {
            let norm = euclidean(lane);
            let error = unit.growth(k + 2) * norm + unit.eta;
            (
                norm,
                unit.unless_overflow(norm * (1.0 + unit.growth(k + 2)), error),
            )
        }
        ReduceOp::Prod => product(lane, unit),
        ReduceOp::Max => (largest(|x| x, f64::NEG_INFINITY), 0.0),
        ReduceOp::Min => (-largest(|x| -x, f64::NEG_INFINITY), 0.0),
        ReduceOp::NormInf => (largest(f64::abs, 0.0), 0.0),
        ReduceOp::Logsumexp => {
            let row = Row::new(lane, &Scores::EXACT, model);
            (row.lse, row.lse_error * unit.roundoff / U32)
        }
        ReduceOp::Variance | ReduceOp::Std => spread(op, lane, ddof, unit, k),
        op => unreachable!("{} has no value of one operand", op.name()),
    }
}

/// The root of the sum of squares, scaled by a power of two, so that squares neither overflow nor
/// vanish.
fn euclidean(lane: &[f64]) -> f64 {
    let largest = lane.iter().map(|x| x.abs()).fold(0.0, max_or_nan);
    if largest == 0.0 || !largest.is_finite() {
        return largest;
    }
    let scale = (-largest.log2().floor()).clamp(-1022.0, 1022.0).exp2();
    let squares = lane.iter().map(|x| (x * scale) * (x * scale));
    total(squares).sqrt() / scale
}

fn product(lane: &[f64], unit: &Unit) -> (f64, f64) {
    let n = lane.len();
    if lane.contains(&0.0) && lane.iter().all(|x| x.is_finite()) {
        return (0.0, 0.0);
    }
    let value: f64 = lane.iter().product();
    let finite = || lane.iter().map(|x| x.abs()).filter(|x| x.is_finite());
    let above: f64 = finite().map(|x| x.max(1.0)).product();
    let below: f64 = finite().filter(|&x| x != 0.0).map(|x| x.min(1.0)).product();
    let is_mixed = lane.iter().any(|x| x.is_infinite()) && (below < 1e-30 || above > 1e30);
    if !lane.iter().any(|x| x.is_nan()) && (is_mixed || above >= unit.max) {
        return (0.0, f64::INFINITY);
    }
    let error = unit.growth(2 * n) * value.abs() + 2.0 * n as f64 * unit.eta * above;
    (value, error)
}

fn spread(op: ReduceOp, lane: &[f64], ddof: u64, unit: &Unit, additions: usize) -> (f64, f64) {
    let n = lane.len() as f64;
    let mean = total(lane.iter().copied()) / n;
    let squares = total(lane.iter().map(|x| (x - mean) * (x - mean)));
    let divisor = n - (ddof.min(lane.len() as u64)) as f64;
    let largest = lane.iter().map(|x| x.abs()).fold(0.0, f64::max);
    let growth = unit.growth(4 * additions);
    let apart = growth * largest + unit.eta;
    let error =
        growth * squares + 2.0 * apart * (n * squares).sqrt() + n * (apart * apart + unit.eta);
    let variance = squares / divisor;
    let error = error / divisor + 2.0 * unit.roundoff * variance + unit.eta;
    let size = n * largest * largest;
    if op == ReduceOp::Variance {
        return (variance, unit.unless_overflow(size, error));
    }
    let root = variance.sqrt();
    let error = ((variance + error).sqrt() - root).max(root - (variance - error).max(0.0).sqrt())
        + unit.roundoff * 2.0 * root;
    (root, unit.unless_overflow(size, error))
}

#[cfg(test)]
mod tests;
