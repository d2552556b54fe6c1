//! Which keys queries see, drawn.

use ndarray::ArrayD;
use warpsmith::{Attention, DType, Float, Tensor};
use warpsmith_tests::element::TestElement;

/// Every option of the mask, by what it lets through: `v` is one-hot by key and all scores are equal,
/// so `o` is above 0 where a query sees a key.
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

/// Holds a mask against its picture, a line a query, for every kernel of every type.
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
