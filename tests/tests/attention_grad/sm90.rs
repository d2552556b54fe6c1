//! Hopper's kernel: with few SMs and with more, so that blocks have one query head or several, and
//! parts lie side by side or not. All of it runs under several orders of warps and of completions.

use half::{bf16, f16};
use proptest::prelude::*;
use warpsmith::emulator::EmulatorConfig;
use warpsmith::testing::devices;
use warpsmith::{AttentionGrad, DType, Device, Float, Stream, Tensor};
use warpsmith_tests::operand::View;
use warpsmith_tests::property::{Effort, holds};
use warpsmith_tests::replay::read_after;
use warpsmith_tests::{Checked, emulator, recording};

use super::check::{bits_of, check_kernel};
use crate::attention::case::{self, Case};

const KERNEL: &str = "attention_grad_sm90";
pub(crate) const ARCH: (u32, u32) = (9, 0);

/// Seeds of emulators: orders of warps and of completions.
const SEEDS: [u64; 2] = [0, 3];

/// A case, and how many SMs the emulator presents.
pub(crate) type OnSms = (Case, u32);

/// Checks the case on a GPU; on emulators under each seed, with the same bits.
pub(crate) fn check_on((case, multiprocessors): &OnSms, device: &Device) -> Checked {
    if !device.is_emulator() {
        return match device.arch() {
            ARCH => check_kernel(case, device, KERNEL).map(drop),
            _ => Ok(()),
        };
    }
    let on = |seed| {
        let config = EmulatorConfig {
            seed,
            ..EmulatorConfig::default()
        };
        emulator(ARCH, *multiprocessors, config)
    };
    let [first, other] = SEEDS.map(on);
    let bits = check_kernel(case, &first, KERNEL)?;
    match bits == bits_of(case, &other, KERNEL)? {
        true => Ok(()),
        false => Err(format!("other bits under seed {}", SEEDS[1])),
    }
}

/// Every mask and option, of tensors that a tensor map describes, with space between rows or none.
fn on_sms(largest: usize) -> impl Strategy<Value = OnSms> {
    let group = prop::sample::select(vec![1_usize, 2, 3, 4]);
    let head_dims = prop_oneof![
        Just((128, 128)),
        Just((64, 64)),
        Just((256, 256)),
        Just((192, 128)),
        (1..=32_usize, 1..=32_usize).prop_map(|(qk, v)| (8 * qk, 8 * v)),
    ];
    let dtype = prop::sample::select(vec![DType::F16, DType::Bf16]);
    let view = prop::sample::select(vec![View::Contiguous, View::Aligned]);
    let multiprocessors = prop::sample::select(vec![1, 4]);
    let of_kernel = (group, head_dims, dtype, view, multiprocessors);
    (case::dense(largest), of_kernel).prop_map(
        |(dense, (group, (head_dim, head_dim_v), dtype, view, multiprocessors))| {
            let case = Case {
                seqlen_q: dense.seqlen_q.max(1),
                seqlen_k: dense.seqlen_k.max(1),
                group,
                head_dim,
                head_dim_v,
                scale: dense.scale.filter(|&scale| scale > 0.0),
                sink: false,
                dtype,
                out: None,
                views: [view; 4],
                ..dense
            };
            (case, multiprocessors)
        },
    )
}

#[test]
fn gradients_match_their_reference_for_every_shape_mask_and_option() {
    let effort = Effort {
        cases: [12, 120],
        largest: [400, 900],
    };
    holds(effort, on_sms, check_on);
}

/// A case of both dtypes, with as many SMs as make blocks of so many query heads.
fn check_both(case: &Case, multiprocessors: u32) {
    for device in devices() {
        for dtype in [DType::Bf16, DType::F16] {
            let case = Case {
                dtype,
                ..case.clone()
            };
            check_on(&(case, multiprocessors), &device).expect("the gradients");
        }
    }
}

#[test]
fn one_tile_of_queries_and_one_block_of_keys() {
    check_both(&Case::plain(DType::Bf16, [64, 128], 128), 4);
    check_both(&Case::plain(DType::Bf16, [64, 128], 256), 4);
}

/// One thread block of a pair has no keys, or both have; blocks of one head, and of two.
#[test]
fn pairs_of_thread_blocks_share_what_they_load_and_add() {
    for seqlen_k in [1, 64, 65] {
        check_both(&Case::plain(DType::Bf16, [70, seqlen_k], 256), 4);
    }
    let shared = Case {
        group: 2,
        causal: true,
        ..Case::plain(DType::Bf16, [150, 260], 192)
    };
    check_both(&shared, 4);
    check_both(&shared, 1);
}

