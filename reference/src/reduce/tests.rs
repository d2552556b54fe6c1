use ndarray::{arr1, arr2};
use proptest::prelude::*;

use super::*;

fn one(op: ReduceOp, x: &[f64]) -> Result<Reduced, ReferenceError> {
    reduce(
        op,
        &arr1(x).into_dyn().view(),
        None,
        &Options::default(),
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
    for (op, want) in [
        (ReduceOp::Sum, 9.0),
        (ReduceOp::Mean, 1.8),
        (ReduceOp::Prod, 48.0),
        (ReduceOp::Max, 4.0),
        (ReduceOp::Min, -1.0),
        (ReduceOp::Argmax, 2.0),
        (ReduceOp::Argmin, 1.0),
        (ReduceOp::Any, 1.0),
        (ReduceOp::All, 1.0),
        (ReduceOp::CountNonzero, 5.0),
        (ReduceOp::Norm1, 13.0),
        (ReduceOp::Norm2, 43_f64.sqrt()),
        (ReduceOp::NormInf, 4.0),
        (ReduceOp::Variance, 5.36),
        (ReduceOp::Std, 5.36_f64.sqrt()),
    ] {
        assert!((value_of(op, &x) - want).abs() < 1e-14, "{op:?}");
    }
    let lse = x.iter().map(|x: &f64| x.exp()).sum::<f64>().ln();
    assert!((value_of(ReduceOp::Logsumexp, &x) - lse).abs() < 1e-14);
}

#[test]
fn a_nan_wins_and_the_first_of_them_is_the_index() {
    let x = [1.0, f64::NAN, 9.0, f64::NAN];
    for op in ReduceOp::ALL {
        let value = value_of(op, &x);
        match op {
            ReduceOp::CountNonzero => assert_eq!(value, 4.0),
            _ if op.is_index() => assert_eq!(value, 1.0),
            _ => assert!(value.is_nan(), "{op:?}"),
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
    assert!(value_of(ReduceOp::Std, &[]).is_nan());
    assert_eq!(value_of(ReduceOp::Prod, &[]), 1.0);
    assert_eq!(value_of(ReduceOp::NormInf, &[]), 0.0);
    assert_eq!(value_of(ReduceOp::All, &[]), 1.0);
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
    let (model, options) = (Model::any_order(3, 0, 1.0), Options::default());
    for (axis, want) in [(0, arr1(&[5.0, 7.0, 9.0])), (1, arr1(&[6.0, 15.0]))] {
        let Reduced::Values(sum) =
            reduce(ReduceOp::Sum, &x.view(), Some(&[axis]), &options, &model).unwrap()
        else {
            panic!("a sum is a value");
        };
        assert_eq!(sum.values, want.into_dyn());
    }
    let empty = ArrayD::zeros(vec![0, 3]);
    let max = reduce(ReduceOp::Max, &empty.view(), Some(&[1]), &options, &model).unwrap();
    let Reduced::Values(max) = max else {
        panic!("a maximum is a value")
    };
    assert_eq!(max.values.shape(), [0]);
    let zero = reduce(ReduceOp::Sum, &empty.view(), Some(&[0]), &options, &model).unwrap();
    let Reduced::Values(zero) = zero else {
        panic!("a sum is a value")
    };
    assert_eq!(zero.values, ArrayD::zeros(vec![3]));
    assert!(reduce(ReduceOp::Sum, &x.view(), Some(&[2]), &options, &model).is_err());
}

#[test]
fn several_axes_go_together_in_row_major_order() {
    let x = ArrayD::from_shape_fn(vec![2, 3, 4], |i| (i[0] * 12 + i[1] * 4 + i[2]) as f64);
    let (model, options) = (Model::any_order(8, 0, 1.0), Options::default());
    let of = |op| reduce(op, &x.view(), Some(&[2, 0]), &options, &model).unwrap();
    let Reduced::Values(sums) = of(ReduceOp::Sum) else {
        panic!("a sum is a value")
    };
    assert_eq!(sums.values, arr1(&[60.0, 92.0, 124.0]).into_dyn());
    let Reduced::Indices(places) = of(ReduceOp::Argmax) else {
        panic!("a place is an index")
    };
    assert_eq!(places, arr1(&[7, 7, 7]).into_dyn());
}

#[test]
fn integers_wrap() {
    let x = arr1(&[i64::MAX, 1, 2]).into_dyn();
    let of = |op| integers(op, &x.view(), None).unwrap()[[]];
    assert_eq!(of(ReduceOp::Sum), i64::MIN + 2);
    assert_eq!(of(ReduceOp::Prod), -2);
    assert_eq!((of(ReduceOp::Argmax), of(ReduceOp::Argmin)), (0, 1));
}

#[test]
fn operations_that_are_elsewhere_are_named() {
    let error = one(ReduceOp::Dot, &[1.0]).unwrap_err();
    let text = "dot is not computed here; reduce::dot has it, of two arrays";
    assert_eq!(error.to_string(), text);
    for shape in [&[2][..], &[0], &[0, 2]] {
        let x = ArrayD::zeros(shape);
        for op in ReduceOp::ALL.into_iter().chain([ReduceOp::Dot]) {
            let is_of_integers = op.is_of_integers() && op != ReduceOp::Dot;
            match integers(op, &x.view(), None) {
                Ok(_) | Err(ReferenceError::EmptyAxis { .. }) => assert!(is_of_integers, "{op:?}"),
                Err(ReferenceError::Operation { op: name, .. }) => {
                    assert!(!is_of_integers && name == op.name(), "{op:?}");
                }
                Err(error) => panic!("{op:?}: {error}"),
            }
        }
    }
}

#[test]
fn values_are_of_f32_or_f64() {
    let x = arr1(&[1.0, 2.0]).into_dyn();
    let model = Model::any_order(2, 0, 1.0);
    for dtype in [DType::I32, DType::U8, DType::Bf16] {
        let options = Options { ddof: 0, dtype };
        let error = reduce(ReduceOp::Sum, &x.view(), None, &options, &model).unwrap_err();
        let text = "there are bounds of computations in f32 and f64";
        let text = format!("the dtype of options is {dtype}; {text}");
        assert_eq!(error.to_string(), text);
        assert_eq!(
            dot(&x.view(), &x.view(), None, &options, &model),
            Err(error)
        );
        assert!(reduce(ReduceOp::Argmax, &x.view(), None, &options, &model).is_ok());
    }
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
