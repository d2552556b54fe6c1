//! Hopper by inline PTX: bulk and tensor copies, clusters, wgmma, a ring of stages.

use half::f16;
use warpsmith_emulator::{Fill, Swizzle, TensorMapDesc, TensorMapType};

use super::harness::{Arg::*, Buffer, Random, close, each, equal};
use super::plain::{product, wide};

#[test]
fn bulk_copies_in_and_out() {
    each("hopper", |gpu| {
        let x = Random::new(90).floats(3 * 1024);
        let out = gpu.room::<f32>(3 * 1024);
        gpu.launch("bulk", 3, 128, &[At(gpu.put(&x)), At(out)]);
        let want: Vec<f32> = x.iter().map(|x| 2.0 * x).collect();
        equal(gpu, &gpu.get::<f32>(out), &want);
    });
}

/// The map of a row-major matrix of f32 in tiles of 32 by 32.
fn map(buffer: Buffer, rows: usize, columns: usize) -> Vec<u8> {
    let map = TensorMapDesc {
        data_type: TensorMapType::F32,
        address: buffer.address,
        dims: vec![columns as u64, rows as u64],
        strides_bytes: vec![4 * columns as u64],
        box_dims: vec![32, 32],
        element_strides: vec![1, 1],
        swizzle: Swizzle::None,
        fill: Fill::Zeros,
    };
    map.encode().expect("the map is valid").to_vec()
}

#[test]
fn a_transposition_by_tensor_maps() {
    each("hopper", |gpu| {
        let (rows, columns) = (40usize, 68usize);
        let x = Random::new(91).floats(rows * columns);
        let out = gpu.room::<f32>(rows * columns);
        let args = [
            Bytes(map(gpu.put(&x), rows, columns)),
            Bytes(map(out, columns, rows)),
        ];
        gpu.launch_in("tiles", [3, 2, 1], [256, 1, 1], 0, &args);
        let want: Vec<f32> = (0..rows * columns)
            .map(|i| x[i % rows * columns + i / rows])
            .collect();
        equal(gpu, &gpu.get::<f32>(out), &want);
    });
}

#[test]
fn a_histogram_over_a_cluster() {
    each("hopper", |gpu| {
        let x = Random::new(92).ints(3000, 256);
        let bins = gpu.put(&[0i32; 256]);
        let args = [I32(3000), At(gpu.put(&x)), At(bins)];
        gpu.launch("cluster_histogram", 8, 96, &args);
        let mut want = [0; 256];
        x.iter().for_each(|x| want[*x as usize] += 1);
        equal(gpu, &gpu.get::<i32>(bins), &want);
    });
}

#[test]
fn blocks_that_read_their_neighbours() {
    each("hopper", |gpu| {
        let x = Random::new(93).floats(4 * 64);
        let out = gpu.room::<f32>(4 * 64);
        let args = [At(gpu.put(&x)), At(out)];
        gpu.launch_in("cluster_swap", [4, 1, 1], [64, 1, 1], 4 * 64, &args);
        let want: Vec<f32> = (0..256)
            .map(|i| x[((i / 64) ^ 1) * 64 + 63 - i % 64] + 2.0)
            .collect();
        equal(gpu, &gpu.get::<f32>(out), &want);
    });
}

#[test]
fn a_product_by_wgmma() {
    each("hopper", |gpu| {
        let mut random = Random::new(94);
        let mut halves = |count| -> Vec<f16> {
            let floats = random.floats(count);
            floats.into_iter().map(f16::from_f32).collect()
        };
        let (a, b) = (halves(64 * 64), halves(8 * 64));
        let d = gpu.room::<f32>(64 * 8);
        gpu.launch(
            "product",
            1,
            128,
            &[At(gpu.put(&a)), At(gpu.put(&b)), At(d)],
        );
        let columns: Vec<f64> = (0..64 * 8)
            .map(|i| f64::from(b[i % 8 * 64 + i / 8]))
            .collect();
        let want = product(64, 8, 64, &wide(&a), &columns);
        close(gpu, &gpu.get::<f32>(d), &want, 1e-5, 1e-5);
    });
}

#[test]
fn a_ring_of_three_stages() {
    each("hopper", |gpu| {
        for tiles in [1usize, 3, 10] {
            let x = Random::new(95).floats(512 * tiles);
            let out = gpu.room::<f32>(256);
            let args = [I32(tiles as i32), At(gpu.put(&x)), At(out)];
            gpu.launch("ring", 1, 384, &args);
            let want: Vec<f64> = (0..256)
                .map(|me| {
                    let stages = x.chunks(512).enumerate();
                    let own = stages.map(|(t, stage)| {
                        let at = |k: usize| (me + 128 * k + t) % 512;
                        (0..4).map(|k| f64::from(stage[at(k)])).sum::<f64>()
                    });
                    own.sum()
                })
                .collect();
            close(gpu, &gpu.get::<f32>(out), &want, 1e-5, 1e-5);
        }
    });
}
