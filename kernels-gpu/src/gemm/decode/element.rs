//! The element types: their `mma` instructions, and how results are rounded.

use cuda_std::convert::{f32x2_to_bf16x2_cvt, f32x2_to_f16x2_cvt};
use cuda_std::element::Element;
use cuda_std::mem::st_v2_u32;
use cuda_std::mma::{mma_m16n8k16_f32_bf16_bf16_f32, mma_m16n8k16_f32_f16_f16_f32};
use half::{bf16, f16};

/// f16 or bf16.
pub(super) trait MmaElement: Element {
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

/// An element type of D.
pub(super) trait Output: Element {
    /// As [`Element::store4`], by the conversion instructions of GPUs that have `mma` of bf16.
    ///
    /// # Safety
    /// As for [`Element::store4`].
    unsafe fn store4_cvt(to: *mut Self, x: [f32; 4]);
}

impl Output for f32 {
    #[inline(always)]
    unsafe fn store4_cvt(to: *mut Self, x: [f32; 4]) {
        // SAFETY: passed on to the caller.
        unsafe { Self::store4(to, x) }
    }
}

macro_rules! sixteen_bits {
    ($($ty:ty: $pair:path;)*) => {$(
        impl Output for $ty {
            #[inline(always)]
            unsafe fn store4_cvt(to: *mut Self, x: [f32; 4]) {
                // SAFETY: passed on to the caller.
                unsafe { st_v2_u32(to.cast(), [$pair(x[0], x[1]), $pair(x[2], x[3])]) }
            }
        }
    )*};
}

sixteen_bits! {
    f16: f32x2_to_f16x2_cvt;
    bf16: f32x2_to_bf16x2_cvt;
}
