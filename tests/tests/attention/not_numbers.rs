//! A query that is NaN: its rows are NaN by every kernel, masks and a sink or not, and no other row.
//! Keys that no query sees: they reach nothing.

use half::{bf16, f16};
use warpsmith::{Attention, Device, Float, Tensor};

const QUERIES: usize = 6;
const HEADS: usize = 2;

/// Query 3 of head 1 has one NaN. By every candidate; with keys in parts, too, where `splits` is some.
fn check<T: Float>(device: &Device, head_dim: usize, keys: usize, splits: Option<u32>) {
    let stream = device.stream().expect("a stream");
    let tensor = |positions: usize, heads: usize| {
        let len = positions * heads * head_dim;
        let drawn = |i: usize| T::from_f32((i * 7 % 13) as f32 / 8.0 - 0.75);
        let values: Vec<T> = (0..len).map(drawn).collect();
        (values, [1, positions, heads, head_dim])
    };
    let (mut values, shape) = tensor(QUERIES, HEADS);
    values[(3 * HEADS + 1) * head_dim + 2] = T::from_f32(f32::NAN);
    let q = Tensor::from_slice(device, &shape, &values).expect("a tensor");
    let (values, shape) = tensor(keys, 1);
    let kv = Tensor::from_slice(device, &shape, &values).expect("a tensor");
    let sink = Tensor::from_slice(device, &[HEADS], &[0.5_f32, -1.0]).expect("a tensor");
    let plain = Attention::new(&q, &kv, &kv);
    let plain = splits.map_or(plain.clone(), |splits| plain.key_splits(splits));
    for attention in [
        plain.clone(),
        plain.clone().causal(),
        plain.clone().sink(&sink),
        plain.clone().sink(&sink).causal(),
        plain.clone().sink(&sink).softcap(4.0),
    ] {
        let plan = attention.plan(&stream).expect("a plan");
        assert!(!plan.candidates().is_empty());
        for candidate in plan.candidates() {
            let attention = attention.clone().with_kernel(&candidate.name);
            let got = attention.lse().run(&stream).expect("a result");
            let o = got.o.to_ndarray().expect("o");
            let lse = got.lse.to_ndarray().expect("lse");
            for (index, &x) in o.indexed_iter() {
                let is_nan = (index[1], index[2]) == (3, 1);
                let got = x.to_f32();
                assert_eq!(
                    got.is_nan(),
                    is_nan,
                    "{} at {index:?}: {got}",
                    candidate.name
                );
                let lse = lse[[0, index[2], index[1]]];
                assert_eq!(lse.is_nan(), is_nan, "lse of {}: {lse}", candidate.name);
            }
        }
    }
}

#[test]
fn a_query_that_is_nan_has_results_that_are_beside_a_sink_too() {
    for device in warpsmith::testing::devices() {
        for keys in [7, 200] {
            check::<f32>(&device, 24, keys, None);
            check::<f16>(&device, 64, keys, None);
            check::<bf16>(&device, 128, keys, None);
            check::<bf16>(&device, 256, keys, None);
        }
        if device.arch() == (9, 0) {
            check::<bf16>(&device, 128, 300, Some(3));
        }
    }
}

