//! Functions of one and two elements, and gradients: every function, dtype, layout and broadcast;
//! special values.

use proptest::prelude::*;
use warpsmith::reference::elementwise::{binary, erf, erfc, gradient, unary};
use warpsmith::{
    Arithmetic, Binary, BinaryOp, DType, Device, Float, GradOp, Gradient, Unary, UnaryOp,
};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::operand::{Operand, View};
use warpsmith_tests::operation::{agrees, run_repeatedly};
use warpsmith_tests::output::{Output, same_bits};
use warpsmith_tests::property::{Effort, holds};
use warpsmith_tests::values::Values;
use warpsmith_tests::{Checked, say, with_float};

use super::{Case, case};

fn claim(holds: bool) -> f64 {
    if holds { 1.0 } else { 0.0 }
}

fn sigmoid(x: f64) -> f64 {
    if x < 0.0 {
        x.exp() / (1.0 + x.exp())
    } else {
        1.0 / (1.0 + (-x).exp())
    }
}

/// The definition of the function, in f64.
pub(crate) fn definition(op: UnaryOp, scalar: f64) -> impl Fn(f64) -> f64 {
    use std::f64::consts::{FRAC_1_SQRT_2, PI};
    // Of -inf, a number: the limit of a product with 0 is not NaN. (Of NaN, too: other factors are NaN.)
    let above = |x: f64| x.max(f64::MIN);
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
        UnaryOp::Gelu => 0.5 * above(x) * erfc(-x * FRAC_1_SQRT_2),
        // 1 + tanh y = 2 / (1 + exp(-2 y)), without cancellation.
        UnaryOp::GeluTanh => {
            above(x) / (1.0 + (-2.0 * (2.0 / PI).sqrt() * (x + 0.044715 * x * x * x)).exp())
        }
        UnaryOp::Silu => above(x) * (1.0 / (1.0 + (-x).exp())),
        UnaryOp::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        UnaryOp::Tanh => x.tanh(),
        UnaryOp::Sin => x.sin(),
        UnaryOp::Cos => x.cos(),
        UnaryOp::Erf => erf(x),
        UnaryOp::Square => x * x,
        UnaryOp::Scale => x * scalar,
        UnaryOp::Offset => x + scalar,
        UnaryOp::Sign if x == 0.0 || x.is_nan() => x,
        UnaryOp::Sign => x.signum(),
        UnaryOp::Floor => x.floor(),
        UnaryOp::Ceil => x.ceil(),
        UnaryOp::Round => x.round_ties_even(),
        UnaryOp::Trunc => x.trunc(),
        UnaryOp::Exp2 => x.exp2(),
        UnaryOp::Expm1 => x.exp_m1(),
        UnaryOp::Log2 => x.log2(),
        UnaryOp::Log10 => x.log10(),
        UnaryOp::Log1p => x.ln_1p(),
        UnaryOp::Tan => x.tan(),
        UnaryOp::Asin => x.asin(),
        UnaryOp::Acos => x.acos(),
        UnaryOp::Atan => x.atan(),
        UnaryOp::Sinh => x.sinh(),
        UnaryOp::Cosh => x.cosh(),
        UnaryOp::Asinh => x.asinh(),
        UnaryOp::Acosh => x.acosh(),
        UnaryOp::Atanh => x.atanh(),
        UnaryOp::Erfc => erfc(x),
        UnaryOp::Not => claim(x == 0.0),
        UnaryOp::IsNan => claim(x.is_nan()),
        UnaryOp::IsInf => claim(x.is_infinite()),
        UnaryOp::IsFinite => claim(x.is_finite()),
        UnaryOp::BitNot => unreachable!("a function of integers"),
    }
}

