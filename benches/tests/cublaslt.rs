//! Every way in which the peer is called, with every algorithm that it names, against products of
//! small integers computed here, which every format holds exactly. Without a GPU these tests have
//! nothing to run on and pass; `WARPSMITH_TEST_DEVICE=gpu` makes that an error.

use half::{bf16, f16};
use warpsmith::testing::devices;
use warpsmith::{DType, DevicePtr, E4m3, Element, Tensor};
use warpsmith_benches::cublaslt::{
    Arithmetic, CublasLt, CublasLtError, Epilogue, Extras, Matmul, Operands, Problem,
};
use warpsmith_benches::inputs::Sample;

const LAYOUTS: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];

/// Libraries of the GPUs that there are.
fn libraries() -> Vec<CublasLt> {
    let gpus = devices().into_iter().filter(|device| !device.is_emulator());
    let load = |device: warpsmith::Device| match CublasLt::load(&device.default_stream()) {
        Ok(library) => Some(library),
        Err(CublasLtError::Missing) => {
            println!("no cuBLASLt: nothing was compared");
            None
        }
        Err(error) => panic!("{error}"),
    };
    gpus.filter_map(load).collect()
}

fn problem(input: DType, output: DType, arithmetic: Arithmetic) -> Problem {
    Problem {
        m: 32,
        n: 48,
        k: 64,
        batch: 1,
        trans_a: false,
        trans_b: true,
        input,
        output,
        arithmetic,
        epilogue: Epilogue::None,
    }
}

/// -1, 0 and 1 in an order without a pattern that a layout shares.
fn ternary(len: usize, seed: usize) -> Vec<f64> {
    let value = |i: usize| ((i * i * 7 + i * (13 + seed)) / 5 % 3) as f64 - 1.0;
    (0..len).map(value).collect()
}

/// `op(a) @ op(b)` of contiguous row-major matrices.
fn product(problem: &Problem, a: &[f64], b: &[f64]) -> Vec<f64> {
    let Problem {
        m,
        n,
        k,
        batch,
        trans_a,
        trans_b,
        ..
    } = *problem;
    let mut d = Vec::with_capacity(batch * m * n);
    for matrix in 0..batch {
        for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
            let term = |i: usize| {
                let a_idx = if trans_a { i * m + row } else { row * k + i };
                let b_idx = if trans_b {
                    column * k + i
                } else {
                    i * n + column
                };
                a[matrix * m * k + a_idx] * b[matrix * k * n + b_idx]
            };
            d.push((0..k).map(term).sum());
        }
    }
    d
}

/// The library's answers, of each of its algorithms, hold `want`.
fn check<In: Element, Out: Sample>(
    library: &CublasLt,
    problem: Problem,
    encode: fn(f64) -> In,
    extras: Extras,
    want: impl Fn(usize, f64) -> f64,
    tolerance: f64,
) {
    let Problem { m, n, k, batch, .. } = problem;
    let (a, b) = (ternary(batch * m * k, 1), ternary(batch * k * n, 2));
    let stream = library.stream();
    let upload = |values: &[f64]| {
        let encoded: Vec<In> = values.iter().map(|&x| encode(x)).collect();
        Tensor::from_slice(stream.device(), &[encoded.len()], &encoded).expect("uploads")
    };
    let (a_stored, b_stored) = (upload(&a), upload(&b));
    let d = Tensor::<Out>::zeros(stream, &[batch * m * n]).expect("allocates");
    let operands = Operands {
        a: DevicePtr::from_raw(a_stored.device_ptr().as_raw()),
        b: DevicePtr::from_raw(b_stored.device_ptr().as_raw()),
        d: DevicePtr::from_raw(d.device_ptr().as_raw()),
    };
    let matmul = Matmul::new(library, problem, extras).expect("describes");
    let algorithms = matmul.algorithms(64).expect("has algorithms");
    println!("{problem:?}: {} algorithms", algorithms.len());
    let products = product(&problem, &a, &b);
    let mut ran = 0;
    for algorithm in &algorithms {
        d.fill(Out::rounded(f32::NAN), stream).expect("fills");
        // SAFETY: contiguous tensors of the problem's extents, alive until the synchronization.
        if unsafe { matmul.enqueue(algorithm, operands) }.is_err() {
            continue; // named, and refused when it is called
        }
        stream.synchronize().expect("no fault");
        ran += 1;
        for (i, (got, &sum)) in d
            .to_vec()
            .expect("reads")
            .into_iter()
            .zip(&products)
            .enumerate()
        {
            let (got, want) = (got.widened(), want(i, sum));
            assert!(
                (got - want).abs() <= tolerance,
                "{problem:?} at {i}: {got}, want {want}"
            );
        }
    }
    assert!(ran > 0, "{problem:?}");
}

