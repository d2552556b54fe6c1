//! `Reduce` against its reference: every operation, any axis of any layout, special values, ties.

use ndarray::{ArrayD, Axis};
use proptest::prelude::*;
use serde::Deserialize;
use warpsmith::reference::reduce::{Reduced, reduce};
use warpsmith::{DType, Device, Error, Float, Reduce, ReduceOp};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::operation::{self, agrees, agrees_exactly, run_twice};
use warpsmith_tests::output::Output;
use warpsmith_tests::property::{Effort, extent, holds};
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, cases, say, with_float};

#[derive(Clone, Debug, Deserialize)]
struct Case {
    shape: Vec<usize>,
    /// None: everything.
    #[serde(default)]
    axis: Option<usize>,
    #[serde(default)]
    keep_dims: bool,
    /// None: all of them.
    #[serde(default)]
    op: Option<String>,
    #[serde(deserialize_with = "operation::dtype")]
    dtype: DType,
    #[serde(default)]
    view: View,
    #[serde(default)]
    view_y: View,
    #[serde(default)]
    values: Values,
    #[serde(default)]
    seed: u64,
}

fn check(case: &Case, device: &Device) -> Checked {
    let is_meant = |op: &ReduceOp| case.op.as_ref().is_none_or(|name| name == op.name());
    let ops: Vec<ReduceOp> = ReduceOp::ALL.into_iter().filter(is_meant).collect();
    if ops.is_empty() {
        return Err(format!("no reduction is called {:?}", case.op));
    }
    for op in ops {
        with_float!(case.dtype, check_op(op, case, device))
            .map_err(|error| format!("{}: {error}", op.name()))?;
    }
    Ok(())
}

fn check_op<T: Float + TestElement>(op: ReduceOp, case: &Case, device: &Device) -> Checked {
    let x = Operand::<T>::draw(device, &case.shape, case.values, case.view, case.seed)?;
    let mut operation = Reduce::new(op, &x.tensor);
    if let Some(axis) = case.axis {
        operation = operation.axis(axis);
    }
    if case.keep_dims {
        operation = operation.keep_dims();
    }
    let stream = device.stream().map_err(say)?;
    let model = operation.model().map_err(say)?;
    let want = match reduce(op, &x.values.view(), case.axis, &model) {
        Ok(want) => want,
        Err(refused) => {
            let refusal = match op.is_index() {
                true => operation.run_indices(&stream).err(),
                false => operation.run(&stream).err(),
            };
            return match refusal {
                Some(Error::InvalidValue { .. }) => Ok(()),
                other => Err(format!(
                    "the reference says {refused}; the operation {other:?}"
                )),
            };
        }
    };
    let keep = |array: ArrayD<f64>| match (case.keep_dims, case.axis) {
        (false, _) => array,
        (true, Some(axis)) => array.insert_axis(Axis(axis)),
        (true, None) => (0..case.shape.len()).fold(array, |array, _| array.insert_axis(Axis(0))),
    };
    match want {
        Reduced::Values(mut want) => {
            want.values = keep(want.values);
            want.bounds = keep(want.bounds);
            let shape = want.values.shape().to_vec();
            let output = || Output::<f32>::new(device, &shape, case.view_y);
            let got = run_twice(output, |y| operation.run_into(&y.tensor, &stream))?;
            agrees(&got, &want)?;
            if case.values == Values::Integers && op == ReduceOp::Sum {
                agrees_exactly(&got, &want.values)?;
            }
            Ok(())
        }
        Reduced::Indices(want) => {
            let want = keep(want.mapv(|index| index as f64));
            let output = || Output::<i64>::new(device, want.shape(), case.view_y);
            let got = run_twice(output, |y| operation.run_indices_into(&y.tensor, &stream))?;
            agrees_exactly(&got, &want)
        }
    }
}

fn case(largest: usize) -> impl Strategy<Value = Case> {
    // One long axis at most: three of them are too many elements.
    let shape = prop_oneof![
        extent(largest * 8).prop_map(|n| vec![n]),
        (extent(largest), extent(40)).prop_map(|(a, b)| vec![a, b]),
        (extent(40), extent(largest)).prop_map(|(a, b)| vec![a, b]),
        (extent(12), extent(largest), extent(36)).prop_map(|(a, b, c)| vec![a, b, c]),
        (0..5_usize, 0..6_usize, 0..7_usize, 0..5_usize).prop_map(|s| vec![s.0, s.1, s.2, s.3]),
        Just(vec![]),
    ];
    let dtype = prop::sample::select(vec![DType::F32, DType::F16, DType::Bf16]);
    let op = prop::sample::select(ReduceOp::ALL.to_vec());
    let views = (View::any(), View::writable());
    (
        shape,
        any::<prop::sample::Index>(),
        any::<[bool; 2]>(),
        op,
        dtype,
        views,
        Values::any(),
        any::<u32>(),
    )
        .prop_map(
            |(shape, axis, [one_axis, keep_dims], op, dtype, (view, view_y), values, seed)| {
                let axis = (one_axis && !shape.is_empty()).then(|| axis.index(shape.len()));
                Case {
                    shape,
                    axis,
                    keep_dims,
                    op: Some(op.name().into()),
                    dtype,
                    view,
                    view_y,
                    values,
                    seed: u64::from(seed),
                }
            },
        )
}

#[test]
fn reduce_matches_its_reference_for_every_operation_axis_and_dtype() {
    holds(
        Effort {
            cases: 400,
            largest: [300, 20_000],
        },
        case,
        check,
    );
}

#[test]
fn reduce_matches_its_reference_on_the_table_of_cases() {
    cases::run(include_str!("../cases/reduce.toml"), check);
}

#[test]
fn of_equal_elements_the_lowest_index_counts() {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        for (n, first) in [(5, 0), (100, 33), (3000, 1999), (40_000, 17_000)] {
            let mut values = ArrayD::from_elem(vec![n], 1.0);
            for index in (first..n).step_by(7) {
                values[index] = 2.0;
            }
            let x = Operand::<f32>::lay_out(&device, values.clone(), View::Contiguous);
            let x = x.expect("an operand");
            let largest = Reduce::new(ReduceOp::Argmax, &x.tensor).run_indices(&stream);
            assert_eq!(
                largest.expect("argmax").item().expect("one"),
                first as i64,
                "n {n}"
            );
            let x = Operand::<f32>::lay_out(&device, -values, View::Contiguous);
            let x = x.expect("an operand");
            let least = Reduce::new(ReduceOp::Argmin, &x.tensor).run_indices(&stream);
            assert_eq!(
                least.expect("argmin").item().expect("one"),
                first as i64,
                "n {n}"
            );
        }
    }
}
