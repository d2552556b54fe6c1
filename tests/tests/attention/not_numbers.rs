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

/// Keys outside of `seen` hold NaN and infinity, and no query sees them. By every candidate.
fn check_unseen<T: Float>(
    device: &Device,
    [queries, keys]: [usize; 2],
    seen: std::ops::Range<usize>,
    mask: impl for<'a> Fn(Attention<'a, T>) -> Attention<'a, T>,
) {
    const HEAD_DIM: usize = 64;
    let stream = device.stream().expect("a stream");
    let tensor = |positions: usize, bad: [f32; 2]| {
        let drawn = |i: usize| match i / HEAD_DIM {
            key if positions == queries || seen.contains(&key) => (i * 7 % 13) as f32 / 8.0 - 0.75,
            key => bad[key % 2],
        };
        let values: Vec<T> = (0..positions * HEAD_DIM)
            .map(|i| T::from_f32(drawn(i)))
            .collect();
        Tensor::from_slice(device, &[1, positions, 1, HEAD_DIM], &values).expect("a tensor")
    };
    let q = tensor(queries, [0.0; 2]);
    let clean = tensor(keys, [0.0; 2]);
    let bad = tensor(keys, [f32::NAN, f32::NEG_INFINITY]);
    let clean = mask(Attention::new(&q, &clean, &clean));
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
        let got = results(mask(Attention::new(&q, &bad, &bad)));
        assert_eq!(got, results(clean.clone()), "{}", candidate.name);
    }
}

#[test]
fn keys_that_no_query_sees_reach_nothing() {
    for device in warpsmith::testing::devices() {
        check_unseen::<bf16>(&device, [1, 2], 1..2, |x| x.window(0, None));
        check_unseen::<f32>(&device, [1, 2], 1..2, |x| x.window(0, None));
        check_unseen::<f16>(&device, [3, 200], 157..200, |x| x.window(40, 0));
        check_unseen::<bf16>(&device, [70, 300], 130..300, |x| x.window(100, 5));
        check_unseen::<bf16>(&device, [70, 300], 0..73, |x| {
            x.window(20, 3).align_top_left()
        });
    }
}
