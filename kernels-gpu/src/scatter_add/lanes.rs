//! Vectors of 16 bytes as f32.

use cuda_std::{convert, mem};
use half::{bf16, f16};

use crate::reduce::load::{Load, Raw};

/// A float type of which a vector has `V`.
pub(super) trait Lanes<const V: usize>: Load<V, Number = f32> {
    /// A word of zeros that change no number that they are added to: -0.
    const NOTHING: u32;

    /// A vector of these, each rounded once.
    fn packed(numbers: [f32; V]) -> Raw;

    /// Loads a vector that nobody writes; where it is not there, one that changes no sum.
    ///
    /// # Safety
    /// Where it is there, it is readable, and aligned.
    #[inline(always)]
    unsafe fn row(at: *const u8, is_there: bool) -> Raw {
        // SAFETY: passed on to the caller.
        unsafe { mem::ld_global_nc_v4_u32_or(at.cast(), is_there, Self::NOTHING) }
    }

    /// The sums and the elements of a vector.
    #[inline(always)]
    fn plus(sums: [f32; V], raw: Raw) -> [f32; V] {
        let mut sums = sums;
        for v in 0..V {
            sums[v] += Self::number(raw, v);
        }
        sums
    }
}

impl Lanes<4> for f32 {
    const NOTHING: u32 = 0x8000_0000;

    #[inline(always)]
    fn packed(numbers: [f32; 4]) -> Raw {
        numbers.map(f32::to_bits)
    }
}

macro_rules! sixteen_bits {
    ($($ty:ty, $narrow:path;)*) => {$(
        impl Lanes<8> for $ty {
            const NOTHING: u32 = 0x8000_8000;

            #[inline(always)]
            fn packed(numbers: [f32; 8]) -> Raw {
                let [a, b, c, d, e, f, g, h] = numbers.map(|x| u32::from($narrow(x)));
                [a | b << 16, c | d << 16, e | f << 16, g | h << 16]
            }
        }
    )*};
}

sixteen_bits! {
    f16, convert::f32_to_f16;
    bf16, convert::f32_to_bf16;
}
