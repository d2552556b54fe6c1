//! Calls of every kind, and what lies on the stack.

use super::harness::{Arg::*, Random, close, each, equal};

fn fibonacci(n: u32) -> u32 {
    (0..n).fold((0, 1), |(a, b), _| (b, a + b)).0
}

fn ackermann(m: u32, n: u32) -> u32 {
    match m {
        0 => n + 1,
        1 => n + 2,
        _ => 2 * n + 3,
    }
}

#[test]
fn recursion_of_two_functions() {
    each("calls", |gpu| {
        let out = gpu.room::<u32>(96);
        gpu.launch("recursion", 2, 48, &[At(out)]);
        let want: Vec<u32> = (0..96)
            .map(|i| fibonacci(i % 12) * 1000 + ackermann(i % 3, i % 4))
            .collect();
        equal(gpu, &gpu.get::<u32>(out), &want);
    });
}

#[test]
fn tables_of_functions_and_virtual_functions() {
    each("calls", |gpu| {
        let x = Random::new(11).floats(64);
        let from = gpu.put(&x);
        let out = gpu.room::<f32>(64);
        gpu.launch("pointers", 1, 64, &[At(from), At(out)]);
        let apply = |which: usize, x: f32| [2.0 * x, x * x, -x][which];
        let want: Vec<f32> = x
            .iter()
            .enumerate()
            .map(|(i, x)| apply(i % 3, *x) + apply((i / 3 + 2) % 3, *x))
            .collect();
        equal(gpu, &gpu.get::<f32>(out), &want);

        gpu.launch("virtuals", 1, 64, &[At(from), At(out)]);
        let want: Vec<f64> = x
            .iter()
            .enumerate()
            .map(|(i, x)| {
                let square = f64::from(*x).powi(2);
                if i % 2 == 1 {
                    2.0 * square
                } else {
                    12.0 * square
                }
            })
            .collect();
        close(gpu, &gpu.get::<f32>(out), &want, 1e-6, 1e-7);
    });
}

#[test]
fn aggregates_by_value() {
    each("calls", |gpu| {
        let x: Vec<f64> = (0..40).map(|i| f64::from(i * i)).collect();
        let (sums, counts) = (gpu.room::<f64>(40), gpu.room::<i32>(40));
        gpu.launch(
            "aggregates",
            1,
            40,
            &[At(gpu.put(&x)), At(sums), At(counts)],
        );
        let want: Vec<f64> = (0..40)
            .map(|i| x[i] + x[i] + x[(i + 1) % 40] + x[(i + 2) % 40])
            .collect();
        equal(gpu, &gpu.get::<f64>(sums), &want);
        let want: Vec<i32> = (0..40).map(|i| 7 * 256 + (i ^ 1 ^ 2)).collect();
        equal(gpu, &gpu.get::<i32>(counts), &want);
    });
}

#[test]
fn arrays_that_the_compiler_cannot_index() {
    each("calls", |gpu| {
        let x = Random::new(12).ints(64 * 24, 1000);
        let (from, to) = (gpu.put(&x), gpu.room::<i32>(64 * 24));
        gpu.launch("local_sort", 2, 32, &[I32(24), At(from), At(to)]);
        let mut want = x;
        want.chunks_mut(24).for_each(<[i32]>::sort_unstable);
        equal(gpu, &gpu.get::<i32>(to), &want);
    });
}

#[test]
fn a_switch_in_a_loop() {
    each("calls", |gpu| {
        let ops = Random::new(13).ints(50, 9);
        let out = gpu.room::<i32>(2 * 64);
        gpu.launch("dispatch", 1, 64, &[At(gpu.put(&ops)), I32(50), At(out)]);
        let mut want = Vec::new();
        for t in 0..64 {
            let (mut a, mut b) = (t as i32, 1i32);
            for i in 0..50 {
                match ops[(i + t) % 50] {
                    0 => a = a.wrapping_add(b),
                    1 => a = a.wrapping_sub(b.wrapping_mul(2)),
                    2 => (a, b) = (b, a),
                    3 => a ^= b << 3,
                    4 => b = a.wrapping_mul(5).wrapping_add(b),
                    5 => a = a.rotate_left(7),
                    6 => b = !b,
                    7 => a = (a / 3).wrapping_sub(b % 7),
                    _ => a = a.wrapping_neg(),
                }
            }
            want.extend([a, b]);
        }
        equal(gpu, &gpu.get::<i32>(out), &want);
    });
}
