//! Softmax.

use half::{bf16, f16};
use spec::softmax::{SoftmaxEntry, SoftmaxParams, THREADS, additions, grid_blocks};
use warpsmith::Module;
use warpsmith::testing::devices;

use super::{Value, launch, module, noise, upload};

const SOFTMAX: &str = include_str!("../../../ptx/sm_75/softmax.ptx");

fn check_softmax<T: Value>(module: &Module, rows: u64, n: u64, x_stride: i64, y_stride: i64) {
    let device = module.device();
    let row = |stride: i64| n as i64 * stride;
    let len = |stride: i64| (rows as i64 * row(stride)) as usize;
    let x: Vec<T> = (0..len(x_stride)).map(|i| T::new(8.0 * noise(i))).collect();
    let mut y = upload(device, &vec![T::new(-7.0); len(y_stride)]);
    let params = SoftmaxParams {
        rows,
        n,
        x_row_stride: row(x_stride),
        x_stride,
        y_row_stride: row(y_stride),
        y_stride,
    };
    let entry = SoftmaxEntry { dtype: T::DTYPE }.to_string();
    let kernel = module.kernel(&entry).expect("every entry is there");
    let blocks = grid_blocks(rows, n);
    launch(
        &kernel,
        blocks,
        THREADS,
        (&upload(device, &x), &mut y, params),
    );
    let y = y.to_vec().expect("the result can be read");
    let error = T::EPSILON + f64::from(f32::EPSILON) * 4.0 * (additions(n) as f64 + 4.0);
    for r in 0..rows as usize {
        let at = |i: usize, stride: i64| (r as i64 * row(stride) + i as i64 * stride) as usize;
        let values: Vec<f64> = (0..n as usize).map(|i| x[at(i, x_stride)].get()).collect();
        let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = values.iter().map(|x| (x - max).exp()).sum();
        for (i, value) in values.iter().enumerate() {
            let want = (value - max).exp() / sum;
            let got = y[at(i, y_stride)].get();

            assert!(
                (got - want).abs() <= error * want + 6e-8,
                "{entry}: row {r}, {i} of {n}: {got}, want {want}"
            );
        }
    }
    let untouched = (0..y.len()).filter(|i| y_stride != 1 && i % y_stride as usize != 0);
    for i in untouched {
        assert_eq!(y[i].get(), -7.0, "{entry} wrote between the elements");
    }
}

#[test]
fn softmax_matches_plain_loops_in_every_layout() {
    for device in devices() {
        let module = module(&device, SOFTMAX);
        for (rows, n) in [(1, 1), (19, 33), (10, 64), (9, 1024), (3, 1025), (2, 5000)] {
            for (x_stride, y_stride) in [(1, 1), (2, 1), (1, 3)] {
                check_softmax::<f32>(&module, rows, n, x_stride, y_stride);
                check_softmax::<f16>(&module, rows, n, x_stride, y_stride);
                check_softmax::<bf16>(&module, rows, n, x_stride, y_stride);
            }
        }
    }
}
