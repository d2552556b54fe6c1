//! Reductions over one axis or everything.
//!
//! Special values: a NaN makes sum, mean, max, min and logsumexp NaN; argmax and argmin take a
//! NaN as the largest or smallest of all, and of equals the lowest index. Over everything, an
//! index counts in row-major order. Sum of nothing is 0, mean NaN, logsumexp `-inf`; largest,
//! smallest and their indices do not exist ([`ReferenceError::EmptyAxis`]).
//!
//! # Bounds
//!
//! - sum: `gamma(additions) sum |x|`; additions never round a subnormal result.
//! - mean: the same over `n`, with two more roundings (`n` to f32 and the division):
//!   `gamma(additions + 2) sum |x| / n + eta`.
//! - max, min, argmax, argmin: exact.
//! - logsumexp `m + ln L`, `L = sum exp(x - m)`: `L` is within `L (1 + E)`, `E` as in
//!   [`crate::softmax`], which moves its logarithm by at most `-ln(1 - E)`; `ln` itself errs by
//!   its ulps; changes of base and the final sum by `gamma(7) |m| + gamma(3) |ln L|`.
//!
//! Where `sum |x|` exceeds the largest f32 a partial sum may overflow: the bound is infinite.

use ndarray::{Array1, ArrayD, ArrayView1, ArrayViewD, Axis, IxDyn};
use rayon::prelude::*;
use spec::DType;
use spec::reduce::ReduceOp;

use crate::precision::{ETA32, gamma};
use crate::softmax::{Row, Scores, max_or_nan};
use crate::{Expected, Model, ReferenceError};

/// What a reduction returns.
#[derive(Clone, Debug, PartialEq)]
pub enum Reduced {
    /// f32 values, of all operations but two.
    Values(Expected),
    /// Indices, of argmax and argmin.
    Indices(ArrayD<i64>),
}

/// Reduces `x` over `axis` (removed from the shape), or over everything (`None`, no dimensions).
///
/// # Errors
/// [`ReferenceError::AxisOutOfRange`], [`ReferenceError::EmptyAxis`].
pub fn reduce(
    op: ReduceOp,
    x: &ArrayViewD<'_, f64>,
    axis: Option<usize>,
    model: &Model,
) -> Result<Reduced, ReferenceError> {
    let flat;
    let (x, axis) = match axis {
        Some(axis) => (x.view(), axis),
        None => {
            flat = x.iter().copied().collect::<Array1<f64>>().into_dyn();
            (flat.view(), 0)
        }
    };
    if axis >= x.ndim() {
        return Err(ReferenceError::AxisOutOfRange {
            axis,
            rank: x.ndim(),
        });
    }
    let mut shape = x.shape().to_vec();
    let n = shape.remove(axis);
    let outputs: usize = shape.iter().product();
    let has_value = matches!(op, ReduceOp::Sum | ReduceOp::Mean | ReduceOp::Logsumexp);
    if n == 0 && outputs > 0 && !has_value {
        return Err(ReferenceError::EmptyAxis { op: op.name() });
    }
    let lanes: Vec<ArrayView1<'_, f64>> = x.lanes(Axis(axis)).into_iter().take(outputs).collect();
    let shape = IxDyn(&shape);
    if op.is_index() {
        let indices: Vec<i64> = lanes.into_par_iter().map(|lane| index(op, &lane)).collect();
        return Ok(Reduced::Indices(of_shape(&shape, indices)));
    }
    let results: Vec<(f64, f64)> = lanes
        .into_par_iter()
        .map(|lane| value(op, &lane, model))
        .collect();
    let (values, errors): (Vec<f64>, Vec<f64>) = results.into_iter().unzip();
    let errors = of_shape(&shape, errors);
    Ok(Reduced::Values(Expected::rounded_to(
        DType::F32,
        of_shape(&shape, values),
        &errors,
    )))
}

fn of_shape<T: Clone>(shape: &IxDyn, elements: Vec<T>) -> ArrayD<T> {
    ArrayD::from_shape_vec(shape.clone(), elements)
        .unwrap_or_else(|error| unreachable!("one element was computed a lane: {error}"))
}