/// Every tile is added to by several blocks, in the order of their numbers.
#[test]
fn long_chains_of_blocks_give_the_same_bits_in_every_order_of_warps() {
    check_both(&Case::plain(DType::Bf16, [130, 1100], 128), 4);
    let causal = Case {
        causal: true,
        ..Case::plain(DType::Bf16, [700, 700], 64)
    };
    check_both(&causal, 4);
    let band = Case {
        group: 4,
        left: Some(150),
        right: Some(90),
        ..Case::plain(DType::Bf16, [500, 600], 128)
    };
    check_both(&band, 2);
}

/// Gradients of one sequence of zeros.
fn zeros<T: Float>(
    stream: &Stream,
    [seqlen_q, seqlen_k]: [usize; 2],
    [heads_q, heads_kv]: [usize; 2],
    head_dim: usize,
) -> AttentionGrad<'static, T> {
    let tensor = |seqlen, heads| Tensor::zeros(stream, &[1, seqlen, heads, head_dim]);
    let q = tensor(seqlen_q, heads_q).expect("q");
    let k = tensor(seqlen_k, heads_kv).expect("k");
    let lse = Tensor::zeros(stream, &[1, heads_q, seqlen_q]).expect("lse");
    AttentionGrad::new(&q, &k, &k, &q, &lse, &q)
}

/// The grid: blocks of a part of the heads, and those of parts side by side, in x; other parts in y.
#[test]
fn few_sms_have_blocks_of_several_heads_and_more_sms_have_parts_side_by_side() {
    let grid = |multiprocessors| {
        let device = emulator(ARCH, multiprocessors, EmulatorConfig::default());
        let stream = device.default_stream();
        let plan = zeros::<bf16>(&stream, [600; 2], [4, 1], 128).plan(&stream);
        let plan = plan.expect("a plan");
        let mut found = plan.candidates().iter();
        let found = found.find(|way| way.name.starts_with(KERNEL));
        found.expect("Hopper's kernel").grid
    };
    // Five blocks of keys; parts of four heads, of two and of one.
    assert_eq!(grid(1), [5, 1, 1]);
    assert_eq!(grid(2), [5, 2, 1]);
    assert_eq!(grid(4), [5, 4, 1]);
    assert_eq!(grid(40), [20, 1, 1]);
}

/// The kernel that the plan takes for two query heads on one.
fn planned<T: Float>(device: &Device, head_dim: usize) -> String {
    let stream = device.default_stream();
    let grad = zeros::<T>(&stream, [200; 2], [2, 1], head_dim).causal();
    let plan = grad.plan(&stream).expect("a plan");
    plan.chosen().expect("something to compute").name.clone()
}

#[test]
fn the_plan_takes_it_for_16_bit_tensors_that_a_tensor_map_describes() {
    for device in devices() {
        if device.arch() != ARCH {
            continue;
        }
        let hopper = [
            (planned::<bf16>(&device, 64), "bf16_d64_128x128"),
            (planned::<bf16>(&device, 72), "bf16_d128_64x128"),
            (planned::<f16>(&device, 40), "f16_d64_128x128"),
            (planned::<f16>(&device, 128), "f16_d128_64x128"),
            (planned::<f16>(&device, 136), "f16_d256_64x128"),
        ];
        for (name, want) in hopper {
            assert_eq!(name, format!("{KERNEL}_{want}"));
        }
        for name in [planned::<f32>(&device, 64), planned::<bf16>(&device, 60)] {
            assert!(name.contains("simt"), "{name}");
        }
    }
}

/// Blocks of one head each, of which four add to the same dk and dv.
#[test]
fn counters_are_left_at_0() {
    const COUNTERS: usize = 8;
    let recording = recording(ARCH, 2, EmulatorConfig::default());
    let stream = recording.device().default_stream();
    let grad = zeros::<bf16>(&stream, [70, 130], [4, 1], 128);
    let grad = grad.with_kernel("attention_grad_sm90_bf16_d128_64x128");
    grad.run(&stream).expect("the gradients");
    let mut capture = recording.capture().expect("a capture");
    let of_read = read_after(&mut capture, KERNEL, COUNTERS, 0).expect("the counters");
    // SAFETY: the emulator checks every access.
    let read = unsafe { capture.replay(&emulator(ARCH, 2, EmulatorConfig::default())) };
    let counters = &read.expect("the same launches")[of_read];
    // One for each tile of queries of a head, and two for each block of keys.
    assert_eq!(counters.len(), 4 * (4 * 2 + 2 * 2));
    assert!(counters.iter().all(|&byte| byte == 0), "{counters:?}");
}
