//! Integer intrinsics.

use super::harness::{Arg::*, Random, each, equal};

fn bytes(word: u32) -> [i64; 4] {
    word.to_le_bytes().map(i64::from)
}

fn signed(word: u32) -> [i64; 4] {
    word.to_le_bytes().map(|b| i64::from(b as i8))
}

fn dot(a: [i64; 4], b: [i64; 4], c: u32) -> u32 {
    let sum: i64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
    (sum as u32).wrapping_add(c)
}

fn permute(a: u32, b: u32, selector: u32) -> u32 {
    let pool = u64::from(b) << 32 | u64::from(a);
    (0..4).fold(0, |r, i| {
        r | ((pool >> (8 * (selector >> (4 * i) & 7))) as u32 & 0xff) << (8 * i)
    })
}

fn field(a: u32, from: u32, len: u32, signed: bool) -> u32 {
    let wide = if signed {
        i64::from(a as i32)
    } else {
        i64::from(a)
    };
    let top = (from + len).min(32);
    if len == 0 {
        return 0;
    }
    if !signed {
        return ((wide >> from) & ((1i64 << len) - 1)) as u32;
    }
    // Bits beyond 31 are copies of the sign bit.
    let high = if top == 32 { 31 } else { top - 1 };
    let sign = a >> high & 1;
    let mut r = 0u32;
    for i in 0..32 {
        let bit = if i < len && from + i < 32 {
            a >> (from + i) & 1
        } else {
            sign
        };
        r |= bit << i;
    }
    r
}

fn integers(a: u32, b: u32, c: u32) -> [u32; 32] {
    let (sa, sb) = (a as i32, b as i32);
    let wide = u64::from(a) << 32 | u64::from(b);
    let ac = u64::from(a) << 32 | u64::from(c);
    let u24 = |x: u32| u64::from(x & 0xff_ffff);
    let s24 = |x: i32| i64::from((x << 8) >> 8);
    let words = |w: u32| {
        [
            i64::from(w as u16 as i16),
            i64::from((w >> 16) as u16 as i16),
        ]
    };
    let uwords = |w: u32| [i64::from(w as u16), i64::from((w >> 16) as u16)];
    let low = signed(b);
    let high = bytes(b);
    let pair = |x: [i64; 2], y: [i64; 2]| ((x[0] * y[0] + x[1] * y[1]) as u32).wrapping_add(c);
    let ffs = |x: u64| if x == 0 { 0 } else { x.trailing_zeros() + 1 };
    let odd = u64::from(b | 1);
    let sodd = (b | 1) as i32;
    let clamp = (c & 63).min(32);
    let sh = b & 31;
    let insert = {
        let (from, len) = (c & 31, b & 15);
        let mask = (((1u64 << len) - 1) << from) as u32;
        ((a << from) & mask) | (b & !mask)
    };
    let szext = {
        let n = b & 31;
        if n == 0 {
            0
        } else {
            ((a << (32 - n)) as i32 >> (32 - n)) as u32
        }
    };
    let mask = {
        let (from, len) = (a & 31, b & 31);
        ((((1u64 << len) - 1) << from) & 0xffff_ffff) as u32
    };
    [
        dot(signed(a), signed(b), c),
        dot(bytes(a), bytes(b), c),
        pair(words(a), [low[0], low[1]]),
        pair(uwords(a), [high[2], high[3]]),
        permute(a, b, c & 0x7777),
        a.reverse_bits(),
        a.leading_zeros() * 64 + wide.leading_zeros(),
        a.count_ones() * 64 + wide.count_ones(),
        ffs(u64::from(a)) * 64 + ffs(u64::from(b) << 32),
        ((u64::from(b) << 32 | u64::from(a)) << (c & 31) >> 32) as u32,
        ((u64::from(b) << 32 | u64::from(a)) >> clamp) as u32,
        ((i64::from(sa) * i64::from(sb)) >> 32) as u32,
        ((u64::from(a) * u64::from(b)) >> 32) as u32,
        (s24(sa) * s24(sb)) as u32,
        ((u24(a) * u24(b)) as u32)
            .wrapping_add((i64::from(sa) - i64::from(sb)).unsigned_abs() as u32)
            .wrapping_add(c),
        ((u128::from(wide) * u128::from(u64::from(b) << 32 | u64::from(c))) >> 64) as u32,
        ((i64::from(sa) + i64::from(sb) + 1) >> 1) as u32,
        ((u64::from(a) + u64::from(b)) >> 1) as u32,
        (a & b) ^ (!c | a),
        a.checked_div(b).map_or(0, |q| q.wrapping_add(a % b)),
        if b == 0 {
            0
        } else {
            sa.wrapping_div(sodd).wrapping_add(sa.wrapping_rem(sodd)) as u32
        },
        (ac / odd) as u32 ^ (ac % odd) as u32,
        ((ac as i64).wrapping_div(i64::from(sodd))) as u32,
        field(a, sh, c & 31, false),
        field(a, sh, c & 31, true),
        insert,
        (a >> (16 * (c & 1)) & 0xffff) * 0x1_0001,
        a ^ b ^ c,
        ((u64::from(a) * u64::from(b) + 7) >> 32) as u32,
        szext,
        mask,
        (a | 1).leading_zeros(),
    ]
}

