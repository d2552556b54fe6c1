//! The element types and their `mma` instructions.

use cuda_std::mma::{mma_m16n8k16_f32_bf16_bf16_f32, mma_m16n8k16_f32_f16_f16_f32};
use half::{bf16, f16};

use crate::gemm::stored::Half;

/// f16 or bf16.
pub(super) trait MmaElement: Half {
    /// `acc += a * b` by a warp: 16×8 results, over k of 16.
    ///
    /// # Safety
    /// All lanes execute it.
    unsafe fn mma(acc: &mut [f32; 4], a: [u32; 4], b: [u32; 2]);
}

impl MmaElement for f16 {
    #[inline(always)]
    unsafe fn mma(acc: &mut [f32; 4], a: [u32; 4], b: [u32; 2]) {
        // SAFETY: passed on to the caller.
        unsafe { mma_m16n8k16_f32_f16_f16_f32(acc, a, b) }
    }
}

impl MmaElement for bf16 {
    #[inline(always)]
    unsafe fn mma(acc: &mut [f32; 4], a: [u32; 4], b: [u32; 2]) {
        // SAFETY: passed on to the caller.
        unsafe { mma_m16n8k16_f32_bf16_bf16_f32(acc, a, b) }
    }
}
