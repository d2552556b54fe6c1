//! The matrix product of a warp's fragments: which element types, by which `mma` instruction.

use cuda_std::convert::f32_to_tf32_rna;
use cuda_std::mma::{
    mma_m16n8k8_f32_f16_f16_f32, mma_m16n8k8_f32_tf32_tf32_f32, mma_m16n8k16_f32_bf16_bf16_f32,
    mma_m16n8k16_f32_f16_f16_f32, mma_m16n8k32_f32_e4m3_e4m3_f32, mma_m16n8k32_f32_e4m3_e5m2_f32,
    mma_m16n8k32_f32_e5m2_e4m3_f32, mma_m16n8k32_f32_e5m2_e5m2_f32, mma_m16n8k32_s32_s8_s8_s32,
};
use half::{bf16, f16};

/// A lane's accumulators of a 16×8 block: rows `lane / 4` and `lane / 4 + 8`, columns
/// `lane % 4 * 2` and the next.
pub(super) type Block = [f32; 4];

/// A lane's fragment of A: 16 rows by 32 bytes of k.
pub(super) type FragmentA = [u32; 4];

/// A lane's fragment of B: 8 columns by 32 bytes of k.
pub(super) type FragmentB = [u32; 2];

/// `acc += a * b` over a k step of 32 bytes.
pub(super) trait Product {
    /// Element of A in memory.
    type A: Copy;
    /// Element of B in memory.
    type B: Copy;
    /// Whether copies to shared memory are `cp.async`; otherwise they go through registers.
    const ASYNC: bool = true;

    /// Converts a word of a fragment to what the instruction takes.
    #[inline(always)]
    fn prepared(word: u32) -> u32 {
        word
    }

    /// One k step.
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
        // SAFETY: the caller's promise.
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
        // SAFETY: the caller's promise.
        unsafe { mma_m16n8k16_f32_f16_f16_f32(acc, a, b) }
    }
}

/// i8 on sm_80. The bits of the sums, i32, stand where others have f32.
pub(super) struct S8;

impl Product for S8 {
    type A = i8;
    type B = i8;

    #[inline(always)]
    unsafe fn multiply(acc: &mut Block, a: FragmentA, b: FragmentB) {
        let mut sums = acc.map(|x| x.to_bits() as i32);
        // SAFETY: the caller's promise.
        unsafe { mma_m16n8k32_s32_s8_s8_s32(&mut sums, a, b) }
        *acc = sums.map(|x| f32::from_bits(x as u32));
    }
}

/// f32 as tf32 on sm_80, rounded to nearest: the tensor core would truncate f32 bits.
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
        // SAFETY: the caller's promise.
        unsafe { mma_m16n8k8_f32_tf32_tf32_f32(acc, a, b) }
    }
}

/// f16 on sm_75: an instruction takes only 16 bytes of k, and there is no `cp.async`.
pub(super) struct TuringF16;

impl Product for TuringF16 {
    type A = f16;
    type B = f16;
    const ASYNC: bool = false;

    #[inline(always)]
    unsafe fn multiply(acc: &mut Block, a: FragmentA, b: FragmentB) {
        // SAFETY: the caller's promise.
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
                // SAFETY: the caller's promise.
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
