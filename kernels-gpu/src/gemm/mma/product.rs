//! The products of a warp: which element types, by which instructions.

use cuda_std::mma::{mma_m16n8k16_f32_bf16_bf16_f32, mma_m16n8k16_f32_f16_f16_f32};
use half::{bf16, f16};

/// A 16×8 block of results: rows `lane / 4` and 8 more, columns `lane % 4 * 2` and the next.
pub(super) type Block = [f32; 4];

/// 16 rows by 32 bytes of k of A.
pub(super) type FragmentA = [u32; 4];

/// 8 columns by 32 bytes of k of B.
pub(super) type FragmentB = [u32; 2];

/// `acc += a * b` over 32 bytes of k.
pub(super) trait Product {
    /// Element of A as it lies in memory.
    type A: Copy;
    /// Element of B.
    type B: Copy;

    /// One step.
    ///
    /// # Safety
    /// All lanes of the warp execute it.
    unsafe fn multiply(acc: &mut Block, a: FragmentA, b: FragmentB);
}

/// bf16 on sm_80.
pub(super) struct Bf16;

impl Product for Bf16 {
    type A = bf16;
    type B = bf16;

    #[inline(always)]
    unsafe fn multiply(acc: &mut Block, a: FragmentA, b: FragmentB) {
        // SAFETY: the caller's.
        unsafe { mma_m16n8k16_f32_bf16_bf16_f32(acc, a, b) }
    }
}

/// f16 on sm_80.
pub(super) struct F16;

impl Product for F16 {
    type A = f16;
    type B = f16;

    #[inline(always)]
    unsafe fn multiply(acc: &mut Block, a: FragmentA, b: FragmentB) {
        // SAFETY: the caller's.
        unsafe { mma_m16n8k16_f32_f16_f16_f32(acc, a, b) }
    }
}
