//! A function that example 07 uses in a chain. It is compiled once, and inlined in the kernel that the
//! host composes.

use cuda_std::{fragment, math};

/// Approximately x where it is small, and bounded by ±`limit`.
#[fragment]
pub fn f32_soft_clip(x: f32, limit: f32) -> f32 {
    limit * math::tanh(x / limit)
}
