//! What the lanes of a warp exchange, and instructions of numbers, by the kernels of
//! `device_std/src/warps.rs`.

use warpsmith::LaunchConfig;

use crate::device_std::{Answer, hold};

const PTX: &str = include_str!("../device_std/ptx/sm_80/warps.ptx");

#[test]
fn a_warp_shuffles_votes_and_reduces() {
    let answers: [Answer; 25] = [
        ("shfl_idx", |_| 50),
        ("shfl_up", |lane| lane.checked_sub(3).unwrap_or(lane)),
        ("shfl_down", |lane| if lane < 29 { lane + 3 } else { lane }),
        ("shfl_bfly", |lane| lane ^ 8),
        ("shfl_bfly u64", |lane| lane ^ 1),
        ("shfl_down f64", |lane| (lane + 1).min(31)),
        ("vote_all", |_| 1),
        ("vote_all but one", |_| 0),
        ("vote_any", |_| 1),
        ("vote_uni", |_| 1),
        ("vote_uni mixed", |_| 0),
        ("vote_ballot", |_| {
            (0..32).step_by(3).map(|lane| 1 << lane).sum()
        }),
        ("match_any", |lane| 0xff << (lane / 8 * 8)),
        ("match_all", |_| u32::MAX),
        ("match_all mixed", |_| 0),
        ("match_any of f64", |lane| 0xff << (lane / 8 * 8)),
        ("match_all of u64", |_| 0),
        ("redux_add_u32", |_| 496),
        ("redux_min_i32", |_| -26_i32 as u32),
        ("redux_max_u32", |_| 31),
        ("redux_xor", |_| u32::MAX),
        ("reduce_sum", |_| 496),
        ("reduce_max", |_| 31),
        ("activemask", |_| u32::MAX),
        ("lane_idx, warp_idx", |lane| lane),
    ];
    hold(PTX, "warp_answers", LaunchConfig::linear(1, 32), &answers);
}

/// The largest f32 up to a reciprocal, and the next one where the nearest is below it.
fn reciprocal(lane: u32) -> u32 {
    let third = lane as f32 + 1.0 / 3.0;
    let (exact, nearest) = (1.0 / f64::from(third), 1.0 / third);
    let is_above = f64::from(nearest) > exact;
    let below = if is_above {
        nearest.next_down()
    } else {
        nearest
    };
    below.to_bits() + u32::from(f64::from(nearest) < exact)
}

#[test]
fn segments_and_other_types_are_exchanged_and_rounding_is_directed() {
    let answers: [Answer; 12] = [
        ("shfl_idx_within", |lane| lane / 8 * 8 + 3),
        (
            "shfl_up_within",
            |lane| {
                if lane % 8 < 2 { lane } else { lane - 2 }
            },
        ),
        ("shfl_down_within", |lane| {
            if lane % 16 > 10 { lane } else { lane + 5 }
        }),
        ("shfl_bfly_within", |lane| lane ^ 2),
        ("shfl_bfly u8", |lane| (lane ^ 1) + 200),
        ("shfl_bfly i16", |lane| (lane ^ 1).wrapping_neg()),
        ("shfl_bfly bool", |lane| lane % 2),
        ("shfl_bfly u128", |lane| lane ^ 1),
        ("shfl_bfly [u32; 3]", |lane| (lane ^ 1) * 3),
        ("div_rz, div_rp", reciprocal),
        ("add_rz, add_rm", |_| 2),
        ("prmt", |lane| lane << 24 | lane),
    ];
    hold(
        PTX,
        "more_warp_answers",
        LaunchConfig::linear(1, 32),
        &answers,
    );
}
