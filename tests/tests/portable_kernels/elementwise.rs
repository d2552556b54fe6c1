//! Unary and binary operations, casts and copies.

use half::{bf16, f16};
use spec::DType;
use spec::elementwise::{
    BinaryOp, CastEntry, CopyEntry, ElementwiseParams, MAX_RANK, THREADS, UnaryOp, grid_blocks,
};
use warpsmith::reference::elementwise::erf;
use warpsmith::testing::devices;
use warpsmith::{Element, Module};

use super::{Value, launch, module, noise, upload};

const ELEMENTWISE: &str = include_str!("../../../ptx/sm_75/elementwise.ptx");

/// Parameters of a contiguous launch.
fn contiguous(len: usize, scalar: f32) -> ElementwiseParams {
    ElementwiseParams {
        len: len as u64,
        contiguous: 1,
        rank: 1,
        shape: [1; MAX_RANK],
        strides: [[0; MAX_RANK]; 3],
        scalar,
        reserved: 0,
    }
}

fn truth(op: UnaryOp, x: f64, scalar: f64) -> f64 {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    match op {
        UnaryOp::Neg => -x,
        UnaryOp::Abs => x.abs(),
        UnaryOp::Exp => x.exp(),
        UnaryOp::Log => x.ln(),
        UnaryOp::Sqrt => x.sqrt(),
        UnaryOp::Rsqrt => 1.0 / x.sqrt(),
        UnaryOp::Rcp => 1.0 / x,
        UnaryOp::Relu => x.max(0.0),
        UnaryOp::Gelu => 0.5 * x * (1.0 + erf(x / 2.0_f64.sqrt())),
        UnaryOp::GeluTanh => {
            let slope = 2.0 * (2.0 / std::f64::consts::PI).sqrt();
            x * sigmoid(slope * (x + 0.044_715 * x * x * x))
        }
        UnaryOp::Silu => x * sigmoid(x),
        UnaryOp::Sigmoid => sigmoid(x),
        UnaryOp::Tanh => x.tanh(),
        UnaryOp::Sin => x.sin(),
        UnaryOp::Cos => x.cos(),
        UnaryOp::Erf => erf(x),
        UnaryOp::Square => x * x,
        UnaryOp::Scale => scalar * x,
        UnaryOp::Offset => x + scalar,
    }
}

/// Whether `got` is `want` within `ulps` of f32 and the rounding to `T`.
fn is_near<T: Value>(got: f64, want: f64, ulps: f64) -> bool {
    let relative = ulps * f64::from(f32::EPSILON) + T::EPSILON / 2.0;
    let least = if T::DTYPE == DType::F16 { 3e-8 } else { 1e-40 };
    got.is_nan() && want.is_nan() || (got - want).abs() <= relative * want.abs() + least
}

fn check_unary<T: Value>(module: &Module) {
    let device = module.device();
    // Not a multiple of four, so vectors and a tail run; offset by one, only single elements.
    for (len, offset) in [(1027, 0), (514, 1)] {
        let x: Vec<T> = (0..len + offset).map(|i| T::new(3.0 * noise(i))).collect();
        let x_device = upload(device, &x);
        let at = x_device.device_ptr().as_raw() + (offset * size_of::<T>()) as u64;
        for op in UnaryOp::ALL {
            let mut y = upload(device, &vec![T::new(0.0); len]);
            let entry = op.entry(T::DTYPE).to_string();
            let kernel = module.kernel(&entry).expect("every entry is there");
            let blocks = grid_blocks(len as u64);
            launch(
                &kernel,
                blocks,
                THREADS,
                (at, &mut y, contiguous(len, 0.75)),
            );
            let y = y.to_vec().expect("the result can be read");
            for (x, y) in x[offset..].iter().zip(y) {
                let want = truth(op, x.get(), 0.75);
                let near = is_near::<T>(y.get(), want, f64::from(op.ulps()));
                assert!(near, "{entry}({x:?}) is {y:?}, want {want}");
            }
        }
    }
}

#[test]
fn unary_operations_are_within_their_ulps() {
    for device in devices() {
        let module = module(&device, ELEMENTWISE);
        check_unary::<f32>(&module);
        check_unary::<f16>(&module);
        check_unary::<bf16>(&module);
    }
}

