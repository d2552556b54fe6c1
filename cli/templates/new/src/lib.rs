//! Kernels.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]

use cuda_std::prelude::*;

/// y = alpha * x + y, with one element for each thread.
#[kernel(requires = "x.len() >= y.len()", grid = "y")]
pub fn saxpy(alpha: f32, x: &[f32], mut y: Disjoint<'_, f32, Index1>) {
    let i = Index1::here();
    if let Some(y) = y.get_mut(&i) {
        *y += alpha * x[i.get()];
    }
}
