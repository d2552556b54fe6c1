//! CUDA's own headers: cooperative groups, CUB, printf and assert.

use super::harness::{Arg::*, Random, close, each, equal};

#[test]
fn tiles_of_a_block() {
    each("cooperative", |gpu| {
        let x = Random::new(60).ints(96, 40);
        let out = gpu.room::<i32>(8 * 96);
        gpu.launch("tiles", 1, 96, &[At(gpu.put(&x)), At(out)]);
        for (i, got) in gpu.get::<i32>(out).chunks(8).enumerate() {
            let tile = &x[i / 8 * 8..][..8];
            let warp = &x[i / 32 * 32..][..32];
            let threes: Vec<usize> = (0..32).filter(|l| warp[*l] % 3 == 0).collect();
            let rank = threes.iter().position(|l| *l == i % 32);
            let parity = warp.iter().filter(|v| *v % 2 == x[i] % 2);
            let want = [
                tile.iter().sum(),
                tile.iter().copied().max().unwrap_or(0),
                tile[3] + (i as i32 % 8) + 1000 * (i as i32 / 8),
                (0..8).fold(0, |m, l| m | (tile[l] % 2) << l),
                tile[..=i % 8].iter().sum(),
                tile[..i % 8].iter().fold(0, |a, b| a ^ b),
                rank.map_or(0, |rank| threes.len() as i32 * 100 + rank as i32),
                parity.sum(),
            ];
            equal(gpu, got, &want);
        }
    });
}

#[test]
fn tiles_of_two_warps() {
    each("cooperative", |gpu| {
        let x = Random::new(61).floats(256);
        let out = gpu.room::<f32>(256);
        gpu.launch("block_tiles", 1, 256, &[At(gpu.put(&x)), At(out)]);
        let want: Vec<f64> = (0..256)
            .map(|i| {
                let tile = &x[i / 64 * 64..][..64];
                tile.iter().map(|x| f64::from(*x)).sum::<f64>() + (i % 64) as f64
            })
            .collect();
        close(gpu, &gpu.get::<f32>(out), &want, 1e-5, 1e-4);
    });
}

#[test]
fn clocks_run() {
    each("cooperative", |gpu| {
        let out = gpu.room::<i64>(64);
        gpu.launch("clocks", 1, 64, &[At(out)]);
        equal(gpu, &gpu.get::<i64>(out), &[31; 64]);
    });
}

#[test]
fn cub_sorts_scans_and_reduces_blocks() {
    each("cub", |gpu| {
        let x = Random::new(62).words(1024);
        let out = gpu.room::<u32>(1024);
        gpu.launch("sort", 2, 128, &[At(gpu.put(&x)), At(out)]);
        let mut want = x;
        want.chunks_mut(512).for_each(<[u32]>::sort_unstable);
        equal(gpu, &gpu.get::<u32>(out), &want);

        let x = Random::new(63).ints(256, 90);
        let (out, total) = (gpu.room::<i32>(256), gpu.room::<i32>(1));
        gpu.launch("scan", 1, 128, &[At(gpu.put(&x)), At(out), At(total)]);
        let want: Vec<i32> = (0..256).map(|i| x[..i].iter().sum()).collect();
        equal(gpu, &gpu.get::<i32>(out), &want);
        equal(gpu, &gpu.get::<i32>(total), &[x.iter().sum()]);

        let x: Vec<f64> = (0..96).map(|i| f64::from(i) / 3.0).collect();
        let out = gpu.room::<f64>(1);
        gpu.launch("reduce", 1, 96, &[At(gpu.put(&x)), At(out)]);
        close(gpu, &gpu.get::<f64>(out), &[x.iter().sum()], 1e-14, 0.0);
    });
}

#[test]
fn printf_prints_and_assert_stops() {
    each("print", |gpu| {
        let name = gpu.put(b"kernel\0");
        gpu.launch("print", 2, 64, &[At(name)]);
        let printed = gpu.printed();
        let mut lines: Vec<&str> = printed.lines().collect();
        lines.sort_unstable();
        let want = [
            "kernel: -5 7  2.50 c 1099511627776 beef %",
            "thread 33 of block 0",
            "thread 33 of block 1",
        ];
        assert_eq!(lines, want);

        gpu.launch("check", 1, 64, &[I32(64)]);
        let error = gpu.try_launch("check", [1; 3], [64, 1, 1], 0, &[I32(40)]);
        let report = error.expect_err("thread 40 is too many").to_string();
        assert!(report.contains("too many threads"), "{report}");
        assert!(report.contains("print.cu"), "{report}");
    });
}
