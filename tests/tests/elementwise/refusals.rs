//! What elementwise operations refuse, and the errors.

use warpsmith::emulator::EmulatorConfig;
use warpsmith::{
    ArgumentError, BinaryOp, Chain, Device, DeviceError, Error, GradOp, Gradient, Select,
    ShapeError, Tensor, UnaryOp,
};

fn device() -> Device {
    Device::emulator().expect("an emulator")
}

#[test]
fn chains_say_what_they_have_too_much_of() {
    let device = device();
    let stream = device.stream().expect("a stream");
    let tensors: Vec<Tensor<f32>> = (0..5)
        .map(|_| Tensor::zeros(&stream, &[4]).expect("a tensor"))
        .collect();
    let sum = tensors[1..]
        .iter()
        .fold(Chain::new(&tensors[0]), |chain, t| {
            chain.with(BinaryOp::Add, t)
        });
    let error = sum.run(&stream).expect_err("five inputs");
    assert!(
        matches!(
            error.root(),
            Error::Shape(ShapeError::OutOfBounds {
                got: 5,
                limit: 5,
                ..
            })
        ),
        "{error}"
    );

    let long = (0..32).fold(Chain::new(&tensors[0]), |chain, _| {
        chain.unary(UnaryOp::Neg)
    });
    let error = long.run(&stream).expect_err("more than 31 steps");
    assert!(
        matches!(
            error.root(),
            Error::Shape(ShapeError::OutOfBounds {
                got: 32,
                limit: 32,
                ..
            })
        ),
        "{error}"
    );

    let error = Chain::new(&tensors[0])
        .keep(4)
        .run(&stream)
        .expect_err("four values");
    assert!(
        matches!(
            error.root(),
            Error::Shape(ShapeError::OutOfBounds {
                got: 4,
                limit: 4,
                ..
            })
        ),
        "{error}"
    );
    let error = Chain::new(&tensors[0]).kept(BinaryOp::Add, 1).run(&stream);
    assert!(
        matches!(
            error.as_ref().map_err(Error::root),
            Err(Error::Argument(ArgumentError::Value { .. }))
        ),
        "{error:?}"
    );
    for (op, instead) in [
        (UnaryOp::Scale, "scalar(BinaryOp::Mul, number)"),
        (UnaryOp::Offset, "scalar(BinaryOp::Add, number)"),
    ] {
        let error = Chain::new(&tensors[0]).unary(op).run(&stream);
        let error = error.expect_err("no scalar");
        assert!(
            matches!(error.root(), Error::Argument(ArgumentError::Value { .. })),
            "{error}"
        );
        let text = error.to_string();
        assert!(
            text.contains("scalar is missing") && text.contains(op.name()),
            "{text}"
        );
        assert!(text.contains(instead), "{text}");
    }
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    let device = device();
    let stream = device.stream().expect("a stream");
    let zeros = |shape: &[usize]| Tensor::<f32>::zeros(&stream, shape).expect("a tensor");
    let (a, b) = (zeros(&[3, 4]), zeros(&[3]));
    let error = Gradient::new(GradOp::Silu, &a, &b).run(&stream);
    assert!(
        matches!(
            error.as_ref().map_err(Error::root),
            Err(Error::Shape(ShapeError::Mismatch { operand: "dy", .. }))
        ),
        "{error:?}"
    );
    let error = Select::new(&b, &a, &a).run(&stream);
    assert!(
        matches!(
            error.as_ref().map_err(Error::root),
            Err(Error::Shape(ShapeError::Mismatch {
                operand: "condition",
                ..
            }))
        ),
        "{error:?}"
    );

    let repeated = b
        .insert_axis(0)
        .and_then(|b| b.broadcast_to(&[2, 3]))
        .expect("a view");
    let two = zeros(&[2, 3]);
    let error = Chain::new(&two).run_into(&repeated, &stream);
    assert!(
        matches!(
            error.as_ref().map_err(Error::root),
            Err(Error::Shape(ShapeError::Strides { .. }))
        ),
        "{error:?}"
    );

    let shifted = a
        .reshape(&[12])
        .and_then(|a| a.slice(0, 1..12))
        .expect("a view");
    let first = a
        .reshape(&[12])
        .and_then(|a| a.slice(0, 0..11))
        .expect("a view");
    let error = Chain::new(&first)
        .unary(UnaryOp::Exp)
        .run_into(&shifted, &stream);
    assert!(
        matches!(
            error.as_ref().map_err(Error::root),
            Err(Error::Shape(ShapeError::Overlap { .. }))
        ),
        "{error:?}"
    );

    let other = Device::emulator_with(EmulatorConfig::default()).expect("an emulator");
    let far = other.stream().expect("a stream");
    let elsewhere = Tensor::<f32>::zeros(&far, &[3, 4]).expect("a tensor");
    let error = Chain::new(&a).with(BinaryOp::Add, &elsewhere).run(&stream);
    assert!(
        matches!(
            error.as_ref().map_err(Error::root),
            Err(Error::Device(DeviceError::Mismatch { .. }))
        ),
        "{error:?}"
    );
}

#[test]
fn empty_tensors_need_no_launch() {
    let device = device();
    let stream = device.stream().expect("a stream");
    let a = Tensor::<f32>::zeros(&stream, &[3, 0, 2]).expect("a tensor");
    let b = Tensor::<f32>::zeros(&stream, &[1, 2]).expect("a tensor");
    let y = Chain::new(&a)
        .with(BinaryOp::Mul, &b)
        .run(&stream)
        .expect("a chain");
    assert_eq!(y.shape(), [3, 0, 2]);
    let permuted = a
        .permute(&[2, 0, 1])
        .and_then(|a| a.contiguous(&stream))
        .expect("a copy");
    assert_eq!(permuted.shape(), [2, 3, 0]);
    assert_eq!(a.cast::<i64>(&stream).expect("a cast").shape(), [3, 0, 2]);
}
