//! The math library that nvcc inlines, half-precision and fp8 functions.

use half::{bf16, f16};

use super::harness::{Arg::*, Random, close, each, equal};
use super::plain::wide;

/// Arguments that programs commonly use: a few, small and large.
fn inputs(seed: u64) -> Vec<f32> {
    let mut x: Vec<f32> = Random::new(seed).floats(40);
    x.iter_mut()
        .enumerate()
        .for_each(|(i, x)| *x *= [1.0, 20.0, 3000.0, 0.01][i % 4]);
    x
}

fn singles(a: f32) -> Vec<(f64, f64)> {
    let p = f64::from(a.abs() + 0.001);
    let (single, a) = (a, f64::from(a));
    let s = |x: f32| f64::from(single * x);
    let (fraction, exponent) = libm::frexp(a);
    let next = libm::nextafterf(single, 0.0);
    // Expected value, and bound of the relative error in units of 2^-23.
    vec![
        (a.sin(), 4.0),
        (a.cos(), 4.0),
        (a.tan(), 8.0),
        (s(0.01).exp(), 4.0),
        (p.ln(), 4.0),
        (p.powf(f64::from(0.7f32)), 8.0),
        (p.sqrt(), 1.0),
        (1.0 / p, 1.0),
        (a / f64::from(3.7f32), 1.0),
        (a.atan2(2.0), 4.0),
        (s(0.1).tanh(), 4.0),
        (libm::erf(s(0.1)), 4.0),
        (libm::lgamma(p), 16.0),
        (a.cbrt(), 4.0),
        (a % f64::from(1.7f32), 0.0),
        (
            a.floor() + s(0.5).ceil() + s(0.25).trunc() + s(0.125).round_ties_even() + a.round(),
            1.0,
        ),
        (a.hypot(3.0), 4.0),
        (fraction + f64::from(exponent), 2.0),
        (a * 32.0, 0.0),
        (s(1e-5).asin() + s(1e-5).acos(), 4.0),
        (s(0.001).sinh() + s(0.001).cosh(), 8.0),
        (
            s(0.01).exp2() + p.log2() + p.log10() + p.ln_1p() + s(0.001).exp_m1(),
            32.0,
        ),
        (
            a * a + 1.0 + a + f64::from(0.1f32) + a / 7.0 + p.sqrt(),
            8.0,
        ),
        (
            p.copysign(a) + a.max(0.5) + a.min(0.25) + f64::from(next),
            4.0,
        ),
    ]
}

#[test]
fn functions_of_singles() {
    each("math", |gpu| {
        let x = inputs(50);
        let out = gpu.room::<f32>(24 * x.len());
        gpu.launch("singles", 1, x.len() as u32, &[At(gpu.put(&x)), At(out)]);
        let got = gpu.get::<f32>(out);
        for (got, x) in got.chunks(24).zip(&x) {
            for (k, (want, bound)) in singles(*x).into_iter().enumerate() {
                let error = (f64::from(got[k]) - want).abs();
                // Sums cancel, so the bound is relative to the largest summand.
                let scale = match k {
                    15 | 17 | 21 | 22 | 23 => want.abs() + f64::from(x.abs()) + 16.0,
                    12 => want.abs().max(1.0),
                    _ => want.abs(),
                };
                assert!(
                    error <= bound * scale * 2f64.powi(-23),
                    "function {k} of {x}: {} instead of {want}",
                    got[k]
                );
            }
        }
    });
}

#[test]
fn functions_of_doubles() {
    each("math", |gpu| {
        let x: Vec<f64> = inputs(51)
            .iter()
            .map(|x| f64::from(*x) * 1.000_000_1)
            .collect();
        let out = gpu.room::<f64>(16 * x.len());
        gpu.launch("doubles", 1, x.len() as u32, &[At(gpu.put(&x)), At(out)]);
        let got = gpu.get::<f64>(out);
        for (got, a) in got.chunks(16).zip(&x) {
            let p = a.abs() + 0.001;
            let want = [
                a.sin(),
                a.cos(),
                (a * 0.01).exp(),
                p.ln(),
                p.powf(0.7),
                p.sqrt(),
                1.0 / p,
                a / 3.7,
                a.atan2(2.0),
                (a * 0.1).tanh(),
                libm::erf(a * 0.1),
                a.cbrt(),
                a % 1.7,
                a.floor() + (a * 0.5).round_ties_even(),
                libm::tgamma(p * 1e-4),
                (a * 1e3).trunc() + p.trunc(),
            ];
            close(gpu, got, &want, 1e-14, 1e-300);
        }
    });
}

#[test]
fn fast_functions() {
    each("math", |gpu| {
        let x = inputs(52);
        let out = gpu.room::<f32>(8 * x.len());
        gpu.launch("fast", 1, x.len() as u32, &[At(gpu.put(&x)), At(out)]);
        let got = gpu.get::<f32>(out);
        for (got, x) in got.chunks(8).zip(&x) {
            let p = f64::from(x.abs() + 0.001);
            let a = f64::from(*x);
            let want = [
                f64::from(x * 0.001).sin(),
                f64::from(x * 0.001).cos(),
                f64::from(x * 0.01).exp(),
                p.ln(),
                p.powf(f64::from(0.7f32)),
                a / f64::from(3.7f32),
                1.0 / p.sqrt(),
                a.clamp(0.0, 1.0) + 1.0 / p,
            ];
            close(gpu, got, &want, 1e-5, 1e-6);
        }
    });
}

