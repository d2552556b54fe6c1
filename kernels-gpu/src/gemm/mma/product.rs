//! The products of a warp: which element types, by which instructions.

use cuda_std::convert::f32_to_tf32_rna;
use cuda_std::mma::{
    mma_m16n8k8_f32_f16_f16_f32, mma_m16n8k8_f32_tf32_tf32_f32, mma_m16n8k16_f32_bf16_bf16_f32,
    mma_m16n8k16_f32_f16_f16_f32, mma_m16n8k32_f32_e4m3_e4m3_f32, mma_m16n8k32_f32_e4m3_e5m2_f32,
    mma_m16n8k32_f32_e5m2_e4m3_f32, mma_m16n8k32_f32_e5m2_e5m2_f32,
};
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
    /// Whether copies to shared memory run in the background; else they go through registers.
    const ASYNC: bool = true;

    /// A word of a fragment, as the instruction takes it.
    #[inline(always)]
    fn prepared(word: u32) -> u32 {
        word
    }

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

/// tf32 of f32 on sm_80, rounded to nearest: as they are, the tensor core would cut them off.
pub(super) struct Tf32;

impl Product for Tf32 {
    type A = f32;
    type B = f32;

    #[inline(always)]
    fn prepared(word: u32) -> u32 {
        f32_to_tf32_rna(f32::from_bits(word))
    }

    #[inline(always)]
    unsafe fn multiply(acc: &mut Block, a: FragmentA, b: FragmentB) {
        // SAFETY: the caller's.
        unsafe { mma_m16n8k8_f32_tf32_tf32_f32(acc, a, b) }
    }
}

/// f16 on sm_75: 16 bytes of k an instruction, and no copies in the background.
pub(super) struct TuringF16;

impl Product for TuringF16 {
    type A = f16;
    type B = f16;
    const ASYNC: bool = false;

    #[inline(always)]
    unsafe fn multiply(acc: &mut Block, a: FragmentA, b: FragmentB) {
        // SAFETY: the caller's.
        unsafe {
            mma_m16n8k8_f32_f16_f16_f32(acc, [a[0], a[1]], [b[0]]);
            mma_m16n8k8_f32_f16_f16_f32(acc, [a[2], a[3]], [b[1]]);
        }
    }
}

/// 8-bit floats on sm_89.
macro_rules! eight_bits {
    ($($name:ident = $instruction:ident;)*) => {$(
        #[doc = concat!("[`", stringify!($instruction), "`]")]
        pub(super) struct $name;

        impl Product for $name {
            type A = u8;
            type B = u8;

            #[inline(always)]
            unsafe fn multiply(acc: &mut Block, a: FragmentA, b: FragmentB) {
                // SAFETY: the caller's.
                unsafe { $instruction(acc, a, b) }
            }
        }
    )*};
}

eight_bits! {
    E4m3E4m3 = mma_m16n8k32_f32_e4m3_e4m3_f32;
    E4m3E5m2 = mma_m16n8k32_f32_e4m3_e5m2_f32;
    E5m2E4m3 = mma_m16n8k32_f32_e5m2_e4m3_f32;
    E5m2E5m2 = mma_m16n8k32_f32_e5m2_e5m2_f32;
}