/// The definition of the function, in f64.
pub(crate) fn binary_definition(op: BinaryOp) -> impl Fn(f64, f64) -> f64 {
    move |x, y| match op {
        BinaryOp::Add => x + y,
        BinaryOp::Sub => x - y,
        BinaryOp::Mul => x * y,
        BinaryOp::Div => x / y,
        BinaryOp::Max | BinaryOp::Min if x.is_nan() || y.is_nan() => f64::NAN,
        BinaryOp::Max => x.max(y),
        BinaryOp::Min => x.min(y),
        BinaryOp::Pow => x.powf(y),
        // The remainder operator of f64 is exact.
        BinaryOp::Fmod => x % y,
        BinaryOp::Remainder => {
            let rest = x % y;
            if rest != 0.0 && (rest < 0.0) != (y < 0.0) {
                rest + y
            } else {
                rest
            }
        }
        BinaryOp::Atan2 => x.atan2(y),
        BinaryOp::Hypot => x.hypot(y),
        BinaryOp::CopySign => x.copysign(y),
        BinaryOp::Eq => claim(x == y),
        BinaryOp::Ne => claim(x != y),
        BinaryOp::Lt => claim(x < y),
        BinaryOp::Le => claim(x <= y),
        BinaryOp::Gt => claim(x > y),
        BinaryOp::Ge => claim(x >= y),
        BinaryOp::And => claim(x != 0.0 && y != 0.0),
        BinaryOp::Or => claim(x != 0.0 || y != 0.0),
        BinaryOp::Xor => claim((x != 0.0) != (y != 0.0)),
        BinaryOp::BitAnd
        | BinaryOp::BitOr
        | BinaryOp::BitXor
        | BinaryOp::ShiftLeft
        | BinaryOp::ShiftRight => unreachable!("a function of integers"),
    }
}

/// The two terms whose sum is the derivative.
fn derivative(op: GradOp) -> impl Fn(f64) -> [f64; 2] {
    use std::f64::consts::{FRAC_1_SQRT_2, PI, TAU};
    let gate = |v: f64, g: f64| {
        let slope = sigmoid(v) * sigmoid(-v);
        [sigmoid(v), if slope == 0.0 { 0.0 } else { slope * g }]
    };
    move |x| match op {
        _ if x.is_nan() => [x, 0.0],
        GradOp::Relu => [claim(x > 0.0), 0.0],
        GradOp::Gelu => {
            let density = (-0.5 * x * x).exp() / TAU.sqrt();
            let second = if density == 0.0 { 0.0 } else { x * density };
            [0.5 * erfc(-x * FRAC_1_SQRT_2), second]
        }
        GradOp::GeluTanh => {
            let c = 2.0 * (2.0 / PI).sqrt();
            let v = c * (x + 0.044_715 * x * x * x);
            gate(v, x * c * (1.0 + 3.0 * 0.044_715 * x * x))
        }
        GradOp::Silu => gate(x, x),
        GradOp::Sigmoid => [sigmoid(x) * sigmoid(-x), 0.0],
        GradOp::Tanh => [4.0 * sigmoid(2.0 * x) * sigmoid(-2.0 * x), 0.0],
    }
}

