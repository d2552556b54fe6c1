//! `Reduce` against its reference: every operation, any axes of any layout, special values, ties.

mod accuracy;
mod cluster;
mod counters;
mod extremes;
mod large;
mod masks;
mod pairs;
mod plans;
mod portable;
mod range;
mod rounded;
mod sections;
mod small;

use abi::reduce::DTYPES;
use half::bf16;
use ndarray::{ArrayD, Axis};
use proptest::prelude::*;
use serde::Deserialize;
use warpsmith::reference::Expected;
use warpsmith::reference::reduce::{Options, Reduced, integers, reduce};
use warpsmith::{ArgumentError, DType, Device, Error, Moments, Reduce, ReduceOp, Reducible};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::operation::{self, agrees, agrees_exactly, run_repeatedly};
use warpsmith_tests::output::{Output, wide};
use warpsmith_tests::property::{Effort, extent, holds};
use warpsmith_tests::rows::signed;
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, cases, say};

/// Calls a generic function with the element type of a dtype.
macro_rules! with_reducible {
    ($dtype:expr, $function:ident($($argument:expr),* $(,)?)) => {
        match $dtype {
            DType::F32 => $function::<f32>($($argument),*),
            DType::F16 => $function::<half::f16>($($argument),*),
            DType::Bf16 => $function::<half::bf16>($($argument),*),
            DType::F64 => $function::<f64>($($argument),*),
            DType::I32 => $function::<i32>($($argument),*),
            DType::I64 => $function::<i64>($($argument),*),
            other => Err(format!("no reduction reads {other}")),
        }
    };
}
pub(crate) use with_reducible;

#[derive(Clone, Debug, Deserialize)]
struct Case {
    shape: Vec<usize>,
    /// `None` means all axes.
    #[serde(default)]
    axes: Option<Vec<usize>>,
    #[serde(default)]
    keep_dims: bool,
    /// `None` means all operations.
    #[serde(default)]
    op: Option<String>,
    /// Whether the values are in f64.
    #[serde(default)]
    wide: bool,
    #[serde(default)]
    ddof: u64,
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
        with_reducible!(case.dtype, check_op(op, case, device))
            .map_err(|error| format!("{}: {error}", op.name()))?;
    }
    Ok(())
}

fn is_integer(dtype: DType) -> bool {
    matches!(dtype, DType::I32 | DType::I64)
}

/// An operand; integers have every magnitude, so that sums and products wrap.
pub(crate) fn operand<T: TestElement>(
    device: &Device,
    shape: &[usize],
    values: Values,
    view: View,
    seed: u64,
) -> Result<Operand<T>, String> {
    if !is_integer(T::DTYPE) || values == Values::Integers {
        return Operand::draw(device, shape, values, view, seed);
    }
    let scale = match T::DTYPE {
        DType::I32 => 31,
        _ => 50,
    };
    let drawn = Values::Wide.draw(shape, seed).mapv(|x| {
        let x = (x / 4096.0 * 2f64.powi(scale)).round();
        T::nearest(x).wide()
    });
    Operand::lay_out(device, drawn, view.writable_or_contiguous())
}

