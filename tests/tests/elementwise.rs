//! `Unary`, `Binary`, `cast`, `contiguous` and `assign` against their references: every function,
//! dtype, layout, broadcast; special values.

use ndarray::ArrayD;
use proptest::prelude::*;
use serde::Deserialize;
use warpsmith::reference::elementwise::{binary, erf, erfc, unary};
use warpsmith::{Binary, BinaryOp, DType, Device, Float, Tensor, Unary, UnaryOp};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::operation::{self, agrees, agrees_exactly, run_twice};
use warpsmith_tests::output::{Output, same_bits};
use warpsmith_tests::property::{Effort, extent, holds};
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, cases, say, with_float};

#[derive(Clone, Debug, Deserialize)]
struct Case {
    shape: Vec<usize>,
    /// Extents of the second operand that are 1 instead; missing ones are not.
    #[serde(default)]
    broadcast: Vec<bool>,
    #[serde(deserialize_with = "operation::dtype")]
    dtype: DType,
    /// Of both operands and the result.
    #[serde(default)]
    views: [View; 3],
    #[serde(default)]
    values: Values,
    #[serde(default)]
    scalar: f32,
    #[serde(default)]
    seed: u64,
}

/// The function's definition.
fn definition(op: UnaryOp, scalar: f64) -> impl Fn(f64) -> f64 {
    use std::f64::consts::{FRAC_1_SQRT_2, PI};
    move |x| match op {
        UnaryOp::Neg => -x,
        UnaryOp::Abs => x.abs(),
        UnaryOp::Exp => x.exp(),
        UnaryOp::Log => x.ln(),
        UnaryOp::Sqrt => x.sqrt(),
        UnaryOp::Rsqrt => 1.0 / x.sqrt(),
        UnaryOp::Rcp => 1.0 / x,
        UnaryOp::Relu if x.is_nan() => x,
        UnaryOp::Relu => x.max(0.0),
        UnaryOp::Gelu => 0.5 * x * erfc(-x * FRAC_1_SQRT_2),
        // 1 + tanh y = 2 / (1 + exp(-2 y)), without cancellation.
        UnaryOp::GeluTanh => {
            x / (1.0 + (-2.0 * (2.0 / PI).sqrt() * (x + 0.044715 * x * x * x)).exp())
        }
        UnaryOp::Silu => x * (1.0 / (1.0 + (-x).exp())),
        UnaryOp::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        UnaryOp::Tanh => x.tanh(),
        UnaryOp::Sin => x.sin(),
        UnaryOp::Cos => x.cos(),
        UnaryOp::Erf => erf(x),
        UnaryOp::Square => x * x,
        UnaryOp::Scale => x * scalar,
        UnaryOp::Offset => x + scalar,
    }
}

fn check_unary(op: UnaryOp, case: &Case, device: &Device) -> Checked {
    fn typed<T: Float + TestElement>(op: UnaryOp, case: &Case, device: &Device) -> Checked {
        let x = Operand::<T>::draw(device, &case.shape, case.values, case.views[0], case.seed)?;
        let mut operation = Unary::new(op, &x.tensor);
        if matches!(op, UnaryOp::Scale | UnaryOp::Offset) {
            operation = operation.scalar(case.scalar);
        }
        let stream = device.stream().map_err(say)?;
        let output = || Output::<T>::new(device, &case.shape, case.views[2]);
        let got = run_twice(output, |y| operation.run_into(&y.tensor, &stream))?;
        let f = definition(op, f64::from(case.scalar));
        let want = unary(&x.values.view(), T::DTYPE, f64::from(op.ulps()), f);
        agrees(&got, &want)?;
        if matches!(op, UnaryOp::Neg | UnaryOp::Abs) {
            // Signs of zeros too, which values do not tell apart.
            let signs = want
                .values
                .iter()
                .zip(&got)
                .filter(|(want, _)| !want.is_nan());
            for (want, got) in signs {
                if want.is_sign_negative() != got.wide().is_sign_negative() {
                    return Err(format!("{want} has the wrong sign"));
                }
            }
        }
        let in_place = Output::with(device, &x.values.mapv(|x| T::from_f64(x)), case.views[2])?;
        let mut operation = Unary::new(op, &in_place.tensor);
        if matches!(op, UnaryOp::Scale | UnaryOp::Offset) {
            operation = operation.scalar(case.scalar);
        }
        operation.run_into(&in_place.tensor, &stream).map_err(say)?;
        same_bits(&got, &in_place.read()?).map_err(|error| format!("in place: {error}"))
    }
    with_float!(case.dtype, typed(op, case, device))
        .map_err(|error| format!("{}: {error}", op.name()))
}

fn check_binary(op: BinaryOp, case: &Case, device: &Device) -> Checked {
    fn typed<T: Float + TestElement>(op: BinaryOp, case: &Case, device: &Device) -> Checked {
        let broadcast = case.broadcast.iter().chain(std::iter::repeat(&false));
        let extents = case.shape.iter().zip(broadcast);
        let shape_b: Vec<usize> = extents
            .map(|(&extent, &one)| if one { 1 } else { extent })
            .collect();
        let a = Operand::<T>::draw(device, &case.shape, case.values, case.views[0], case.seed)?;
        let b = Operand::<T>::draw(device, &shape_b, case.values, case.views[1], case.seed + 1)?;
        let stream = device.stream().map_err(say)?;
        let f = |x: f64, y: f64| match op {
            BinaryOp::Add => x + y,
            BinaryOp::Sub => x - y,
            BinaryOp::Mul => x * y,
            BinaryOp::Div => x / y,
            _ if x.is_nan() || y.is_nan() => f64::NAN,
            BinaryOp::Max => x.max(y),
            BinaryOp::Min => x.min(y),
        };
        let ulps = f64::from(op.ulps());
        let want = binary(&a.values.view(), &b.values.view(), T::DTYPE, ulps, f).map_err(say)?;
        let shape = want.values.shape().to_vec();
        let output = || Output::<T>::new(device, &shape, case.views[2]);
        let operation = Binary::new(op, &a.tensor, &b.tensor);
        let got = run_twice(output, |y| operation.run_into(&y.tensor, &stream))?;
        agrees(&got, &want)
    }
    with_float!(case.dtype, typed(op, case, device))
        .map_err(|error| format!("{}: {error}", op.name()))
}

