//! Elements of a column, one or a vector of 16 bytes of them, as numbers.

use cuda_std::{convert, mem};
use half::{bf16, f16};

use crate::reduce::load::{Load, Raw};
use crate::reduce::number::Number;

/// An element type of which a vector has `V`. Of one element alone, the others are zero bits.
pub(super) trait Lanes<const V: usize>: Load<V, Number: Number> {
    /// Numbers, each rounded once.
    fn packed(numbers: [Self::Number; V]) -> Raw;

    /// Loads one element.
    ///
    /// # Safety
    /// It is readable.
    unsafe fn element(at: *const u8) -> u64;

    /// Stores one element.
    ///
    /// # Safety
    /// It is writable.
    unsafe fn put(at: *mut u8, bits: u64);

    /// Loads vectors or elements that nobody writes; in place of those that are not there, what
    /// changes no sum.
    ///
    /// # Safety
    /// They are readable, and aligned.
    #[inline(always)]
    unsafe fn rows<const N: usize>(
        at: [*const u8; N],
        are_there: [bool; N],
        is_vector: bool,
    ) -> [Raw; N] {
        let nothing = Self::packed(Self::nothing());
        let mut raws = [nothing; N];
        for j in 0..N {
            // SAFETY: passed on to the caller.
            unsafe {
                if is_vector {
                    raws[j] = mem::ld_global_nc_v4_u32_or(at[j].cast(), are_there[j], nothing[0]);
                    if nothing[0] != nothing[1] && !are_there[j] {
                        raws[j] = nothing;
                    }
                } else if are_there[j] {
                    raws[j] = low(Self::element(at[j]));
                }
            }
        }
        raws
    }

    /// Loads a vector or an element that this thread may write.
    ///
    /// # Safety
    /// It is readable, and aligned.
    #[inline(always)]
    unsafe fn load(at: *const u8, is_vector: bool) -> Raw {
        // SAFETY: passed on to the caller.
        unsafe {
            match is_vector {
                true => mem::ld_global_v4_u32(at.cast()),
                false => low(Self::element(at)),
            }
        }
    }

    /// Stores a vector or an element.
    ///
    /// # Safety
    /// It is writable, and aligned.
    #[inline(always)]
    unsafe fn store(at: *mut u8, raw: Raw, is_vector: bool) {
        // SAFETY: passed on to the caller.
        unsafe {
            match is_vector {
                true => mem::st_global_v4_u32(at.cast(), raw),
                false => Self::put(at, u64::from(raw[0]) | u64::from(raw[1]) << 32),
            }
        }
    }

    /// Sums of nothing.
    #[inline(always)]
    fn nothing() -> [Self::Number; V] {
        [Self::Number::NOTHING; V]
    }

    /// The sums and the elements of a vector.
    #[inline(always)]
    fn plus(sums: [Self::Number; V], raw: Raw) -> [Self::Number; V] {
        let mut sums = sums;
        for v in 0..V {
            sums[v] = sums[v].plus(Self::number(raw, v));
        }
        sums
    }
}

/// An element in the low bits of a vector.
#[inline(always)]
fn low(bits: u64) -> Raw {
    [bits as u32, (bits >> 32) as u32, 0, 0]
}

macro_rules! lanes {
    ($($ty:ty, $lanes:literal, $bits:ty, |$x:ident| $packed:expr;)*) => {$(
        impl Lanes<$lanes> for $ty {
            #[inline(always)]
            fn packed($x: [Self::Number; $lanes]) -> Raw {
                $packed
            }

            #[inline(always)]
            unsafe fn element(at: *const u8) -> u64 {
                // SAFETY: passed on to the caller.
                unsafe { at.cast::<$bits>().read() }.into()
            }

            #[inline(always)]
            unsafe fn put(at: *mut u8, bits: u64) {
                // SAFETY: passed on to the caller.
                unsafe { at.cast::<$bits>().write(bits as $bits) }
            }
        }
    )*};
}

/// Pairs of 16 bits as words.
#[inline(always)]
fn halves([a, b, c, d, e, f, g, h]: [u16; 8]) -> Raw {
    [[a, b], [c, d], [e, f], [g, h]].map(|[low, high]| u32::from(low) | u32::from(high) << 16)
}

/// 64 bits as words.
#[inline(always)]
fn words([a, b]: [u64; 2]) -> Raw {
    [a as u32, (a >> 32) as u32, b as u32, (b >> 32) as u32]
}

lanes! {
    f32, 4, u32, |x| x.map(f32::to_bits);
    f16, 8, u16, |x| halves(x.map(convert::f32_to_f16));
    bf16, 8, u16, |x| halves(x.map(convert::f32_to_bf16));
    f64, 2, u64, |x| words(x.map(f64::to_bits));
    i32, 4, u32, |x| x.map(|x| x as u32);
    i64, 2, u64, |x| words(x.map(|x| x as u64));
}
