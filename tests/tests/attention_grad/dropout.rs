//! Gradients with dropout: the bits are those of the forward pass.

use warpsmith_tests::property::{Effort, holds};

use super::check::check;
use crate::attention::case;
use crate::attention::dropout::of_every_extent;

#[test]
fn gradients_match_their_reference_with_dropout() {
    holds(
        Effort {
            cases: [20, 300],
            largest: [120, 500],
        },
        case::dropped,
        check,
    );
}

#[test]
fn gradients_match_their_reference_with_dropout_in_every_tile() {
    for device in warpsmith::testing::devices() {
        for case in of_every_extent() {
            check(&case, &device).expect("the gradients");
        }
    }
}
