//! `Softmax`, `LogSoftmax` and their gradients against their references: any axis of any layout, in
//! place, special values, every way to hold a row.

use half::bf16;
use ndarray::ArrayD;
use proptest::prelude::*;
use serde::Deserialize;
use warpsmith::reference::Model;
use warpsmith::reference::softmax::{log_softmax, softmax};
use warpsmith::reference::softmax_grad::{log_softmax_grad, softmax_grad};
use warpsmith::{
    DType, Device, Float, LogSoftmax, LogSoftmaxGrad, Softmax, SoftmaxGrad, Stream, Tensor,
};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::operation::{self, agrees, by_candidate, run_repeatedly};
use warpsmith_tests::output::{Output, same_bits};
use warpsmith_tests::property::{Effort, extent, holds};
use warpsmith_tests::rows::RowAxes;
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, cases, say, with_float};

#[derive(Clone, Debug, Deserialize)]
struct Case {
    shape: Vec<usize>,
    #[serde(default)]
    axes: RowAxes,
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
    /// Log-softmax instead of softmax.
    #[serde(default)]
    log: bool,
    /// Number of the candidate that runs, for the operation and for its gradient.
    #[serde(default)]
    candidate: Option<usize>,
}

impl Case {
    fn run<T: Float>(
        &self,
        x: &Tensor<T>,
        y: &Tensor<T>,
        stream: &Stream,
    ) -> warpsmith::Result<()> {
        macro_rules! run {
            ($op:expr) => {{
                let op = match &self.axes.signed(x.rank())[..] {
                    [] => $op,
                    [axis] => $op.axis(*axis),
                    axes => $op.axes(axes),
                };
                by_candidate(op.plan(stream), self.candidate, |name| match name {
                    Some(name) => op.clone().with_kernel(name).run_into(y, stream),
                    None => op.run_into(y, stream),
                })
            }};
        }
        match self.log {
            false => run!(Softmax::new(x)),
            true => run!(LogSoftmax::new(x)),
        }
    }

    fn run_grad<T: Float>(
        &self,
        [y, dy, dx]: [&Tensor<T>; 3],
        stream: &Stream,
    ) -> warpsmith::Result<()> {
        macro_rules! run {
            ($op:expr) => {{
                let op = match &self.axes.signed(y.rank())[..] {
                    [] => $op,
                    axes => $op.axes(axes),
                };
                by_candidate(op.plan(stream), self.candidate, |name| match name {
                    Some(name) => op.clone().with_kernel(name).run_into(dx, stream),
                    None => op.run_into(dx, stream),
                })
            }};
        }
        match self.log {
            false => run!(SoftmaxGrad::new(y, dy)),
            true => run!(LogSoftmaxGrad::new(y, dy)),
        }
    }

    fn model<T: Float>(&self, x: &Tensor<T>) -> Result<Model, String> {
        let softmax = match self.axes.0.is_empty() {
            true => Softmax::new(x),
            false => Softmax::new(x).axes(&self.axes.signed(x.rank())),
        };
        softmax.model().map_err(say)
    }
}

fn check(case: &Case, device: &Device) -> Checked {
    with_float!(case.dtype, check_typed(case, device))
}

