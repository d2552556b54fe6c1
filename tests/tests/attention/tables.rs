//! Which keys each query sees, as pictures.

use ndarray::ArrayD;
use warpsmith::{Attention, DType, DeviceBuffer, Float, Tensor};
use warpsmith_tests::element::TestElement;

/// What a mask lets through: `v` is one-hot by key and all scores are equal, so `o` is above 0
/// where a query sees a key.
fn visible<T: Float + TestElement>(
    (seqlen_q, seqlen_k): (usize, usize),
    mask: impl Fn(Attention<'static, T>) -> Attention<'static, T>,
) -> Vec<Vec<Vec<u8>>> {
    let mut all = Vec::new();
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        let q = Tensor::full(&stream, &[1, seqlen_q, 1, 8], T::from_f32(1.0)).expect("q");
        let k = Tensor::full(&stream, &[1, seqlen_k, 1, 8], T::from_f32(1.0)).expect("k");
        let one_hot = ArrayD::from_shape_fn(vec![1, seqlen_k, 1, seqlen_k], |index| {
            T::from_f32(f32::from(u8::from(index[1] == index[3])))
        });
        let v = Tensor::from_ndarray(&device, &one_hot).expect("v");
        let attention = mask(Attention::new(&q, &k, &v));
        let plan = attention.plan(&stream).expect("a plan");
        for candidate in plan.candidates() {
            let run = attention.clone().with_kernel(&candidate.name).run(&stream);
            let o = run.expect("attention").to_ndarray().expect("o");
            let row = |i: usize| {
                let seen = |j: usize| u8::from(o[[0, i, 0, j]].wide() > 0.0);
                (0..seqlen_k).map(seen).collect()
            };
            all.push((0..seqlen_q).map(row).collect());
        }
    }
    all
}

/// Compares a mask with its picture, one line per query, for every kernel and type.
fn looks_like(
    picture: &str,
    mask32: impl Fn(Attention<'static, f32>) -> Attention<'static, f32>,
    mask16: impl Fn(Attention<'static, half::bf16>) -> Attention<'static, half::bf16>,
) {
    let want: Vec<Vec<u8>> = picture
        .split('/')
        .map(|line| {
            let digits = line.split_whitespace();
            digits.map(|digit| u8::from(digit == "1")).collect()
        })
        .collect();
    let extents = (want.len(), want[0].len());
    for (dtype, all) in [
        (DType::F32, visible::<f32>(extents, mask32)),
        (DType::Bf16, visible::<half::bf16>(extents, mask16)),
    ] {
        assert!(!all.is_empty(), "there is no kernel for {dtype}");
        for got in all {
            assert_eq!(got, want, "{dtype}: {picture}");
        }
    }
}

macro_rules! pictures {
    ($($picture:literal: $mask:expr;)*) => {
        $(looks_like($picture, $mask, $mask);)*
    };
}

#[test]
fn causal_is_aligned_to_the_corner_that_was_asked_for() {
    pictures! {
        "1 1 1 1 0 / 1 1 1 1 1": |a| a.causal();
        "1 0 0 0 0 / 1 1 0 0 0": |a| a.causal_top_left();
        "0 0 / 1 0 / 1 1": |a| a.causal();
        "1 0 / 1 1 / 1 1": |a| a.causal_top_left();
        "1 0 0 / 1 1 0 / 1 1 1": |a| a.causal();
        "1 0 0 / 1 1 0 / 1 1 1": |a| a.causal_top_left();
        "1 1 1 / 1 1 1": |a| a;
    }
}

#[test]
fn windows_are_aligned_to_the_corner_that_was_asked_for() {
    pictures! {
        "1 0 0 0 / 1 1 0 0 / 0 1 1 0 / 0 0 1 1": |a| a.window(1, 0);
        "1 0 0 0 / 1 1 0 0 / 0 1 1 0 / 0 0 1 1": |a| a.window(1, 7).causal();
        "0 0 1 1 1 / 0 0 0 1 1": |a| a.window(1, 1);
        "1 1 0 0 0 / 1 1 1 0 0": |a| a.window(1, 1).align_top_left();
        "0 0 / 0 0 / 1 0 / 0 1": |a| a.window(0, 0);
        "1 0 / 0 1 / 0 0 / 0 0": |a| a.window(0, 0).align_top_left();
        "1 1 1 0 / 1 1 1 1": |a| a.window(None, 0);
        "0 0 1 1 / 0 0 0 1": |a| a.window(0, None);
        "1 1 1 / 1 1 1 / 1 1 1": |a| a.window(u32::MAX, u32::MAX);
    }
}

#[test]
fn tensor_cores_take_what_is_aligned_and_the_portable_kernel_all_else() {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        let names = |head_dim: usize, scale: f32| {
            let x = Tensor::<half::bf16>::zeros(&stream, &[2, 5, 3, head_dim]).expect("a tensor");
            let attention = Attention::new(&x, &x, &x).softmax_scale(scale);
            let plan = attention.plan(&stream).expect("a plan");
            let chosen = plan.chosen().expect("a kernel").name.clone();
            let names = plan.candidates().iter();
            let names: Vec<String> = names.map(|candidate| candidate.name.clone()).collect();
            assert_eq!(names.first(), Some(&chosen), "the fastest comes first");
            names
        };
        let simt = |cap: u32| format!("flash_fwd_simt_d{cap}");
        if device.arch() >= (8, 0) {
            for (head_dim, cap) in [(64, 64), (72, 128), (256, 256)] {
                let names = names(head_dim, 0.1);
                let sm80 = format!("flash_fwd_sm80_bf16_d{cap}");
                assert!(names.contains(&sm80), "{names:?}");
                assert_eq!(names.last(), Some(&simt(cap)), "{names:?}");
            }
        }
        for (head_dim, scale) in [(63, 0.1), (64, 0.0), (64, -1.0)] {
            assert_eq!(names(head_dim, scale), [simt(64)]);
        }
    }
}

#[test]
fn the_stride_of_a_single_head_or_batch_chooses_no_kernel() {
    for device in warpsmith::testing::devices() {
        let stream = device.stream().expect("a stream");
        let chosen = |strides: [i64; 4]| {
            let buffer = DeviceBuffer::<half::bf16>::zeros(&stream, 16 * 64).expect("a buffer");
            let x = Tensor::from_buffer_strided(buffer, &[1, 16, 1, 64], &strides, 0);
            let x = x.expect("a tensor");
            let plan = Attention::new(&x, &x, &x).plan(&stream).expect("a plan");
            plan.chosen().expect("a kernel").name.clone()
        };
        assert_eq!(chosen([1024, 64, 64, 1]), chosen([7, 64, 3, 1]));
    }
}
