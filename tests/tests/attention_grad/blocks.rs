//! Gradients beside block masks.

use warpsmith::DType;
use warpsmith_tests::operand::View;
use warpsmith_tests::property::{Effort, holds};

use super::check::check;
use crate::attention::blocks::{Blocks, Source};
use crate::attention::case::{self, Case};
use crate::attention::scores::Scores;

#[test]
fn gradients_match_their_reference_for_block_masks() {
    holds(
        Effort {
            cases: [16, 300],
            largest: [160, 600],
        },
        case::sparse,
        check,
    );
}

/// Every kernel; one mask for all heads of a group, and one for each.
#[test]
fn gradients_match_their_reference_for_every_extent_of_blocks() {
    for device in warpsmith::testing::devices() {
        for (idx, source) in [
            Source::Lists,
            Source::Partial,
            Source::Indices,
            Source::Function,
        ]
        .into_iter()
        .enumerate()
        {
            for (head_dim, block) in [(64, [64, 128]), (128, [128, 128]), (128, [256, 64])] {
                let case = Case {
                    group: 2 + 2 * (idx % 2),
                    causal: idx == 0,
                    views: [View::Aligned; 4],
                    scores: Scores {
                        blocks: Some(Blocks {
                            block,
                            percent: 50,
                            differs: [false, idx % 2 == 0],
                            source,
                        }),
                        ..Default::default()
                    },
                    seed: idx as u64,
                    ..Case::plain(DType::Bf16, [200, 270], head_dim)
                };
                check(&case, &device).expect("the gradients");
            }
        }
    }
}
