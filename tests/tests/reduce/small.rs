//! Few rows of up to 16 KiB, of which a block has one. Results are within their bounds for every
//! number of warps, and there is no instruction for vectors that are not there.

use abi::reduce::Variant;
use half::bf16;
use warpsmith::{DType, Device, Reduce, ReduceOp, Tensor};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::View;
use warpsmith_tests::profiled;
use warpsmith_tests::values::Values;

use super::cluster::OPS;
use super::portable::{portable, turing};
use super::{Case, check};

/// Vectors of 16 bytes: around those where a thread, a warp or a block has one more.
const VECTORS: [usize; 14] = [
    1, 2, 31, 32, 33, 96, 97, 127, 128, 129, 256, 257, 1023, 1024,
];

#[test]
fn rows_of_every_number_of_warps_match_the_reference() {
    for device in warpsmith::testing::devices() {
        for vectors in VECTORS {
            for rows in [1, 3] {
                within_bounds(&device, DType::F32, [rows, 4 * vectors]);
                within_bounds(&device, DType::Bf16, [rows, 8 * vectors]);
            }
        }
    }
}

fn within_bounds(device: &Device, dtype: DType, shape: [usize; 2]) {
    for op in OPS {
        for values in [Values::Wide, Values::Special] {
            let case = Case {
                shape: shape.to_vec(),
                axes: Some(vec![1]),
                keep_dims: false,
                op: Some(op.name().into()),
                wide: false,
                ddof: 0,
                dtype,
                view: View::Contiguous,
                view_y: View::Contiguous,
                values,
                seed: shape[1] as u64,
            };
            check(&case, device).unwrap_or_else(|error| panic!("{op:?} of {shape:?}: {error}"));
        }
    }
}

/// Sums and products of zeros have the sign that one number after the other gives.
#[test]
fn vectors_that_are_not_there_change_no_sign() {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        for vectors in [1, 5, 33, 300] {
            let shape = [4 * vectors];
            let x = Tensor::full(&stream, &shape, -0.0_f32).expect("a tensor");
            for (op, want) in [
                (ReduceOp::Max, -0.0_f32),
                (ReduceOp::Min, -0.0),
                (ReduceOp::NormInf, 0.0),
                (ReduceOp::Norm1, 0.0),
            ] {
                let got = Reduce::new(op, &x).run(&stream).expect("a reduction");
                let got = got.item().expect("one").to_bits();
                assert_eq!(got, want.to_bits(), "{op:?} of {vectors} vectors");
            }
        }
    }
}

/// A row's result does not depend on how many rows there are.
#[test]
fn rows_have_the_bits_that_they_have_alone() {
    let turing = turing(0);
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        let (rows, n) = (5, 8 * 77);
        let values = Values::Uniform.draw(&[rows, n], 3);
        let values: Vec<bf16> = values.iter().map(|&x| bf16::from_f64(x)).collect();
        let x = Tensor::from_slice(&device, &[rows, n], &values).expect("a tensor");
        let together = Reduce::new(ReduceOp::Sum, &x).axis(1).run(&stream);
        let together = together.expect("a reduction").to_vec().expect("the sums");
        for (row, want) in together.into_iter().enumerate() {
            let alone = Tensor::from_slice(&device, &[n], &values[row * n..][..n]);
            let alone = alone.expect("a row");
            let (form, got) = portable(ReduceOp::Sum, &alone, 0, &turing);
            assert_eq!((form, got), (Variant::Small, vec![want.bits()]));
        }
    }
}

/// A row of one warp takes neither shared memory nor a barrier, and each byte is read once.
#[test]
fn a_warp_waits_for_nobody() {
    let device = profiled();
    let stream = device.stream().expect("a stream");
    for vectors in [1, 100, 128, 129, 1024] {
        let x = Tensor::full(&stream, &[4 * vectors], 1.0_f32).expect("a tensor");
        drop(Reduce::new(ReduceOp::Sum, &x).run(&stream));
        let launch = device.last_launch().expect("a launch");
        let counters = launch.counters();
        assert_eq!(counters.global.loads.bytes, 16 * vectors as u64);
        let shared = counters.shared.bytes;
        assert_eq!(shared == 0, vectors <= 128, "{vectors} vectors: {shared}");
        assert_eq!(counters.shared.bank_conflicts, 0);
    }
}