fn check_op<T: Reducible<Value: TestElement> + TestElement>(
    op: ReduceOp,
    case: &Case,
    device: &Device,
) -> Checked {
    let x = operand::<T>(device, &case.shape, case.values, case.view, case.seed)?;
    let mut operation = Reduce::new(op, &x.tensor);
    if let Some(axes) = &case.axes {
        let axes: Vec<isize> = axes
            .iter()
            .map(|&axis| signed(axis, case.shape.len()))
            .collect();
        operation = operation.axes(&axes);
    }
    if case.keep_dims {
        operation = operation.keep_dims();
    }
    let has_freedom = matches!(op, ReduceOp::Variance | ReduceOp::Std);
    let ddof = if has_freedom { case.ddof } else { 0 };
    operation = operation.ddof(ddof);
    let stream = device.stream().map_err(say)?;
    let axes = case.axes.as_deref();
    let keep = |array: ArrayD<f64>| kept(array, case);
    if is_integer(T::DTYPE) && op.is_of_integers() && !case.wide {
        let exact = x.values.mapv(|x| x as i64);
        let want = match integers(op, &exact.view(), axes) {
            Ok(want) => want,
            Err(refused) => return is_refused(&operation, &stream, &refused),
        };
        // f64 does not represent all 64-bit sums, so they are compared as integers.
        let shape = keep(want.mapv(|x| x as f64)).shape().to_vec();
        let want = want.into_shape_with_order(shape.clone()).map_err(say)?;
        return run_integers(&operation, &shape, case, device, &want);
    }
    let is_wide = (case.wide || is_integer(T::DTYPE)) && !op.is_index();
    let dtype = match is_wide {
        true => DType::F64,
        false => <T::Value as warpsmith::Element>::DTYPE,
    };
    let options = Options {
        ddof,
        dtype: if is_integer(dtype) { DType::F64 } else { dtype },
    };
    let model = operation.model().map_err(say)?;
    let want = match reduce(op, &x.values.view(), axes, &options, &model) {
        Ok(want) => want,
        Err(refused) => return is_refused(&operation, &stream, &refused),
    };
    match want {
        Reduced::Values(mut want) => {
            want.values = keep(want.values);
            want.bounds = keep(want.bounds);
            let shape = want.values.shape().to_vec();
            let got = if is_wide {
                let output = || Output::<f64>::new(device, &shape, case.view_y);
                wide(&run_repeatedly(output, |y| {
                    operation.output::<f64>().run_into(&y.tensor, &stream)
                })?)
            } else {
                let output = || Output::<T::Value>::new(device, &shape, case.view_y);
                wide(&run_repeatedly(output, |y| {
                    operation.run_into(&y.tensor, &stream)
                })?)
            };
            judge(op, case, &got, &want)
        }
        Reduced::Indices(want) => {
            let want = keep(want.mapv(|index| index as f64));
            let output = || Output::<i64>::new(device, want.shape(), case.view_y);
            let got = run_repeatedly(output, |y| {
                operation.output::<i64>().run_into(&y.tensor, &stream)
            })?;
            agrees_exactly(&got, &want)
        }
    }
}

/// The result with the reduced axes kept, if the case says so.
fn kept(array: ArrayD<f64>, case: &Case) -> ArrayD<f64> {
    if !case.keep_dims {
        return array;
    }
    let is_reduced = |axis: &usize| case.axes.as_ref().is_none_or(|axes| axes.contains(axis));
    let reduced = (0..case.shape.len()).filter(is_reduced);
    reduced.fold(array, |array, axis| array.insert_axis(Axis(axis)))
}

fn judge(op: ReduceOp, case: &Case, got: &ArrayD<f64>, want: &Expected) -> Checked {
    // Products overflow and underflow depending on their order, and then have no error bound.
    let agreement = want.compare(&got.view()).map_err(say)?;
    if agreement.unbounded > 0 && op != ReduceOp::Prod {
        return Err(format!("{} elements have no bound", agreement.unbounded));
    }
    let is_exact = matches!(op, ReduceOp::Sum | ReduceOp::Norm1);
    if case.values == Values::Integers && is_exact && got != want.values {
        return Err("a sum of small integers is not exact".into());
    }
    Ok(())
}

fn run_integers<T: Reducible<Value: TestElement> + TestElement>(
    operation: &Reduce<'_, T>,
    shape: &[usize],
    case: &Case,
    device: &Device,
    want: &ArrayD<i64>,
) -> Checked {
    let stream = device.stream().map_err(say)?;
    let bits: ArrayD<u64> = if operation.op().is_index() {
        let output = || Output::<i64>::new(device, shape, case.view_y);
        let got = run_repeatedly(output, |y| {
            operation.output::<i64>().run_into(&y.tensor, &stream)
        })?;
        got.mapv(TestElement::bits)
    } else {
        let output = || Output::<T::Value>::new(device, shape, case.view_y);
        let got = run_repeatedly(output, |y| operation.run_into(&y.tensor, &stream))?;
        got.mapv(TestElement::bits)
    };
    match bits == want.mapv(|x| x as u64) {
        true => Ok(()),
        false => Err(format!("{:?} instead of {want:?}", bits.mapv(|x| x as i64))),
    }
}

