//! The sign of zero.

use half::{bf16, f16};
use warpsmith::testing::devices;
use warpsmith::{Device, Float, Tensor, Unary, UnaryOp};

/// Functions that are odd, so that -0 is -0.
const ODD: [UnaryOp; 11] = [
    UnaryOp::Neg,
    UnaryOp::Sin,
    UnaryOp::Tan,
    UnaryOp::Asin,
    UnaryOp::Atan,
    UnaryOp::Sinh,
    UnaryOp::Tanh,
    UnaryOp::Asinh,
    UnaryOp::Atanh,
    UnaryOp::Erf,
    UnaryOp::Sign,
];

#[test]
fn odd_functions_keep_the_sign_of_zero() {
    for device in devices() {
        for op in ODD {
            signs(&device, op, [-0.0_f32, 0.0], f32::is_sign_negative);
            signs(
                &device,
                op,
                [f16::NEG_ZERO, f16::ZERO],
                f16::is_sign_negative,
            );
            signs(
                &device,
                op,
                [bf16::NEG_ZERO, bf16::ZERO],
                bf16::is_sign_negative,
            );
        }
    }
}

fn signs<T: Float>(device: &Device, op: UnaryOp, zeros: [T; 2], is_negative: fn(T) -> bool) {
    let stream = device.stream().expect("a stream");
    let x = Tensor::from_slice(device, &[2], &zeros).expect("x");
    let y = Unary::new(op, &x).run(&stream).expect("a result");
    let got = y.to_vec().expect("values");
    let got: Vec<bool> = got.into_iter().map(is_negative).collect();
    let is_kept = op != UnaryOp::Neg;
    assert_eq!(got, [is_kept, !is_kept], "{op:?} of {}", T::DTYPE);
}
