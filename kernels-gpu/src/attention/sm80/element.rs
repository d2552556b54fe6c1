//! The element types of tensor cores.

use cuda_std::convert::{f32x2_to_bf16x2_cvt, f32x2_to_f16x2_cvt};
use cuda_std::mma::{mma_m16n8k16_f32_bf16_bf16_f32, mma_m16n8k16_f32_f16_f16_f32};
use half::{bf16, f16};

/// 16 rows by 8 columns of results: rows `lane / 4` and 8 more, columns `lane % 4 * 2` and the next.
pub(super) type Block = [f32; 4];

/// An element of 16 bits.
pub(super) trait Half: Copy {
    /// `acc += a * b` of 16 × 16 by 16 × 8.
    ///
    /// # Safety
    /// All lanes of the warp execute it.
    unsafe fn multiply(acc: &mut Block, a: [u32; 4], b: [u32; 2]);

    /// Two values rounded, the first in the lower half.
    fn pack(low: f32, high: f32) -> u32;
}

macro_rules! halves {
    ($($ty:ident: $multiply:ident, $pack:ident;)*) => {$(
        impl Half for $ty {
            #[inline(always)]
            unsafe fn multiply(acc: &mut Block, a: [u32; 4], b: [u32; 2]) {
                // SAFETY: the caller's.
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
