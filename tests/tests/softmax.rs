//! `Softmax`, `LogSoftmax` and their gradients against their references: any axis of any layout, in
//! place, special values, every way of holding a row.

use ndarray::ArrayD;
use proptest::prelude::*;
use serde::Deserialize;
use warpsmith::reference::softmax::{log_softmax, softmax};
use warpsmith::reference::softmax_grad::{log_softmax_grad, softmax_grad};
use warpsmith::{
    DType, Device, Float, LogSoftmax, LogSoftmaxGrad, Softmax, SoftmaxGrad, Stream, Tensor,
};
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
    /// The logarithm.
    #[serde(default)]
    log: bool,
}

impl Case {
    fn axis(&self) -> usize {
        self.axis.unwrap_or(self.shape.len() - 1)
    }

    fn run<T: Float>(
        &self,
        x: &Tensor<T>,
        y: &Tensor<T>,
        stream: &Stream,
    ) -> warpsmith::Result<()> {
        match (self.log, self.axis) {
            (false, None) => Softmax::new(x).run_into(y, stream),
            (false, Some(axis)) => Softmax::new(x).axis(axis).run_into(y, stream),
            (true, None) => LogSoftmax::new(x).run_into(y, stream),
            (true, Some(axis)) => LogSoftmax::new(x).axis(axis).run_into(y, stream),
        }
    }

    fn run_grad<T: Float>(
        &self,
        [y, dy, dx]: [&Tensor<T>; 3],
        stream: &Stream,
    ) -> warpsmith::Result<()> {
        match self.log {
            false => SoftmaxGrad::new(y, dy)
                .axis(self.axis())
                .run_into(dx, stream),
            true => LogSoftmaxGrad::new(y, dy)
                .axis(self.axis())
                .run_into(dx, stream),
        }
    }
}

fn check(case: &Case, device: &Device) -> Checked {
    with_float!(case.dtype, check_typed(case, device))
}

fn check_typed<T: Float + TestElement>(case: &Case, device: &Device) -> Checked {
    let x = Operand::<T>::draw(device, &case.shape, case.values, case.view, case.seed)?;
    let stream = device.stream().map_err(say)?;
    let model = Softmax::new(&x.tensor)
        .axis(case.axis())
        .model()
        .map_err(say)?;
    let reference = if case.log { log_softmax } else { softmax };
    let want = reference(&x.values.view(), case.axis(), T::DTYPE, &model).map_err(say)?;
    let output = || Output::<T>::new(device, &case.shape, case.view_y);
    let got = run_twice(output, |y| case.run(&x.tensor, &y.tensor, &stream))?;
    agrees(&got, &want)?;
    x.expect_unchanged()?;
    // In place; where the layout is another one, sums may be taken in another order.
    let x = Output::with(device, &x.values.mapv(|x| T::from_f64(x)), case.view_y)?;
    case.run(&x.tensor, &x.tensor, &stream).map_err(say)?;
    let again = x.read()?;
    agrees(&again, &want).map_err(|error| format!("in place: {error}"))?;
    if case.view == case.view_y {
        same_bits(&got, &again).map_err(|error| format!("in place: {error}"))?;
    }
    check_gradient::<T>(case, device, &got.mapv(TestElement::wide))
        .map_err(|e| format!("gradient: {e}"))
}

fn check_gradient<T: Float + TestElement>(
    case: &Case,
    device: &Device,
    y: &ArrayD<f64>,
) -> Checked {
    let stream = device.stream().map_err(say)?;
    let view = case.view.writable_or_contiguous();
    let y = Operand::<T>::lay_out(device, y.clone(), view)?;
    let dy = Operand::<T>::draw(device, &case.shape, case.values, case.view, case.seed ^ 1)?;
    let model = SoftmaxGrad::new(&y.tensor, &dy.tensor)
        .axis(case.axis())
        .model()
        .map_err(say)?;
    let reference = if case.log {
        log_softmax_grad
    } else {
        softmax_grad
    };
    let views = (y.values.view(), dy.values.view());
    let want = reference(&views.0, &views.1, case.axis(), T::DTYPE, &model).map_err(say)?;
    let output = || Output::<T>::new(device, &case.shape, case.view_y);
    let got = run_twice(output, |dx| {
        case.run_grad([&y.tensor, &dy.tensor, &dx.tensor], &stream)
    })?;
    agrees(&got, &want)?;
    let dx = Output::with(device, &dy.values.mapv(|x| T::from_f64(x)), case.view_y)?;
    let in_place = [&y.tensor, &dx.tensor, &dx.tensor];
    case.run_grad(in_place, &stream).map_err(say)?;
    agrees(&dx.read()?, &want).map_err(|error| format!("in place: {error}"))
}

fn case(largest: usize) -> impl Strategy<Value = Case> {
    let shape = prop_oneof![
        extent(largest * 8).prop_map(|n| vec![n]),
        (extent(40), extent(largest)).prop_map(|(a, b)| vec![a, b]),
        (extent(9), extent(largest / 8)).prop_map(|(a, b)| vec![a, b * 8]),
        (extent(largest), extent(40)).prop_map(|(a, b)| vec![a, b]),
        (extent(7), extent(17), extent(33)).prop_map(|(a, b, c)| vec![a, b, c]),
    ];
    let dtype = prop::sample::select(vec![DType::F32, DType::F16, DType::Bf16]);
    let views = (View::any(), View::writable());
    let axis = prop::option::of(any::<prop::sample::Index>());
    let rest = (Values::any(), any::<u32>(), any::<bool>());
    (shape, axis, dtype, views, rest).prop_map(
        |(shape, axis, dtype, (view, view_y), (values, seed, log))| Case {
            axis: axis.map(|axis| axis.index(shape.len())),
            shape,
            dtype,
            view,
            view_y,
            values,
            seed: u64::from(seed),
            log,
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
