//! Functions computed in the tensors' own type: f64, i32 and i64, against Rust's arithmetic.

use std::fmt::Debug;

use cuda_std::math::wide;
use half::bf16;
use warpsmith::testing::devices;
use warpsmith::{
    ArgumentError, Arithmetic, Binary, BinaryOp, Chain, ChainElement, DType, Device, Error, GradOp,
    Select, Tensor, Unary, UnaryOp,
};

use super::functions::{binary_definition, definition};

/// A type with its own arithmetic.
trait Own: ChainElement + Copy + PartialEq + Debug {
    const ARITHMETIC: Arithmetic;
    /// The ends of the range, zeros, and values between.
    fn values() -> Vec<Self>;
    fn unary(op: UnaryOp, x: Self) -> Self;
    fn binary(op: BinaryOp, a: Self, b: Self) -> Self;
    /// Whether a result within `ulps` of `want` is accepted.
    fn agrees(self, want: Self, ulps: f64) -> bool;
    fn number(x: i8) -> Self;
}

macro_rules! integers {
    ($($ty:ty: $arithmetic:ident;)*) => {$(
        impl Own for $ty {
            const ARITHMETIC: Arithmetic = Arithmetic::$arithmetic;

            fn values() -> Vec<Self> {
                let ends = [Self::MIN, Self::MIN + 1, Self::MAX, Self::MAX - 1];
                let small = (-9..=9).chain([31, 32, 33, 63, 64, 65, -64]);
                let mut noise: Vec<Self> = ends.into_iter().chain(small).collect();
                let mut x: Self = 12_345;
                for _ in 0..40 {
                    x = x.wrapping_mul(1_103_515_245).wrapping_add(12_345) ^ (x >> 7);
                    noise.push(x);
                }
                noise
            }

            fn unary(op: UnaryOp, x: Self) -> Self {
                match op {
                    UnaryOp::Neg => x.wrapping_neg(),
                    UnaryOp::Abs => x.wrapping_abs(),
                    UnaryOp::Relu => x.max(0),
                    UnaryOp::Square => x.wrapping_mul(x),
                    UnaryOp::Scale => x.wrapping_mul(3),
                    UnaryOp::Offset => x.wrapping_add(3),
                    UnaryOp::Sign => x.signum(),
                    UnaryOp::Not => Self::from(x == 0),
                    UnaryOp::BitNot => !x,
                    other => panic!("{other:?} of integers"),
                }
            }

            fn binary(op: BinaryOp, a: Self, b: Self) -> Self {
                let by = u32::try_from(b).ok().filter(|&by| by < Self::BITS);
                match op {
                    BinaryOp::Add => a.wrapping_add(b),
                    BinaryOp::Sub => a.wrapping_sub(b),
                    BinaryOp::Mul => a.wrapping_mul(b),
                    BinaryOp::Div | BinaryOp::Remainder | BinaryOp::Fmod if b == 0 => 0,
                    BinaryOp::Div => a.wrapping_div(b),
                    BinaryOp::Fmod => a.wrapping_rem(b),
                    BinaryOp::Remainder => {
                        let rest = a.wrapping_rem(b);
                        if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }
                    }
                    BinaryOp::Max => a.max(b),
                    BinaryOp::Min => a.min(b),
                    BinaryOp::Eq => Self::from(a == b),
                    BinaryOp::Ne => Self::from(a != b),
                    BinaryOp::Lt => Self::from(a < b),
                    BinaryOp::Le => Self::from(a <= b),
                    BinaryOp::Gt => Self::from(a > b),
                    BinaryOp::Ge => Self::from(a >= b),
                    BinaryOp::And => Self::from(a != 0 && b != 0),
                    BinaryOp::Or => Self::from(a != 0 || b != 0),
                    BinaryOp::Xor => Self::from((a != 0) != (b != 0)),
                    BinaryOp::BitAnd => a & b,
                    BinaryOp::BitOr => a | b,
                    BinaryOp::BitXor => a ^ b,
                    BinaryOp::ShiftLeft => by.map_or(0, |by| a << by),
                    BinaryOp::ShiftRight => by.map_or(if a < 0 { -1 } else { 0 }, |by| a >> by),
                    other => panic!("{other:?} of integers"),
                }
            }

            fn agrees(self, want: Self, _: f64) -> bool {
                self == want
            }

            fn number(x: i8) -> Self {
                x.into()
            }
        }
    )*};
}

integers! { i32: I32; i64: I64; }

impl Own for f64 {
    const ARITHMETIC: Arithmetic = Arithmetic::F64;