/// Keys outside of `seen` hold NaN and infinity, and no query sees them. The keys are in a tensor of
/// the dimensions `keys`, one alone if they are packed; with pages, they are the pool. By every
/// candidate.
fn check_unseen<T: Float>(
    device: &Device,
    queries: &[usize],
    keys: &[usize],
    pages: Option<&[i32]>,
    seen: impl Fn(usize) -> bool,
    mask: impl for<'a> Fn(Attention<'a, T>) -> Attention<'a, T>,
) {
    const HEAD_DIM: usize = 64;
    let stream = device.stream().expect("a stream");
    let tensor = |positions: &[usize], value: &dyn Fn(usize, f32) -> f32| {
        let drawn = |i: usize| value(i / HEAD_DIM, (i * 7 % 13) as f32 / 8.0 - 0.75);
        let values: Vec<T> = (0..positions.iter().product::<usize>() * HEAD_DIM)
            .map(|i| T::from_f32(drawn(i)))
            .collect();
        let shape = [positions, &[1, HEAD_DIM]].concat();
        Tensor::from_slice(device, &shape, &values).expect("a tensor")
    };
    let q = tensor(queries, &|_, drawn| drawn);
    let clean = tensor(keys, &|key, drawn| if seen(key) { drawn } else { 0.0 });
    let bad = tensor(keys, &|key, drawn| match key % 2 {
        _ if seen(key) => drawn,
        0 => f32::NAN,
        _ => f32::NEG_INFINITY,
    });
    let table = pages.map(|table| Tensor::from_slice(device, &[1, table.len()], table));
    let table = table.map(|table| table.expect("a table"));
    let attention = |kv| {
        let attention = Attention::new(&q, kv, kv);
        mask(match &table {
            Some(table) => attention.pages(table),
            None => attention,
        })
    };
    let clean = attention(&clean);
    let plan = clean.plan(&stream).expect("a plan");
    assert!(!plan.candidates().is_empty());
    for candidate in plan.candidates() {
        let results = |attention: Attention<'_, T>| {
            let got = attention.with_kernel(&candidate.name).lse().run(&stream);
            let got = got.expect("a result");
            let o: Vec<f32> = (got.o.to_vec().expect("o").into_iter())
                .map(T::to_f32)
                .collect();
            (o, got.lse.to_vec().expect("lse"))
        };
        let got = results(attention(&bad));
        let want = results(clean.clone());
        for (got, want) in [(got.0, want.0), (got.1, want.1)] {
            let wrong = got.iter().zip(&want).position(|(got, want)| got != want);
            assert_eq!(wrong, None, "{}, {plan}", candidate.name);
        }
    }
}

#[test]
fn keys_that_no_query_sees_reach_nothing() {
    for device in warpsmith::testing::devices() {
        let device = &device;
        let second = |key| key >= 1;
        check_unseen::<bf16>(device, &[1, 1], &[1, 2], None, second, |x| {
            x.window(0, None)
        });
        check_unseen::<f32>(device, &[1, 1], &[1, 2], None, second, |x| {
            x.window(0, None)
        });
        let last = |key| key >= 157;
        check_unseen::<f16>(device, &[1, 3], &[1, 200], None, last, |x| x.window(40, 0));
        let last = |key| key >= 130;
        check_unseen::<bf16>(device, &[1, 70], &[1, 300], None, last, |x| {
            x.window(100, 5)
        });
        let first = |key| key < 73;
        check_unseen::<bf16>(device, &[1, 70], &[1, 300], None, first, |x| {
            x.window(20, 3).align_top_left()
        });
    }
}

#[test]
fn keys_that_no_query_sees_reach_nothing_beside_lengths() {
    for device in warpsmith::testing::devices() {
        let device = &device;
        let between = |key| (80..250).contains(&key);
        check_unseen::<bf16>(device, &[1, 70], &[1, 300], None, between, |x| {
            x.seqused_k(&[250]).window(100, 5)
        });
        check_unseen::<f32>(device, &[1, 70], &[1, 300], None, between, |x| {
            x.seqused_k(&[250]).window(100, 5)
        });
        let first = |key| key < 36;
        check_unseen::<bf16>(device, &[1, 70], &[1, 300], None, first, |x| {
            x.seqused_q(&[33]).window(20, 3).align_top_left()
        });
        let of_each = |key| (87..100).contains(&key) || (248..260).contains(&key);
        check_unseen::<f16>(device, &[5], &[260], None, of_each, |x| {
            x.cu_seqlens(&[0, 3, 5], &[0, 100, 260]).window(10, 0)
        });
        let of_each = |key| (35..140).contains(&key) || (285..400).contains(&key);
        check_unseen::<bf16>(device, &[190], &[400], None, of_each, |x| {
            let x = x.cu_seqlens(&[0, 90, 190], &[0, 140, 400]);
            x.window(15, 0)
        });
    }
}

#[test]
fn pages_and_entries_that_no_query_sees_reach_nothing() {
    for device in warpsmith::testing::devices() {
        let device = &device;
        // The sequence is pages 2 and 0, behind an entry of -1, which is read as page 4 if at all.
        let table: Option<&[i32]> = Some(&[-1, 2, 0]);
        let seen = |position| (3..16).contains(&position);
        check_unseen::<bf16>(device, &[1, 3], &[5, 16], table, seen, |x| {
            x.seqused_k(&[48]).window(10, 0)
        });
        check_unseen::<f32>(device, &[1, 3], &[5, 16], table, seen, |x| x.window(10, 0));
        let seen = |position| (3..12).contains(&position);
        check_unseen::<f16>(device, &[1, 3], &[5, 16], table, seen, |x| {
            x.seqused_k(&[44]).window(6, 0)
        });
    }
}
