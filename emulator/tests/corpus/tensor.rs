//! Tensor cores: mma.sync and wgmma from inline PTX and from Triton, wmma from CUDA C++.

use half::{bf16, f16};

use warpsmith_emulator::{Fill, Swizzle, TensorMapDesc, TensorMapType};

use super::harness::{Arg, Arg::*, Buffer, Element, Gpu, Random, close, each, equal};
use super::plain::{product, wide};

/// `count` values in -1..1 of a narrow float type.
fn values<T>(random: &mut Random, count: usize, of: impl Fn(f32) -> T) -> Vec<T> {
    random.floats(count).into_iter().map(of).collect()
}

/// Transposes an `n` by `k` matrix.
fn transposed(n: usize, k: usize, b: &[f64]) -> Vec<f64> {
    (0..n * k).map(|i| b[i % n * k + i / n]).collect()
}

#[test]
fn a_double_buffered_product() {
    each("mma", |gpu| {
        let (m, n, k) = (128usize, 64usize, 96usize);
        let mut random = Random::new(80);
        let a = values(&mut random, m * k, bf16::from_f32);
        let b = values(&mut random, n * k, bf16::from_f32);
        let c = gpu.room::<f32>(m * n);
        let args = [
            I32(n as i32),
            I32(k as i32),
            At(gpu.put(&a)),
            At(gpu.put(&b)),
            At(c),
        ];
        gpu.launch_in("gemm_bf16", [1, 2, 1], [128, 1, 1], 0, &args);
        let want = product(m, n, k, &wide(&a), &transposed(n, k, &wide(&b)));
        close(gpu, &gpu.get::<f32>(c), &want, 1e-5, 1e-5);
    });
}

#[test]
fn a_product_of_wmma_fragments() {
    each("wmma", |gpu| {
        let (m, n, k) = (48usize, 32usize, 80usize);
        let mut random = Random::new(85);
        let a = values(&mut random, m * k, f16::from_f32);
        let b = values(&mut random, k * n, f16::from_f32);
        let c = gpu.room::<f32>(m * n);
        let args = [
            I32(n as i32),
            I32(k as i32),
            At(gpu.put(&a)),
            At(gpu.put(&b)),
            At(c),
        ];
        gpu.launch_in("product", [2, 3, 1], [32, 1, 1], 0, &args);
        let sums = product(m, n, k, &wide(&a), &wide(&b));
        let want: Vec<f64> = sums.iter().map(|sum| 2.0 * (0.5 + sum)).collect();
        close(gpu, &gpu.get::<f32>(c), &want, 1e-5, 1e-5);
    });
}

/// Checks Triton's `matmul` for `T`, with ragged extents.
fn check_matmul<T: Element>(
    gpu: &Gpu,
    tile: [u32; 2],
    warps: u32,
    of: impl Fn(f32) -> (T, f64),
    bound: f64,
) {
    let (m, n, k) = (72usize, 80usize, 144usize);
    let mut random = Random::new(81);
    let a: Vec<(T, f64)> = values(&mut random, m * k, &of);
    let b: Vec<(T, f64)> = values(&mut random, k * n, &of);
    let c = gpu.room::<f32>(m * n);
    let narrow = |x: &[(T, f64)]| gpu.put(&x.iter().map(|x| x.0).collect::<Vec<T>>());
    let exact = |x: &[(T, f64)]| x.iter().map(|x| x.1).collect::<Vec<f64>>();
    let args = [
        At(narrow(&a)),
        At(narrow(&b)),
        At(c),
        I32(m as i32),
        I32(n as i32),
        I32(k as i32),
    ];
    let grid = [
        (m as u32).div_ceil(tile[0]),
        (n as u32).div_ceil(tile[1]),
        1,
    ];
    gpu.launch_triton("matmul", grid, warps, &args);
    let want = product(m, n, k, &exact(&a), &exact(&b));
    close(gpu, &gpu.get::<f32>(c), &want, bound, bound);
}

#[test]
fn triton_products_of_halves() {
    let half = |x| (f16::from_f32(x), f64::from(f16::from_f32(x)));
    each("tensor_matmul_f16", |gpu| {
        check_matmul(gpu, [64, 64], 4, half, 1e-5)
    });
}

#[test]
fn triton_products_of_tf32() {
    // tf32 keeps 10 bits of the f32's fraction.
    let cut = |x: f32| (x, f64::from(x));
    each("tensor_matmul_f32", |gpu| {
        check_matmul(gpu, [32, 32], 2, cut, 0.02)
    });
}

#[test]
fn triton_products_of_eighths() {
    // e5m2 is the upper byte of f16; these values are exact in both.
    let eighth = |x: f32| {
        let bits = (f16::from_f32(x).to_bits() >> 8) as u8;
        (bits, f64::from(f16::from_bits(u16::from(bits) << 8)))
    };
    each("tensor_matmul_e5m2", |gpu| {
        // The accumulator of fp8 keeps 13 bits between its roundings.
        check_matmul(gpu, [64, 64], 4, eighth, 4e-3)
    });
}