fn plain<T: Sample>(library: &CublasLt, problem: Problem) {
    let encode = |x: f64| T::rounded(x as f32);
    check::<T, T>(
        library,
        problem,
        encode,
        Extras::default(),
        |_, sum| sum,
        0.0,
    );
}

#[test]
fn floats_of_every_layout_and_batch_are_exact() {
    for library in libraries() {
        for ((trans_a, trans_b), batch) in LAYOUTS.into_iter().flat_map(|l| [(l, 1), (l, 3)]) {
            let with = |dtype, arithmetic| Problem {
                trans_a,
                trans_b,
                batch,
                ..problem(dtype, dtype, arithmetic)
            };
            plain::<bf16>(&library, with(DType::Bf16, Arithmetic::F32));
            plain::<f16>(&library, with(DType::F16, Arithmetic::F32));
            plain::<f32>(&library, with(DType::F32, Arithmetic::F32));
            plain::<f32>(&library, with(DType::F32, Arithmetic::Tf32));
            plain::<f64>(&library, with(DType::F64, Arithmetic::F64));
        }
    }
}

#[test]
fn products_of_i8_are_exact_in_i32() {
    for library in libraries() {
        let problem = problem(DType::I8, DType::I32, Arithmetic::I32);
        let (encode, extras) = (|x: f64| x as i8, Extras::default());
        check::<i8, i32>(&library, problem, encode, extras, |_, sum| sum, 0.0);
    }
}

#[test]
fn fp8_is_exact_and_scaled() {
    for library in libraries() {
        let device = library.stream().device();
        let scale = |x: f32| Tensor::from_slice(device, &[1], &[x]).expect("uploads");
        let (scale_a, scale_b) = (scale(0.5), scale(4.0));
        let extras = Extras {
            scales: Some([scale_a.device_ptr(), scale_b.device_ptr()]),
            ..Extras::default()
        };
        let encode = |x: f64| E4m3(((x != 0.0) as u8 * 0x38) | ((x < 0.0) as u8) << 7);
        for fast in [false, true] {
            let problem = problem(DType::E4m3, DType::Bf16, Arithmetic::Fp8 { fast });
            check::<E4m3, bf16>(&library, problem, encode, extras, |_, sum| 2.0 * sum, 0.0);
        }
    }
}

#[test]
fn bias_and_gelu_follow_the_product() {
    for library in libraries() {
        let bias: Vec<f64> = (0..48).map(|column| column as f64 / 16.0 - 1.0).collect();
        let encoded: Vec<bf16> = bias.iter().map(|&x| bf16::from_f64(x)).collect();
        let stored =
            Tensor::from_slice(library.stream().device(), &[48], &encoded).expect("uploads");
        let extras = Extras {
            bias: Some(DevicePtr::from_raw(stored.device_ptr().as_raw())),
            ..Extras::default()
        };
        let gelu = |i: usize, sum: f64| {
            let x = sum + bias[i % 48];
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
            0.5 * x * (1.0 + inner.tanh())
        };
        let problem = Problem {
            epilogue: Epilogue::BiasGelu,
            ..problem(DType::Bf16, DType::Bf16, Arithmetic::F32)
        };
        let encode = |x: f64| bf16::from_f64(x);
        check::<bf16, bf16>(&library, problem, encode, extras, gelu, 0.15);
    }
}