/// Casts to every dtype, copies, assignments: exact.
fn check_moves(case: &Case, device: &Device) -> Checked {
    fn typed<T: Float + TestElement>(case: &Case, device: &Device) -> Checked {
        fn cast<T: Float, U: Float + TestElement>(x: &Tensor<T>, values: &ArrayD<f64>) -> Checked {
            let stream = x.device().stream().map_err(say)?;
            let got = x
                .cast::<U>(&stream)
                .map_err(say)?
                .to_ndarray()
                .map_err(say)?;
            agrees_exactly(&got, values).map_err(|error| format!("to {}: {error}", U::DTYPE))
        }
        let x = Operand::<T>::draw(device, &case.shape, case.values, case.views[0], case.seed)?;
        cast::<T, f32>(&x.tensor, &x.values)?;
        cast::<T, half::f16>(&x.tensor, &x.values)?;
        cast::<T, half::bf16>(&x.tensor, &x.values)?;
        let stream = device.stream().map_err(say)?;
        let copy = x.tensor.contiguous(&stream).map_err(say)?;
        if !copy.is_contiguous() {
            return Err("the copy is not contiguous".into());
        }
        let want = x.values.mapv(|x| T::from_f64(x));
        same_bits(&want, &copy.to_ndarray().map_err(say)?)?;
        let y = Output::<T>::new(device, &case.shape, case.views[2])?;
        y.tensor.assign(&x.tensor, &stream).map_err(say)?;
        same_bits(&want, &y.read()?)
    }
    with_float!(case.dtype, typed(case, device))
}

fn case(largest: usize) -> impl Strategy<Value = Case> {
    let shape = prop_oneof![
        extent(largest * 8).prop_map(|n| vec![n]),
        (extent(largest), extent(20)).prop_map(|(a, b)| vec![a, b]),
        (extent(9), extent(17), extent(20)).prop_map(|(a, b, c)| vec![a, b, c]),
        prop::collection::vec(0..4_usize, 0..=8),
    ];
    let dtype = prop::sample::select(vec![DType::F32, DType::F16, DType::Bf16]);
    let views = (View::any(), View::any(), View::writable());
    let scalar = prop::sample::select(vec![0.0_f32, -1.5, 3.0, 1e-30]);
    (
        shape,
        any::<[bool; 8]>(),
        dtype,
        views,
        Values::any(),
        scalar,
        any::<u32>(),
    )
        .prop_map(
            |(shape, broadcast, dtype, views, values, scalar, seed)| Case {
                broadcast: broadcast[..shape.len()].to_vec(),
                shape,
                dtype,
                views: [views.0, views.1, views.2],
                values,
                scalar,
                seed: u64::from(seed),
            },
        )
}

#[test]
fn unary_functions_are_within_their_ulps_for_every_layout_and_dtype() {
    let op = prop::sample::select(UnaryOp::ALL.to_vec());
    let effort = Effort {
        cases: 400,
        largest: [100, 20_000],
    };
    holds(
        effort,
        |n| (op.clone(), case(n)),
        |(op, case), device| check_unary(*op, case, device),
    );
}

#[test]
fn every_unary_function_survives_special_values() {
    for device in warpsmith::testing::devices() {
        for op in UnaryOp::ALL {
            for dtype in [DType::F32, DType::F16, DType::Bf16] {
                for values in [Values::Special, Values::Tiny, Values::Wide] {
                    let case = Case {
                        shape: vec![300],
                        broadcast: vec![false],
                        dtype,
                        views: [View::Contiguous; 3],
                        values,
                        scalar: -0.75,
                        seed: 7,
                    };
                    check_unary(op, &case, &device)
                        .unwrap_or_else(|error| panic!("{dtype} {values:?} on {device}: {error}"));
                }
            }
        }
    }
}

#[test]
fn binary_functions_broadcast_and_are_within_their_ulps() {
    let op = prop::sample::select(BinaryOp::ALL.to_vec());
    let effort = Effort {
        cases: 300,
        largest: [100, 20_000],
    };
    holds(
        effort,
        |n| (op.clone(), case(n)),
        |(op, case), device| check_binary(*op, case, device),
    );
}

#[test]
fn casts_and_copies_are_exact_for_every_layout_and_dtype() {
    let effort = Effort {
        cases: 200,
        largest: [100, 20_000],
    };
    holds(effort, case, check_moves);
}

#[test]
fn elementwise_matches_its_reference_on_the_table_of_cases() {
    cases::run(
        include_str!("../cases/elementwise.toml"),
        |case: &Case, device| {
            for op in UnaryOp::ALL {
                check_unary(op, case, device)?;
            }
            for op in BinaryOp::ALL {
                check_binary(op, case, device)?;
            }
            check_moves(case, device)
        },
    );
}
