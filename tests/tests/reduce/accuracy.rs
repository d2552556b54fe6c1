//! The error of sums, means, variances and logsumexp does not grow with their length.
//! `docs/reduce.md` has the table.

use warpsmith::{Reduce, ReduceOp, Tensor};
use warpsmith_tests::values::Values;

/// Neumaier summation in f64.
fn exact(xs: &[f32]) -> (f64, f64) {
    let (mut sum, mut lost, mut size) = (0.0_f64, 0.0, 0.0);
    for x in xs.iter().map(|&x| f64::from(x)) {
        let next = sum + x;
        lost += match sum.abs() >= x.abs() {
            true => (sum - next) + x,
            false => (x - next) + sum,
        };
        sum = next;
        size += x.abs();
    }
    (sum + lost, size)
}

#[test]
fn errors_of_sums_do_not_grow_with_length() {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        let longest = if device.is_emulator() { 20 } else { 26 };
        for log2 in (8..=longest).step_by(4) {
            let n = 1_usize << log2;
            // All of one sign, so that the error of a running f32 sum accumulates.
            let xs: Vec<f32> = Values::Uniform
                .draw(&[n], 1)
                .iter()
                .map(|x| x.abs() as f32)
                .collect();
            let x = Tensor::from_slice(&device, &[n], &xs).expect("a tensor");
            let sum = Reduce::new(ReduceOp::Sum, &x).run(&stream).expect("a sum");
            let got = f64::from(sum.item().expect("one"));
            let (want, size) = exact(&xs);
            let unit = f64::from(f32::EPSILON) / 2.0;
            let error = (got - want).abs() / size / unit;
            let naive = (f64::from(xs.iter().sum::<f32>()) - want).abs() / size / unit;
            println!("2^{log2}: {error:.2} roundings of the sum, {naive:.0} by a loop");
            assert!(error <= 4.0, "2^{log2}: {error}");
        }
    }
}

/// Means round once more than sums. A logsumexp of values near 0 has the error of its sum of
/// exponentials, which is absolute here, and of the logarithm.
#[test]
fn errors_of_means_and_logsumexp_do_not_grow_with_length() {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        let longest = if device.is_emulator() { 18 } else { 26 };
        for log2 in (8..=longest).step_by(5) {
            let n = 1_usize << log2;
            let xs: Vec<f32> = Values::Uniform
                .draw(&[n], 2)
                .iter()
                .map(|x| x.abs() as f32)
                .collect();
            let x = Tensor::from_slice(&device, &[n], &xs).expect("a tensor");
            let of = |op| {
                let y = Reduce::new(op, &x).run(&stream).expect("a reduction");
                f64::from(y.item().expect("one"))
            };
            let unit = f64::from(f32::EPSILON) / 2.0;
            let (sum, _) = exact(&xs);
            let mean = sum / n as f64;
            let error = (of(ReduceOp::Mean) - mean).abs() / mean / unit;
            println!("2^{log2}: the mean is {error:.2} roundings off");
            assert!(error <= 5.0, "mean of 2^{log2}: {error}");
            let largest = xs.iter().copied().fold(0.0_f32, f32::max);
            let largest = f64::from(largest);
            let powers = xs.iter().map(|&x| (f64::from(x) - largest).exp());
            let want = powers.sum::<f64>().ln() + largest;
            let error = (of(ReduceOp::Logsumexp) - want).abs() / unit;
            println!("2^{log2}: logsumexp is {error:.2} roundings of 1 off");
            // One rounding of the result, and a few of a sum whose logarithm is of order 1 to 18.
            assert!(error <= 8.0 + want, "logsumexp of 2^{log2}: {error}");
        }
    }
}

/// The value of an element, by its index and a random number.
type Element = fn(usize, f64) -> f64;

/// Values whose variance is hard to find in one pass.
const HARD: [(&str, Element); 5] = [
    ("of one sign", |_, x| x.abs()),
    ("far from 0", |_, x| 1000.0 + x),
    ("after an outlier", |i, x| if i == 0 { 1e4 } else { x }),
    ("with a step", |i, x| x + if i < 3000 { 0.0 } else { 500.0 }),
    ("that drift", |i, x| x + i as f64 / 64.0),
];

#[test]
fn errors_of_variances_do_not_grow_with_length() {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        let longest = if device.is_emulator() { 18 } else { 26 };
        for log2 in (8..=longest).step_by(5) {
            let n = 1_usize << log2;
            let uniform = Values::Uniform.draw(&[n], 3);
            for (name, of) in HARD {
                let values = uniform.iter().enumerate().map(|(i, &x)| of(i, x) as f32);
                let xs: Vec<f32> = values.collect();
                let x = Tensor::from_slice(&device, &[n], &xs).expect("a tensor");
                let variance = Reduce::new(ReduceOp::Variance, &x).run(&stream);
                let got = f64::from(variance.expect("a variance").item().expect("one"));
                let mean = exact(&xs).0 / n as f64;
                let squares = xs.iter().map(|&x| (f64::from(x) - mean).powi(2));
                let want = squares.sum::<f64>() / n as f64;
                let error = (got - want).abs() / want / (f64::from(f32::EPSILON) / 2.0);
                // The condition of a variance (Chan and Lewis): means are rounded to f32.
                let condition = (1.0 + mean * mean / want).sqrt();
                println!(
                    "2^{log2} {name}: the variance is {error:.2} roundings off, of condition {condition:.0}"
                );
                assert!(error <= 8.0 + condition / 4.0, "2^{log2} {name}: {error}");
            }
        }
    }
}
