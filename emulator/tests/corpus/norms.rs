//! Softmax and layer norm of rows.

use half::{bf16, f16};

use super::harness::{Arg::*, Element, Gpu, Random, close, each};
use super::plain::wide;

/// Softmax of each row, in f64.
pub(crate) fn softmax(columns: usize, x: &[f64]) -> Vec<f64> {
    x.chunks(columns)
        .flat_map(|row| {
            let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = row.iter().map(|x| (x - top).exp()).sum();
            row.iter().map(move |x| (x - top).exp() / sum)
        })
        .collect()
}

/// Layer norm of each row, in f64.
pub(crate) fn layer_norm(
    columns: usize,
    epsilon: f64,
    x: &[f64],
    weight: &[f64],
    bias: &[f64],
) -> Vec<f64> {
    x.chunks(columns)
        .flat_map(|row| {
            let mean = row.iter().sum::<f64>() / columns as f64;
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / columns as f64;
            let scale = 1.0 / (variance + epsilon).sqrt();
            (0..columns).map(move |i| (row[i] - mean) * scale * weight[i] + bias[i])
        })
        .collect()
}

fn check_softmax<T: Element + Into<f64>>(
    gpu: &Gpu,
    kernel: &str,
    of: impl Fn(f32) -> T,
    relative: f64,
) {
    let (rows, columns) = (5usize, 300usize);
    let x: Vec<T> = Random::new(9)
        .floats(rows * columns)
        .iter()
        .map(|x| of(x * 10.0))
        .collect();
    let (from, to) = (gpu.put(&x), gpu.room::<T>(rows * columns));
    let args = [I32(columns as i32), At(from), At(to)];
    gpu.launch(kernel, rows as u32, 128, &args);
    let want = softmax(columns, &wide(&x));
    close(gpu, &gpu.get::<T>(to), &want, relative, 1e-7);
}

#[test]
fn softmax_of_rows() {
    each("norm", |gpu| {
        check_softmax(gpu, "softmax_f32", |x| x, 1e-5);
        check_softmax(gpu, "softmax_f16", f16::from_f32, 1.0 / 1024.0);
        check_softmax(gpu, "softmax_bf16", bf16::from_f32, 1.0 / 128.0);
    });
}

#[test]
fn layer_norm_of_rows() {
    each("norm", |gpu| {
        let (rows, columns) = (4usize, 200usize);
        let mut random = Random::new(10);
        let x = random.floats(rows * columns);
        let (weight, bias) = (random.floats(columns), random.floats(columns));
        let to = gpu.room::<f32>(rows * columns);
        let args = [
            I32(columns as i32),
            F32(1e-5),
            At(gpu.put(&x)),
            At(gpu.put(&weight)),
            At(gpu.put(&bias)),
            At(to),
        ];
        gpu.launch("layer_norm", rows as u32, 96, &args);
        let want = layer_norm(
            columns,
            f64::from(1e-5f32),
            &wide(&x),
            &wide(&weight),
            &wide(&bias),
        );
        close(gpu, &gpu.get::<f32>(to), &want, 1e-4, 1e-5);
    });
}
