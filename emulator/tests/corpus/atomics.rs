//! Atomic operations of every kind.

use half::f16;

use super::harness::{Arg::*, close, each, equal};

/// The fields of `Counters` that are compared: offset and size in bytes.
const FIELDS: [(usize, usize); 20] = [
    (0, 4),
    (4, 4),
    (8, 4),
    (12, 4),
    (16, 4),
    (20, 4),
    (24, 4),
    (28, 4),
    (32, 4),
    (36, 4),
    (40, 8),
    (48, 8),
    (56, 8),
    (64, 8),
    (72, 4),
    (76, 4),
    (80, 4),
    (84, 2),
    (86, 2),
    (88, 8),
];

#[test]
fn operations_on_global_memory() {
    each("atomics", |gpu| {
        let n = 96i64;
        let mut image = vec![0u8; 96];
        let mut set = |field: usize, value: i64| {
            let (offset, bytes) = FIELDS[field];
            image[offset..offset + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
        };
        set(4, -1);
        set(15, 7);
        let counters = gpu.put(&image);
        gpu.launch("operations", 3, 32, &[At(counters)]);
        let image = gpu.get::<u8>(counters);
        let field = |field: usize| {
            let (offset, bytes) = FIELDS[field];
            let mut wide = [0; 8];
            wide[..bytes].copy_from_slice(&image[offset..offset + bytes]);
            i64::from_le_bytes(wide)
        };
        let word = |value: i64| i64::from(value as u32);
        let halves = u32::from(f16::from_f32(96.0).to_bits())
            | u32::from(f16::from_f32(48.0).to_bits()) << 16;
        // `atomicDec` from 0 with 9: 9, 8, .., 0, 9, ..
        let drops = 9 - (n - 1) % 10;
        let want = [
            n * (n - 1) / 2,
            word(-2 * n),
            word(1 - n),
            3 * (n - 1),
            word(!0x1f),
            (1 << 20) - 1,
            (0..n).fold(0, |x, i| x ^ i),
            n % 7,
            drops,
            i64::from((n as f32 / 2.0).to_bits()),
            (n as f64 / 4.0).to_bits() as i64,
            n << 33,
            (n - 1) << 40,
            -(n - 1) << 40,
            i64::from(halves),
            7,
            3 * n,
            n,
            i64::from(f16::from_f32(96.0).to_bits()),
            n << 32,
        ];
        for (i, want) in want.into_iter().enumerate() {
            assert_eq!(field(i), want, "{}: field {i}", gpu.file.display());
        }
    });
}

#[test]
fn operations_on_shared_memory() {
    each("atomics", |gpu| {
        let (out, sums) = (gpu.room::<i32>(4), gpu.room::<f32>(2));
        gpu.launch("shared_operations", 1, 96, &[At(out), At(sums)]);
        equal(gpu, &gpu.get::<i32>(out), &[96 * 95 / 2, -45, 6, 96]);
        equal(gpu, &gpu.get::<f32>(sums), &[96.0, 48.0]);
    });
}

#[test]
fn locks_and_flags_in_the_orders_of_the_standard() {
    each("atomics", |gpu| {
        let zero = || At(gpu.put(&[0i32]));
        let (guarded, out) = (gpu.put(&[0i32]), gpu.put(&[0i32, 0]));
        let args = [zero(), At(guarded), zero(), zero(), At(out)];
        gpu.launch("ordered", 5, 64, &args);
        equal(gpu, &gpu.get::<i32>(guarded), &[5]);
        let out = gpu.get::<i32>(out);
        assert_eq!(out[0], 42);
        close(gpu, &[f32::from_bits(out[1] as u32)], &[32.0], 0.0, 0.0);
    });
}
