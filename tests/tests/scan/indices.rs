//! Running maxima and minima with their indices.

use super::{Case, case};
use half::{bf16, f16};
use ndarray::{ArrayD, Axis};
use proptest::prelude::*;
use warpsmith::testing::devices;
use warpsmith::{
    ArgumentError, DType, Device, Error, Reducible, RunningExtremes, Scan, ScanOp, Tensor,
};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::Operand;
use warpsmith_tests::output::{Output, same_bits};
use warpsmith_tests::property::{Effort, holds};
use warpsmith_tests::rows::signed;
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, say};

/// Indices as torch's `cummax` and `cummin` have them.
fn check_indices<T: Reducible + TestElement>(case: &Case, device: &Device) -> Checked {
    let values = match T::DTYPE {
        DType::I32 | DType::I64 => Values::Integers,
        _ => case.values,
    };
    let x = Operand::<T>::draw(device, &case.shape, values, case.views[0], case.seed)?;
    let stream = device.stream().map_err(say)?;
    let axis = signed(case.axis, case.shape.len());
    let scan = Scan::new(case.op, &x.tensor).axis(axis);
    let values = Output::<T>::new(device, &case.shape, case.views[1])?;
    let indices = Output::<i64>::new(device, &case.shape, case.views[1])?;
    let out = RunningExtremes {
        values: values.tensor.clone(),
        indices: indices.tensor.clone(),
    };
    scan.indices().run_into(&out, &stream).map_err(say)?;
    let alone = scan
        .run(&stream)
        .and_then(|y| y.to_ndarray())
        .map_err(say)?;
    same_bits(&values.read()?, &alone)?;
    let mut want = ArrayD::<i64>::zeros(&case.shape[..]);
    let lanes = x.values.lanes(Axis(case.axis)).into_iter();
    for (x, mut want) in lanes.zip(want.lanes_mut(Axis(case.axis))) {
        let mut last = 0;
        for i in 0..x.len() {
            let is_beyond = match case.op {
                ScanOp::Max => x[i] >= x[last],
                _ => x[i] <= x[last],
            };
            if x[i].is_nan() || is_beyond {
                last = i;
            }
            want[i] = last as i64;
        }
    }
    let got = indices.read()?;
    let again = scan.indices().run(&stream).map_err(say)?;
    match (
        got == want,
        again.indices.to_ndarray().map_err(say)? == want,
    ) {
        (true, true) => x.expect_unchanged(),
        _ => Err(format!("{got:?} instead of {want:?}")),
    }
}

#[test]
fn indices_are_those_of_the_last_of_equal_extremes_and_of_nan() {
    let effort = Effort {
        cases: [150, 600],
        largest: [300, 60_000],
    };
    let of = |largest| {
        (case(largest), any::<bool>()).prop_map(|(case, is_max)| Case {
            op: if is_max { ScanOp::Max } else { ScanOp::Min },
            ..case
        })
    };
    holds(effort, of, |case, device| match case.dtype {
        DType::F32 => check_indices::<f32>(case, device),
        DType::F16 => check_indices::<f16>(case, device),
        DType::Bf16 => check_indices::<bf16>(case, device),
        DType::F64 => check_indices::<f64>(case, device),
        DType::I32 => check_indices::<i32>(case, device),
        _ => check_indices::<i64>(case, device),
    });
}

#[test]
fn zeros_of_both_signs_are_equal_extremes() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        let x = [-1.0_f32, 0.0, -0.0, -2.0, f32::NAN, 3.0, f32::NAN, 4.0];
        let x = Tensor::from_slice(&device, &[8], &x).expect("a tensor");
        let indices = |op| {
            let out = Scan::new(op, &x).indices().run(&stream).expect("launches");
            out.indices.to_vec().expect("indices")
        };
        assert_eq!(indices(ScanOp::Max), [0, 1, 2, 2, 4, 4, 6, 6]);
        assert_eq!(indices(ScanOp::Min), [0, 0, 0, 3, 4, 4, 6, 6]);
    }
}

#[test]
fn other_scans_have_no_indices() {
    let device = Device::emulator().expect("an emulator");
    let stream = device.stream().expect("a stream");
    let x = Tensor::<f32>::zeros(&stream, &[4]).expect("a tensor");
    for scan in [
        Scan::new(ScanOp::Sum, &x),
        Scan::new(ScanOp::Prod, &x),
        Scan::new(ScanOp::Logsumexp, &x),
        Scan::new(ScanOp::Max, &x).exclusive(),
    ] {
        let error = scan.indices().run(&stream).expect_err("no indices");
        let is_unsupported = matches!(
            error.root(),
            Error::Argument(ArgumentError::Unsupported { .. })
        );
        assert!(is_unsupported, "{error}");
    }
}