fn index(op: ReduceOp, lane: &ArrayView1<'_, f64>) -> i64 {
    let beats = |x: f64, best: f64| match op {
        ReduceOp::Argmax => x > best,
        _ => x < best,
    };
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
fn value(op: ReduceOp, lane: &ArrayView1<'_, f64>, model: &Model) -> (f64, f64) {
    let n = lane.len() as f64;
    let magnitude = || lane.iter().map(|x| x.abs()).sum::<f64>();
    let unless_overflow = |magnitude: f64, error: f64| {
        if magnitude > f64::from(f32::MAX) {
            f64::INFINITY
        } else {
            error
        }
    };
    match op {
        ReduceOp::Sum => {
            let s = magnitude();
            (lane.sum(), unless_overflow(s, gamma(model.additions) * s))
        }
        ReduceOp::Mean => {
            let s = magnitude();
            let error = gamma(model.additions + 2) * s / n + ETA32;
            (lane.sum() / n, unless_overflow(s, error))
        }
        ReduceOp::Max => (
            lane.iter().copied().fold(f64::NEG_INFINITY, max_or_nan),
            0.0,
        ),
        ReduceOp::Min => (
            -lane.iter().map(|x| -x).fold(f64::NEG_INFINITY, max_or_nan),
            0.0,
        ),
        ReduceOp::Logsumexp => {
            let row = Row::new(&lane.to_vec(), &Scores::EXACT, model);
            (row.lse, row.lse_error)
        }
        ReduceOp::Argmax | ReduceOp::Argmin => unreachable!("indices are handled by `index`"),
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{arr1, arr2};
    use proptest::prelude::*;

    use super::*;

    fn one(op: ReduceOp, x: &[f64]) -> Result<Reduced, ReferenceError> {
        reduce(
            op,
            &arr1(x).into_dyn().view(),
            None,
            &Model::any_order(x.len(), x.len(), 1.0),
        )
    }

    fn value_of(op: ReduceOp, x: &[f64]) -> f64 {
        match one(op, x).unwrap() {
            Reduced::Values(expected) => expected.values[[]],
            Reduced::Indices(indices) => indices[[]] as f64,
        }
    }

    #[test]
    fn every_operation_on_a_known_row() {
        let x = [3.0, -1.0, 4.0, -1.0, 4.0];
        let wants = [9.0, 1.8, 4.0, -1.0, 2.0, 1.0];
        for (op, want) in ReduceOp::ALL.into_iter().zip(wants) {
            assert_eq!(value_of(op, &x), want, "{op:?}");
        }
        let lse = x.iter().map(|x: &f64| x.exp()).sum::<f64>().ln();
        assert!((value_of(ReduceOp::Logsumexp, &x) - lse).abs() < 1e-14);
    }

    #[test]
    fn a_nan_wins_and_the_first_of_them_is_the_index() {
        let x = [1.0, f64::NAN, 9.0, f64::NAN];
        for op in ReduceOp::ALL {
            let value = value_of(op, &x);
            if op.is_index() {
                assert_eq!(value, 1.0)
            } else {
                assert!(value.is_nan(), "{op:?}")
            }
        }
    }

    #[test]
    fn infinities_stay_infinities() {
        let inf = f64::INFINITY;
        assert_eq!(value_of(ReduceOp::Logsumexp, &[0.0, inf]), inf);
        assert_eq!(value_of(ReduceOp::Logsumexp, &[-inf, -inf]), -inf);
        assert_eq!(value_of(ReduceOp::Max, &[-inf, -inf]), -inf);
        assert!(value_of(ReduceOp::Sum, &[inf, -inf]).is_nan());
    }

    #[test]
    fn nothing_has_a_sum_but_no_largest() {
        assert_eq!(value_of(ReduceOp::Sum, &[]), 0.0);
        assert!(value_of(ReduceOp::Mean, &[]).is_nan());
        assert_eq!(value_of(ReduceOp::Logsumexp, &[]), f64::NEG_INFINITY);
        for op in [
            ReduceOp::Max,
            ReduceOp::Min,
            ReduceOp::Argmax,
            ReduceOp::Argmin,
        ] {
            assert_eq!(
                one(op, &[]).unwrap_err(),
                ReferenceError::EmptyAxis { op: op.name() }
            );
        }
    }

    #[test]
    fn an_axis_is_removed_and_empty_results_stay_empty() {
        let x = arr2(&[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).into_dyn();
        let model = Model::any_order(3, 0, 1.0);
        for (axis, want) in [(0, arr1(&[5.0, 7.0, 9.0])), (1, arr1(&[6.0, 15.0]))] {
            let Reduced::Values(sum) =
                reduce(ReduceOp::Sum, &x.view(), Some(axis), &model).unwrap()
            else {
                panic!("a sum is a value");
            };
            assert_eq!(sum.values, want.into_dyn());
        }
        let empty = ArrayD::zeros(vec![0, 3]);
        let max = reduce(ReduceOp::Max, &empty.view(), Some(1), &model).unwrap();
        let Reduced::Values(max) = max else {
            panic!("a maximum is a value")
        };
        assert_eq!(max.values.shape(), [0]);
        let zero = reduce(ReduceOp::Sum, &empty.view(), Some(0), &model).unwrap();
        let Reduced::Values(zero) = zero else {
            panic!("a sum is a value")
        };
        assert_eq!(zero.values, ArrayD::zeros(vec![3]));
        assert!(reduce(ReduceOp::Sum, &x.view(), Some(2), &model).is_err());
    }

    proptest! {
        #[test]
        fn f32_reductions_are_within_the_bound(
            x in proptest::collection::vec(-80f32..80.0, 1..400),
        ) {
            let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
            let sum: f32 = x.iter().sum();
            let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let lse = max + x.iter().map(|x| (x - max).exp()).sum::<f32>().ln();
            for (op, got) in [
                (ReduceOp::Sum, sum),
                (ReduceOp::Mean, sum / x.len() as f32),
                (ReduceOp::Max, max),
                (ReduceOp::Logsumexp, lse),
            ] {
                let Reduced::Values(want) = one(op, &wide).unwrap() else {
                    panic!("{op:?} is a value");
                };
                let got = ArrayD::from_elem(vec![], f64::from(got));
                let agreement = want.compare(&got.view());
                prop_assert!(agreement.is_ok(), "{op:?}: {}", agreement.unwrap_err());
            }
        }
    }
}
