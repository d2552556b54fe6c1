//! Hopper's gradients of attention, launched as `spec` says: every shape, mask and option against f64,
//! under several orders of warps and of completions.

mod case;
mod launch;

use half::{bf16, f16};
use warpsmith::Device;
use warpsmith::emulator::EmulatorConfig;
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
