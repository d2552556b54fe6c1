//! `AttentionGrad` against its reference: the cases of the forward pass, whose lengths, masks, options
//! and layouts are the gradients' too. Every kernel that can compute a case is run; it must write its
//! outputs and nothing else, be deterministic, and let no masked pair or padding affect the result.

mod blocks;
mod check;
mod conflicts;
mod dropout;
mod leaks;
mod operands;
mod packed;
mod refused;
mod sinks;
mod sm90;

use warpsmith::emulator::EmulatorConfig;
use warpsmith::{DType, Device};
use warpsmith_tests::cases;
use warpsmith_tests::operand::View;
use warpsmith_tests::property::{Effort, holds};

use crate::attention::case::{self, Case};
use check::check;

#[test]
fn gradients_match_their_reference_for_every_shape_mask_type_and_option() {
    holds(
        Effort {
            cases: [16, 200],
            largest: [80, 400],
        },
        case::dense,
        check,
    );
}

#[test]
fn gradients_match_their_reference_for_sequences_of_any_lengths() {
    holds(
        Effort {
            cases: [16, 200],
            largest: [60, 300],
        },
        case::ragged,
        check,
    );
}

#[test]
fn gradients_match_their_reference_for_biases_masks_and_functions() {
    holds(
        Effort {
            cases: [40, 300],
            largest: [70, 300],
        },
        case::scored,
        check,
    );
}

#[test]
fn gradients_match_their_reference_on_the_forwards_table_of_cases() {
    cases::run(include_str!("../../cases/attention.toml"), check);
}

#[test]
fn gradients_match_their_reference_where_tiles_end() {
    for (seqlen_q, seqlen_k, head_dim) in
        [(64, 64, 64), (65, 129, 72), (128, 63, 128), (1, 130, 256)]
    {
        for causal in [false, true] {
            let case = Case {
                group: 2,
                causal,
                views: [View::Aligned; 4],
                ..Case::plain(DType::F16, [seqlen_q, seqlen_k], head_dim)
            };
            for device in warpsmith::testing::devices() {
                check(&case, &device).expect("the gradients");
            }
        }
    }
}

#[test]
fn gradients_do_not_depend_on_the_order_of_warps_and_copies() {
    for seed in 1..3 {
        let config = EmulatorConfig {
            seed,
            ..EmulatorConfig::default()
        };
        let device = Device::emulator_with(config).expect("an emulator");
        for head_dim in [64, 128, 256] {
            let case = Case {
                group: 2,
                causal: true,
                views: [View::Aligned; 4],
                ..Case::plain(DType::Bf16, [140, 150], head_dim)
            };
            check(&case, &device).expect("the gradients");
        }
    }
}