fn check_binary<T: Value>(module: &Module) {
    let device = module.device();
    // y[3, 5, 4] = a[3, 1, 4] op b[5, 1] with a stored transposed.
    let shape = [3_usize, 5, 4];
    let a: Vec<T> = (0..12).map(|i| T::new(noise(i))).collect();
    let b: Vec<T> = (0..5).map(|i| T::new(noise(100 + i))).collect();
    let mut params = contiguous(60, 0.0);
    params.contiguous = 0;
    params.rank = 3;
    for (d, extent) in shape.into_iter().enumerate() {
        params.shape[MAX_RANK - 3 + d] = extent as u64;
        params.strides[0][MAX_RANK - 3 + d] = [20, 4, 1][d];
        params.strides[1][MAX_RANK - 3 + d] = [1, 0, 3][d];
        params.strides[2][MAX_RANK - 3 + d] = [0, 1, 0][d];
    }
    for op in BinaryOp::ALL {
        let mut y = upload(device, &[T::new(0.0); 60]);
        let entry = op.entry(T::DTYPE).to_string();
        let kernel = module.kernel(&entry).expect("every entry is there");
        let arguments = (&upload(device, &a), &upload(device, &b), &mut y, params);
        launch(&kernel, 1, THREADS, arguments);
        for (i, got) in y
            .to_vec()
            .expect("the result can be read")
            .into_iter()
            .enumerate()
        {
            let (a, b) = (a[i / 20 + 3 * (i % 4)].get(), b[i / 4 % 5].get());
            let want = match op {
                BinaryOp::Add => a + b,
                BinaryOp::Sub => a - b,
                BinaryOp::Mul => a * b,
                BinaryOp::Div => a / b,
                BinaryOp::Max => a.max(b),
                BinaryOp::Min => a.min(b),
            };
            let near = is_near::<T>(got.get(), want, f64::from(op.ulps()));
            assert!(near, "{entry} {a} {b} is {got:?}, want {want}");
        }
    }
}

#[test]
fn binary_operations_broadcast_and_transpose() {
    for device in devices() {
        let module = module(&device, ELEMENTWISE);
        check_binary::<f32>(&module);
        check_binary::<f16>(&module);
        check_binary::<bf16>(&module);
    }
}

fn check_cast<From: Value, To: Value>(module: &Module) {
    let device = module.device();
    let x: Vec<From> = (0..1030).map(|i| From::new(1e3 * noise(i))).collect();
    let mut y = upload(device, &vec![To::new(0.0); x.len()]);
    let entry = CastEntry {
        from: From::DTYPE,
        to: To::DTYPE,
    }
    .to_string();
    let kernel = module.kernel(&entry).expect("every entry is there");
    let params = contiguous(x.len(), 0.0);
    launch(&kernel, 2, THREADS, (&upload(device, &x), &mut y, params));
    for (x, y) in x.iter().zip(y.to_vec().expect("the result can be read")) {
        assert_eq!(y.get(), To::new(x.get()).get(), "{entry} of {x:?}");
    }
}

#[test]
fn casts_round_once() {
    for device in devices() {
        let module = module(&device, ELEMENTWISE);
        check_cast::<f32, f16>(&module);
        check_cast::<f32, bf16>(&module);
        check_cast::<f16, f32>(&module);
        check_cast::<f16, bf16>(&module);
        check_cast::<bf16, f32>(&module);
        check_cast::<bf16, f16>(&module);
    }
}

#[test]
fn copies_gather_strided_elements_of_every_size() {
    fn check<T: Element + PartialEq>(module: &Module, make: impl Fn(usize) -> T) {
        let x: Vec<T> = (0..24).map(make).collect();
        let mut y = upload(module.device(), &x);
        let mut params = contiguous(24, 0.0);
        params.contiguous = 0;
        params.rank = 2;
        // A [4, 6] matrix, transposed.
        params.shape[MAX_RANK - 2..].copy_from_slice(&[6, 4]);
        params.strides[0][MAX_RANK - 2..].copy_from_slice(&[4, 1]);
        params.strides[1][MAX_RANK - 2..].copy_from_slice(&[1, 6]);
        let entry = CopyEntry {
            size_bytes: size_of::<T>(),
        }
        .to_string();
        let kernel = module.kernel(&entry).expect("every entry is there");
        launch(
            &kernel,
            1,
            THREADS,
            (&upload(module.device(), &x), &mut y, params),
        );
        for (i, got) in y
            .to_vec()
            .expect("the result can be read")
            .into_iter()
            .enumerate()
        {
            assert!(got == x[i / 4 + 6 * (i % 4)], "{entry}: element {i}");
        }
    }
    for device in devices() {
        let module = module(&device, ELEMENTWISE);
        check(&module, |i| i as u8);
        check(&module, |i| i as u16 * 2000);
        check(&module, |i| i as f32 + 0.5);
        check(&module, |i| i as i64 - (1 << 40));
    }
}
