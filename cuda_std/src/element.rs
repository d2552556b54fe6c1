//! Element types of tensors. Kernels compute in f32: a load converts to f32, a store rounds once
//! from f32.

use crate::convert::{self, Halves};
use crate::mem;
use half::{bf16, f16};

/// An element type that is loaded as f32 and stored from f32.
pub trait Element: Copy {
    /// Loads one element.
    ///
    /// # Safety
    /// `ptr` is aligned and readable.
    unsafe fn load(ptr: *const Self) -> f32;

    /// The same. The PTX of f16 and bf16 is alike ([`convert::Halves`]), and LLVM does not know
    /// that to round the value gives the element.
    ///
    /// # Safety
    /// As for [`load`](Self::load).
    #[inline(always)]
    unsafe fn load_alike(ptr: *const Self) -> f32 {
        // SAFETY: passed on to the caller.
        unsafe { Self::load(ptr) }
    }

    /// Two neighbouring elements, unconverted.
    type Pair: Copy + Default;

    /// Loads two neighbouring elements in one access.
    ///
    /// # Safety
    /// Two elements are readable at `ptr`, which is aligned to the size of two.
    #[inline(always)]
    unsafe fn load_pair(ptr: *const Self) -> Self::Pair {
        // SAFETY: passed on to the caller.
        unsafe { ptr.cast::<Self::Pair>().read() }
    }

    /// Converts the elements of a pair to f32. Separate from the load, so that nothing waits for
    /// the loaded value before it is used.
    fn widen_pair(pair: Self::Pair) -> [f32; 2];

    /// Loads four neighbouring elements in one access.
    ///
    /// # Safety
    /// Four elements are readable at `ptr`, which is aligned to the size of four.
    unsafe fn load4(ptr: *const Self) -> [f32; 4];

    /// Stores one element.
    ///
    /// # Safety
    /// `ptr` is aligned and writable.
    unsafe fn store(ptr: *mut Self, value: f32);

    /// Stores four neighbouring elements in one access.
    ///
    /// # Safety
    /// Four elements are writable at `ptr`, which is aligned to the size of four.
    unsafe fn store4(ptr: *mut Self, values: [f32; 4]);

    /// Whether `ptr` is aligned for [`load4`](Self::load4) and [`store4`](Self::store4).
    #[inline(always)]
    fn is_vector_aligned(ptr: *const Self) -> bool {
        ptr.addr().is_multiple_of(4 * size_of::<Self>())
    }
}

impl Element for f32 {
    type Pair = [f32; 2];

    #[inline(always)]
    unsafe fn load(ptr: *const Self) -> f32 {
        // SAFETY: passed on to the caller.
        unsafe { ptr.read() }
    }
    #[inline(always)]
    unsafe fn load_pair(ptr: *const Self) -> [f32; 2] {
        // SAFETY: passed on to the caller.
        unsafe { mem::ld_v2_f32(ptr) }
    }
    #[inline(always)]
    fn widen_pair(pair: [f32; 2]) -> [f32; 2] {
        pair
    }
    #[inline(always)]
    unsafe fn load4(ptr: *const Self) -> [f32; 4] {
        // SAFETY: passed on to the caller.
        unsafe { mem::ld_v4_f32(ptr) }
    }
    #[inline(always)]
    unsafe fn store(ptr: *mut Self, value: f32) {
        // SAFETY: passed on to the caller.
        unsafe { ptr.write(value) }
    }
    #[inline(always)]
    unsafe fn store4(ptr: *mut Self, values: [f32; 4]) {
        // SAFETY: passed on to the caller.
        unsafe { mem::st_v4_f32(ptr, values) }
    }
}

macro_rules! sixteen_bits {
    ($ty:ty, $widen:path, $narrow:path) => {
        impl Element for $ty {
            type Pair = u32;

            #[inline(always)]
            unsafe fn load(ptr: *const Self) -> f32 {
                // SAFETY: passed on to the caller.
                $widen(unsafe { ptr.cast::<u16>().read() })
            }
            #[inline(always)]
            unsafe fn load_alike(ptr: *const Self) -> f32 {
                // SAFETY: passed on to the caller.
                Self::low_to_f32(unsafe { ptr.cast::<u16>().read() }.into())
            }
            #[inline(always)]
            fn widen_pair(pair: u32) -> [f32; 2] {
                [Self::low_to_f32(pair), Self::high_to_f32(pair)]
            }
            #[inline(always)]
            unsafe fn load4(ptr: *const Self) -> [f32; 4] {
                // SAFETY: passed on to the caller.
                unsafe { mem::ld_v4_u16(ptr.cast()) }.map($widen)
            }
            #[inline(always)]
            unsafe fn store(ptr: *mut Self, value: f32) {
                // SAFETY: passed on to the caller.
                unsafe { ptr.cast::<u16>().write($narrow(value)) }
            }
            #[inline(always)]
            unsafe fn store4(ptr: *mut Self, values: [f32; 4]) {
                // SAFETY: passed on to the caller.
                unsafe { mem::st_v4_u16(ptr.cast(), values.map($narrow)) }
            }
        }
    };
}

/// The bits of an 8-bit float with 4 exponent and 3 mantissa bits (OCP `E4M3`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct E4m3(pub u8);

/// The bits of an 8-bit float with 5 exponent and 2 mantissa bits (OCP `E5M2`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct E5m2(pub u8);

/// Stores round to nearest, ties to even, and saturate at the largest finite value.
macro_rules! eight_bits {
    ($ty:ty, $widen:path, $narrow:path) => {
        impl Element for $ty {
            type Pair = u16;

            #[inline(always)]
            unsafe fn load(ptr: *const Self) -> f32 {
                // SAFETY: passed on to the caller.
                $widen(unsafe { ptr.cast::<u8>().read() })
            }
            #[inline(always)]
            fn widen_pair(pair: u16) -> [f32; 2] {
                pair.to_le_bytes().map($widen)
            }
            #[inline(always)]
            unsafe fn load4(ptr: *const Self) -> [f32; 4] {
                // SAFETY: passed on to the caller.
                let word = unsafe { ptr.cast::<u32>().read() };
                word.to_le_bytes().map($widen)
            }
            #[inline(always)]
            unsafe fn store(ptr: *mut Self, value: f32) {
                // SAFETY: passed on to the caller.
                unsafe { ptr.cast::<u8>().write($narrow(value)) }
            }
            #[inline(always)]
            unsafe fn store4(ptr: *mut Self, values: [f32; 4]) {
                let word = u32::from_le_bytes(values.map($narrow));
                // SAFETY: passed on to the caller.
                unsafe { ptr.cast::<u32>().write(word) }
            }
        }
    };
}

eight_bits!(E4m3, convert::e4m3_to_f32, convert::f32_to_e4m3_satfinite);
eight_bits!(E5m2, convert::e5m2_to_f32, convert::f32_to_e5m2_satfinite);
sixteen_bits!(f16, convert::f16_to_f32, convert::f32_to_f16);
sixteen_bits!(bf16, convert::bf16_to_f32, convert::f32_to_bf16);
