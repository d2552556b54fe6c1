//! Element types of the portable kernels: f32 in registers, chunks of four in memory.

use cuda_std::convert::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use cuda_std::mem::{ld_global_nc_v2_u32, ld_global_nc_v4_f32};
use half::{bf16, f16};

/// Elements of a chunk.
pub(crate) const CHUNK: usize = 4;

/// Four f32, as a 16-byte access moves them.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub(crate) struct F32x4(pub(crate) [f32; CHUNK]);

/// Four 16-bit elements, as an 8-byte access moves them: two pairs, the lower half first. They are
/// widened only where they are used, so that nothing waits for the load before.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct B16x4([u32; CHUNK / 2]);

/// An element type, which is widened to f32 after a load and rounded once before a store.
pub(crate) trait SimtElement: Copy {
    /// Four neighbours as they are in memory, aligned to their size.
    type Chunk: Copy;
    /// Zero.
    const ZERO: Self;

    /// Loads a chunk in one instruction.
    ///
    /// NOTE(perf): not a plain read, because LLVM would merge it in part with the guarded loads
    /// beside it; elements loaded twice cost a quarter of the f32 GEMM's speed (docs/decisions/0013).
    ///
    /// # Safety
    /// Four elements at `ptr`, which is aligned to the chunk, are in global memory and can be read,
    /// and nothing writes them while the kernel runs.
    unsafe fn load_chunk(ptr: *const Self) -> Self::Chunk;

    /// Four elements as a chunk.
    fn pack(elements: [Self; CHUNK]) -> Self::Chunk;
    /// The elements of a chunk.
    fn unpack(chunk: Self::Chunk) -> [Self; CHUNK];
    /// Widens; exact.
    fn to_f32(self) -> f32;
    /// Rounds to nearest, ties to even.
    fn from_f32(value: f32) -> Self;

    /// The elements of a chunk in f32.
    #[inline(always)]
    fn widen(chunk: Self::Chunk) -> [f32; CHUNK] {
        let elements = Self::unpack(chunk);
        let mut values = [0.0; CHUNK];
        for idx in 0..CHUNK {
            values[idx] = elements[idx].to_f32();
        }
        values
    }

    /// Rounds four values to a chunk.
    #[inline(always)]
    fn narrow(values: [f32; CHUNK]) -> Self::Chunk {
        let mut elements = [Self::ZERO; CHUNK];
        for idx in 0..CHUNK {
            elements[idx] = Self::from_f32(values[idx]);
        }
        Self::pack(elements)
    }
}

impl SimtElement for f32 {
    type Chunk = F32x4;
    const ZERO: Self = 0.0;

    #[inline(always)]
    unsafe fn load_chunk(ptr: *const Self) -> F32x4 {
        // SAFETY: the caller's promise.
        F32x4(unsafe { ld_global_nc_v4_f32(ptr) })
    }
    #[inline(always)]
    fn pack(elements: [Self; CHUNK]) -> F32x4 {
        F32x4(elements)
    }
    #[inline(always)]
    fn unpack(chunk: F32x4) -> [Self; CHUNK] {
        chunk.0
    }
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self
    }
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        value
    }
}

macro_rules! half_elements {
    ($($half:ident, $widen:ident, $narrow:ident;)*) => {$(
        impl SimtElement for $half {
            type Chunk = B16x4;
            const ZERO: Self = $half::ZERO;

            #[inline(always)]
            unsafe fn load_chunk(ptr: *const Self) -> B16x4 {
                // SAFETY: the caller's promise.
                B16x4(unsafe { ld_global_nc_v2_u32(ptr.cast()) })
            }
            #[inline(always)]
            fn pack([a, b, c, d]: [Self; CHUNK]) -> B16x4 {
                let pair = |low: Self, high: Self| {
                    u32::from(low.to_bits()) | u32::from(high.to_bits()) << 16
                };
                B16x4([pair(a, b), pair(c, d)])
            }
            #[inline(always)]
            fn unpack(chunk: B16x4) -> [Self; CHUNK] {
                let low = |pair: u32| $half::from_bits(pair as u16);
                let high = |pair: u32| $half::from_bits((pair >> 16) as u16);
                let [ab, cd] = chunk.0;
                [low(ab), high(ab), low(cd), high(cd)]
            }
            #[inline(always)]
            fn to_f32(self) -> f32 {
                $widen(self.to_bits())
            }
            #[inline(always)]
            fn from_f32(value: f32) -> Self {
                $half::from_bits($narrow(value))
            }
        }
    )*};
}

half_elements! {
    f16, f16_to_f32, f32_to_f16;
    bf16, bf16_to_f32, f32_to_bf16;
}
