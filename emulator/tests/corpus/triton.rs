//! Triton kernels without tensor cores.

use half::{bf16, f16};

use warpsmith_emulator::{Checks, FaultKind, LaunchError};

use super::harness::{Arg::*, Random, close, each, each_with, equal};
use super::norms::{layer_norm, softmax};
use super::plain::wide;

#[test]
fn addition_with_a_ragged_end() {
    each("basic_add", |gpu| {
        let mut random = Random::new(30);
        let (x, y) = (random.floats(2500), random.floats(2500));
        let out = gpu.room::<f32>(2500);
        let args = [At(gpu.put(&x)), At(gpu.put(&y)), At(out), I32(2500)];
        gpu.launch_triton("add", [3, 1, 1], 4, &args);
        let want: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x + y).collect();
        equal(gpu, &gpu.get::<f32>(out), &want);
    });
}

#[test]
fn activations_of_halves() {
    each("basic_activations", |gpu| {
        let n = 700usize;
        let x: Vec<f16> = Random::new(31)
            .floats(n)
            .iter()
            .map(|x| f16::from_f32(4.0 * x))
            .collect();
        let out = gpu.room::<f16>(3 * n);
        let args = [At(gpu.put(&x)), At(out), I32(n as i32)];
        gpu.launch_triton("activations", [3, 1, 1], 4, &args);
        let mut want = Vec::new();
        want.extend(
            wide(&x)
                .iter()
                .map(|x| 0.5 * x * (1.0 + libm::erf(x / 2f64.sqrt()))),
        );
        want.extend(wide(&x).iter().map(|x| x / (1.0 + (-x).exp())));
        want.extend(
            wide(&x)
                .iter()
                .map(|x| x.sin() + x.cos() + (x.abs() + 1.0).ln() + x.abs().sqrt() + x.exp2()),
        );
        close(gpu, &gpu.get::<f16>(out), &want, 1.0 / 1024.0, 1e-5);
    });
}

#[test]
fn softmax_of_rows() {
    each("basic_softmax", |gpu| {
        let (rows, columns, stride) = (3usize, 777usize, 800usize);
        let x: Vec<f32> = Random::new(32)
            .floats(rows * stride)
            .iter()
            .map(|x| 8.0 * x)
            .collect();
        let out = gpu.put(&vec![0f32; rows * stride]);
        let args = [
            At(gpu.put(&x)),
            At(out),
            I32(stride as i32),
            I32(columns as i32),
        ];
        gpu.launch_triton("softmax", [rows as u32, 1, 1], 4, &args);
        let got = gpu.get::<f32>(out);
        for (got, x) in got.chunks(stride).zip(wide(&x).chunks(stride)) {
            close(
                gpu,
                &got[..columns],
                &softmax(columns, &x[..columns]),
                1e-5,
                1e-8,
            );
        }
    });
}

#[test]
fn layer_norm_of_rows() {
    each("basic_layer_norm", |gpu| {
        let (rows, columns) = (2usize, 1104usize);
        let mut random = Random::new(33);
        let x: Vec<bf16> = random
            .floats(rows * columns)
            .iter()
            .map(|x| bf16::from_f32(*x))
            .collect();
        let (weight, bias) = (random.floats(columns), random.floats(columns));
        let (out, means) = (gpu.room::<bf16>(rows * columns), gpu.room::<f32>(rows));
        let args = [
            At(gpu.put(&x)),
            At(gpu.put(&weight)),
            At(gpu.put(&bias)),
            At(out),
            At(means),
            I32(columns as i32),
            I32(columns as i32),
            F32(1e-5),
        ];
        gpu.launch_triton("layer_norm", [rows as u32, 1, 1], 8, &args);
        let x = wide(&x);
        let want = layer_norm(columns, 1e-5, &x, &wide(&weight), &wide(&bias));
        close(gpu, &gpu.get::<bf16>(out), &want, 1.0 / 128.0, 1e-3);
        let want: Vec<f64> = x
            .chunks(columns)
            .map(|row| row.iter().sum::<f64>() / columns as f64)
            .collect();
        close(gpu, &gpu.get::<f32>(means), &want, 1e-4, 1e-5);
    });
}

#[test]
fn reductions_of_both_axes() {
    each("basic_rows_and_columns", |gpu| {
        let (m, n) = (64usize, 128usize);
        let x = Random::new(34).floats(m * n);
        let (rows, tops, columns) = (gpu.room::<f32>(m), gpu.room::<i32>(m), gpu.room::<f32>(n));
        let args = [At(gpu.put(&x)), At(rows), At(tops), At(columns)];
        gpu.launch_triton("rows_and_columns", [1, 1, 1], 4, &args);
        let x = wide(&x);
        let want: Vec<f64> = x.chunks(n).map(|row| row.iter().sum()).collect();
        close(gpu, &gpu.get::<f32>(rows), &want, 1e-5, 1e-4);
        let want: Vec<f64> = (0..n).map(|j| (0..m).map(|i| x[i * n + j]).sum()).collect();
        close(gpu, &gpu.get::<f32>(columns), &want, 1e-5, 1e-4);
        let got = gpu.get::<i32>(tops);
        for (row, top) in x.chunks(n).zip(got) {
            let highest = row.iter().copied().fold(f64::MIN, f64::max);
            let first = row.iter().position(|x| *x == highest);
            assert_eq!(Some(top as usize), first);
        }
    });
}

