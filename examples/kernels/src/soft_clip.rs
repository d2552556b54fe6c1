//! A function that example 07 puts into a chain: compiled once, pasted into the kernel that the host
//! composes.

use cuda_std::{fragment, math};

/// x where it is small, and never beyond ±`limit`.
#[fragment]
pub fn f32_soft_clip(x: f32, limit: f32) -> f32 {
    limit * math::tanh(x / limit)
}
