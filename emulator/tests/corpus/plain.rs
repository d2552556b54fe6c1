//! Streams, reductions and tiles: the basics of CUDA programs.

use super::harness::{Arg::*, Random, close, each, equal};

#[test]
fn saxpy_and_vectors_of_four() {
    each("vector", |gpu| {
        let mut random = Random::new(1);
        let (x, y) = (random.floats(1000), random.floats(1000));
        let (a, b) = (gpu.put(&x), gpu.put(&y));
        gpu.launch("saxpy", 4, 256, &[I32(1000), F32(2.5), At(a), At(b)]);
        let want: Vec<f64> = x
            .iter()
            .zip(&y)
            .map(|(x, y)| 2.5 * f64::from(*x) + f64::from(*y))
            .collect();
        close(gpu, &gpu.get::<f32>(b), &want, 1e-6, 1e-6);

        let out = gpu.room::<f32>(1000);
        gpu.launch("scale4", 3, 64, &[I32(250), F32(0.5), At(a), At(out)]);
        let want: Vec<f32> = x.iter().map(|x| 0.5 * x).collect();
        equal(gpu, &gpu.get::<f32>(out), &want);
    });
}

#[test]
fn structures_with_fields_of_every_size() {
    each("vector", |gpu| {
        // tag at 0, delta at 2, weight at 8, count at 16.
        let record = |tag: u8, delta: i16, weight: f64, count: i64| {
            let mut bytes = vec![tag, 0];
            bytes.extend(delta.to_le_bytes());
            bytes.extend([0; 4]);
            bytes.extend(weight.to_le_bytes());
            bytes.extend(count.to_le_bytes());
            bytes
        };
        let n = 77usize;
        let image: Vec<u8> = (0..n)
            .flat_map(|i| record(i as u8, i as i16 * 300, i as f64 / 3.0, i as i64 - 40))
            .collect();
        let (from, to) = (gpu.put(&image), gpu.put(&vec![0u8; 24 * n]));
        gpu.launch("records", 2, 64, &[I32(n as i32), At(from), At(to)]);
        let got = gpu.get::<u8>(to);
        for (i, got) in got.chunks_exact(24).enumerate() {
            let from = n - 1 - i;
            let (tag, delta) = (from as u8 ^ 0xff, (from as i16 * 300).wrapping_mul(3));
            let weight = (from as f64 / 3.0) * 0.5 + f64::from(delta);
            let want = record(tag, delta, weight, from as i64 - 40 - i64::from(tag));
            for part in [0..1, 2..4, 8..16, 16..24] {
                assert_eq!(got[part.clone()], want[part], "record {i}");
            }
        }
    });
}

#[test]
fn constants_and_variables_of_the_module() {
    each("vector", |gpu| {
        let n = 300usize;
        let x = Random::new(2).floats(n);
        let from = gpu.put(&x);
        let (sums, letters) = (gpu.room::<f32>(n), gpu.room::<u8>(n));
        let args = [I32(n as i32), At(from), At(sums), At(letters)];
        gpu.launch("stencil", 3, 128, &args);
        gpu.launch("stencil", 3, 128, &args);
        let taps = [0.1, 0.2, 0.4, 0.2, 0.1];
        let want: Vec<f64> = (0..n)
            .map(|i| {
                let at = |k: usize| (i + k).saturating_sub(2).min(n - 1);
                (0..5).map(|k| taps[k] * f64::from(x[at(k)])).sum()
            })
            .collect();
        close(gpu, &gpu.get::<f32>(sums), &want, 1e-5, 1e-6);
        let want: Vec<u8> = (0..n)
            .map(|i| ["even", "odd"][i % 2].as_bytes()[i % 3])
            .collect();
        equal(gpu, &gpu.get::<u8>(letters), &want);
        let (calls, bytes) = gpu.module.variable("calls").expect("it is declared");
        assert_eq!(bytes, 4);
        let mut count = [0; 4];
        gpu.emulator.read(calls, &mut count).expect("it is live");
        assert_eq!(u32::from_le_bytes(count), 600);
    });
}