#[test]
fn scans_forwards_backwards_and_along_rows() {
    each("basic_scans", |gpu| {
        let x = Random::new(35).ints(512, 50);
        let (out, other) = (gpu.room::<i32>(1024), gpu.room::<i32>(512));
        let args = [At(gpu.put(&x)), At(out), At(other)];
        gpu.launch_triton("scans", [1, 1, 1], 4, &args);
        let sum = |x: &[i32]| x.iter().sum::<i32>();
        let mut want: Vec<i32> = (0..512).map(|i| sum(&x[..=i])).collect();
        want.extend((0..512).map(|i| sum(&x[i..])));
        equal(gpu, &gpu.get::<i32>(out), &want);
        let want: Vec<i32> = (0..512)
            .map(|i| {
                let row = &x[i / 32 * 32..=i];
                row.iter().fold(1i32, |p, x| p.wrapping_mul(x % 3 + 1))
            })
            .collect();
        equal(gpu, &gpu.get::<i32>(other), &want);
    });
}

#[test]
fn histograms_add_up() {
    each("basic_histogram", |gpu| {
        let x = Random::new(36).ints(1300, 64);
        let out = gpu.put(&[0i32; 64]);
        let args = [At(gpu.put(&x)), At(out), I32(1300)];
        gpu.launch_triton("histogram", [3, 1, 1], 4, &args);
        let mut want = [0; 64];
        x.iter().for_each(|x| want[*x as usize] += 1);
        equal(gpu, &gpu.get::<i32>(out), &want);
    });
}

/// Under the lock, Triton lets every warp load the word that only thread 0 then stores. The values
/// that the other warps load are undefined, and not used. It is a race all the same.
#[test]
fn a_lock_that_other_warps_read_past() {
    each("basic_atomics", |gpu| {
        let word = || At(gpu.put(&[0i32]));
        let args = [
            word(),
            word(),
            word(),
            word(),
            word(),
            I32(0),
            U64(0),
            U64(0),
        ];
        match gpu.try_launch("atomics", [1; 3], [128, 1, 1], 64, &args) {
            Err(LaunchError::Fault(report)) => assert_eq!(report.kind, FaultKind::DataRace),
            other => panic!("{}: {other:?}", gpu.file.display()),
        }
    });
}

#[test]
fn atomics_and_a_lock() {
    each_with(Checks::QUICK, "basic_atomics", |gpu| {
        let x: Vec<f32> = Random::new(37)
            .ints(500, 100)
            .iter()
            .map(|x| *x as f32 + 1.0)
            .collect();
        let (out, tops) = (gpu.put(&[0f32; 7]), gpu.put(&[0f32; 5]));
        let (lock, shared) = (gpu.put(&[0i32]), gpu.put(&[0i32]));
        let args = [
            At(gpu.put(&x)),
            At(out),
            At(tops),
            At(lock),
            At(shared),
            I32(500),
        ];
        gpu.launch_triton("atomics", [4, 1, 1], 4, &args);
        let (mut sums, mut highest) = ([0f32; 7], [0f32; 5]);
        for (i, x) in x.iter().enumerate() {
            sums[i % 7] += x;
            highest[i % 5] = highest[i % 5].max(*x);
        }
        equal(gpu, &gpu.get::<f32>(out), &sums);
        equal(gpu, &gpu.get::<f32>(tops), &highest);
        equal(gpu, &gpu.get::<i32>(shared), &[4]);
    });
}

#[test]
fn sorted_tiles() {
    each("basic_sort", |gpu| {
        let x = Random::new(38).ints(512, 100_000);
        let out = gpu.room::<i32>(512);
        gpu.launch_triton("sort", [2, 1, 1], 4, &[At(gpu.put(&x)), At(out)]);
        let mut want = x;
        want.chunks_mut(256).for_each(<[i32]>::sort_unstable);
        equal(gpu, &gpu.get::<i32>(out), &want);
    });
}

