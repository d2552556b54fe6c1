//! `Softmax` against its reference: any axis of any layout, in place, special values.

use proptest::prelude::*;
use serde::Deserialize;
use warpsmith::reference::softmax::softmax;
use warpsmith::{DType, Device, Float, Softmax};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::operation::{self, agrees, run_twice};
use warpsmith_tests::output::{Output, same_bits};
use warpsmith_tests::property::{Effort, extent, holds};
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, cases, say, with_float};

#[derive(Clone, Debug, Deserialize)]
struct Case {
    shape: Vec<usize>,
    /// None: the last.
    #[serde(default)]
    axis: Option<usize>,
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
    with_float!(case.dtype, check_typed(case, device))
}

fn check_typed<T: Float + TestElement>(case: &Case, device: &Device) -> Checked {
    let x = Operand::<T>::draw(device, &case.shape, case.values, case.view, case.seed)?;
    let mut operation = Softmax::new(&x.tensor);
    if let Some(axis) = case.axis {
        operation = operation.axis(axis);
    }
    let stream = device.stream().map_err(say)?;
    let model = operation.model().map_err(say)?;
    let axis = case.axis.unwrap_or(case.shape.len() - 1);
    let values = x.values.clone();
    let wide_values = values.view();
    let want = softmax(&wide_values, axis, T::DTYPE, &model).map_err(say)?;
    let output = || Output::<T>::new(device, &case.shape, case.view_y);
    let got = run_twice(output, |y| operation.run_into(&y.tensor, &stream))?;
    agrees(&got, &want)?;
    // In place; where the layout is another one, sums may be taken in another order.
    let x = Output::with(device, &x.values.mapv(|x| T::from_f64(x)), case.view_y)?;
    let in_place = Softmax::new(&x.tensor).axis(axis);
    let model = in_place.model().map_err(say)?;
    let want = softmax(&wide_values, axis, T::DTYPE, &model).map_err(say)?;
    in_place.run_into(&x.tensor, &stream).map_err(say)?;
    let again = x.read()?;
    agrees(&again, &want).map_err(|error| format!("in place: {error}"))?;
    match case.view == case.view_y {
        true => same_bits(&got, &again).map_err(|error| format!("in place: {error}")),
        false => Ok(()),
    }
}

fn case(largest: usize) -> impl Strategy<Value = Case> {
    let shape = prop_oneof![
        extent(largest * 8).prop_map(|n| vec![n]),
        (extent(40), extent(largest)).prop_map(|(a, b)| vec![a, b]),
        (extent(largest), extent(40)).prop_map(|(a, b)| vec![a, b]),
        (extent(7), extent(17), extent(33)).prop_map(|(a, b, c)| vec![a, b, c]),
    ];
    let dtype = prop::sample::select(vec![DType::F32, DType::F16, DType::Bf16]);
    let views = (View::any(), View::writable());
    let axis = prop::option::of(any::<prop::sample::Index>());
    (shape, axis, dtype, views, Values::any(), any::<u32>()).prop_map(
        |(shape, axis, dtype, (view, view_y), values, seed)| Case {
            axis: axis.map(|axis| axis.index(shape.len())),
            shape,
            dtype,
            view,
            view_y,
            values,
            seed: u64::from(seed),
        },
    )
}

#[test]
fn softmax_matches_its_reference_for_every_axis_layout_and_dtype() {
    holds(
        Effort {
            cases: 300,
            largest: [300, 20_000],
        },
        case,
        check,
    );
}

#[test]
fn softmax_matches_its_reference_on_the_table_of_cases() {
    cases::run(include_str!("../cases/softmax.toml"), check);
}
