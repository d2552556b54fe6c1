//! Hopper's GEMM kernels, each launched as `spec` says: small integers, so exact, in a D that was
//! full of NaN, with all of the emulator's checks.

use half::bf16;
use spec::gemm::sm90::{EpilogueKind, Schedule, Sm90Entry, Sm90Launch, Sm90Tile, THREADS};
use spec::gemm::{EpilogueParams, GemmParams, Transpose};
use warpsmith::testing::devices;
use warpsmith::{
    DType, Device, DeviceBuffer, KernelArg, LaunchConfig, TensorMap, TensorMapDesc,
    TensorMapSwizzle, TensorMapType,
};

fn hoppers() -> impl Iterator<Item = Device> {
    let devices = devices().into_iter();
    devices.filter(|device| device.is_emulator() || device.arch() == (9, 0))
}

fn entries() -> Vec<Sm90Entry> {
    use EpilogueKind::{Fused, Plain};
    use Schedule::{Cooperative, Pingpong};
    use Transpose::{N, T};
    let entries = [
        (N, T, 128, 256, 4, 1, Cooperative, Plain),
        (N, T, 128, 256, 4, 2, Cooperative, Plain),
        (N, T, 128, 192, 4, 1, Cooperative, Plain),
        (N, T, 128, 128, 6, 1, Pingpong, Plain),
        (N, T, 128, 64, 8, 1, Pingpong, Plain),
        (N, T, 128, 64, 8, 1, Cooperative, Plain),
        (N, N, 128, 128, 6, 1, Pingpong, Plain),
        (T, N, 128, 128, 6, 1, Pingpong, Plain),
        (T, T, 128, 128, 6, 1, Pingpong, Plain),
        (N, N, 128, 256, 4, 1, Cooperative, Plain),
        (T, N, 128, 256, 4, 1, Cooperative, Plain),
        (T, T, 128, 256, 4, 1, Cooperative, Plain),
        (N, T, 128, 256, 4, 1, Cooperative, Fused),
        (N, T, 128, 128, 6, 1, Pingpong, Fused),
    ];
    entries
        .map(
            |(trans_a, trans_b, tile_m, tile_n, stages, cluster_m, schedule, epilogue)| {
                let tile = Sm90Tile {
                    tile_m,
                    tile_n,
                    stages,
                    cluster_m,
                    schedule,
                };
                let dtype = DType::Bf16;
                Sm90Entry {
                    a: dtype,
                    b: dtype,
                    output: dtype,
                    trans_a,
                    trans_b,
                    tile,
                    epilogue,
                }
            },
        )
        .to_vec()
}

fn integers(count: usize, seed: usize) -> Vec<i32> {
    (0..count)
        .map(|i| ((i * 7919 + i / 61 * 31 + seed) % 7) as i32 - 3)
        .collect()
}

/// Each matrix of the batch, `[rows, columns]`, transposed.
fn transposed(x: &[i32], rows: usize, columns: usize) -> Vec<i32> {
    let matrices = x.chunks(rows * columns);
    matrices
        .flat_map(|x| {
            let places = (0..columns).flat_map(|j| (0..rows).map(move |i| i * columns + j));
            places.map(|at| x[at])
        })
        .collect()
}

fn bf16s(values: &[i32]) -> Vec<bf16> {
    values.iter().map(|&x| bf16::from_f32(x as f32)).collect()
}

fn map(buffer: &DeviceBuffer<bf16>, dims: [u64; 3], rows: u32) -> TensorMap {
    let desc = TensorMapDesc::new(
        TensorMapType::Bf16,
        &dims,
        &[2 * dims[0], 2 * dims[0] * dims[1]],
        &[64, rows, 1],
    );
    desc.swizzle(TensorMapSwizzle::B128)
        .encode(buffer)
        .expect("by the rules")
}