#[test]
fn a_transposition_with_ragged_edges() {
    each("basic_transpose", |gpu| {
        let (m, n) = (100usize, 70usize);
        let x: Vec<u16> = (0..m * n).map(|i| i as u16).collect();
        let out = gpu.room::<u16>(m * n);
        let args = [At(gpu.put(&x)), At(out), I32(m as i32), I32(n as i32)];
        gpu.launch_triton("transpose", [2, 3, 1], 4, &args);
        let want: Vec<u16> = (0..m * n).map(|i| x[i % m * n + i / m]).collect();
        equal(gpu, &gpu.get::<u16>(out), &want);
    });
}

/// Philox with 10 rounds, seeded as in Triton; returns the first word.
fn philox(seed: u64, counter: u32) -> u32 {
    let (mut c, mut k) = ([counter, 0, 0, 0], [seed as u32, (seed >> 32) as u32]);
    for _ in 0..10 {
        let a = u64::from(0xD251_1F53u32) * u64::from(c[0]);
        let b = u64::from(0xCD9E_8D57u32) * u64::from(c[2]);
        c = [
            (b >> 32) as u32 ^ c[1] ^ k[0],
            b as u32,
            (a >> 32) as u32 ^ c[3] ^ k[1],
            a as u32,
        ];
        k = [
            k[0].wrapping_add(0x9E37_79B9),
            k[1].wrapping_add(0xBB67_AE85),
        ];
    }
    c[0]
}

#[test]
fn dropout_by_counters() {
    each("basic_dropout", |gpu| {
        let x = Random::new(39).floats(900);
        let out = gpu.room::<f32>(900);
        let args = [At(gpu.put(&x)), At(out), I32(900), F32(0.25), I32(1234)];
        gpu.launch_triton("dropout", [2, 1, 1], 4, &args);
        let want: Vec<f64> = x
            .iter()
            .enumerate()
            .map(|(i, x)| {
                let bits = philox(1234, i as u32) as i32;
                let uniform = if bits < 0 { -1 - bits } else { bits } as f32 * 4.656_612_7e-10;
                if uniform > 0.25 {
                    f64::from(*x) / 0.75
                } else {
                    0.0
                }
            })
            .collect();
        close(gpu, &gpu.get::<f32>(out), &want, 1e-6, 0.0);
    });
}

#[test]
fn gathers_along_rows() {
    each("basic_gather", |gpu| {
        let mut random = Random::new(40);
        let (x, index) = (random.floats(16 * 64), random.ints(16 * 64, 64));
        let out = gpu.room::<f32>(16 * 64);
        let args = [At(gpu.put(&x)), At(gpu.put(&index)), At(out)];
        gpu.launch_triton("gather", [1, 1, 1], 4, &args);
        let want: Vec<f32> = (0..16 * 64)
            .map(|i| x[i / 64 * 64 + index[i] as usize])
            .collect();
        equal(gpu, &gpu.get::<f32>(out), &want);
    });
}

#[test]
fn floats_of_eight_bits() {
    each("basic_eighths", |gpu| {
        let x: Vec<f32> = Random::new(41)
            .floats(500)
            .iter()
            .map(|x| 100.0 * x)
            .collect();
        let (out, back) = (gpu.room::<u8>(500), gpu.room::<f32>(500));
        let args = [At(gpu.put(&x)), At(out), At(back), I32(500)];
        gpu.launch_triton("eighths", [2, 1, 1], 4, &args);
        // e5m2 is the upper byte of f16; rounded once from f32.
        let round = |x: f32| {
            let bits = x.to_bits();
            let step = (f64::from(x.abs()).log2().floor() - 2.0).exp2();
            assert!(bits != 0 && f64::from(x.abs()) > 6.2e-5, "a normal number");
            (f64::from(x) / step).round_ties_even() * step
        };
        let want: Vec<f64> = x.iter().map(|x| round(*x)).collect();
        close(gpu, &gpu.get::<f32>(back), &want, 0.0, 0.0);
        let want: Vec<u8> = want
            .iter()
            .map(|x| (f16::from_f64(*x).to_bits() >> 8) as u8)
            .collect();
        equal(gpu, &gpu.get::<u8>(out), &want);
    });
}

#[test]
fn prints_and_assertions() {
    each("basic_talk", |gpu| {
        let x: Vec<i32> = (0..64).collect();
        let args = [At(gpu.put(&x)), I32(64), U64(0), U64(0)];
        gpu.launch("talk", 1, 32, &args);
        let printed = gpu.printed();
        let mut lines: Vec<&str> = printed.lines().collect();
        lines.sort_unstable();
        let mut want: Vec<String> = (0..64)
            .map(|i| format!("pid (0, 0, 0) idx ({i:2}) value: {i}"))
            .collect();
        want.sort_unstable();
        assert_eq!(lines, want);
        let failing = [args[0].clone(), I32(40), U64(0), U64(0)];
        let error = gpu.try_launch("talk", [1; 3], [32, 1, 1], 0, &failing);
        let report = error.expect_err("elements are too large").to_string();
        assert!(report.contains("too large"), "{report}");
    });
}