    fn values() -> Vec<Self> {
        let ends = [
            0.0,
            -0.0,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            5e-324,
            -1e-310,
        ];
        let large = [
            f64::MAX,
            f64::MIN,
            1e300,
            -1e-300,
            710.0,
            -745.5,
            1e16,
            0.5,
            2.5,
            -3.5,
        ];
        let noise = (1..40).map(|i| (f64::from(i) * 0.7548776662466927).fract() * 8.0 - 3.0);
        ends.into_iter().chain(large).chain(noise).collect()
    }

    fn unary(op: UnaryOp, x: Self) -> Self {
        // The formulas lose bits in the tails. The functions are held against values of 60 digits.
        match op {
            UnaryOp::Gelu => wide::gelu(x),
            UnaryOp::GeluTanh => wide::gelu_tanh(x),
            UnaryOp::Silu => wide::silu(x),
            UnaryOp::Sigmoid => wide::sigmoid(x),
            UnaryOp::Tanh => wide::tanh(x),
            _ => definition(op, 3.0)(x),
        }
    }

    fn binary(op: BinaryOp, a: Self, b: Self) -> Self {
        binary_definition(op)(a, b)
    }

    fn agrees(self, want: Self, ulps: f64) -> bool {
        if self == want || self.is_nan() && want.is_nan() {
            return true;
        }
        // The host's own functions may be off by an ulp too.
        let ulp = want.abs().max(f64::MIN_POSITIVE) * f64::EPSILON;
        (self - want).abs() <= (ulps + f64::from(u8::from(ulps > 0.5))) * ulp
    }

    fn number(x: i8) -> Self {
        x.into()
    }
}

/// All pairs of values.
fn pairs<T: Own>() -> (Vec<T>, Vec<T>) {
    let values = T::values();
    let pairs = values
        .iter()
        .flat_map(|&a| values.iter().map(move |&b| (a, b)));
    pairs.unzip()
}

fn check<T: Own + Into<warpsmith::Number>>(device: &Device) {
    let stream = device.stream().expect("a stream");
    let values = T::values();
    let x = Tensor::from_slice(device, &[values.len()], &values).expect("a tensor");
    for op in UnaryOp::all_in(T::ARITHMETIC) {
        let mut operation = Unary::new(op, &x);
        if op.takes_scalar() {
            operation = operation.scalar(T::number(3));
        }
        let got = operation
            .run(&stream)
            .and_then(|y| y.to_vec())
            .expect("a function");
        let ulps = op.wide_ulps().unwrap_or(0.0);
        for (&x, &got) in values.iter().zip(&got) {
            let want = T::unary(op, x);
            assert!(
                got.agrees(want, ulps),
                "{op:?}({x:?}) is {got:?}, want {want:?}"
            );
        }
    }
    let (a, b) = pairs::<T>();
    let [a_device, b_device] = [&a, &b]
        .map(|values| Tensor::from_slice(device, &[values.len()], values).expect("a tensor"));
    for op in BinaryOp::all_in(T::ARITHMETIC) {
        let got = Binary::new(op, &a_device, &b_device).run(&stream);
        let got = got.and_then(|y| y.to_vec()).expect("a function");
        for ((&a, &b), &got) in a.iter().zip(&b).zip(&got) {
            let want = T::binary(op, a, b);
            assert!(
                got.agrees(want, 0.5),
                "{op:?}({a:?}, {b:?}) is {got:?}, want {want:?}"
            );
        }
    }
    check_layouts::<T>(device);
}

/// Numbers, kept values, byte conditions, comparisons as bytes; transposed and broadcast.
fn check_layouts<T: Own + Into<warpsmith::Number>>(device: &Device) {
    let stream = device.stream().expect("a stream");
    let (rows, columns) = (37, 10);
    let values: Vec<T> = (0..rows * columns)
        .map(|i| T::number((i % 23) as i8 - 11))
        .collect();
    let x = Tensor::from_slice(device, &[columns, rows], &values)
        .expect("a tensor")
        .t();
    let bias: Vec<T> = (0..columns).map(|i| T::number(i as i8 - 4)).collect();
    let bias_device = Tensor::from_slice(device, &[columns], &bias).expect("a tensor");
    let mask: Vec<u8> = (0..rows).map(|i| u8::from(i % 3 == 0)).collect();
    let mask_device = Tensor::from_slice(device, &[rows, 1], &mask).expect("a tensor");
    let chain = Chain::new(&x)
        .keep(2)
        .with(BinaryOp::Add, &bias_device)
        .scalar(BinaryOp::Mul, T::number(2))
        .kept(BinaryOp::Sub, 2)
        .clamp(T::number(-10), T::number(12))
        .select(&mask_device, &bias_device);
    let got = chain
        .run(&stream)
        .and_then(|y| y.to_vec())
        .expect("a chain");
    let positive = chain
        .scalar(BinaryOp::Gt, T::number(0))
        .output::<u8>()
        .run(&stream);
    let positive = positive.and_then(|y| y.to_vec()).expect("a chain");
    for (i, (&got, &positive)) in got.iter().zip(&positive).enumerate() {
        let (row, column) = (i / columns, i % columns);
        let x = values[column * rows + row];
        let twice = T::binary(
            BinaryOp::Mul,
            T::binary(BinaryOp::Add, x, bias[column]),
            T::number(2),
        );
        let less = T::binary(BinaryOp::Sub, twice, x);
        let low = T::binary(BinaryOp::Max, less, T::number(-10));
        let clamped = T::binary(BinaryOp::Min, low, T::number(12));
        let want = if mask[row] == 1 {
            clamped
        } else {
            bias[column]
        };
        assert_eq!(got, want, "at {row}, {column}");
        let is_positive = T::binary(BinaryOp::Gt, want, T::number(0)) == T::number(1);
        assert_eq!(positive, u8::from(is_positive), "at {row}, {column}");
    }
    let other = Select::new(&mask_device, &x, &x)
        .run(&stream)
        .expect("a selection");
    assert_eq!(other.to_vec().expect("values"), x.to_vec().expect("values"));
}

