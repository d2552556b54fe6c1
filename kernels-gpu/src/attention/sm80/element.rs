//! The element types, with their `mma` instructions and roundings.

use cuda_std::convert::{
    f32_to_f16, f32x2_to_bf16x2_cvt, f32x2_to_bf16x2_cvt_of_both, f32x2_to_f16x2_cvt,
};
use cuda_std::mma::{
    mma_m16n8k8_f32_f16_f16_f32, mma_m16n8k16_f32_bf16_bf16_f32, mma_m16n8k16_f32_f16_f16_f32,
};
use half::{bf16, f16};

/// A lane's accumulators of a 16×8 block: rows `lane / 4` and `lane / 4 + 8`, columns
/// `lane % 4 * 2` and the next.
pub(crate) type Block = [f32; 4];

/// An element of 16 bits.
pub(crate) trait Half: Copy {
    /// Whether copies are `cp.async`; otherwise they go through registers, and are complete when
    /// started.
    const BACKGROUND: bool = true;

    /// `acc += a * b` by a warp: 16 × 16 by 16 × 8.
    ///
    /// # Safety
    /// All lanes of the warp execute it.
    unsafe fn multiply(acc: &mut Block, a: [u32; 4], b: [u32; 2]);

    /// Two values, rounded to this type; the first in the lower half.
    fn pack(low: f32, high: f32) -> u32;

    /// The same, rounded to f16 or else to bf16.
    #[inline(always)]
    fn pack_as(is_f16: bool, low: f32, high: f32) -> u32 {
        if is_f16 {
            f32x2_to_f16x2_cvt(low, high)
        } else {
            f32x2_to_bf16x2_cvt_of_both(low, high)
        }
    }
}

macro_rules! halves {
    ($($ty:ident: $multiply:ident, $pack:ident;)*) => {$(
        impl Half for $ty {
            #[inline(always)]
            unsafe fn multiply(acc: &mut Block, a: [u32; 4], b: [u32; 2]) {
                // SAFETY: the caller's promise.
                unsafe { $multiply(acc, a, b) }
            }

            #[inline(always)]
            fn pack(low: f32, high: f32) -> u32 {
                $pack(low, high)
            }
        }
    )*};
}

halves! {
    bf16: mma_m16n8k16_f32_bf16_bf16_f32, f32x2_to_bf16x2_cvt;
    f16: mma_m16n8k16_f32_f16_f16_f32, f32x2_to_f16x2_cvt;
}

/// f16 on sm_75: an instruction takes 8 of k, there is no `cp.async`, and o is f16 or f32 only.
#[derive(Clone, Copy)]
pub(super) struct TuringF16;

impl Half for TuringF16 {
    const BACKGROUND: bool = false;

    #[inline(always)]
    unsafe fn multiply(acc: &mut Block, a: [u32; 4], b: [u32; 2]) {
        // SAFETY: the caller's promise.
        unsafe {
            mma_m16n8k8_f32_f16_f16_f32(acc, [a[0], a[1]], [b[0]]);
            mma_m16n8k8_f32_f16_f16_f32(acc, [a[2], a[3]], [b[1]]);
        }
    }

    #[inline(always)]
    fn pack(low: f32, high: f32) -> u32 {
        u32::from(f32_to_f16(high)) << 16 | u32::from(f32_to_f16(low))
    }

    #[inline(always)]
    fn pack_as(_: bool, low: f32, high: f32) -> u32 {
        Self::pack(low, high)
    }
}
