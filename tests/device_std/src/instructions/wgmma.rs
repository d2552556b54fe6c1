//! Matrix products of warpgroups: each N with one type, each type with one N, and the forms.

use cuda_std::kernel;
use cuda_std::wgmma::{
    Bf16, E4m3, E5m2, F16, M64, MmaAsync, Registers, S8, Tf32, U8, tie, wgmma_commit_group,
    wgmma_fence, wgmma_wait_group,
};

/// A product, from fence to wait; what it gives is used.
///
/// # Safety
/// Not for running.
#[inline(always)]
unsafe fn product<M: MmaAsync>(a: u64, b: u64, out: *mut u32) {
    // SAFETY: not for running.
    unsafe {
        let mut acc = M::Acc::unset();
        wgmma_fence();
        M::ss::<false, false, false>(&mut acc, a, b);
        wgmma_commit_group();
        wgmma_wait_group::<0>(&mut acc);
        super::keep(out, acc);
    }
}

/// The same with A in registers.
///
/// # Safety
/// Not for running.
#[inline(always)]
unsafe fn product_rs<M: MmaAsync>(a: [u32; 4], b: u64, out: *mut u32) {
    // SAFETY: not for running.
    unsafe {
        let mut acc = M::Acc::unset();
        wgmma_fence();
        M::rs::<false, false>(&mut acc, a, b);
        M::rs::<true, false>(&mut acc, a, b);
        M::rs_scaled::<false>(&mut acc, a, b, a[0] == 0);
        wgmma_commit_group();
        wgmma_wait_group::<0>(&mut acc);
        super::keep(out, acc);
    }
}

/// A product of each N.
macro_rules! shapes {
    ($a:ident, $b:ident, $out:ident: $($n:literal)*) => {$(
        product::<M64<$n, f32, Bf16, Bf16>>($a, $b, $out);
    )*};
}

/// # Safety
/// Not for running.
#[kernel(arch = "sm_90a", max_threads = 128, min_blocks = 1)]
pub unsafe fn every_wgmma_shape_to_64(a: u64, b: u64, out: *mut u32) {
    // SAFETY: not for running.
    unsafe {
        shapes! { a, b, out: 8 16 24 32 40 48 56 64 }
    }
}

/// # Safety
/// Not for running.
#[kernel(arch = "sm_90a", max_threads = 128, min_blocks = 1)]
pub unsafe fn every_wgmma_shape_to_128(a: u64, b: u64, out: *mut u32) {
    // SAFETY: not for running.
    unsafe {
        shapes! { a, b, out: 72 80 88 96 104 112 120 128 }
    }
}

/// # Safety
/// Not for running.
#[kernel(arch = "sm_90a", max_threads = 128, min_blocks = 1)]
pub unsafe fn every_wgmma_shape_to_192(a: u64, b: u64, out: *mut u32) {
    // SAFETY: not for running.
    unsafe {
        shapes! { a, b, out: 136 144 152 160 168 176 184 192 }
    }
}

/// # Safety
/// Not for running.
#[kernel(arch = "sm_90a", max_threads = 128, min_blocks = 1)]
pub unsafe fn every_wgmma_shape_to_216(a: u64, b: u64, out: *mut u32) {
    // SAFETY: not for running.
    unsafe {
        shapes! { a, b, out: 200 208 216 }
    }
}

/// # Safety
/// Not for running.
#[kernel(arch = "sm_90a", max_threads = 128, min_blocks = 1)]
pub unsafe fn every_wgmma_shape_to_232(a: u64, b: u64, out: *mut u32) {
    // SAFETY: not for running.
    unsafe {
        shapes! { a, b, out: 224 232 }
    }
}

/// # Safety
/// Not for running.
#[kernel(arch = "sm_90a", max_threads = 128, min_blocks = 1)]
pub unsafe fn every_wgmma_shape_to_240(a: u64, b: u64, out: *mut u32) {
    // SAFETY: not for running.
    unsafe {
        shapes! { a, b, out: 240 }
    }
}

/// # Safety
/// Not for running.
#[kernel(arch = "sm_90a", max_threads = 128, min_blocks = 1)]
pub unsafe fn every_wgmma_shape_to_248(a: u64, b: u64, out: *mut u32) {
    // SAFETY: not for running.
    unsafe {
        shapes! { a, b, out: 248 }
    }
}

/// # Safety
/// Not for running.
#[kernel(arch = "sm_90a", max_threads = 128, min_blocks = 1)]
pub unsafe fn every_wgmma_shape_to_256(a: u64, b: u64, out: *mut u32) {
    // SAFETY: not for running.
    unsafe {
        shapes! { a, b, out: 256 }
    }
}

/// # Safety
/// Not for running.
#[kernel(arch = "sm_90a", max_threads = 128, min_blocks = 1)]
pub unsafe fn every_wgmma_type(a: u64, b: u64, fragment: *const [u32; 4], out: *mut u32) {
    macro_rules! types {
        ($a:ident: $($n:literal $d:ty, $x:ty, $y:ty;)*) => {$(
            product::<M64<$n, $d, $x, $y>>(a, b, out);
            product_rs::<M64<$n, $d, $x, $y>>($a, b, out);
        )*};
    }
    // SAFETY: not for running.
    unsafe {
        let mut registers = fragment.read();
        tie(&mut registers);
        types! { registers:
            8 f32, F16, F16;
            24 f32, Bf16, Bf16;
            8 f32, Tf32, Tf32;
            8 f32, E4m3, E4m3;
            16 f32, E4m3, E5m2;
            40 f32, E5m2, E4m3;
            8 f32, E5m2, E5m2;
            8 F16, F16, F16;
            16 F16, E4m3, E4m3;
            24 F16, E4m3, E5m2;
            64 F16, E5m2, E4m3;
            8 F16, E5m2, E5m2;
            8 i32, S8, S8;
            48 i32, S8, U8;
            16 i32, U8, S8;
            64 i32, U8, U8;
        }
    }
}

/// Accumulates over k with both operands transposed, and with A in registers, as kernels do.
///
/// # Safety
/// Not for running.
#[kernel(arch = "sm_90a", max_threads = 128, min_blocks = 1)]
pub unsafe fn wgmma_loop(a: u64, b: u64, k_steps: u32, fragment: *const [u32; 4], out: *mut f32) {
    type Mma = M64<256, f32, Bf16, Bf16>;
    // SAFETY: not for running.
    unsafe {
        let registers = fragment.read();
        let mut acc = <Mma as MmaAsync>::Acc::unset();
        wgmma_fence();
        Mma::ss::<false, true, true>(&mut acc, a, b);
        for step in 1..u64::from(k_steps) {
            wgmma_fence();
            Mma::ss::<true, true, true>(&mut acc, a + 128 * step, b + 128 * step);
            Mma::rs::<true, true>(&mut acc, registers, b + 128 * step);
            wgmma_commit_group();
            wgmma_wait_group::<0>(&mut acc);
        }
        wgmma_wait_group::<0>(&mut acc);
        let thread = cuda_std::thread::thread_idx_x() as usize;
        out.cast::<[f32; 128]>().add(thread).write(acc);
    }
}
