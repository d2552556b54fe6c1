//! Launches over tensors far larger than L2 read by another cache policy, and some by another
//! kernel. Their results have the bits of the same tensors in parts, which are small.

use half::bf16;
use std::ops::Range;
use warpsmith::testing::devices;
use warpsmith::{
    Binary, BinaryOp, Device, Element, LayerNorm, RmsNorm, Softmax, SoftmaxGrad, Stream, Tensor,
    Unary, UnaryOp,
};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::output::same_bits;

/// A part of a tensor is its rows by this. It reads and writes far less than the whole.
const PARTS: usize = 50;

/// The first, a middle and the last part of so many rows.
fn parts(rows: usize) -> [Range<usize>; 3] {
    let part = rows / PARTS;
    [0..part, rows / 2..rows / 2 + part, rows - part..rows]
}

/// Rows of `n` elements that take `bytes` and a little more.
fn rows<T: Element>(bytes: u64, n: usize) -> usize {
    ((bytes / (n * size_of::<T>()) as u64) as usize + 3).max(PARTS)
}

/// Rows of numbers between -1 and 1 that do not repeat from row to row.
fn numbers(stream: &Stream, shape: [usize; 2]) -> Tensor<bf16> {
    let number = |i: usize| {
        let mixed = (i as u32).wrapping_mul(0x9e37_79b9);
        bf16::from_f32((mixed >> 8) as f32 / 2_f32.powi(23) - 1.0)
    };
    let values: Vec<bf16> = (0..shape[0] * shape[1]).map(number).collect();
    Tensor::from_slice(stream.device(), &shape, &values).expect("a tensor")
}

/// Holds the result for all rows against the results for parts of them alone.
#[track_caller]
fn holds_for_parts<T: TestElement>(
    inputs: &[&Tensor<bf16>],
    what: &str,
    run: impl Fn(&[Tensor<bf16>]) -> Tensor<T>,
) {
    let whole: Vec<Tensor<bf16>> = inputs.iter().map(|&x| x.clone()).collect();
    let whole = run(&whole);
    for range in parts(inputs[0].shape()[0]) {
        let parts = inputs.iter().map(|x| x.slice(0, range.clone()));
        let parts: Vec<Tensor<bf16>> = parts.collect::<Result<_, _>>().expect("rows of it");
        let want = run(&parts).to_ndarray().expect("elements");
        let got = whole.slice(0, range.clone()).expect("rows of it");
        let got = got.to_ndarray().expect("elements");
        same_bits(&want, &got).unwrap_or_else(|error| panic!("{what}, rows {range:?}: {error}"));
    }
}

fn check_rows(device: &Device, n: usize) {
    let stream = device.stream().expect("a stream");
    // A quarter more than the launches with one input need, which is half of what they move.
    let bytes = 6 * device.info().l2_bytes * 5 / 8;
    let shape = [rows::<bf16>(bytes, n), n];
    let (x, dy) = (numbers(&stream, shape), numbers(&stream, shape));
    let weight = numbers(&stream, [1, n]).reshape(&[n]).expect("a row");
    let bias = weight.clone();
    holds_for_parts(&[&x], &format!("softmax of {n}"), |x| {
        Softmax::new(&x[0]).run(&stream).expect("probabilities")
    });
    holds_for_parts(&[&x, &dy], &format!("its gradient of {n}"), |x| {
        let gradient = SoftmaxGrad::new(&x[0], &x[1]);
        gradient.run(&stream).expect("a gradient")
    });
    holds_for_parts(&[&x], &format!("RMS norm of {n}"), |x| {
        let norm = RmsNorm::new(&x[0]).weight(&weight);
        norm.run(&stream).expect("rows")
    });
    holds_for_parts(&[&x], &format!("layer norm of {n}"), |x| {
        let norm = LayerNorm::new(&x[0]).weight(&weight).bias(&bias);
        norm.run(&stream).expect("rows")
    });
}

#[test]
fn rows_have_the_bits_of_their_parts() {
    for device in devices() {
        for n in [1024, 2048, 8192, 40_960] {
            check_rows(&device, n);
        }
    }
}

#[test]
fn elementwise_results_have_the_bits_of_their_parts() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let bytes = 6 * device.info().l2_bytes * 5 / 8;
        // Not a whole number of chunks.
        let shape = [rows::<bf16>(bytes, 1001), 1001];
        let (x, y) = (numbers(&stream, shape), numbers(&stream, shape));
        for op in [UnaryOp::Relu, UnaryOp::Gelu] {
            holds_for_parts(&[&x], &format!("{op:?}"), |x| {
                Unary::new(op, &x[0]).run(&stream).expect("values")
            });
        }
        holds_for_parts(&[&x, &y], "a sum", |x| {
            let sum = Binary::new(BinaryOp::Add, &x[0], &x[1]);
            sum.run(&stream).expect("values")
        });
        holds_for_parts(&[&x], "a cast", |x| {
            x[0].cast::<f32>(&stream).expect("values")
        });
    }
}

#[test]
fn transposes_move_every_element_of_large_matrices() {
    fn check<T: TestElement>(device: &Device, of: fn(u64) -> T) {
        let stream = device.stream().expect("a stream");
        let bytes = 6 * device.info().l2_bytes * 5 / 8;
        let columns = 520;
        let shape = [rows::<T>(bytes, columns), columns];
        let mixed = |i: usize| (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7;
        let values: Vec<T> = (0..shape[0] * columns).map(|i| of(mixed(i))).collect();
        let x = Tensor::from_slice(device, &shape, &values).expect("a matrix");
        let turned = x.t().contiguous(&stream).expect("its transpose");
        for range in parts(shape[0]) {
            let want = x.slice(0, range.clone()).expect("rows of it");
            let got = turned.t().slice(0, range).expect("rows of it");
            let (want, got) = (want.to_ndarray(), got.to_ndarray());
            same_bits(&want.expect("elements"), &got.expect("elements"))
                .unwrap_or_else(|error| panic!("{} bytes each: {error}", size_of::<T>()));
        }
    }
    for device in devices() {
        check(&device, |x| x as u8);
        check(&device, |x| bf16::from_bits(x as u16));
        check(&device, |x| x as i32);
        check(&device, |x| x as i64);
    }
}
