//! `y = x / (1 + exp(-beta x)) * gate`, a function of example 07. The closure in the kernel is all that
//! a function of your own needs.

use abi::elementwise::{THREADS, WalkParams};
use cuda_std::map::map;
use cuda_std::param::ByValue;
use cuda_std::{kernel, math};
use half::bf16;

/// Swish with a slope per column, times a gate: three broadcast inputs, computed in f32.
///
/// # Safety
/// Launched by the host's `Map` over tensors of bf16.
#[kernel(max_threads = THREADS)]
pub unsafe fn swish_gate(
    x: *const bf16,
    beta: *const bf16,
    gate: *const bf16,
    y: *mut bf16,
    walk: ByValue<WalkParams, 432>,
) {
    let function = |[x, beta, gate]: [f32; 3]| x * math::sigmoid(beta * x) * gate;
    // SAFETY: the host's `Map` passes the tensors that the walk describes.
    unsafe { map([x, beta, gate], y, &walk, function) }
}