#[test]
fn halves_in_pairs() {
    each("half", |gpu| {
        let threads = 32usize;
        let x: Vec<f16> = Random::new(53)
            .floats(4 * threads)
            .iter()
            .map(|x| f16::from_f32(4.0 * x))
            .collect();
        let out = gpu.room::<f16>(32 * threads);
        gpu.launch("halves", 1, threads as u32, &[At(gpu.put(&x)), At(out)]);
        let got = gpu.get::<f16>(out);
        for (t, (got, x)) in got.chunks(32).zip(wide(&x).chunks(4)).enumerate() {
            let pair = |f: &dyn Fn(f64, f64) -> f64| [f(x[0], x[2]), f(x[1], x[3])];
            let flag = |c: bool| f64::from(u8::from(c));
            let both = flag(x[0] > x[2] && x[1] > x[3]);
            let want = [
                pair(&|a, b| a + b),
                pair(&|a, b| a - b),
                pair(&|a, b| a * b),
                pair(&|a, b| a * b + a),
                pair(&|a, b| a / b),
                pair(&|a, b| (a + b).clamp(0.0, 1.0)),
                pair(&f64::max),
                pair(&|a, b| a.min(-b)),
                pair(&|a, _| a.abs()),
                pair(&|a, b| flag(a >= b)),
                [both, both],
                [x[1], x[0]],
                pair(&|a, _| a.floor()),
                [x[0] / 3.0, t as f64],
                [x[0].trunc(), x[3]],
                pair(&|a, b| (a * b - a).max(0.0)),
            ];
            close(gpu, got, want.as_flattened(), 1.0 / 1024.0, 1e-6);
            // One rounding to nearest gives exactly these.
            for k in [0, 1, 2, 3, 4, 15] {
                for i in 0..2 {
                    assert_eq!(got[2 * k + i], f16::from_f64(want[k][i]), "{k} of {x:?}");
                }
            }
        }
    });
}

#[test]
fn functions_of_halves() {
    each("half", |gpu| {
        let x: Vec<f16> = Random::new(54)
            .floats(64)
            .iter()
            .map(|x| f16::from_f32(3.0 * x + 0.01))
            .collect();
        let out = gpu.room::<f16>(10 * 64);
        gpu.launch("half_functions", 1, 64, &[At(gpu.put(&x)), At(out)]);
        for (got, a) in gpu.get::<f16>(out).chunks(10).zip(wide(&x)) {
            let p = a.abs();
            let want = [
                a.exp(),
                p.ln(),
                p.sqrt(),
                1.0 / p.sqrt(),
                a.sin(),
                a.cos(),
                1.0 / a,
                a.exp2(),
                a.round_ties_even(),
                a.tanh(),
            ];
            close(gpu, got, &want, 1.0 / 1024.0, 1e-3);
        }
    });
}

#[test]
fn brain_floats_in_pairs() {
    each("half", |gpu| {
        let x: Vec<bf16> = Random::new(55)
            .floats(4 * 32)
            .iter()
            .map(|x| bf16::from_f32(4.0 * x))
            .collect();
        let out = gpu.room::<bf16>(24 * 32);
        gpu.launch("brain_floats", 1, 32, &[At(gpu.put(&x)), At(out)]);
        for (got, x) in gpu.get::<bf16>(out).chunks(24).zip(wide(&x).chunks(4)) {
            let pair = |f: &dyn Fn(f64, f64) -> f64| [f(x[0], x[2]), f(x[1], x[3])];
            let want = [
                pair(&|a, b| a + b),
                pair(&|a, b| a - b),
                pair(&|a, b| a * b),
                pair(&|a, b| a * b + b),
                pair(&|a, b| a / b),
                pair(&f64::max),
                pair(&f64::min),
                pair(&|a, _| a.abs()),
                [x[0] * 1.5, x[3] - 0.25],
                pair(&|a, _| -a),
                pair(&|a, _| a.exp()),
                pair(&|_, b| 1.0 / b.abs().sqrt()),
            ];
            close(gpu, got, want.as_flattened(), 1.0 / 128.0, 1e-3);
            for k in [0, 1, 2, 3] {
                for i in 0..2 {
                    assert_eq!(got[2 * k + i], bf16::from_f64(want[k][i]), "{k} of {x:?}");
                }
            }
        }
    });
}

/// The nearest number of a format with `mantissa` bits, ties to even, clamped to `top`.
fn rounded(x: f64, mantissa: i32, lowest: i32, top: f64) -> f64 {
    let exponent = (x.abs().log2().floor() as i32).max(lowest);
    let step = 2f64.powi(exponent - mantissa);
    ((x / step).round_ties_even() * step).clamp(-top, top)
}

#[test]
fn floats_of_eight_bits() {
    each("half", |gpu| {
        let x: Vec<f32> = Random::new(56)
            .floats(128)
            .iter()
            .enumerate()
            .map(|(i, x)| x * [0.01, 1.0, 300.0, 70000.0][i / 2 % 4])
            .collect();
        let (bytes, out) = (gpu.room::<u8>(256), gpu.room::<f32>(256));
        let args = [At(gpu.put(&x)), At(bytes), At(out)];
        gpu.launch("eighths", 1, 64, &args);
        let (bytes, got) = (gpu.get::<u8>(bytes), gpu.get::<f32>(out));
        for ((bytes, got), x) in bytes.chunks(4).zip(got.chunks(4)).zip(wide(&x).chunks(2)) {
            let e4 = |x| rounded(x, 3, -6, 448.0);
            let want = [e4(x[0]), rounded(x[0], 2, -14, 57344.0), e4(x[0]), e4(x[1])];
            close(gpu, got, &want, 0.0, 0.0);
            equal(gpu, &bytes[2..3], &bytes[..1]);
        }
    });
}