fn check(device: &Device, entry: Sm90Entry, [m, n, k, batch]: [usize; 4]) {
    let (a, b) = (integers(batch * m * k, 1), integers(batch * n * k, 5));
    // `a` and `b` are K-major here; the kernels get them as they want them.
    let a_stored = match entry.trans_a {
        Transpose::N => a.clone(),
        Transpose::T => transposed(&a, m, k),
    };
    let b_stored = match entry.trans_b {
        Transpose::T => b.clone(),
        Transpose::N => transposed(&b, n, k),
    };
    let buffer_a = DeviceBuffer::from_slice(device, &bf16s(&a_stored)).expect("memory");
    let buffer_b = DeviceBuffer::from_slice(device, &bf16s(&b_stored)).expect("memory");
    let d = DeviceBuffer::from_slice(device, &vec![bf16::NAN; batch * m * n]).expect("memory");
    let [mm, nn, kk, bb] = [m as u64, n as u64, k as u64, batch as u64];
    let tile = entry.tile;
    let map_a = match entry.trans_a {
        Transpose::N => map(&buffer_a, [kk, mm, bb], tile.tile_m),
        Transpose::T => map(&buffer_a, [mm, kk, bb], 64),
    };
    let map_b = match entry.trans_b {
        Transpose::T => map(&buffer_b, [kk, nn, bb], tile.tile_n / tile.cluster_m),
        Transpose::N => map(&buffer_b, [nn, kk, bb], 64),
    };
    let map_d = map(&d, [nn, mm, bb], 16);
    let params = GemmParams {
        m: m as u32,
        n: n as u32,
        k: k as u32,
        batch: batch as u32,
        lda: k as i64,
        ldb: k as i64,
        ldc: n as i64,
        ldd: n as i64,
        batch_stride_a: (m * k) as i64,
        batch_stride_b: (n * k) as i64,
        batch_stride_c: 0,
        batch_stride_d: (m * n) as i64,
        alpha: 1.0,
        beta: 0.0,
    };
    let launch = Sm90Launch {
        raster_group: 8,
        flags: 0,
    };
    let blocks = tile
        .grid(params.m, params.n, params.batch, 6)
        .expect("there are tiles");
    let config = LaunchConfig {
        grid: [blocks, 1, 1],
        block: [THREADS, 1, 1],
        shared_bytes: tile.smem_bytes(),
        cluster: None,
    };
    let stream = device.stream().expect("a stream");
    let kernel = match std::env::var("LAB_PTX") {
        Ok(path) => device
            .load_ptx(&std::fs::read_to_string(path).unwrap())
            .unwrap()
            .kernel(&entry.to_string())
            .unwrap(),
        Err(_) => device
            .builtin_kernel(&entry.to_string())
            .expect("the kernel is embedded"),
    };
    // SAFETY: as spec says.
    unsafe {
        match entry.epilogue {
            EpilogueKind::Plain => {
                kernel.launch(&stream, config, (&map_a, &map_b, &map_d, params, launch))
            }
            EpilogueKind::Fused => {
                let none = None::<&DeviceBuffer<bf16>>;
                let no_f32 = None::<&DeviceBuffer<f32>>;
                let epilogue = EpilogueParams::default();
                let arguments: [&dyn KernelArg; 14] = [
                    &&map_a, &&map_b, &&map_d, &none, &&d, &none, &none, &no_f32, &no_f32, &no_f32,
                    &no_f32, &params, &epilogue, &launch,
                ];
                kernel.launch(&stream, config, &arguments[..])
            }
        }
    }
    .expect("it starts");
    stream
        .synchronize()
        .unwrap_or_else(|error| panic!("{entry}: {error}"));
    let got = d.to_vec().expect("readable");
    for at in 0..batch * m * n {
        let (product, row, column) = (at / (m * n), at / n % m, at % n);
        let sum: i32 = (0..k)
            .map(|i| a[(product * m + row) * k + i] * b[(product * n + column) * k + i])
            .sum();
        let want = bf16::from_f32(sum as f32);
        assert_eq!(
            got[at], want,
            "{entry} at {product}, {row}, {column} of {m}, {n}, {k}"
        );
    }
}

#[test]
fn every_kernel_is_exact_over_several_tiles_and_ragged_edges() {
    for device in hoppers() {
        for entry in entries() {
            check(&device, entry, [304, 520, 200, 1]);
            check(&device, entry, [64, 8, 8, 3]);
            check(&device, entry, [520, 312, 64, 2]);
        }
    }
}