#[test]
fn sums_by_shuffles_atomics_and_the_last_block() {
    each("reduce", |gpu| {
        let mut random = Random::new(3);
        let (x, y) = (random.floats(5000), random.floats(5000));
        let (a, b) = (gpu.put(&x), gpu.put(&y));
        let out = gpu.put(&[0f32]);
        gpu.launch("dot", 7, 160, &[I32(5000), At(a), At(b), At(out)]);
        let want: f64 = x
            .iter()
            .zip(&y)
            .map(|(x, y)| f64::from(*x) * f64::from(*y))
            .sum();
        close(gpu, &gpu.get::<f32>(out), &[want], 1e-5, 1e-3);

        let (partial, out) = (gpu.room::<f32>(40), gpu.room::<f32>(1));
        // Twice: the ticket counter must wrap around to zero.
        for _ in 0..2 {
            let args = [I32(5000), At(a), At(partial), At(out)];
            gpu.launch("sum_once", 40, 64, &args);
            let want: f64 = x.iter().map(|x| f64::from(*x)).sum();
            close(gpu, &gpu.get::<f32>(out), &[want], 1e-5, 1e-3);
        }
    });
}

#[test]
fn barrier_reductions_and_integer_atomics() {
    each("reduce", |gpu| {
        let n = 1000usize;
        let x: Vec<i32> = (0..n as i32).map(|i| (i * 37) % 501 - 250).collect();
        let out = gpu.put(&[0, 0, -1, i32::MAX, i32::MIN]);
        let from = gpu.put(&x);
        gpu.launch("summary", 5, 224, &[I32(n as i32), At(from), At(out)]);
        let even = x.iter().filter(|x| *x % 2 == 0).count() as i32;
        let seven = i32::from(x.contains(&7));
        let (low, high) = (x.iter().min(), x.iter().max());
        let want = [
            even,
            seven,
            1,
            *low.expect("not empty"),
            *high.expect("not empty"),
        ];
        equal(gpu, &gpu.get::<i32>(out), &want);
    });
}

#[test]
fn a_tree_in_dynamic_shared_memory() {
    each("reduce", |gpu| {
        let x: Vec<f64> = (0..512).map(|i| f64::from(i) / 7.0).collect();
        let (from, out) = (gpu.put(&x), gpu.room::<f64>(4));
        let args = [At(from), At(out)];
        gpu.launch_in("sum_tree", [4, 1, 1], [128, 1, 1], 8 * 128, &args);
        let want: Vec<f64> = x.chunks(128).map(|part| part.iter().sum()).collect();
        close(gpu, &gpu.get::<f64>(out), &want, 1e-12, 0.0);
    });
}

#[test]
fn a_histogram_with_a_copy_for_each_block() {
    each("histogram", |gpu| {
        let bytes: Vec<u8> = Random::new(4)
            .words(8000)
            .iter()
            .map(|word| (word >> 24) as u8 & 0x7f)
            .collect();
        let (from, bins) = (gpu.put(&bytes), gpu.put(&[0u32; 256]));
        gpu.launch("histogram", 6, 96, &[I32(8000), At(from), At(bins)]);
        let mut want = [0u32; 256];
        bytes.iter().for_each(|byte| want[*byte as usize] += 1);
        equal(gpu, &gpu.get::<u32>(bins), &want);
    });
}

#[test]
fn a_transposition_with_ragged_edges() {
    each("transpose", |gpu| {
        let (rows, columns) = (70usize, 41usize);
        let x = Random::new(5).floats(rows * columns);
        let (from, to) = (gpu.put(&x), gpu.room::<f32>(rows * columns));
        let args = [I32(rows as i32), I32(columns as i32), At(from), At(to)];
        gpu.launch_in("transpose", [2, 3, 1], [32, 8, 1], 0, &args);
        let want: Vec<f32> = (0..rows * columns)
            .map(|i| x[i % rows * columns + i / rows])
            .collect();
        equal(gpu, &gpu.get::<f32>(to), &want);
    });
}

