//! Hopper's gradients of attention, launched as `abi` says: every shape, mask and option against f64,
//! under several orders of warps and of completions.

mod case;
mod launch;

use abi::attention::UNLIMITED;
use half::{bf16, f16};
use warpsmith::emulator::EmulatorConfig;
use warpsmith::{AttentionGrad, Device, Tensor};
use warpsmith_tests::element::TestElement;
use warpsmith_tests::property::{Effort, holds};
use warpsmith_tests::{Checked, say};

use case::{Case, Rounds};

/// Seeds of emulators: orders of warps and of completions.
const SEEDS: [u64; 2] = [0, 3];

fn check<T: TestElement + Rounds>(case: &Case, device: &Device) -> Checked {
    let (inputs, wanted) = case.problem::<T>();
    let grads = case.launch(device, &inputs).map_err(say)?;
    wanted.check(&grads, case.padding)?;
    if !device.is_emulator() {
        return Ok(());
    }
    for seed in SEEDS {
        let config = EmulatorConfig {
            seed,
            ..EmulatorConfig::default()
        };
        let device = Device::emulator_with(config).map_err(say)?;
        let again = case.launch(&device, &inputs).map_err(say)?;
        if again.bits() != grads.bits() {
            return Err(format!("other bits under seed {seed}"));
        }
    }
    Ok(())
}

fn check_both(case: &Case, device: &Device) -> Checked {
    if device.arch() != (9, 0) {
        return Ok(());
    }
    check::<bf16>(case, device).and_then(|()| check::<f16>(case, device))
}

#[test]
fn one_tile_of_queries_and_one_block_of_keys() {
    for device in warpsmith::testing::devices() {
        check::<bf16>(&Case::PLAIN, &device).expect("gradients");
    }
}

#[test]
fn gradients_match_their_reference_for_every_shape_mask_and_option() {
    let effort = Effort {
        cases: 24,
        largest: [400, 900],
    };
    holds(effort, case::any, check_both);
}

/// The kernel that the plan of gradients takes, of sequences of 200 with two query heads on one.
fn planned<T: TestElement + warpsmith::Float>(device: &Device, head_dim: usize) -> String {
    let stream = device.default_stream();
    let tensor = |heads: usize| Tensor::<T>::zeros(&stream, &[1, 200, heads, head_dim]);
    let (q, k) = (tensor(2).expect("q"), tensor(1).expect("k"));
    let lse = Tensor::<f32>::zeros(&stream, &[1, 2, 200]).expect("lse");
    let grad = AttentionGrad::new(&q, &k, &k, &q, &lse, &q).causal();
    let plan = grad.plan(&stream).expect("a plan");
    plan.chosen().expect("something to compute").name.clone()
}

#[test]
fn the_plan_takes_them_for_16_bit_tensors_that_a_tensor_map_describes() {
    for device in warpsmith::testing::devices() {
        if device.arch() != (9, 0) {
            continue;
        }
        let hopper = [
            (planned::<bf16>(&device, 64), "bf16_d64_128x128"),
            (planned::<bf16>(&device, 72), "bf16_d128_64x128"),
            (planned::<f16>(&device, 40), "f16_d64_128x128"),
            (planned::<f16>(&device, 128), "f16_d128_64x128"),
        ];
        for (name, want) in hopper {
            assert_eq!(name, format!("attention_grad_sm90_{want}"));
        }
        let wide = planned::<f16>(&device, 136);
        assert_eq!(wide, "attention_grad_sm80_f16_d256");
        for name in [planned::<f32>(&device, 64), planned::<bf16>(&device, 60)] {
            assert!(name.contains("simt"), "{name}");
        }
    }
}

/// Every tile is added to by several blocks, in the order of their numbers.
#[test]
fn long_chains_of_blocks_give_the_same_bits_in_every_order_of_warps() {
    let tall = Case {
        seqlen_q: 130,
        seqlen_k: 1100,
        ..Case::PLAIN
    };
    let causal = Case {
        seqlen_q: 700,
        seqlen_k: 700,
        head_dim: 64,
        head_dim_v: 64,
        window: (UNLIMITED, 0),
        ..Case::PLAIN
    };
    let band = Case {
        seqlen_q: 500,
        seqlen_k: 600,
        group: 4,
        heads_together: 2,
        window: (150, 90),
        ..Case::PLAIN
    };
    for device in warpsmith::testing::devices() {
        for case in [&tall, &causal, &band] {
            check_both(case, &device).expect("gradients");
        }
    }
}
