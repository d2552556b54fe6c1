//! Extremes: the signs of zeros; of bf16, which are taken two elements at a time, the bits that they
//! have one at a time.

use abi::reduce::Variant;
use half::{bf16, f16};
use warpsmith::{Device, Reduce, ReduceOp, Reducible, Tensor};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::values::Values;

use super::portable::{portable, turing};

/// Rows, their length, columns, and the form that their plan has. There are whole rows and rows in
/// parts, of whole batches and with remainders. Columns belong to a thread, a block or several
/// blocks.
const SHAPES: [([usize; 3], Variant); 12] = [
    ([1, 8 * 1025, 1], Variant::Long),
    ([1, 8 * 1279, 1], Variant::Long),
    ([1, 8 * 2300, 1], Variant::Long),
    ([3, 8 * 1025, 1], Variant::Long),
    ([2, 8 * 2048, 1], Variant::Long),
    ([5, 8 * 2053, 1], Variant::Long),
    ([1, 8 * 70_001, 1], Variant::Long),
    ([1, 300, 264], Variant::Columns),
    ([2, 37, 1024], Variant::Columns),
    ([1, 2500, 8 * 33], Variant::Columns),
    ([1, 9, 8 * 20_000], Variant::Columns),
    ([1, 3, 8 * 135_168], Variant::Columns),
];

#[test]
fn extremes_in_pairs_have_the_bits_of_single_elements() {
    let turing = turing(0);
    for device in warpsmith::testing::devices() {
        if device.arch() < (8, 0) {
            continue;
        }
        for (seed, (shape, form)) in SHAPES.into_iter().enumerate() {
            // All kinds of values where there are few, one after the other for the rest.
            let kinds = [Values::Wide, Values::Special, Values::Tiny];
            let kinds = match shape.iter().product::<usize>() < 500_000 {
                true => &kinds[..],
                false => &kinds[seed % 3..][..1],
            };
            for values in kinds {
                let drawn = values.draw(&shape, seed as u64);
                let x = Operand::<bf16>::lay_out(&device, drawn, View::Contiguous);
                same_bits(&device, &turing, &x.expect("an operand").tensor, form);
            }
        }
    }
}

/// Ends of the range, and what a comparison may take for another: alone in a row, at either place of
/// a pair, and beside each other.
#[test]
fn extremes_of_rare_values_have_the_bits_of_single_elements() {
    let rare = [
        bf16::NAN,
        bf16::NEG_INFINITY,
        bf16::INFINITY,
        bf16::NEG_ZERO,
        bf16::ZERO,
        bf16::from_bits(1),
        bf16::from_bits(0x8001),
        bf16::from_bits(0xffff),
        bf16::MAX,
        bf16::MIN,
    ];
    const N: usize = 16 * 1024;
    let turing = turing(0);
    for device in warpsmith::testing::devices() {
        if device.arch() < (8, 0) {
            continue;
        }
        for (i, &rest) in rare.iter().enumerate() {
            for (k, &one) in rare.iter().enumerate() {
                let mut xs = vec![rest; N];
                xs[(i * 811 + k * 4093) % N] = one;
                let rows = Tensor::from_slice(&device, &[1, N, 1], &xs).expect("a tensor");
                same_bits(&device, &turing, &rows, Variant::Long);
                let columns = Tensor::from_slice(&device, &[1, N / 256, 256], &xs);
                let columns = columns.expect("a tensor");
                same_bits(&device, &turing, &columns, Variant::Columns);
            }
        }
    }
}

/// +0 is more than -0, so extremes of zeros are zeros that are there.
#[test]
fn extremes_of_zeros_have_their_signs() {
    /// Rows, their length, columns: rows that a thread, a warp or a block has, with and without
    /// whole vectors, and columns.
    const SHAPES: [[usize; 3]; 6] = [
        [2000, 16, 1],
        [3, 5, 1],
        [3, 1031, 1],
        [1, 8 * 2053, 1],
        [1, 300, 264],
        [2, 40, 7],
    ];
    fn check<T>(device: &Device, zeros: [T; 2])
    where
        T: Reducible<Value: TestElement> + TestElement,
    {
        let stream = device.stream().expect("a stream");
        for shape in SHAPES {
            let len = shape.iter().product();
            let of = |op, xs: &[T]| {
                let x = Tensor::from_slice(device, &shape, xs).expect("a tensor");
                let results = Reduce::new(op, &x)
                    .axes(&[1])
                    .run(&stream)
                    .expect("a reduction");
                results.to_vec().expect("the results")
            };
            let [minus, plus] = zeros;
            let one = |zero: T, other: T| {
                // In the middle of each row, and so in each column.
                let [_, n, inner] = shape;
                let is_one = |i: usize| i / inner % n == n / 2;
                (0..len)
                    .map(|i| if is_one(i) { other } else { zero })
                    .collect::<Vec<_>>()
            };
            for (op, xs, is_minus) in [
                (ReduceOp::Max, one(minus, minus), true),
                (ReduceOp::Max, one(minus, plus), false),
                (ReduceOp::Max, one(plus, minus), false),
                (ReduceOp::Min, one(plus, plus), false),
                (ReduceOp::Min, one(plus, minus), true),
                (ReduceOp::Min, one(minus, plus), true),
                (ReduceOp::NormInf, one(minus, minus), false),
                (ReduceOp::Sum, one(minus, minus), false),
            ] {
                for result in of(op, &xs) {
                    let result = result.wide();
                    assert_eq!(result, 0.0);
                    assert_eq!(
                        result.is_sign_negative(),
                        is_minus,
                        "{op:?} {shape:?} {}",
                        T::DTYPE
                    );
                }
            }
        }
    }
    for device in warpsmith::testing::devices() {
        check::<f32>(&device, [-0.0, 0.0]);
        check::<f64>(&device, [-0.0, 0.0]);
        check::<f16>(&device, [f16::NEG_ZERO, f16::ZERO]);
        check::<bf16>(&device, [bf16::NEG_ZERO, bf16::ZERO]);
    }
}

/// Holds the results over the second axis to those of the kernels that any device has.
fn same_bits(device: &Device, turing: &Device, x: &Tensor<bf16>, form: Variant) {
    let stream = device.stream().expect("a stream");
    let shape = x.shape();
    for op in [ReduceOp::Max, ReduceOp::Min, ReduceOp::NormInf] {
        let results = Reduce::new(op, x).axes(&[1]).run(&stream);
        let results = results.expect("a reduction").to_vec();
        let got: Vec<u64> = results
            .expect("the results")
            .into_iter()
            .map(f32::bits)
            .collect();
        let (planned, want) = portable(op, x, 1, turing);
        assert_eq!(planned, form, "{shape:?}");
        let name = device.name();
        let other = got.iter().zip(&want).position(|(got, want)| got != want);
        let other = other.map(|at| (at, got[at], want[at]));
        assert_eq!(other, None, "{op:?} of {shape:?} on {name}");
    }
}
