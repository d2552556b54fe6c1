//! Products and norms that leave the range of their type on the way, by every kernel.

use half::bf16;
use warpsmith::testing::devices;
use warpsmith::{Device, Reduce, ReduceOp, Reducible, Stream, Tensor};
use warpsmith_tests::element::TestElement;

/// Rows or columns for which each variant of the kernel is made, and the axis.
const SHAPES: [([usize; 2], isize); 6] = [
    ([2, 3], 1),
    ([300, 16], 1),
    ([4, 2048], 1),
    ([1, 70_000], 1),
    ([1000, 64], 0),
    ([3, 333], 1),
];

/// The results of every candidate.
fn by_every_kernel<T>(op: ReduceOp, x: &Tensor<T>, axis: isize, stream: &Stream) -> Vec<f64>
where
    T: Reducible<Value: TestElement>,
{
    let reduce = Reduce::new(op, x).axis(axis);
    let plan = reduce.plan(stream).expect("a plan");
    let names = plan
        .candidates()
        .iter()
        .map(|candidate| candidate.name.clone());
    let results = names.flat_map(|name| {
        let y = reduce.with_kernel(&name).run(stream).expect("a result");
        y.to_vec().expect("numbers")
    });
    results.map(TestElement::wide).collect()
}

/// Every element is `all`, but those with the row-major number `at` modulo the extent of an axis.
fn tensor<T: TestElement>(
    device: &Device,
    shape: [usize; 2],
    axis: isize,
    all: f64,
    [at, other]: [f64; 2],
) -> Tensor<T> {
    let element = |i: usize| match axis {
        0 => i / shape[1],
        _ => i % shape[1],
    };
    let values: Vec<T> = (0..shape[0] * shape[1])
        .map(|i| {
            T::nearest(if element(i) == at as usize {
                other
            } else {
                all
            })
        })
        .collect();
    Tensor::from_slice(device, &shape, &values).expect("a tensor")
}

fn check<T: Reducible<Value: TestElement> + TestElement>(device: &Device, large: f64) {
    let stream = device.stream().expect("a stream");
    for (shape, axis) in SHAPES {
        let n = shape[axis as usize];
        let what = format!("{} {shape:?} on {device}", T::DTYPE);
        let of = |op, all, other| {
            let x = tensor::<T>(device, shape, axis, all, other);
            by_every_kernel(op, &x, axis, &stream)
        };
        for at in [0, n - 1].map(|at| at as f64) {
            for got in of(ReduceOp::Prod, large, [at, 0.0]) {
                assert_eq!(got, 0.0, "a product with 0 at {at}: {what}");
            }
            for got in of(ReduceOp::Prod, -large, [at, f64::INFINITY]) {
                assert!(
                    got.is_infinite(),
                    "a product with inf at {at}: {what}: {got}"
                );
            }
            for (all, other) in [(0.0, f64::INFINITY), (large, f64::NAN), (0.0, f64::NAN)] {
                for got in of(ReduceOp::Prod, all, [at, other]) {
                    assert!(
                        got.is_nan(),
                        "a product of {all} and {other}: {what}: {got}"
                    );
                }
            }
            for got in of(ReduceOp::Norm2, large, [at, f64::NEG_INFINITY]) {
                assert_eq!(got, f64::INFINITY, "a norm with -inf: {what}");
            }
            for got in of(ReduceOp::Norm2, large, [at, f64::NAN]) {
                assert!(got.is_nan(), "a norm with NaN: {what}: {got}");
            }
        }
        let epsilon = if large > 1e100 { 1e-13 } else { 3e-6 };
        for (all, other) in [
            (large, 1.0),
            (1.0, large),
            (1.0 / large, 1.0 / large),
            (1.0 / large, 1.0),
            (1.0 / large, 0.0),
            (0.0, 0.0),
        ] {
            let [all, other] = [all, other].map(|x| T::nearest(x).wide());
            let want = all.max(other) * {
                let [all, other] = [all, other].map(|x| x / all.max(other).max(f64::MIN_POSITIVE));
                (all * all * (n - 1) as f64 + other * other).sqrt()
            };
            for got in of(ReduceOp::Norm2, all, [1.0_f64.min((n - 1) as f64), other]) {
                let error = (got - want).abs();
                assert!(
                    error <= epsilon * want,
                    "the norm of {all:e} and {other:e} is {got:e}, want {want:e}: {what}"
                );
            }
        }
    }
}

#[test]
fn products_with_0_are_0_and_norms_neither_overflow_nor_vanish() {
    for device in devices() {
        check::<f32>(&device, 1e20);
        check::<bf16>(&device, 1e30);
        check::<f64>(&device, 1e200);
    }
}

#[test]
fn the_product_of_0_to_57_is_0() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let values: Vec<f32> = (0..58).map(|i| i as f32).collect();
        let x = Tensor::from_slice(&device, &[58], &values).expect("a tensor");
        let y = Reduce::new(ReduceOp::Prod, &x).run(&stream);
        assert_eq!(y.and_then(|y| y.item()).expect("a number"), 0.0);
        let values = [1e20_f32, 1.0, 1.0];
        let x = Tensor::from_slice(&device, &[3], &values).expect("a tensor");
        let norm = Reduce::new(ReduceOp::Norm2, &x).run(&stream);
        assert_eq!(norm.and_then(|y| y.item()).expect("a number"), 1e20);
        let wide = Reduce::new(ReduceOp::Norm2, &x)
            .output::<f64>()
            .run(&stream);
        let wide = wide.and_then(|y| y.item()).expect("a number");
        assert_eq!(wide, f64::from(1e20_f32), "on {device}");
        let sums = Tensor::from_slice(&device, &[4], &[3e38_f32, -3e38, 3e38, -3e38]);
        let sums = sums.expect("a tensor");
        let sum = Reduce::new(ReduceOp::Sum, &sums)
            .output::<f64>()
            .run(&stream);
        assert_eq!(sum.and_then(|y| y.item()).expect("a number"), 0.0);
    }
}
