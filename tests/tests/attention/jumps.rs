//! Scores that jump from one block of keys to the next: by less than a kernel's rescaling
//! threshold, and by more than the exponent range of f32.

use half::{bf16, f16};
use warpsmith::{Attention, AttentionOutput, Device, Float, Tensor};
use warpsmith_tests::element::TestElement;

/// Keys per step: at least as many as a kernel has in a block.
const STEP: usize = 128;
/// Scores of each step's keys, in units of eight; kernels visit the last step first. All are exact
/// in bf16.
const STEPS: [[f64; 4]; 5] = [
    [2.25, 2.5, 0.0, 0.25],
    [1.0, 0.75, 1.0, 0.0],
    [27.5, 27.5, 2.5, 0.0],
    [27.5, 2.5, -27.5, -25.0],
    [-0.5, -1.0, -1.25, -27.5],
];
const HEAD_DIMS: [usize; 3] = [64, 128, 256];
const QUERIES: usize = 70;

/// The score of a key.
fn score(steps: &[f64; 4], key: usize) -> f64 {
    8.0 * (steps[key / STEP] - (key % 8) as f64 / 8.0)
}

fn value(key: usize, column: usize) -> f64 {
    ((key * 7 + column * 3) % 16) as f64 / 16.0
}

/// o, which is the same for all queries, and lse.
fn exact(steps: &[f64; 4], head_dim: usize) -> (Vec<f64>, f64) {
    let scores: Vec<f64> = (0..4 * STEP).map(|key| score(steps, key)).collect();
    let greatest = scores.iter().copied().fold(f64::MIN, f64::max);
    let weights: Vec<f64> = scores.iter().map(|x| (x - greatest).exp()).collect();
    let sum: f64 = weights.iter().sum();
    let of_column = |column| {
        let of_key = weights.iter().enumerate();
        let of_key = of_key.map(|(key, weight)| weight * value(key, column));
        of_key.sum::<f64>() / sum
    };
    ((0..head_dim).map(of_column).collect(), greatest + sum.ln())
}

fn check<T: Float + TestElement>(device: &Device, steps: &[f64; 4], head_dim: usize) {
    let stream = device.stream().expect("a stream");
    let tensor = |rows: usize, of: &dyn Fn(usize, usize) -> f64| -> Tensor<T> {
        let at = (0..rows).flat_map(|row| (0..head_dim).map(move |column| (row, column)));
        let elements: Vec<T> = at
            .map(|(row, column)| T::nearest(of(row, column)))
            .collect();
        Tensor::from_slice(device, &[1, rows, 1, head_dim], &elements).expect("a tensor")
    };
    let q = tensor(QUERIES, &|_, _| 1.0);
    let k = tensor(4 * STEP, &|key, _| score(steps, key) / 8.0);
    let v = tensor(4 * STEP, &value);
    let attention = Attention::new(&q, &k, &v).softmax_scale(8.0 / head_dim as f32);
    let (o_exact, lse_exact) = exact(steps, head_dim);
    let plan = attention.plan(&stream).expect("a plan");
    for candidate in plan.candidates() {
        let attention = attention.clone().with_kernel(&candidate.name);
        let AttentionOutput { o, lse } = attention.lse().run(&stream).expect("attention");
        for (i, o) in o.to_vec().expect("o").into_iter().enumerate() {
            let (got, want) = (o.wide(), o_exact[i % head_dim]);
            // Probabilities and results are rounded to 8 bits; values are below 1.
            assert!(
                (got - want).abs() < 0.01,
                "{} {steps:?}: o[{i}] is {got}, want {want}",
                candidate.name
            );
        }
        for lse in lse.to_vec().expect("lse") {
            assert!(
                (f64::from(lse) - lse_exact).abs() < 1e-3,
                "{} {steps:?}: lse is {lse}, want {lse_exact}",
                candidate.name
            );
        }
    }
}

#[test]
fn scores_may_rise_by_any_factor_from_block_to_block() {
    for device in warpsmith::testing::devices() {
        for steps in &STEPS {
            for head_dim in HEAD_DIMS {
                check::<bf16>(&device, steps, head_dim);
                check::<f16>(&device, steps, head_dim);
            }
        }
    }
}