#[test]
fn gated_functions_are_0_at_negative_infinity() {
    for device in devices() {
        let stream = device.stream().expect("a stream");
        for op in [UnaryOp::Gelu, UnaryOp::GeluTanh, UnaryOp::Silu] {
            let x = Tensor::from_slice(&device, &[1], &[f32::NEG_INFINITY]).expect("a tensor");
            let y = Unary::new(op, &x).run(&stream).and_then(|y| y.item());
            assert_eq!(y.expect("a number"), 0.0, "{op:?} of f32 on {device}");
            let y = x
                .cast::<bf16>(&stream)
                .and_then(|x| Unary::new(op, &x).run(&stream)?.item());
            assert_eq!(
                y.expect("a number").to_f32(),
                0.0,
                "{op:?} of bf16 on {device}"
            );
            let y = x
                .cast::<f64>(&stream)
                .and_then(|x| Unary::new(op, &x).run(&stream)?.item());
            assert_eq!(y.expect("a number"), 0.0, "{op:?} of f64 on {device}");
        }
    }
}

#[test]
fn functions_of_f64_are_those_of_f64() {
    devices().iter().for_each(check::<f64>);
}

#[test]
fn functions_of_integers_wrap_and_never_trap() {
    devices().iter().for_each(check::<i32>);
    devices().iter().for_each(check::<i64>);
}

#[test]
fn dtypes_that_do_not_go_together_are_refused_by_name() {
    let device = Device::emulator().expect("an emulator");
    let stream = device.stream().expect("a stream");
    let wide = Tensor::<f64>::zeros(&stream, &[4]).expect("a tensor");
    let short = Tensor::<f32>::zeros(&stream, &[4]).expect("a tensor");
    let whole = Tensor::<i32>::zeros(&stream, &[4]).expect("a tensor");
    let refused = |error: Error, want: &[&str]| {
        let text = error.to_string();
        assert!(
            matches!(
                error.root(),
                Error::Argument(ArgumentError::Unsupported { .. })
            ),
            "{text}"
        );
        want.iter()
            .for_each(|part| assert!(text.contains(part), "{text}: no {part}"));
    };
    let mixed = Chain::new(&wide).with(BinaryOp::Add, &short).run(&stream);
    refused(
        mixed.expect_err("f32 into f64"),
        &["`tensor` of f32 in a chain of f64"],
    );
    let narrowed = Chain::new(&whole)
        .output::<f32>()
        .run(&stream)
        .expect_err("i32 to f32");
    refused(
        narrowed,
        &["`y` of f32 in a chain of i32", "casts are explicit"],
    );
    let sine = Unary::new(UnaryOp::Sin, &whole)
        .run(&stream)
        .expect_err("no such function");
    refused(sine, &["sin of i32", "f32, f16, bf16"]);
    // relu itself is defined for integers.
    let gradient = Chain::new(&whole)
        .gradient(GradOp::Relu, &whole)
        .run(&stream)
        .expect_err("gradients are of floats");
    assert!(!gradient.to_string().contains("i64"), "{gradient}");
    refused(gradient, &["relu's gradient of i32", "f32, f16, bf16"]);
    let bits = Binary::new(BinaryOp::BitAnd, &short, &short).run(&stream);
    refused(
        bits.expect_err("bits of a float"),
        &["bit_and of f32", "i32, i64"],
    );
    let half = Chain::new(&whole).scalar(BinaryOp::Add, 0.5).run(&stream);
    let error = half.expect_err("half of a whole");
    assert!(
        matches!(error.root(), Error::Argument(ArgumentError::Value { .. })),
        "{error}"
    );
    assert_eq!(Arithmetic::of(DType::U16), None);
}