fn check_typed<T: Float + TestElement>(case: &Case, device: &Device) -> Checked {
    let x = Operand::<T>::draw(device, &case.shape, case.values, case.view, case.seed)?;
    let stream = device.stream().map_err(say)?;
    let model = case.model(&x.tensor)?;
    let reference = if case.log { log_softmax } else { softmax };
    let rows = case.axes.rows(&x.values);
    let want = reference(&rows.view(), 1, T::DTYPE, &model).map_err(say)?;
    let output = || Output::<T>::new(device, &case.shape, case.view_y);
    let got = run_repeatedly(output, |y| case.run(&x.tensor, &y.tensor, &stream))?;
    agrees(&case.axes.rows(&got), &want)?;
    x.expect_unchanged()?;
    // In place. With another layout, sums may be formed in another order.
    let x = Output::with(device, &x.values.mapv(|x| T::from_f64(x)), case.view_y)?;
    case.run(&x.tensor, &x.tensor, &stream).map_err(say)?;
    let again = x.read()?;
    agrees(&case.axes.rows(&again), &want).map_err(|error| format!("in place: {error}"))?;
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
    let model = case.model(&y.tensor)?;
    let reference = if case.log {
        log_softmax_grad
    } else {
        softmax_grad
    };
    let [y_rows, dy_rows] = [&y, &dy].map(|of| case.axes.rows(&of.values));
    let want = reference(&y_rows.view(), &dy_rows.view(), 1, T::DTYPE, &model).map_err(say)?;
    let output = || Output::<T>::new(device, &case.shape, case.view_y);
    let got = run_repeatedly(output, |dx| {
        case.run_grad([&y.tensor, &dy.tensor, &dx.tensor], &stream)
    })?;
    agrees(&case.axes.rows(&got), &want)?;
    let dx = Output::with(device, &dy.values.mapv(|x| T::from_f64(x)), case.view_y)?;
    let in_place = [&y.tensor, &dx.tensor, &dx.tensor];
    case.run_grad(in_place, &stream).map_err(say)?;
    agrees(&case.axes.rows(&dx.read()?), &want).map_err(|error| format!("in place: {error}"))
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
    let shape = shape.prop_flat_map(|shape| (RowAxes::any(shape.len()), Just(shape)));
    let rest = (Values::any(), any::<u32>(), any::<bool>());
    (shape, dtype, views, rest).prop_map(
        |((axes, shape), dtype, (view, view_y), (values, seed, log))| Case {
            axes,
            shape,
            dtype,
            view,
            view_y,
            values,
            seed: u64::from(seed),
            log,
            candidate: None,
        },
    )
}

