//! Results in the elements' dtype: those of `run`, rounded once.

use abi::reduce::Variant;
use half::{bf16, f16};
use warpsmith::{ArgumentError, Device, Element, Error, Reduce, ReduceOp, Reducible, Tensor};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::rows::signed;
use warpsmith_tests::values::Values;

use super::portable::variant;

/// So many columns that a thread has whole ones, and stores 16 bytes of results at a time.
const WHOLE_COLUMNS: usize = 1_100_000;

/// A shape, the axis (or all), and the form of kernel that it takes.
const CASES: [(&[usize], Option<usize>, Variant); 13] = [
    (&[7], None, Variant::General),
    (&[5, 3], Some(1), Variant::General),
    (&[300, 9], Some(0), Variant::General),
    (&[3, 40, 16], Some(1), Variant::General),
    (&[2000, 1000], Some(1), Variant::General),
    (&[1030, 16], Some(1), Variant::Short),
    (&[1030, 128], Some(1), Variant::Short),
    (&[3, 8192], Some(1), Variant::Small),
    (&[3, 16_384], Some(1), Variant::Long),
    (&[40_000], None, Variant::Long),
    (&[2, 300_000], Some(1), Variant::Long),
    (&[700, 512], Some(0), Variant::Columns),
    (&[2, WHOLE_COLUMNS], Some(0), Variant::Columns),
];

#[test]
fn results_are_those_of_run_rounded_once() {
    for device in warpsmith::testing::devices() {
        for (shape, axis, form) in CASES {
            rounds::<f16>(&device, shape, axis, form, f16::from_f32);
            rounds::<bf16>(&device, shape, axis, form, bf16::from_f32);
        }
    }
}

fn rounds<T: Reducible<Value = f32> + TestElement>(
    device: &Device,
    shape: &[usize],
    axis: Option<usize>,
    form: Variant,
    round: impl Fn(f32) -> T,
) {
    let stream = device.stream().expect("a stream");
    // Some of the forms have entries for bf16 alone.
    let has_form = T::DTYPE == bf16::DTYPE;
    let is_small = shape.iter().product::<usize>() < 1_000_000;
    let is_value = |op: &ReduceOp| !op.is_index() && (is_small || *op == ReduceOp::Norm2);
    let kinds = [(Values::Wide, 1), (Values::Special, 2)];
    // One kind for each dtype where there are many.
    let kinds = match (is_small, has_form) {
        (true, _) => &kinds[..],
        (false, true) => &kinds[1..],
        (false, false) => &kinds[..1],
    };
    for &(values, seed) in kinds {
        let x = Operand::<T>::draw(device, shape, values, View::Contiguous, seed);
        let x = x.expect("an operand").tensor;
        for op in ReduceOp::ALL.into_iter().filter(is_value) {
            let of = |reduce: Reduce<'_, T>| match axis {
                Some(axis) => reduce.axis(signed(axis, shape.len())).run(&stream),
                None => reduce.run(&stream),
            };
            let reduce = Reduce::new(op, &x);
            let reduce = axis.map_or(reduce, |axis| reduce.axis(signed(axis, shape.len())));
            if matches!(op, ReduceOp::Sum | ReduceOp::Norm2) && has_form {
                let plan = reduce.plan(&stream).expect("a plan");
                let chosen = plan.chosen().expect("a reduction");
                let got = match variant(&chosen.entry) {
                    Variant::Cluster => Variant::Long, // the same parts
                    other => other,
                };
                assert_eq!(got, form, "{shape:?}");
            }
            let full = of(Reduce::new(op, &x)).expect("a reduction");
            let got = reduce.output::<T>().run(&stream).expect("a reduction");
            assert_eq!(got.shape(), full.shape());
            let full = full.to_vec().expect("values");
            let got = got.to_vec().expect("values");
            for (i, (&got, &full)) in got.iter().zip(&full).enumerate() {
                let want = round(full);
                let are_nan = got.wide().is_nan() && full.is_nan();
                assert!(
                    are_nan || got.bits() == want.bits(),
                    "{op:?} of {shape:?}, {}: result {i} is {got:?} of {full}",
                    T::DTYPE
                );
            }
        }
    }
}

#[test]
fn outputs_may_begin_anywhere() {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        let [n, columns] = [3, WHOLE_COLUMNS];
        let xs: Vec<bf16> = (0..n * columns)
            .map(|i| bf16::from_f32((i % 7) as f32))
            .collect();
        let x = Tensor::from_slice(&device, &[n, columns], &xs).expect("a tensor");
        let sums = Reduce::new(ReduceOp::Sum, &x).axis(0).output::<bf16>();
        let want = sums.run(&stream).expect("sums").to_vec().expect("values");
        // Not on a multiple of 16 bytes; and every other element.
        let y = Tensor::full(&stream, &[columns + 3], bf16::MAX).expect("a tensor");
        let shifted = y.slice(0, 1..columns + 1).expect("a view");
        sums.run_into(&shifted, &stream).expect("sums");
        assert_eq!(shifted.to_vec().expect("values"), want);
        let beside = y.to_vec().expect("values");
        assert_eq!([beside[0], beside[columns + 1]], [bf16::MAX; 2]);
        let y = Tensor::full(&stream, &[columns, 2], bf16::MAX).expect("a tensor");
        let strided = y.slice(1, 0..1).expect("a view");
        let sums = sums.keep_dims();
        let strided = strided.t();
        sums.run_into(&strided, &stream).expect("sums");
        assert_eq!(strided.to_vec().expect("values"), want);
    }
}

#[test]
fn other_dtypes_have_results_of_their_own() {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        let x = Tensor::from_slice(&device, &[3], &[1.5_f32, 2.0, 4.0]).expect("a tensor");
        let sum = Reduce::new(ReduceOp::Sum, &x).output::<f32>().run(&stream);
        assert_eq!(sum.expect("a sum").item().expect("one"), 7.5_f32);
        let x = Tensor::from_slice(&device, &[2], &[1_i64 << 40, 3]).expect("a tensor");
        let sum = Reduce::new(ReduceOp::Sum, &x).output::<i64>().run(&stream);
        assert_eq!(sum.expect("a sum").item().expect("one"), (1 << 40) + 3);
        let x = Tensor::from_slice(&device, &[2], &[1_i32, 3]).expect("a tensor");
        let refused = Reduce::new(ReduceOp::Sum, &x).output::<i32>().run(&stream);
        let error = refused.expect_err("i32 has results of i64");
        assert!(
            matches!(error.root(), Error::Argument(ArgumentError::Value { .. })),
            "{error}"
        );
        assert!(
            error.to_string().contains("is i32, want i64 or f64"),
            "{error}"
        );
        let refused = Reduce::new(ReduceOp::Argmax, &x)
            .output::<i32>()
            .run(&stream);
        let error = refused.expect_err("an index is i64");
        assert!(
            matches!(error.root(), Error::Argument(ArgumentError::Value { .. })),
            "{error}"
        );
    }
}
