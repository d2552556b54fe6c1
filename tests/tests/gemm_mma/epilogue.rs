//! The fused epilogue: exact as long as integers stay integers.

use abi::gemm::{Activation, EpilogueParams, GemmParams, MmaEntry};
use warpsmith::testing::devices;
use warpsmith::{Device, Tensor};

use super::launch::{Tail, Writing, launch, with_types};
use super::problem::{Lie, Placed, Problem, Value, check, integers, poisoned, stream};

/// All of its parts at once: scales are powers of 2, everything else integers.
fn everything<A: Value, B: Value, D: Value>(device: &Device, entry: &MmaEntry, along_rows: bool) {
    let problem = Problem {
        batch: 2,
        d: Lie {
            before: 3,
            pad: 5,
            broadcast: false,
        },
        ..Problem::new(131, 141, 20)
    };
    let Problem { batch, m, n, .. } = problem;
    let stream = stream(device);
    let operands = problem.operands();
    let (a, b) = problem.place::<A, B>(&stream, entry, &operands);
    let d = poisoned::<D>(&stream, &problem);
    let typed = |values: &[f32]| -> Vec<D> { values.iter().map(|x| D::new(*x)).collect() };
    let (c, residual) = (integers(7, batch * m * n), integers(8, m * n));
    let shared = Lie {
        before: 1,
        pad: 2,
        broadcast: true,
    };
    let c_placed = Placed::of(&stream, [batch, m, n], problem.d, &typed(&c));
    let residual_placed = Placed::of(&stream, [batch, m, n], shared, &typed(&residual));
    let bias = integers(9, if along_rows { m } else { n });
    let bias_tensor = Tensor::from_slice(device, &[bias.len()], &typed(&bias)).expect("memory");
    let powers = |len: usize| -> Vec<f32> { (0..len).map(|i| [0.5, 1.0, 2.0][i % 3]).collect() };
    let f32s =
        |values: &[f32]| Tensor::from_slice(device, &[values.len()], values).expect("memory");
    let (rows, columns) = (powers(m), powers(n));
    let params = GemmParams {
        ldc: c_placed.ld,
        batch_stride_c: c_placed.batch_stride,
        alpha: 2.0,
        beta: 0.0, // overridden by the one in memory
        ..problem.params(&a, &b, &d)
    };
    let tail = Tail {
        c: Some(&c_placed.view),
        bias: Some(&bias_tensor),
        residual: Some(&residual_placed.view),
        row_scale: Some(&f32s(&rows)),
        column_scale: Some(&f32s(&columns)),
        alpha: None,
        beta: Some(&f32s(&[-3.0])),
        epilogue: EpilogueParams {
            ld_residual: residual_placed.ld,
            batch_stride_residual: 0,
            bias_stride_m: i64::from(along_rows),
            bias_stride_n: i64::from(!along_rows),
            batch_stride_bias: 0,
            row_scale_stride: 1,
            column_scale_stride: 1,
            activation: Activation::Relu.code(),
            d_dtype: 0, // that of D, as the launch knows
        },
    };
    launch(&stream, entry, &problem, (&a, &b, &d), params, &tail);
    let product = problem.product(&operands);
    check(entry, &problem, &d, |index, row, column| {
        let at = (index * m + row) * n + column;
        let x = 2.0 * rows[row] * columns[column] * product[at] as f32 - 3.0 * c[at];
        let x = x + bias[if along_rows { row } else { column }];
        x.max(0.0) + residual[row * n + column]
    });
}

#[test]
fn scales_c_bias_activation_and_residual_come_in_their_order() {
    for device in devices() {
        for entry in Writing::all(&device) {
            for along_rows in [false, true] {
                with_types!(entry, everything(&device, &entry, along_rows));
            }
        }
    }
}

/// `k` is 0, so operands are null and C is all that is left; or beta is 0, and C was never written.
fn without_product<A: Value, B: Value, D: Value>(device: &Device, entry: &MmaEntry, beta: f32) {
    let problem = Problem::new(70, 90, 0);
    let stream = stream(device);
    let operands = problem.operands();
    let (a, b) = problem.place::<A, B>(&stream, entry, &operands);
    let d = poisoned::<D>(&stream, &problem);
    let c = integers(5, 70 * 90);
    let shape = [1, 70, 90];
    let placed = if beta == 0.0 {
        Placed::empty(&stream, shape, Lie::default())
    } else {
        let values: Vec<D> = c.iter().map(|x| D::new(*x)).collect();
        Placed::of(&stream, shape, Lie::default(), &values)
    };
    let params = GemmParams {
        ldc: placed.ld,
        beta,
        ..problem.params(&a, &b, &d)
    };
    let tail = Tail {
        c: Some(&placed.view),
        ..Tail::EMPTY
    };
    launch(&stream, entry, &problem, (&a, &b, &d), params, &tail);
    check(entry, &problem, &d, |_, row, column| {
        if beta == 0.0 {
            0.0
        } else {
            beta * c[row * 90 + column]
        }
    });
}

#[test]
fn without_k_there_is_c_alone_and_without_beta_it_is_not_read() {
    for device in devices() {
        for entry in Writing::all(&device) {
            for beta in [0.0, 2.0] {
                with_types!(entry, without_product(&device, &entry, beta));
            }
        }
    }
}

/// An activation in f64.
fn activated(activation: Activation, x: f64) -> f64 {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    match activation {
        Activation::Identity => x,
        Activation::Relu => x.max(0.0),
        // The tanh formula is within 1e-3 of the one with erf.
        Activation::Gelu | Activation::GeluTanh => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
            x / 2.0 * (1.0 + inner.tanh())
        }
        Activation::Silu => x * sigmoid(x),
        Activation::Sigmoid => sigmoid(x),
        Activation::Tanh => x.tanh(),
    }
}

fn activation<A: Value, B: Value, D: Value>(
    device: &Device,
    entry: &MmaEntry,
    activation: Activation,
    tolerance: f64,
) {
    let problem = Problem::new(65, 70, 9);
    let stream = stream(device);
    let operands = problem.operands();
    let (a, b) = problem.place::<A, B>(&stream, entry, &operands);
    let d = poisoned::<D>(&stream, &problem);
    let params = GemmParams {
        alpha: 0.125,
        ..problem.params(&a, &b, &d)
    };
    let mut tail = Tail::EMPTY;
    tail.epilogue.activation = activation.code();
    launch(&stream, entry, &problem, (&a, &b, &d), params, &tail);
    let product = problem.product(&operands);
    for (got, product) in d.whole.to_vec().expect("D").iter().zip(product) {
        let want = activated(activation, 0.125 * product);
        let error = (f64::from(got.get()) - want).abs();
        assert!(
            error <= tolerance * (1.0 + want.abs()),
            "{entry}, {activation}: {got:?}, want {want}"
        );
    }
}

#[test]
fn every_activation_is_there() {
    for device in devices() {
        for entry in Writing::all(&device).into_iter().step_by(3) {
            // Half a unit in the last place, plus the difference of the formulas.
            let rounding = match entry.output {
                abi::DType::Bf16 => 0.5_f64.powi(8),
                abi::DType::F16 => 0.5_f64.powi(11),
                _ => 0.5_f64.powi(20),
            };
            for kind in Activation::ALL {
                let tolerance = rounding + 1e-3;
                with_types!(entry, activation(&device, &entry, kind, tolerance));
            }
        }
    }
}
