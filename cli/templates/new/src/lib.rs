//! Kernels.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]

use cuda_std::prelude::*;

/// y = a x + y.
///
/// # Safety
/// `x` and `y` hold `len` elements.
#[kernel]
pub unsafe fn saxpy(len: usize, a: f32, x: *const f32, y: *mut f32) {
    let i = thread::index_1d() as usize;
    if i < len {
        // SAFETY: `i` is inside of both, and no other thread has it.
        unsafe { *y.add(i) = math::fma(a, *x.add(i), *y.add(i)) };
    }
}
