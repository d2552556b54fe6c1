//! Counts, truth values, indices and sums of bytes, such as the masks that comparisons give.

use warpsmith::{
    ArgumentError, Binary, BinaryOp, Countable, Device, Error, Reduce, ReduceOp, Tensor,
};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::values::Values;

/// What the operation gives for elements in the order of their indices.
fn defined(op: ReduceOp, values: &[f64]) -> i64 {
    let first = |is_first: fn(f64, f64) -> bool| {
        let better = |best: usize, i: usize| match is_first(values[i], values[best]) {
            true => i,
            false => best,
        };
        (1..values.len()).fold(0, better) as i64
    };
    match op {
        ReduceOp::Any => i64::from(values.iter().any(|&x| x != 0.0)),
        ReduceOp::All => i64::from(values.iter().all(|&x| x != 0.0)),
        ReduceOp::CountNonzero => values.iter().filter(|&&x| x != 0.0).count() as i64,
        ReduceOp::Argmax => first(|x, best| x > best),
        ReduceOp::Argmin => first(|x, best| x < best),
        other => panic!("{other:?} has a value"),
    }
}

fn check<T: Countable + TestElement>(device: &Device) {
    let stream = device.stream().expect("a stream");
    let views = [
        View::Contiguous,
        View::Transposed,
        View::Sliced,
        View::Reversed,
    ];
    for (shape, view) in [[1, 7], [33, 20], [3, 5000], [0, 4]].into_iter().zip(views) {
        let x = Operand::<T>::draw(device, &shape, Values::Integers, view, 3).expect("an operand");
        for op in ReduceOp::ALL.into_iter().filter(|op| op.is_index()) {
            if x.values.is_empty() && op.needs_elements() {
                let refused = Reduce::new(op, &x.tensor).output::<i64>().run(&stream);
                assert!(matches!(
                    refused.as_ref().map_err(Error::root),
                    Err(Error::Argument(ArgumentError::Value { .. }))
                ));
                continue;
            }
            let all = Reduce::new(op, &x.tensor).output::<i64>().run(&stream);
            let values: Vec<f64> = x.values.iter().copied().collect();
            let all = all.and_then(|y| y.item()).expect("one");
            assert_eq!(all, defined(op, &values), "{op:?} of {shape:?}");
            let rows = Reduce::new(op, &x.tensor).axis(1).keep_dims();
            let rows = rows.output::<i64>().run(&stream).expect("rows");
            assert_eq!(rows.shape(), [shape[0], 1]);
            let want: Vec<i64> = x
                .values
                .outer_iter()
                .map(|row| defined(op, &row.iter().copied().collect::<Vec<_>>()))
                .collect();
            assert_eq!(rows.to_vec().expect("results"), want, "{op:?} of {shape:?}");
        }
        x.expect_unchanged().expect("an operand is only read");
    }
}

#[test]
fn bytes_are_counted_and_their_extremes_found() {
    for device in warpsmith::testing::devices() {
        check::<u8>(&device);
        check::<i8>(&device);
    }
}

#[test]
fn bytes_are_added_in_i64_and_their_means_are_f64() {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        let bytes = [200_u8, 255, 0, 7, 255, 255];
        let x = Tensor::from_slice(&device, &[2, 3], &bytes).expect("a tensor");
        let rows = |op| Reduce::new(op, &x).axis(1).run(&stream);
        let rows = |op| rows(op).and_then(|y| y.to_vec()).expect("results");
        assert_eq!(rows(ReduceOp::Sum), [455, 517]);
        assert_eq!(rows(ReduceOp::Max), [255, 255]);
        assert_eq!(rows(ReduceOp::Min), [0, 7]);
        assert_eq!(rows(ReduceOp::Prod), [0, 7 * 255 * 255]);
        let mean = Reduce::new(ReduceOp::Mean, &x).output::<f64>().run(&stream);
        assert_eq!(mean.and_then(|y| y.item()).expect("a mean"), 162.0);
        let signed = [-128_i8, 127, -1, 0, 5, -7];
        let x = Tensor::from_slice(&device, &[3, 2], &signed).expect("a tensor");
        let columns = |op| Reduce::new(op, &x.t()).axis(0).run(&stream);
        let columns = |op| columns(op).and_then(|y| y.to_vec()).expect("results");
        assert_eq!(columns(ReduceOp::Sum), [-1, -1, -2]);
        assert_eq!(columns(ReduceOp::NormInf), [128, 1, 7]);
        assert_eq!(columns(ReduceOp::Min), [-128, -1, -7]);
        let refused = Reduce::new(ReduceOp::Mean, &x).run(&stream);
        assert!(matches!(
            refused.as_ref().map_err(Error::root),
            Err(Error::Argument(ArgumentError::Value { .. }))
        ));
    }
}

#[test]
fn a_comparison_is_reduced_without_a_cast() {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        let x = Tensor::from_slice(&device, &[2, 3], &[1.0_f32, -2.0, 0.5, 4.0, 3.0, 0.0]);
        let x = x.expect("a tensor");
        let half = Tensor::from_slice(&device, &[1], &[0.25_f32]).expect("a number");
        let mask = Binary::new(BinaryOp::Gt, &x, &half)
            .output::<u8>()
            .run(&stream)
            .expect("a mask");
        let of = |op| Reduce::new(op, &mask).axis(1).output::<i64>().run(&stream);
        let of = |op| of(op).and_then(|y| y.to_vec()).expect("results");
        assert_eq!(of(ReduceOp::CountNonzero), [2, 2]);
        assert_eq!(of(ReduceOp::Any), [1, 1]);
        assert_eq!(of(ReduceOp::All), [0, 0]);
        assert_eq!(of(ReduceOp::Sum), [2, 2]);
    }
}