fn is_refused<T: Reducible>(
    operation: &Reduce<'_, T>,
    stream: &warpsmith::Stream,
    refused: &impl std::fmt::Display,
) -> Checked {
    let refusal = match operation.op().is_index() {
        true => operation.output::<i64>().run(stream).err(),
        false => operation.run(stream).err(),
    };
    match refusal.as_ref().map(Error::root) {
        Some(Error::Argument(ArgumentError::Value { .. })) => Ok(()),
        other => Err(format!(
            "the reference says {refused}; the operation {other:?}"
        )),
    }
}

fn case(largest: usize) -> impl Strategy<Value = Case> {
    // At most one long axis: three would give too many elements.
    let shape = prop_oneof![
        extent(largest * 8).prop_map(|n| vec![n]),
        (extent(largest), extent(40)).prop_map(|(a, b)| vec![a, b]),
        (extent(40), extent(largest)).prop_map(|(a, b)| vec![a, b]),
        (extent(12), extent(largest), extent(36)).prop_map(|(a, b, c)| vec![a, b, c]),
        // Many short rows of whole vectors.
        (1024..1100_usize, 1..=20_usize).prop_map(|(rows, n)| vec![rows, 4 * n]),
        (0..5_usize, 0..6_usize, 0..7_usize, 0..5_usize).prop_map(|s| vec![s.0, s.1, s.2, s.3]),
        Just(vec![]),
    ];
    let dtype = prop::sample::select(DTYPES.to_vec());
    let op = prop::sample::select(ReduceOp::ALL.to_vec());
    let views = (View::any(), View::writable());
    (
        shape,
        any::<u8>(),
        any::<[bool; 4]>(),
        op,
        dtype,
        views,
        Values::any(),
        any::<u32>(),
    )
        .prop_map(
            |(
                shape,
                axes,
                [some, keep_dims, wide, ddof],
                op,
                dtype,
                (view, view_y),
                values,
                seed,
            )| {
                let rank = shape.len();
                let axes = (0..rank).filter(|axis| axes >> axis & 1 == 1).collect();
                Case {
                    shape,
                    axes: some.then_some(axes),
                    keep_dims,
                    op: Some(op.name().into()),
                    wide,
                    ddof: u64::from(ddof),
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
            cases: [800, 4000],
            largest: [300, 20_000],
        },
        case,
        check,
    );
}

#[test]
fn reduce_matches_its_reference_on_the_table_of_cases() {
    cases::run(include_str!("../../cases/reduce.toml"), check);
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
            let index = |op, values: &ArrayD<f64>| {
                let x = Operand::<f32>::lay_out(&device, values.clone(), View::Contiguous);
                let x = x.expect("an operand");
                let index = Reduce::new(op, &x.tensor).output::<i64>().run(&stream);
                index.expect("an index").item().expect("one")
            };
            assert_eq!(index(ReduceOp::Argmax, &values), first as i64, "n {n}");
            assert_eq!(index(ReduceOp::Argmin, &-values), first as i64, "n {n}");
        }
    }
}