#[test]
fn intrinsics_of_words() {
    each("bits", |gpu| {
        let mut x = Random::new(18).words(3 * 60);
        for (i, special) in [0, 1, u32::MAX, 1 << 31, 0x7fff_ffff, 0x8080_8080]
            .into_iter()
            .enumerate()
        {
            x[3 * i] = special;
            x[3 * i + 10] = special;
            x[3 * i + 23] = special;
        }
        let out = gpu.room::<u32>(32 * 60);
        gpu.launch("integers", 1, 60, &[At(gpu.put(&x)), At(out)]);
        let got = gpu.get::<u32>(out);
        for (i, (got, x)) in got.chunks(32).zip(x.chunks(3)).enumerate() {
            let want = integers(x[0], x[1], x[2]);
            for k in 0..32 {
                assert_eq!(got[k], want[k], "result {k} of {x:x?}, thread {i}");
            }
        }
    });
}

/// Applies `f` to each part of `bits` bits, sign-extended or not; results are truncated.
fn parts(a: u32, b: u32, bits: u32, sign: bool, f: impl Fn(i64, i64) -> i64) -> u32 {
    let part = |w: u32, at: u32| {
        let v = i64::from(w >> at) & ((1 << bits) - 1);
        if sign && v >> (bits - 1) != 0 {
            v - (1 << bits)
        } else {
            v
        }
    };
    (0..32).step_by(bits as usize).fold(0, |r, at| {
        r | ((f(part(a, at), part(b, at)) as u32) & ((1 << bits) - 1)) << at
    })
}

#[test]
fn packed_bytes_and_halfwords() {
    each("bits", |gpu| {
        let mut x = Random::new(19).words(2 * 50);
        x[..6].copy_from_slice(&[0x8080_8080, 0x8080_8080, 0x7f80_ff00, 0x807f_00ff, 0, 0]);
        let out = gpu.room::<u32>(16 * 50);
        gpu.launch("packed", 1, 50, &[At(gpu.put(&x)), At(out)]);
        let all = |flag: bool| if flag { -1 } else { 0 };
        let want: Vec<u32> = x
            .chunks(2)
            .flat_map(|x| {
                let (a, b) = (x[0], x[1]);
                let sad: i64 = bytes(a)
                    .iter()
                    .zip(bytes(b))
                    .map(|(a, b)| (a - b).abs())
                    .sum();
                [
                    parts(a, b, 8, false, |a, b| a + b),
                    parts(a, b, 8, false, |a, b| a - b),
                    parts(a, b, 8, false, |a, b| (a - b).abs()),
                    parts(a, b, 8, true, i64::max),
                    parts(a, b, 8, false, i64::min),
                    parts(a, b, 8, false, |a, b| (a + b + 1) / 2),
                    parts(a, b, 8, false, |a, b| all(a > b)),
                    parts(a, b, 16, false, |a, b| a + b),
                    parts(a, b, 16, true, i64::max),
                    sad as u32,
                    parts(a, b, 8, true, |a, b| (a + b).clamp(-128, 127)),
                    parts(a, b, 8, false, |a, b| (a - b).max(0)),
                    parts(a, a, 8, true, |a, _| a.abs().min(127)),
                    parts(a, b, 16, false, |a, b| all(a == b)),
                    parts(a, b, 16, false, |a, b| (a + b).min(0xffff)),
                    parts(a, b, 8, true, |a, b| (a - b).abs()),
                ]
            })
            .collect();
        equal(gpu, &gpu.get::<u32>(out), &want);
    });
}

#[test]
fn arithmetic_of_128_bits() {
    each("bits", |gpu| {
        let mut random = Random::new(20);
        let x: Vec<u64> = (0..3 * 40)
            .map(|_| u64::from(random.bits()) << 32 | u64::from(random.bits()))
            .collect();
        let out = gpu.room::<u64>(4 * 40);
        gpu.launch("wide", 1, 40, &[At(gpu.put(&x)), At(out)]);
        let want: Vec<u64> = x
            .chunks(3)
            .flat_map(|x| {
                let a = u128::from(x[0]) << 64 | u128::from(x[1]);
                let b = u128::from(x[2]);
                let c = a
                    .wrapping_mul(b)
                    .wrapping_add(a >> 17)
                    .wrapping_sub(b << 65);
                let q = a / (b | 1);
                [c as u64, (c >> 64) as u64, q as u64, (q >> 64) as u64]
            })
            .collect();
        equal(gpu, &gpu.get::<u64>(out), &want);
    });
}
