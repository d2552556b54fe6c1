//! Addition by indices: `y[a.., indices[j..], b..] += src[a.., j.., b..]`, in any order of j; an index
//! out of range adds nothing. The same with products, maxima and minima in place of sums. And the same
//! with `=`, which is exact: in the order of j, so that the last one stays.
//!
//! # Bounds
//!
//! Of an element of y to which n elements of src are added, let S be the sum of their magnitudes and
//! of its own. An implementation that needs no more than `additions(n)` roundings for it, in
//! arithmetic with the unit roundoff u, has an error of at most `g S`, where
//! `g = additions(n) u / (1 - additions(n) u)`. Then the result is rounded to the dtype. Where S
//! overflows, nothing is said. A product P of n elements and that of y has an error of at most
//! `g |P|`, with `2 n` for `additions(n)`. Where partial products may underflow, `n eta A` is added:
//! `eta` is the least number above 0, and A the product of magnitudes above 1. Where A overflows,
//! nothing is said. Maxima and minima are exact.

use abi::DType;
use abi::scatter_add::ScatterOp;
use ndarray::{ArrayD, ArrayViewD, Dimension, IxDyn};

use crate::precision::Format;
use crate::sum::Compensated;
use crate::{Expected, ReferenceError};

/// Adds `src` to `y` along `axis`, with the result in `dtype`, a floating-point type. `additions`
/// says how many roundings an element has on its way, by the number of elements that are added.
///
/// # Errors
/// [`ReferenceError::AxisOutOfRange`] and [`ReferenceError::ShapeMismatch`].
pub fn scatter_add(
    y: &ArrayViewD<'_, f64>,
    axis: usize,
    indices: &ArrayViewD<'_, i64>,
    src: &ArrayViewD<'_, f64>,
    dtype: DType,
    additions: impl Fn(u64) -> u64,
) -> Result<Expected, ReferenceError> {
    let format = computing(dtype);
    let unit = format.unit_roundoff();
    let start = |&y: &f64| {
        let mut sum = Compensated::default();
        sum.add(y);
        (sum, y.abs(), 0_u64)
    };
    let mut sums = y.map(start);
    visit(y.shape(), axis, indices, src.shape(), |from, to| {
        let (sum, size, count) = &mut sums[to];
        sum.add(src[from]);
        *size += src[from].abs();
        *count += 1;
    })?;
    let errors = sums.map(|&(_, size, count)| {
        let roundings = additions(count) as f64 * unit;
        match size < format.max && roundings < 1.0 {
            true => roundings / (1.0 - roundings) * size,
            false => f64::INFINITY,
        }
    });
    Expected::rounded_to(dtype, sums.map(|(sum, ..)| sum.value()), &errors)
}

/// The format of partial results.
fn computing(dtype: DType) -> Format {
    let format = match dtype {
        DType::F64 => Format::of(DType::F64),
        _ => Format::of(DType::F32),
    };
    format.unwrap_or_else(|| unreachable!("both are floats"))
}

/// Combines `src` with `y` along `axis` by a product or an extreme, with the result in `dtype`, a
/// floating-point type.
///
/// # Errors
/// As [`scatter_add`]; [`ReferenceError::Operation`] (sums).
pub fn scatter_reduce(
    op: ScatterOp,
    y: &ArrayViewD<'_, f64>,
    axis: usize,
    indices: &ArrayViewD<'_, i64>,
    src: &ArrayViewD<'_, f64>,
    dtype: DType,
) -> Result<Expected, ReferenceError> {
    if op == ScatterOp::Sum {
        return Err(ReferenceError::Operation {
            op: op.name(),
            want: "`scatter_add` has it",
        });
    }
    let format = computing(dtype);
    let (unit, eta) = (
        format.unit_roundoff(),
        (2.0 * format.half_subnormal()).max(f64::from_bits(1)),
    );
    let large = |x: f64| if x.is_finite() { x.abs().max(1.0) } else { 1.0 };
    // The result; the product of magnitudes above 1; the number of elements from src; whether 0 or
    // an infinity is among the factors.
    let is_edge = |x: f64| x == 0.0 || x.is_infinite();
    let mut states = y.map(|&y| (y, large(y), 0_u64, is_edge(y)));
    visit(y.shape(), axis, indices, src.shape(), |from, to| {
        let (value, above, count, has_edge) = &mut states[to];
        let x = src[from];
        *value = match op {
            ScatterOp::Prod => *value * x,
            _ if value.is_nan() || x.is_nan() => f64::NAN,
            ScatterOp::Max => value.max(x),
            _ => value.min(x),
        };
        *above *= large(x);
        *count += 1;
        *has_edge |= is_edge(x);
    })?;
    let errors = states.map(|&(value, above, count, has_edge)| {
        // Once for the implementation, and once for this reference, in f64.
        let n = 2.0 * count as f64;
        match op {
            ScatterOp::Prod if count == 0 || value.is_nan() && above < format.max => 0.0,
            // A partial product that underflows is 0, which an infinity makes NaN.
            ScatterOp::Prod if above >= format.max || has_edge && count > 16 => f64::INFINITY,
            ScatterOp::Prod if !value.is_finite() => 0.0,
            ScatterOp::Prod => n * unit / (1.0 - n * unit) * value.abs() + n * eta * above,
            _ => 0.0,
        }
    });
    Expected::rounded_to(dtype, states.map(|state| state.0), &errors)
}