#[test]
fn gravity_of_all_on_all() {
    each("nbody", |gpu| {
        let n = 150usize;
        let bodies = Random::new(6).floats(4 * n);
        let (from, to) = (gpu.put(&bodies), gpu.room::<f32>(4 * n));
        let args = [I32(n as i32), At(from), At(to)];
        gpu.launch_in("accelerations", [3, 1, 1], [64, 1, 1], 64 * 16, &args);
        let body: Vec<[f64; 4]> = bodies
            .chunks(4)
            .map(|b| [0, 1, 2, 3].map(|k| f64::from(b[k])))
            .collect();
        let mut want = Vec::new();
        for own in &body {
            let mut a = [0.0; 3];
            for other in &body {
                let d = [0, 1, 2].map(|k| other[k] - own[k]);
                let r2: f64 = d.iter().map(|d| d * d).sum::<f64>() + 1e-2;
                (0..3).for_each(|k| a[k] += other[3] * d[k] / (r2 * r2.sqrt()));
            }
            want.extend(a);
            want.push(a.iter().map(|a| a * a).sum::<f64>().sqrt());
        }
        close(gpu, &gpu.get::<f32>(to), &want, 1e-4, 1e-3);
    });
}

/// `c = a b` of row-major matrices, in f64.
pub(crate) fn product(m: usize, n: usize, k: usize, a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut c = vec![0.0; m * n];
    for i in 0..m {
        for l in 0..k {
            for j in 0..n {
                c[i * n + j] += a[i * k + l] * b[l * n + j];
            }
        }
    }
    c
}

/// Converts to f64.
pub(crate) fn wide<T: Into<f64> + Copy>(values: &[T]) -> Vec<f64> {
    values.iter().map(|value| (*value).into()).collect()
}

#[test]
fn matrix_products_through_shared_tiles() {
    each("matmul", |gpu| {
        let (m, n, k) = (37usize, 29usize, 43usize);
        let mut random = Random::new(7);
        let (a, b) = (random.floats(m * k), random.floats(k * n));
        let want = product(m, n, k, &wide(&a), &wide(&b));
        let extents = [I32(m as i32), I32(n as i32), I32(k as i32)];
        let run = |kernel: &str, tile: u32, buffers: [super::harness::Buffer; 3]| {
            let mut args = extents.to_vec();
            args.extend(buffers.map(At));
            let grid = [(n as u32).div_ceil(tile), (m as u32).div_ceil(tile), 1];
            gpu.launch_in(kernel, grid, [tile, tile, 1], 0, &args);
        };
        let c = gpu.room::<f32>(m * n);
        run("matmul_f32", 16, [gpu.put(&a), gpu.put(&b), c]);
        close(gpu, &gpu.get::<f32>(c), &want, 1e-5, 1e-5);

        let c = gpu.room::<f64>(m * n);
        let (wa, wb) = (gpu.put(&wide(&a)), gpu.put(&wide(&b)));
        run("matmul_f64", 8, [wa, wb, c]);
        close(gpu, &gpu.get::<f64>(c), &want, 1e-13, 1e-13);

        let ints = |x: &[f32]| -> Vec<i64> { x.iter().map(|x| (x * 1e6) as i64).collect() };
        let (a, b) = (ints(&a), ints(&b));
        let c = gpu.room::<i64>(m * n);
        run("matmul_i64", 8, [gpu.put(&a), gpu.put(&b), c]);
        let want: Vec<i64> = (0..m * n)
            .map(|at| (0..k).map(|l| a[at / n * k + l] * b[l * n + at % n]).sum())
            .collect();
        equal(gpu, &gpu.get::<i64>(c), &want);
    });
}

#[test]
fn a_product_blocked_in_registers() {
    each("matmul", |gpu| {
        let (m, n, k) = (64usize, 128usize, 48usize);
        let mut random = Random::new(8);
        let (a, b) = (random.floats(m * k), random.floats(k * n));
        let c = gpu.room::<f32>(m * n);
        let args = [
            I32(n as i32),
            I32(k as i32),
            At(gpu.put(&a)),
            At(gpu.put(&b)),
            At(c),
        ];
        gpu.launch_in("matmul_blocked", [2, 1, 1], [256, 1, 1], 0, &args);
        let want = product(m, n, k, &wide(&a), &wide(&b));
        close(gpu, &gpu.get::<f32>(c), &want, 1e-5, 1e-5);
    });
}
