//! Vectors of elements as f32, by what every GPU has.

use cuda_std::element::Element;
use cuda_std::{convert, mem};
use half::{bf16, f16};

/// A vector of 16 bytes as it is in memory.
pub(super) type Raw = [u32; 4];

/// An element type of which a vector of 16 bytes has `V`.
pub(super) trait Lanes<const V: usize>: Element {
    /// The elements of a vector.
    fn widen(raw: Raw) -> [f32; V];

    /// A vector of these, each rounded once.
    fn narrow(values: [f32; V]) -> Raw;
}

impl Lanes<4> for f32 {
    #[inline(always)]
    fn widen(raw: Raw) -> [f32; 4] {
        raw.map(f32::from_bits)
    }

    #[inline(always)]
    fn narrow(values: [f32; 4]) -> Raw {
        values.map(f32::to_bits)
    }
}

macro_rules! sixteen_bits {
    ($($ty:ty, $narrow:path;)*) => {$(
        impl Lanes<8> for $ty {
            #[inline(always)]
            fn widen(raw: Raw) -> [f32; 8] {
                let [[a, b], [c, d], [e, f], [g, h]] = raw.map(<$ty as Element>::widen_pair);
                [a, b, c, d, e, f, g, h]
            }

            #[inline(always)]
            fn narrow(values: [f32; 8]) -> Raw {
                let [a, b, c, d, e, f, g, h] = values.map(|x| u32::from($narrow(x)));
                [a | b << 16, c | d << 16, e | f << 16, g | h << 16]
            }
        }
    )*};
}

sixteen_bits! {
    f16, convert::f32_to_f16;
    bf16, convert::f32_to_bf16;
}

/// An element type of tables, read by `V` neighbours.
pub(super) trait Table<const V: usize>: Element {
    /// # Safety
    /// They are readable, at a multiple of 16 bytes.
    unsafe fn load_lanes(from: *const Self) -> [f32; V];

    /// The same, half of them from each of two places.
    ///
    /// # Safety
    /// They are readable, at multiples of as many bytes as they have, up to 16.
    unsafe fn load_halves(from: [*const Self; 2]) -> [f32; V];
}

impl Table<4> for f32 {
    #[inline(always)]
    unsafe fn load_lanes(from: *const Self) -> [f32; 4] {
        // SAFETY: passed on to the caller.
        unsafe { mem::ld_v4_f32(from) }
    }

    #[inline(always)]
    unsafe fn load_halves(from: [*const Self; 2]) -> [f32; 4] {
        // SAFETY: passed on to the caller.
        let [[a, b], [c, d]] = from.map(|from| unsafe { mem::ld_v2_f32(from) });
        [a, b, c, d]
    }
}

impl Table<8> for f32 {
    #[inline(always)]
    unsafe fn load_lanes(from: *const Self) -> [f32; 8] {
        // SAFETY: passed on to the caller.
        unsafe { Self::load_halves([from, from.wrapping_add(4)]) }
    }

    #[inline(always)]
    unsafe fn load_halves(from: [*const Self; 2]) -> [f32; 8] {
        // SAFETY: passed on to the caller.
        let [[a, b, c, d], [e, f, g, h]] = from.map(|from| unsafe { mem::ld_v4_f32(from) });
        [a, b, c, d, e, f, g, h]
    }
}

macro_rules! tables {
    ($($ty:ty)*) => {$(
        impl Table<8> for $ty {
            #[inline(always)]
            unsafe fn load_lanes(from: *const Self) -> [f32; 8] {
                // SAFETY: passed on to the caller.
                Self::widen(unsafe { mem::ld_v4_u32(from.cast()) })
            }

            #[inline(always)]
            unsafe fn load_halves(from: [*const Self; 2]) -> [f32; 8] {
                // SAFETY: passed on to the caller.
                let [[a, b], [c, d]] = from.map(|from| unsafe { mem::ld_v2_u32(from.cast()) });
                Self::widen([a, b, c, d])
            }
        }
    )*};
}

tables! { f16 bf16 }