/// The same of integers, wrapping in 64 bits, by any operation.
///
/// # Errors
/// As [`scatter_add`].
pub fn integers(
    op: ScatterOp,
    y: &ArrayViewD<'_, i64>,
    axis: usize,
    indices: &ArrayViewD<'_, i64>,
    src: &ArrayViewD<'_, i64>,
) -> Result<ArrayD<i64>, ReferenceError> {
    let mut sums = y.to_owned();
    visit(y.shape(), axis, indices, src.shape(), |from, to| {
        let (old, x) = (sums[&to], src[from]);
        sums[&to] = match op {
            ScatterOp::Sum => old.wrapping_add(x),
            ScatterOp::Prod => old.wrapping_mul(x),
            ScatterOp::Max => old.max(x),
            ScatterOp::Min => old.min(x),
        };
    })?;
    Ok(sums)
}

/// Puts `src` into a copy of `y` along `axis`: of elements with one place, that of the last index in
/// row-major order stays.
///
/// # Errors
/// As [`scatter_add`].
pub fn put<T: Clone>(
    y: &ArrayViewD<'_, T>,
    axis: usize,
    indices: &ArrayViewD<'_, i64>,
    src: &ArrayViewD<'_, T>,
) -> Result<ArrayD<T>, ReferenceError> {
    let mut result = y.to_owned();
    visit(y.shape(), axis, indices, src.shape(), |from, to| {
        result[&to] = src[from].clone();
    })?;
    Ok(result)
}

/// Calls `add` with each index into src whose element is added, in order, and that into y.
fn visit(
    y: &[usize],
    axis: usize,
    indices: &ArrayViewD<'_, i64>,
    src: &[usize],
    mut add: impl FnMut(&IxDyn, IxDyn),
) -> Result<(), ReferenceError> {
    ReferenceError::unless_axis(y.len(), axis)?;
    let want = [&y[..axis], indices.shape(), &y[axis + 1..]].concat();
    ReferenceError::unless_shape_of("y and the indices say", &want, "src", src)?;
    for from in ndarray::indices(want) {
        let (before, rest) = from.slice().split_at(axis);
        let (j, behind) = rest.split_at(indices.ndim());
        let index = usize::try_from(indices[j]).ok();
        if let Some(index) = index.filter(|&index| index < y[axis]) {
            let to = [before, &[index], behind].concat();
            add(&from, IxDyn(&to));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn rows_are_added_where_their_indices_say() {
        let y = array![[1.0, 2.0], [3.0, 4.0]].into_dyn();
        let src = array![[10.0, 20.0], [30.0, 40.0], [50.0, 60.0], [70.0, 80.0]].into_dyn();
        let indices = array![1, -1, 1, 2].into_dyn();
        let got = scatter_add(
            &y.view(),
            0,
            &indices.view(),
            &src.view(),
            DType::F32,
            |n| n,
        )
        .expect("the shapes fit");
        assert_eq!(got.values, array![[1.0, 2.0], [63.0, 84.0]].into_dyn());
    }

    #[test]
    fn the_last_of_equal_indices_stays_and_others_keep_what_they_have() {
        let y = array![[1, 2], [3, 4], [5, 6]].into_dyn();
        let src = array![[10, 20], [30, 40], [50, 60], [70, 80]].into_dyn();
        let indices = array![1, -1, 1, 3].into_dyn();
        let got = put(&y.view(), 0, &indices.view(), &src.view());
        assert_eq!(got, Ok(array![[1, 2], [50, 60], [5, 6]].into_dyn()));
        // Row-major over the dimensions of the indices.
        let y = array![0, 0].into_dyn();
        let indices = array![[0, 1], [0, 0]].into_dyn();
        let src = array![[1, 2], [3, 4]].into_dyn();
        let got = put(&y.view(), 0, &indices.view(), &src.view());
        assert_eq!(got, Ok(array![4, 2].into_dyn()));
    }

    #[test]
    fn integers_wrap_along_any_axis_by_indices_of_any_shape() {
        let y = array![[i64::MAX, 0], [5, 6]].into_dyn();
        let src = array![[[1, 2]], [[3, 4]]].into_dyn();
        let indices = array![[0, 0]].into_dyn();
        let got = integers(ScatterOp::Sum, &y.view(), 1, &indices.view(), &src.view());
        let want = array![[i64::MIN + 2, 0], [12, 6]].into_dyn();
        assert_eq!(got, Ok(want));
        let refused = integers(ScatterOp::Sum, &y.view(), 2, &indices.view(), &src.view());
        assert_eq!(
            refused,
            Err(ReferenceError::AxisOutOfRange { axis: 2, rank: 2 })
        );
        assert!(integers(ScatterOp::Sum, &y.view(), 0, &indices.view(), &y.view()).is_err());
    }

    #[test]
    fn products_and_extremes_include_what_is_there() {
        let y = array![2.0, 3.0, 4.0].into_dyn();
        let src = array![-1.0, 5.0, f64::NAN, 7.0].into_dyn();
        let indices = array![0, 0, 1, -1].into_dyn();
        for (op, want) in [
            (ScatterOp::Prod, -10.0),
            (ScatterOp::Max, 5.0),
            (ScatterOp::Min, -1.0),
        ] {
            let got = scatter_reduce(op, &y.view(), 0, &indices.view(), &src.view(), DType::F32);
            let got = got.expect("the shapes fit").values;
            assert!(
                got[0] == want && got[1].is_nan() && got[2] == 4.0,
                "{op:?} {got}"
            );
        }
        let (y, src) = (y.mapv(|y| y as i64), array![-1, 5, 9, 7].into_dyn());
        let got = integers(ScatterOp::Min, &y.view(), 0, &indices.view(), &src.view());
        assert_eq!(got, Ok(array![-1, 3, 4].into_dyn()));
        let (y, src) = (y.mapv(|y| y as f64), src.mapv(|x| x as f64));
        let sum = ScatterOp::Sum;
        let refused = scatter_reduce(sum, &y.view(), 0, &indices.view(), &src.view(), DType::F32);
        assert!(refused.is_err());
    }
}
