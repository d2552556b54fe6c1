//! Warp-wide operations.

use super::harness::{Arg::*, Random, each, equal};

/// What `collectives` writes for one lane.
fn collectives(x: &[i32], lane: usize) -> [u32; 16] {
    let ballot = |f: &dyn Fn(i32) -> bool| (0..32).fold(0u32, |m, l| m | u32::from(f(x[l])) << l);
    let up = if lane % 8 >= 3 { lane - 3 } else { lane };
    let down = if lane % 16 < 14 { lane + 2 } else { lane };
    let third = lane.is_multiple_of(3);
    let next = if lane < 31 { lane + 1 } else { lane };
    let all_same = x.iter().all(|v| v / 1000 == x[0] / 1000);
    let all = x.iter().all(|v| *v < 1000);
    [
        x[31 - lane] as u32,
        x[up] as u32,
        x[down] as u32,
        x[lane ^ 5] as u32,
        ballot(&|v| v % 2 != 0),
        u32::from(x.contains(&3)) | u32::from(all) << 1,
        ballot(&|v| v % 4 == x[lane] % 4),
        if all_same { u32::MAX } else { 0 },
        u32::from(all_same),
        (((x[lane ^ 1] as i64) << 33) >> 32) as u32,
        x[next] as u32,
        if third {
            (11 * 100 + lane as u32 / 3) + ((x[0] as u32) << 16)
        } else {
            0
        },
        x.iter().sum::<i32>() as u32,
        x.iter().copied().max().unwrap_or(0) as u32,
        x.iter().copied().min().unwrap_or(0) as u32,
        x.iter().fold(0, |a, b| a ^ *b as u32),
    ]
}

#[test]
fn shuffles_votes_matches_and_reductions() {
    each("warp", |gpu| {
        let mut x = Random::new(14).ints(64, 50);
        x.extend(Random::new(15).ints(32, 3000));
        let out = gpu.room::<u32>(16 * 96);
        gpu.launch("collectives", 1, 96, &[At(gpu.put(&x)), At(out)]);
        let want: Vec<u32> = x
            .chunks(32)
            .flat_map(|warp| (0..32).flat_map(|lane| collectives(warp, lane)))
            .collect();
        equal(gpu, &gpu.get::<u32>(out), &want);
    });
}

#[test]
fn a_scan_of_a_block() {
    each("warp", |gpu| {
        let x = Random::new(16).ints(512, 100);
        let data = gpu.put(&x);
        gpu.launch("scan", 1, 512, &[At(data)]);
        let mut sum = 0;
        let want: Vec<i32> = x
            .iter()
            .map(|x| {
                sum += x;
                sum
            })
            .collect();
        equal(gpu, &gpu.get::<i32>(data), &want);
    });
}

#[test]
fn lanes_with_one_key_add_once() {
    each("warp", |gpu| {
        let keys = Random::new(17).ints(128, 5);
        let (counters, places) = (gpu.put(&[0i32; 5]), gpu.room::<i32>(128));
        gpu.launch(
            "aggregated",
            1,
            128,
            &[At(gpu.put(&keys)), At(counters), At(places)],
        );
        let mut want = [0; 5];
        keys.iter().for_each(|key| want[*key as usize] += 1);
        equal(gpu, &gpu.get::<i32>(counters), &want);
        // The places of each key are 0, 1, 2, .. in some order.
        let mut seen: Vec<(i32, i32)> = keys.iter().copied().zip(gpu.get::<i32>(places)).collect();
        seen.sort_unstable();
        let all: Vec<(i32, i32)> = (0..5)
            .flat_map(|key| (0..want[key as usize]).map(move |i| (key, i)))
            .collect();
        assert_eq!(seen, all);
    });
}
