//! Gradients beside block masks.

use warpsmith_tests::property::{Effort, holds};

use super::check::check;
use crate::attention::blocks::of_every_extent;
use crate::attention::case::{self, Case};

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
    let extents = [(64, [64, 128]), (128, [128, 128]), (128, [256, 64])];
    for device in warpsmith::testing::devices() {
        for case in of_every_extent(extents) {
            let idx = case.seed as usize;
            let case = Case {
                group: 2 + 2 * (idx % 2),
                causal: idx == 0,
                ..case
            };
            check(&case, &device).expect("the gradients");
        }
    }
}
