//! Elements as bits.

use cuda_std::mem;

/// An element: some bytes that are moved together.
pub(super) trait Bits: Copy {
    /// What is held of an element that is not there.
    const NONE: Self;

    /// # Safety
    /// An element is readable there, and aligned.
    unsafe fn load(from: *const u8) -> Self;

    /// # Safety
    /// An element is writable there, and aligned.
    unsafe fn store(self, to: *mut u8);

    /// The first bytes of a pattern that repeats every 8 bytes.
    fn of_pattern(pattern: u64) -> Self;
}

macro_rules! bits {
    ($($ty:ty)*) => {$(
        impl Bits for $ty {
            const NONE: Self = 0;

            #[inline(always)]
            unsafe fn load(from: *const u8) -> Self {
                // SAFETY: passed on to the caller.
                unsafe { from.cast::<Self>().read() }
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut u8) {
                // SAFETY: passed on to the caller.
                unsafe { to.cast::<Self>().write(self) }
            }

            #[inline(always)]
            fn of_pattern(pattern: u64) -> Self {
                pattern as Self
            }
        }
    )*};
}

bits! { u8 u16 u32 u64 }

impl Bits for [u32; 4] {
    const NONE: Self = [0; 4];

    /// Of tensors far larger than L2, by the policy of what elementwise kernels read.
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: passed on to the caller.
        unsafe { mem::ld_global_once_v4_u32(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: passed on to the caller.
        unsafe { mem::st_global_v4_u32(to.cast(), self) }
    }

    #[inline(always)]
    fn of_pattern(pattern: u64) -> Self {
        let (low, high) = (pattern as u32, (pattern >> 32) as u32);
        [low, high, low, high]
    }
}
