//! Asynchronous copies through CUDA's pipelines, barriers and cooperative groups.

use super::harness::{Arg::*, Random, close, each, equal};

#[test]
fn two_stages_of_copies() {
    each("async", |gpu| {
        let threads = 64usize;
        let x = Random::new(70).floats(5 * 4 * threads);
        let out = gpu.room::<f32>(threads);
        let args = [I32(x.len() as i32), At(gpu.put(&x)), At(out)];
        gpu.launch("stream", 1, threads as u32, &args);
        let want: Vec<f64> = (0..threads)
            .map(|t| {
                let tiles = x.chunks(4 * threads);
                let own = tiles.map(|tile| {
                    (0..4)
                        .map(|k| f64::from(tile[(4 * t + 17 * k) % (4 * threads)]))
                        .sum::<f64>()
                });
                own.sum()
            })
            .collect();
        close(gpu, &gpu.get::<f32>(out), &want, 1e-5, 1e-5);
    });
}

#[test]
fn copies_that_fill_with_zeros() {
    each("async", |gpu| {
        let x = Random::new(71).floats(96);
        let out = gpu.room::<f32>(96);
        let args = [I32(50), At(gpu.put(&x)), At(out)];
        gpu.launch("ragged", 1, 96, &args);
        let want: Vec<f32> = (0..96)
            .map(|i| if 95 - i < 50 { x[95 - i] } else { 0.0 })
            .collect();
        equal(gpu, &gpu.get::<f32>(out), &want);
    });
}

#[test]
fn copies_that_complete_on_a_barrier() {
    each("async", |gpu| {
        let threads = 128usize;
        let x = Random::new(72).ints(3 * 4 * threads, 1000);
        let out = gpu.room::<i32>(3 * threads);
        gpu.launch("barriered", 1, 128, &[At(gpu.put(&x)), At(out)]);
        let want: Vec<i32> = (0..3 * threads)
            .map(|i| {
                let (round, t) = (i / threads, i % threads);
                let tile = &x[round * 4 * threads..][..4 * threads];
                let at = |k: usize| (t + k * threads + round) % (4 * threads);
                (0..4).map(|k| tile[at(k)]).sum()
            })
            .collect();
        equal(gpu, &gpu.get::<i32>(out), &want);
    });
}

#[test]
fn one_half_of_a_block_feeds_the_other() {
    each("async", |gpu| {
        for rounds in [2usize, 7] {
            let x = Random::new(73).ints(32 * rounds, 1000);
            let out = gpu.room::<i32>(32);
            let args = [I32(rounds as i32), At(gpu.put(&x)), At(out)];
            gpu.launch("roles", 1, 64, &args);
            let want: Vec<i32> = (0..32)
                .map(|lane| {
                    let stages = x.chunks(32);
                    stages.fold(0i32, |sum, stage| {
                        sum.wrapping_mul(3).wrapping_add(stage[31 - lane])
                    })
                })
                .collect();
            equal(gpu, &gpu.get::<i32>(out), &want);
        }
    });
}

#[test]
fn a_pipeline_of_two_stages() {
    each("async", |gpu| {
        let x = Random::new(74).ints(6 * 128, 1000);
        let out = gpu.room::<i32>(128);
        gpu.launch("pipelined", 1, 128, &[I32(6), At(gpu.put(&x)), At(out)]);
        let want: Vec<i32> = (0..128)
            .map(|t| {
                x.chunks(128).fold(0i32, |sum, tile| {
                    sum.wrapping_mul(5).wrapping_add(tile[127 - t])
                })
            })
            .collect();
        equal(gpu, &gpu.get::<i32>(out), &want);
    });
}

#[test]
fn a_copy_of_a_whole_block() {
    each("async", |gpu| {
        let x = Random::new(75).ints(3 * 96, 1000);
        let out = gpu.room::<i32>(3 * 96);
        let args = [At(gpu.put(&x)), At(out)];
        gpu.launch_in("staged", [3, 1, 1], [96, 1, 1], 4 * 96, &args);
        let want: Vec<i32> = x.chunks(96).flat_map(|b| b.iter().rev().copied()).collect();
        equal(gpu, &gpu.get::<i32>(out), &want);
    });
}
