//! Elements whose type is known only at run time, in chunks of four.

use abi::attention::OutputDType;
use cuda_std::convert::{bf16_to_f32, f16_to_f32};
use cuda_std::hint::opaque;

use crate::simt::element::{CHUNK, SimtElement};

/// An element type, as its code.
#[derive(Clone, Copy)]
pub(crate) struct ElementType(pub(crate) u32);

/// Four elements as they are in memory: 32 bits each, or 16 bits each in the first two words. They
/// are widened only where they are used, so that nothing waits for the load before.
#[derive(Clone, Copy)]
pub(crate) struct Chunk([u32; CHUNK]);

impl Chunk {
    /// Four zeros, of any type.
    pub(crate) const ZERO: Self = Self([0; CHUNK]);
}

impl ElementType {
    #[inline(always)]
    pub(crate) fn is_f32(self) -> bool {
        self.0 == OutputDType::F32.code()
    }

    #[inline(always)]
    pub(crate) fn is_f16(self) -> bool {
        self.0 == OutputDType::F16.code()
    }

    /// Bytes of an element.
    #[inline(always)]
    pub(crate) fn size_bytes(self) -> usize {
        if self.is_f32() { 4 } else { 2 }
    }

    /// Loads a chunk in one instruction.
    ///
    /// # Safety
    /// Four elements at `ptr`, which is aligned to the chunk, are in global memory and can be read,
    /// and nothing writes them while the kernel runs.
    #[inline(always)]
    pub(crate) unsafe fn load_chunk(self, ptr: *const u8) -> Chunk {
        if self.is_f32() {
            // SAFETY: the caller's promise.
            let chunk = unsafe { <f32 as SimtElement>::load_chunk(ptr.cast()) };
            Chunk(chunk.0.map(f32::to_bits))
        } else {
            // SAFETY: the caller's promise.
            let [low, high] = unsafe { cuda_std::mem::ld_global_nc_v2_u32(ptr.cast()) };
            Chunk([low, high, 0, 0])
        }
    }

    /// Loads those of four elements whose `has` is true; the others are 0.
    ///
    /// # Safety
    /// They can be read.
    #[inline(always)]
    pub(crate) unsafe fn load_some(self, ptr: *const u8, has: [bool; CHUNK]) -> Chunk {
        let mut words = [0; CHUNK];
        if self.is_f32() {
            for idx in 0..CHUNK {
                if has[idx] {
                    // SAFETY: the caller's promise.
                    words[idx] = unsafe { ptr.cast::<u32>().wrapping_add(idx).read() };
                }
            }
        } else {
            for idx in 0..CHUNK {
                if has[idx] {
                    // SAFETY: the caller's promise.
                    let bits = unsafe { ptr.cast::<u16>().wrapping_add(idx).read() };
                    words[idx / 2] |= u32::from(bits) << (16 * (idx % 2));
                }
            }
        }
        Chunk(words)
    }

    /// Loads the first `count` of four elements; the others are 0. As
    /// [`load_some`](Self::load_some), but with an instruction for one element at a time, which is
    /// a fraction of the code.
    ///
    /// # Safety
    /// They can be read.
    #[inline(always)]
    pub(crate) unsafe fn load_first(self, ptr: *const u8, count: u32) -> Chunk {
        let mut words = [0; CHUNK];
        let mut at = ptr;
        let mut idx = 0;
        while idx < opaque(CHUNK as u32) {
            let mut word = 0;
            if idx < count {
                // SAFETY: the caller's promise.
                word = unsafe {
                    if self.is_f32() {
                        at.cast::<u32>().read()
                    } else {
                        u32::from(at.cast::<u16>().read())
                    }
                };
            }
            words = [words[1], words[2], words[3], word];
            at = at.wrapping_add(self.size_bytes());
            idx += 1;
        }
        if self.is_f32() {
            Chunk(words)
        } else {
            Chunk([words[0] | words[1] << 16, words[2] | words[3] << 16, 0, 0])
        }
    }

    /// The elements of a chunk in f32.
    #[inline(always)]
    pub(crate) fn widen(self, Chunk(words): Chunk) -> [f32; CHUNK] {
        let mut values = [0.0; CHUNK];
        for idx in 0..CHUNK {
            let half = (words[idx / 2] >> (16 * (idx % 2))) as u16;
            values[idx] = if self.is_f32() {
                f32::from_bits(words[idx])
            } else if self.is_f16() {
                f16_to_f32(half)
            } else {
                bf16_to_f32(half)
            };
        }
        values
    }
}