pub(crate) fn check_unary(op: UnaryOp, case: &Case, device: &Device) -> Checked {
    fn typed<T: Float + TestElement>(op: UnaryOp, case: &Case, device: &Device) -> Checked {
        let x = Operand::<T>::draw(device, &case.shape, case.values, case.views[0], case.seed)?;
        let mut operation = Unary::new(op, &x.tensor);
        if op.takes_scalar() {
            operation = operation.scalar(case.scalar);
        }
        let stream = device.stream().map_err(say)?;
        let output = || Output::<T>::new(device, &case.shape, case.views[2]);
        let got = run_repeatedly(output, |y| operation.run_into(&y.tensor, &stream))?;
        let f = definition(op, f64::from(case.scalar));
        let ulps = match op.narrow_ulps() {
            Some(ulps) if Arithmetic::F32.is_narrow(T::DTYPE) => ulps,
            _ => op.ulps(),
        };
        let want = unary(&x.values.view(), T::DTYPE, f64::from(ulps), f);
        agrees(&got, &want)?;
        if matches!(op, UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Sign) {
            // The signs of zeros too, which a comparison of values does not see.
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
        if op.takes_scalar() {
            operation = operation.scalar(case.scalar);
        }
        operation.run_into(&in_place.tensor, &stream).map_err(say)?;
        same_bits(&got, &in_place.read()?).map_err(|error| format!("in place: {error}"))
    }
    with_float!(case.dtype, typed(op, case, device))
        .map_err(|error| format!("{}: {error}", op.name()))
}

pub(crate) fn check_binary(op: BinaryOp, case: &Case, device: &Device) -> Checked {
    fn typed<T: Float + TestElement>(op: BinaryOp, case: &Case, device: &Device) -> Checked {
        let [shape_a, shape_b] = case.operand_shapes();
        let a = Operand::<T>::draw(device, &shape_a, case.values, case.views[0], case.seed)?;
        let b = Operand::<T>::draw(device, &shape_b, case.values, case.views[1], case.seed + 1)?;
        let stream = device.stream().map_err(say)?;
        let f = binary_definition(op);
        let ulps = f64::from(op.ulps());
        let want = binary(&a.values.view(), &b.values.view(), T::DTYPE, ulps, f).map_err(say)?;
        let shape = want.values.shape().to_vec();
        let output = || Output::<T>::new(device, &shape, case.views[2]);
        let operation = Binary::new(op, &a.tensor, &b.tensor);
        let got = run_repeatedly(output, |y| operation.run_into(&y.tensor, &stream))?;
        agrees(&got, &want)
    }
    with_float!(case.dtype, typed(op, case, device))
        .map_err(|error| format!("{}: {error}", op.name()))
}

pub(crate) fn check_gradient(op: GradOp, case: &Case, device: &Device) -> Checked {
    fn typed<T: Float + TestElement>(op: GradOp, case: &Case, device: &Device) -> Checked {
        let [shape_x, shape_dy] = case.operand_shapes();
        let x = Operand::<T>::draw(device, &shape_x, case.values, case.views[0], case.seed)?;
        let dy = Operand::<T>::draw(device, &shape_dy, case.values, case.views[1], case.seed + 1)?;
        let stream = device.stream().map_err(say)?;
        let (ulps, f) = (f64::from(op.ulps()), derivative(op));
        let want = gradient(&x.values.view(), &dy.values.view(), T::DTYPE, ulps, f).map_err(say)?;
        let output = || Output::<T>::new(device, want.values.shape(), case.views[2]);
        let operation = Gradient::new(op, &x.tensor, &dy.tensor);
        let got = run_repeatedly(output, |dx| operation.run_into(&dx.tensor, &stream))?;
        agrees(&got, &want)
    }
    with_float!(case.dtype, typed(op, case, device))
        .map_err(|error| format!("gradient of {}: {error}", op.name()))
}

#[test]
fn unary_functions_are_within_their_ulps_for_every_layout_and_dtype() {
    let op = prop::sample::select(UnaryOp::all_in(Arithmetic::F32).collect::<Vec<_>>());
    let effort = Effort {
        cases: [400, 2000],
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
        for op in UnaryOp::all_in(Arithmetic::F32) {
            for dtype in [DType::F32, DType::F16, DType::Bf16] {
                for values in [Values::Special, Values::Tiny, Values::Wide] {
                    let case = special(dtype, values);
                    check_unary(op, &case, &device)
                        .unwrap_or_else(|error| panic!("{dtype} {values:?} on {device}: {error}"));
                }
            }
        }
    }
}

#[test]
fn binary_functions_broadcast_and_are_within_their_ulps() {
    let op = prop::sample::select(BinaryOp::all_in(Arithmetic::F32).collect::<Vec<_>>());
    let effort = Effort {
        cases: [300, 1500],
        largest: [100, 20_000],
    };
    holds(
        effort,
        |n| (op.clone(), case(n)),
        |(op, case), device| check_binary(*op, case, device),
    );
}

#[test]
fn gradients_broadcast_and_are_within_their_ulps_for_every_layout_and_dtype() {
    let op = prop::sample::select(GradOp::ALL.to_vec());
    let effort = Effort {
        cases: [200, 1000],
        largest: [100, 20_000],
    };
    holds(
        effort,
        |n| (op.clone(), case(n)),
        |(op, case), device| check_gradient(*op, case, device),
    );
}

#[test]
fn every_binary_function_and_gradient_survives_special_values() {
    for device in warpsmith::testing::devices() {
        for dtype in [DType::F32, DType::F16, DType::Bf16] {
            for values in [
                Values::Special,
                Values::Tiny,
                Values::Wide,
                Values::Integers,
            ] {
                let case = special(dtype, values);
                let fault = |error| -> () { panic!("{dtype} {values:?} on {device}: {error}") };
                for op in BinaryOp::all_in(Arithmetic::F32) {
                    check_binary(op, &case, &device).unwrap_or_else(fault);
                }
                for op in GradOp::ALL {
                    check_gradient(op, &case, &device).unwrap_or_else(fault);
                }
            }
        }
    }
}

fn special(dtype: DType, values: Values) -> Case {
    Case {
        shape: vec![300],
        broadcast: vec![false],
        broadcast_first: vec![false],
        lacks: [0, 0],
        dtype,
        views: [View::Contiguous; 3],
        values,
        scalar: -0.75,
        seed: 7,
    }
}