#[test]
fn special_values_are_treated_as_documented() {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let index = |op, x: &[f64], want: i64| (op, x.to_vec(), want as f64);
    let table = [
        index(ReduceOp::Argmax, &[1.0, nan, 9.0, nan], 1),
        index(ReduceOp::Argmin, &[1.0, nan, -9.0, nan], 1),
        index(ReduceOp::Argmax, &[-0.0, 0.0, -1.0], 0),
        index(ReduceOp::Argmin, &[0.0, -0.0, 1.0], 0),
        index(ReduceOp::Argmax, &[-inf, -inf], 0),
        index(ReduceOp::Argmin, &[inf, inf, inf], 0),
        index(ReduceOp::CountNonzero, &[0.0, -0.0, nan, inf, 1e-45], 3),
        index(ReduceOp::Any, &[0.0, -0.0], 0),
        index(ReduceOp::Any, &[-0.0, nan], 1),
        index(ReduceOp::All, &[1.0, -0.0], 0),
        index(ReduceOp::All, &[1.0, nan], 1),
        (ReduceOp::Max, vec![1.0, nan, inf], nan),
        (ReduceOp::Min, vec![-nan, 1.0, -inf], nan),
        (ReduceOp::Max, vec![-inf, -inf], -inf),
        (ReduceOp::Min, vec![inf, inf], inf),
        (ReduceOp::NormInf, vec![-inf, 3.0], inf),
        (ReduceOp::Sum, vec![inf, 1.0, 2.0], inf),
        (ReduceOp::Sum, vec![inf, -inf], nan),
        (ReduceOp::Mean, vec![-inf, 1.0], -inf),
        (ReduceOp::Prod, vec![0.0, inf], nan),
        (ReduceOp::Prod, vec![0.0, 1e20, 1e20, 1e20], 0.0),
        (ReduceOp::Norm2, vec![1e20, 1.0, 1.0], 1e20),
        (ReduceOp::Norm2, vec![1e-30, 0.0], 1e-30),
        (ReduceOp::Norm2, vec![-inf, 1.0], inf),
        (ReduceOp::Logsumexp, vec![0.0, inf], inf),
        (ReduceOp::Logsumexp, vec![-inf, -inf], -inf),
        (ReduceOp::Logsumexp, vec![-inf, 3.0], 3.0),
        (ReduceOp::Logsumexp, vec![nan, inf], nan),
        (ReduceOp::Variance, vec![1.0, inf], nan),
        (ReduceOp::Std, vec![5.0], 0.0),
        (ReduceOp::Norm2, vec![3.0, -4.0], 5.0),
    ];
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        for (op, values, want) in &table {
            // The values alone, after many others, and along the other axis.
            for (repeat, axis) in [(1, 0), (700, 0), (1, 1)] {
                let n = values.len();
                let shape = if axis == 0 {
                    vec![n * repeat, 1]
                } else {
                    vec![9, n]
                };
                let x = ArrayD::from_shape_fn(shape, |i| match axis {
                    0 => values[i[0] % n],
                    _ => values[i[1]],
                });
                let x = Operand::<f32>::lay_out(&device, x, View::Contiguous);
                let x = x.expect("an operand").tensor;
                let reduce = Reduce::new(*op, &x).axis(signed(axis, 2));
                let got: Vec<f64> = match op.is_index() {
                    true => wide(
                        &reduce
                            .output::<i64>()
                            .run(&stream)
                            .unwrap()
                            .to_ndarray()
                            .unwrap(),
                    ),
                    false => wide(&reduce.run(&stream).unwrap().to_ndarray().unwrap()),
                }
                .into_iter()
                .collect();
                let want = match op {
                    ReduceOp::CountNonzero => want * repeat as f64,
                    ReduceOp::Norm2 => want * (repeat as f64).sqrt(),
                    ReduceOp::Logsumexp if want.is_finite() => want + (repeat as f64).ln(),
                    _ => *want,
                };
                for got in got {
                    let is_same = got == want || (got.is_nan() && want.is_nan());
                    let is_near = (got - want).abs() <= 1e-5 * want.abs();
                    assert!(
                        is_same || is_near,
                        "{op:?} of {values:?} x {repeat}, axis {axis}: {got}, want {want}"
                    );
                }
            }
        }
    }
}

#[test]
fn the_mean_comes_with_the_variance() {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        for shape in [[7, 3000], [3000, 7]] {
            for axis in [0, 1] {
                let x = Operand::<bf16>::draw(&device, &shape, Values::Far, View::Contiguous, 3);
                let x = x.expect("an operand");
                let spread = Reduce::new(ReduceOp::Variance, &x.tensor)
                    .axis(signed(axis, 2))
                    .ddof(1);
                let Moments { value, mean } = spread.mean().run(&stream).expect("both");
                let model = spread.model().expect("a model");
                let options = Options {
                    ddof: 1,
                    ..Options::default()
                };
                for (op, got) in [(ReduceOp::Variance, value), (ReduceOp::Mean, mean)] {
                    let want = reduce(op, &x.values.view(), Some(&[axis]), &options, &model);
                    let Ok(Reduced::Values(want)) = want else {
                        panic!("{op:?} is a value")
                    };
                    let agreement = agrees(&got.to_ndarray().expect("the result"), &want);
                    agreement.unwrap_or_else(|error| panic!("{op:?}: {error}"));
                }
            }
        }
    }
}