#[test]
fn softmax_matches_its_reference_for_every_axis_layout_and_dtype() {
    holds(
        Effort {
            cases: [300, 1500],
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

#[test]
fn every_candidate_matches_the_reference() {
    for device in warpsmith::testing::devices() {
        for (rows, n, dtype) in [
            (5, 64, DType::Bf16),
            (3, 2048, DType::F32),
            (2, 9000, DType::Bf16),
            (3, 77, DType::F16),
        ] {
            for candidate in 0..5 {
                let case = Case {
                    shape: vec![rows, n],
                    axes: RowAxes::default(),
                    dtype,
                    view: View::Contiguous,
                    view_y: View::Contiguous,
                    values: Values::Uniform,
                    seed: n as u64,
                    log: n == 2048,
                    candidate: Some(candidate),
                };
                check(&case, &device).unwrap_or_else(|error| panic!("{case:?}: {error}"));
            }
        }
    }
}

/// Rows that begin anywhere, by every candidate: in registers, in slices of one block and of several,
/// and element by element.
#[test]
fn rows_that_begin_anywhere_match_the_reference() {
    for device in warpsmith::testing::devices() {
        for (rows, n, dtype) in [
            (5, 5, DType::Bf16),
            (9, 77, DType::F16),
            (6, 333, DType::Bf16),
            (3, 1001, DType::F32),
            (3, 2056, DType::Bf16),
            (2, 9001, DType::F16),
            (2, 60_001, DType::Bf16),
        ] {
            for (view, view_y) in View::ANYWHERE {
                for candidate in 0..4 {
                    let case = Case {
                        shape: vec![rows, n],
                        axes: RowAxes::default(),
                        dtype,
                        view,
                        view_y,
                        values: Values::Uniform,
                        seed: n as u64,
                        log: n % 4 == 1,
                        candidate: Some(candidate),
                    };
                    check(&case, &device).unwrap_or_else(|error| panic!("{case:?}: {error}"));
                }
            }
        }
    }
}

/// Where the maximum times log2(e) overflows, in slices of one block and of sixteen: all that counts
/// is how many elements are the largest.
#[test]
fn logits_near_the_largest_number_have_a_softmax() {
    for device in warpsmith::testing::devices() {
        for n in [20_000, 20_001, 250_000, 250_001] {
            huge::<f32>(&device, n).unwrap_or_else(|error| panic!("f32, {n}: {error}"));
            huge::<bf16>(&device, n).unwrap_or_else(|error| panic!("bf16, {n}: {error}"));
        }
    }
}

fn huge<T: Float + TestElement>(device: &Device, n: usize) -> Checked {
    let stream = device.stream().map_err(say)?;
    for largest in [-1.0, 1.0, 3.0, 6.0] {
        // Multiples of 2^125 up to the largest one, which itself is rare; 2^127.6 is 6 of them.
        let multiple = |i: usize| match i % 4999 {
            0 => largest,
            at => largest - 1.0 - (at % 4) as f64,
        };
        let at = |i: ndarray::IxDyn| multiple(i[1]) * 2f64.powi(125);
        let x = ArrayD::from_shape_fn(&[2, n][..], at);
        let x = Operand::<T>::lay_out(device, x, View::Contiguous)?;
        let y = Output::<T>::new(device, &[2, n], View::Contiguous)?;
        let op = Softmax::new(&x.tensor);
        op.run_into(&y.tensor, &stream).map_err(say)?;
        let model = op.model().map_err(say)?;
        let want = softmax(&x.values.view(), 1, T::DTYPE, &model).map_err(say)?;
        agrees(&y.read()?, &want).map_err(|error| format!("up to {largest}: {error}"))?;
    }
    Ok(())
}

/// Masks of any finite size beside logits that count, and rows of nothing but a mask: in registers,
/// in slices of one block and of several.
#[test]
fn masked_rows_have_a_softmax() {
    for device in warpsmith::testing::devices() {
        for n in [1_000, 1_001, 9_000, 60_000, 60_001] {
            masked::<f32>(&device, n).unwrap_or_else(|error| panic!("f32, {n}: {error}"));
            masked::<bf16>(&device, n).unwrap_or_else(|error| panic!("bf16, {n}: {error}"));
        }
    }
}

fn masked<T: Float + TestElement>(device: &Device, n: usize) -> Checked {
    let stream = device.stream().map_err(say)?;
    let masks: [f64; 14] = [
        -1e5, -1e7, -1e8, -7e8, -1.07e9, -1.4e9, -1.48e9, -1.5e9, -3e9, -1e10, -1e12, -1e20, -1e30,
        -3e38,
    ];
    // In each second row all is masked; half of the rows have the mask's positive in its place.
    let at = |i: ndarray::IxDyn| {
        let mask = masks[i[0] / 4];
        match (i[0] % 4, i[1] % (n / 8)) {
            (0, 0) => 1.0,
            (2, 0) => (-2.0 * mask).min(3.3e38),
            (2 | 3, _) => -mask,
            _ => mask,
        }
    };
    let shape = [4 * masks.len(), n];
    let x = Operand::<T>::lay_out(
        device,
        ArrayD::from_shape_fn(&shape[..], at),
        View::Contiguous,
    )?;
    let y = Output::<T>::new(device, &shape, View::Contiguous)?;
    let op = Softmax::new(&x.tensor);
    op.run_into(&y.tensor, &stream).map_err(say)?;
    let model = op.model().map_err(say)?;
    let want = softmax(&x.values.view(), 1, T::DTYPE, &model).map_err(say)?;
    agrees(&y.read()?, &want)
}

#[test]
fn log_softmax_of_long_rows_is_not_above_0() {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        for n in [2, 100, 8192, 20_000] {
            let mut values = vec![0.0_f32; n];
            for maximum in [0.1, 1.7, 20.0, 100.0, 3e9] {
                values[0] = maximum;
                let x = Tensor::from_slice(&device, &[1, n], &values).expect("a tensor");
                let op = LogSoftmax::new(&x);
                let plan = op.plan(&stream).expect("a plan");
                for candidate in plan.candidates() {
                    let y = op.with_kernel(&candidate.name).run(&stream);
                    let y = y.and_then(|y| y.to_vec()).expect("numbers");
                    let largest = y.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                    assert!(
                        largest <= 0.0,
                        "{largest:e} of {n}, {maximum}: {candidate:?}"
                    );
                }
            }
        }
    }
}