#[test]
fn triton_products_of_bytes() {
    each("tensor_matmul_i8", |gpu| {
        let (m, n, k) = (64usize, 128usize, 128usize);
        let mut random = Random::new(82);
        let mut bytes =
            |count| -> Vec<u8> { random.words(count).iter().map(|w| *w as u8).collect() };
        let (a, b) = (bytes(m * k), bytes(n * k));
        let c = gpu.room::<i32>(m * n);
        let args = [
            At(gpu.put(&a)),
            At(gpu.put(&b)),
            At(c),
            I32(n as i32),
            I32(k as i32),
        ];
        gpu.launch_triton("matmul_i8", [1, 2, 1], 4, &args);
        let dot = |i: usize, j: usize| -> i32 {
            let rows = a[i * k..][..k].iter().zip(&b[j * k..][..k]);
            rows.map(|(a, b)| i32::from(*a as i8) * i32::from(*b as i8))
                .sum()
        };
        let want: Vec<i32> = (0..m * n).map(|i| dot(i / n, i % n)).collect();
        equal(gpu, &gpu.get::<i32>(c), &want);
    });
}

/// Causal attention of one head, in f64.
fn attention(d: usize, scale: f64, q: &[f64], k: &[f64], v: &[f64]) -> Vec<f64> {
    let rows = q.chunks(d).enumerate();
    rows.flat_map(|(i, q)| {
        let score = |k: &[f64]| q.iter().zip(k).map(|(a, b)| a * b).sum::<f64>() * scale;
        let scores: Vec<f64> = k.chunks(d).take(i + 1).map(score).collect();
        let top = scores.iter().copied().fold(f64::MIN, f64::max);
        let p: Vec<f64> = scores.iter().map(|s| (s - top).exp()).collect();
        let sum: f64 = p.iter().sum();
        (0..d).map(move |c| {
            p.iter()
                .enumerate()
                .map(|(j, p)| p * v[j * d + c])
                .sum::<f64>()
                / sum
        })
    })
    .collect()
}

#[test]
fn triton_attention() {
    each("tensor_attention", |gpu| {
        let (heads, length, d) = (2usize, 100usize, 64usize);
        let mut random = Random::new(83);
        let mut tensor = || values(&mut random, heads * length * d, f16::from_f32);
        let (q, k, v) = (tensor(), tensor(), tensor());
        let o = gpu.room::<f16>(heads * length * d);
        let args = [
            At(gpu.put(&q)),
            At(gpu.put(&k)),
            At(gpu.put(&v)),
            At(o),
            F32(0.125),
            I32(length as i32),
        ];
        gpu.launch_triton("attention", [2, heads as u32, 1], 4, &args);
        let (q, k, v) = (wide(&q), wide(&k), wide(&v));
        let size = length * d;
        let want: Vec<f64> = (0..heads)
            .flat_map(|h| {
                let part = |x: &[f64]| x[h * size..][..size].to_vec();
                attention(d, 0.125, &part(&q), &part(&k), &part(&v))
            })
            .collect();
        // Probabilities and results are rounded to f16.
        close(gpu, &gpu.get::<f16>(o), &want, 2e-3, 2e-3);
    });
}

/// The arguments that a Triton tensor descriptor becomes: the map of a row-major matrix, extents,
/// strides.
fn descriptor(buffer: Buffer, rows: usize, columns: usize, tile: [u32; 2]) -> Vec<Arg> {
    let map = TensorMapDesc {
        data_type: TensorMapType::F16,
        address: buffer.address,
        dims: vec![columns as u64, rows as u64],
        strides_bytes: vec![2 * columns as u64],
        box_dims: vec![tile[1], tile[0]],
        element_strides: vec![1, 1],
        swizzle: Swizzle::B128,
        fill: Fill::Zeros,
    };
    let map = map.encode().expect("the map is valid");
    vec![
        Bytes(map.to_vec()),
        I32(rows as i32),
        I32(columns as i32),
        U64(columns as u64),
        U64(1),
    ]
}

#[test]
fn a_triton_product_through_descriptors() {
    each("tensor_matmul_tma", |gpu| {
        let (m, n, k) = (100usize, 136usize, 168usize);
        let mut random = Random::new(84);
        let a = values(&mut random, m * k, f16::from_f32);
        let b = values(&mut random, n * k, f16::from_f32);
        let c = gpu.room::<f16>(m * n);
        let mut args = descriptor(gpu.put(&a), m, k, [64, 64]);
        args.extend(descriptor(gpu.put(&b), n, k, [128, 64]));
        args.extend(descriptor(c, m, n, [64, 64]));
        args.extend([I32(m as i32), I32(n as i32), I32(k as i32)]);
        gpu.launch_triton("matmul_tma", [2, 2, 1], 4, &args);
        let want = product(m, n, k, &wide(&a), &transposed(n, k, &wide(&b)));
        close(gpu, &gpu.get::<f16>(c), &want, 1.0 / 1024.0, 1e-4);
    });
}
