//! Hopper's kernel for sequences of different lengths. What belongs to no sequence, or to another,
//! holds NaN in the cases.

use half::bf16;
use ndarray::{ArrayD, Axis};
use proptest::prelude::*;
use warpsmith::emulator::{Checks, EmulatorConfig};
use warpsmith::{AttentionGrad, DType, Device, Tensor};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::emulator;
use warpsmith_tests::operand::View;
use warpsmith_tests::property::{Effort, holds};
use warpsmith_tests::values::Values;

use super::sm90::{ARCH, OnSms, check_on};
use crate::attention::case::{self, Case};

/// Any lengths, masks and options, of tensors that a tensor map describes.
fn ragged(largest: usize) -> impl Strategy<Value = OnSms> {
    let group = prop::sample::select(vec![1_usize, 2, 4]);
    let head_dims = prop_oneof![
        Just((128, 128)),
        Just((64, 64)),
        (1..=16_usize, 1..=16_usize).prop_map(|(qk, v)| (8 * qk, 8 * v)),
    ];
    let dtype = prop::sample::select(vec![DType::F16, DType::Bf16]);
    let view = prop::sample::select(vec![View::Contiguous, View::Aligned]);
    let multiprocessors = prop::sample::select(vec![1, 4]);
    let of_kernel = (group, head_dims, dtype, view, multiprocessors);
    let cases = case::ragged(largest).prop_filter("lengths, and something in both", |case| {
        let longest = |packed: &Option<Vec<usize>>, seqlen: usize| match packed {
            Some(lengths) => lengths.iter().copied().max().unwrap_or(0),
            None => seqlen,
        };
        case.has_lengths()
            && longest(&case.packed_q, case.seqlen_q) > 0
            && longest(&case.packed_k, case.seqlen_k) > 0
    });
    (cases, of_kernel).prop_map(
        |(ragged, (group, (head_dim, head_dim_v), dtype, view, multiprocessors))| {
            let case = Case {
                group,
                head_dim,
                head_dim_v,
                scale: ragged.scale.filter(|&scale| scale > 0.0),
                sink: false,
                dtype,
                out: None,
                views: [view; 4],
                ..ragged
            };
            (case, multiprocessors)
        },
    )
}

#[test]
fn gradients_match_their_reference_for_sequences_of_any_lengths() {
    let effort = Effort {
        cases: [16, 120],
        largest: [300, 700],
    };
    holds(effort, ragged, check_on);
}

/// Sequences that end where tiles do, and just before and behind; more than a warp has lanes.
#[test]
fn sequences_end_where_tiles_do_and_elsewhere() {
    let few = vec![128, 0, 127, 129, 1, 64, 65, 256];
    let many = (0..70).map(|i| i * 7 % 24).collect::<Vec<usize>>();
    for (lengths, head_dim, causal) in [
        (&few, 128, true),
        (&few, 64, false),
        (&many, 128, false),
        (&many, 64, true),
    ] {
        let case = Case {
            group: 2,
            causal,
            batch: lengths.len(),
            packed_q: Some(lengths.clone()),
            packed_k: Some(lengths.clone()),
            on_device: causal,
            ..Case::plain(DType::Bf16, [0; 2], head_dim)
        };
        for device in warpsmith::testing::devices() {
            check_on(&(case.clone(), 4), &device).expect("the gradients");
        }
    }
}

/// Bits of dq, dk and dv of the rows `rows` of sequences with these bounds. `other` is what is in
/// all other rows.
fn bits(bounds: &[i32], rows: core::ops::Range<usize>, other: f64, device: &Device) -> Vec<u64> {
    let (stream, [heads, d]) = (device.default_stream(), [2, 128]);
    let total = bounds.iter().copied().max().unwrap_or(0) as usize;
    let tensor = |seed| {
        let own = Values::Uniform.draw(&[rows.len(), heads, d], seed);
        let mut all = ArrayD::from_elem(vec![total, heads, d], other);
        all.slice_axis_mut(Axis(0), rows.clone().into())
            .assign(&own);
        Tensor::from_ndarray(device, &all.mapv(bf16::nearest)).expect("a tensor")
    };
    let [q, k, v, o, d_o] = [1, 2, 3, 4, 5].map(tensor);
    let mut lse = ArrayD::from_elem(vec![heads, total], other as f32);
    lse.slice_axis_mut(Axis(1), rows.clone().into()).fill(4.0);
    let lse = Tensor::from_ndarray(device, &lse).expect("lse");
    let bounds = Tensor::from_slice(device, &[bounds.len()], bounds).expect("bounds");
    let grads = AttentionGrad::new(&q, &k, &v, &o, &lse, &d_o)
        .causal()
        .cu_seqlens_q(&bounds)
        .cu_seqlens_k(&bounds)
        .with_kernel("attention_grad_sm90_bf16_d128_64x128_lengths")
        .run(&stream)
        .expect("the gradients");
    let of = |x: &Tensor<bf16>| {
        let x = x.slice(0, rows.clone()).expect("the rows");
        let x = x.to_vec().expect("a gradient");
        x.into_iter()
            .map(|x| u64::from(x.to_bits()))
            .collect::<Vec<_>>()
    };
    [of(&grads.dq), of(&grads.dk), of(&grads.dv)].concat()
}

#[test]
fn a_sequences_bits_do_not_depend_on_its_neighbours() {
    let on = || emulator(ARCH, 4, EmulatorConfig::default());
    let alone = bits(&[0, 150], 0..150, 0.0, &on());
    for other in [0.0, f64::NAN, f64::INFINITY] {
        let beside = bits(&[0, 200, 350, 351, 480], 200..350, other, &on());
        assert_eq!(alone, beside, "beside {other}");
    }
}

/// Bounds on the device are not checked. Those that overlap, or lie outside, do no harm to memory,
/// and no block waits for ever.
#[test]
fn wrong_bounds_on_the_device_end_and_stay_in_the_tensors() {
    // Sequences that overlap write the same gradients.
    let checks = Checks {
        races: false,
        ..Checks::ALL
    };
    let config = EmulatorConfig {
        checks,
        ..EmulatorConfig::default()
    };
    let device = emulator(ARCH, 4, config);
    for bounds in [
        [0, 200, 0, 200],
        [0, 200, 100, 200],
        [200, 0, 200, 0],
        [-7, 90, 200, 150],
    ] {
        bits(&bounds, 0..1, 0.0, &device);
    }
}
