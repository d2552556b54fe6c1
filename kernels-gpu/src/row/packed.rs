//! Vectors of 16 bytes: 4 elements of f32, 8 of the 16-bit types.

use cuda_std::convert;
use cuda_std::element::Element;
use cuda_std::hint::opaque;
use cuda_std::mem;
use half::{bf16, f16};

/// 16 bytes as they lie in memory.
pub(crate) type Raw = [u32; 4];

/// An element type that comes 16 bytes at a time.
pub(crate) trait Packed: Element {
    /// Elements of a vector.
    const LANES: usize;

    /// Element `i` of a vector; `i` is a constant where loops are unrolled.
    fn lane(raw: &Raw, i: usize) -> f32;

    /// The word of these elements, two of 16 bits (`high` in the upper half), or `low` alone.
    fn word(low: f32, high: f32) -> u32;
}

impl Packed for f32 {
    const LANES: usize = 4;

    #[inline(always)]
    fn lane(raw: &Raw, i: usize) -> f32 {
        f32::from_bits(raw[i])
    }

    #[inline(always)]
    fn word(low: f32, _high: f32) -> u32 {
        low.to_bits()
    }
}

impl Packed for bf16 {
    const LANES: usize = 8;

    #[inline(always)]
    fn lane(raw: &Raw, i: usize) -> f32 {
        let word = raw[i / 2];
        f32::from_bits(if i.is_multiple_of(2) {
            word << 16
        } else {
            word & 0xffff_0000
        })
    }

    #[inline(always)]
    fn word(low: f32, high: f32) -> u32 {
        convert::f32x2_to_bf16x2_cvt(low, high)
    }
}

impl Packed for f16 {
    const LANES: usize = 8;

    #[inline(always)]
    fn lane(raw: &Raw, i: usize) -> f32 {
        let word = raw[i / 2];
        convert::f16_to_f32(if i.is_multiple_of(2) {
            word as u16
        } else {
            (word >> 16) as u16
        })
    }

    #[inline(always)]
    fn word(low: f32, high: f32) -> u32 {
        convert::f32x2_to_f16x2_cvt(low, high)
    }
}

/// A vector's elements; `V` is [`Packed::LANES`].
#[inline(always)]
pub(crate) fn unpack<T: Packed, const V: usize>(raw: &Raw) -> [f32; V] {
    const { assert!(V == T::LANES, "V is the type's number of lanes") };
    let mut values = [0.0; V];
    let mut i = 0;
    while i < V {
        values[i] = T::lane(raw, i);
        i += 1;
    }
    values
}

/// The vector of these elements, each rounded once.
#[inline(always)]
pub(crate) fn pack<T: Packed, const V: usize>(values: &[f32; V]) -> Raw {
    const { assert!(V == T::LANES, "V is the type's number of lanes") };
    let of_word = V / 4;
    let mut raw = [0; 4];
    let mut i = 0;
    while i < 4 {
        raw[i] = T::word(values[i * of_word], values[i * of_word + of_word - 1]);
        i += 1;
    }
    raw
}

/// Vectors of weights, of which the compiler knows no more: they are unpacked where they are used.
#[inline(always)]
pub(crate) fn forgotten<W: Packed, const V: usize, const R: usize>(
    weights: &[[Raw; 2]; R],
) -> [[Raw; 2]; R] {
    let mut weights = *weights;
    let mut j = 0;
    while j < R {
        let mut i = 0;
        while i < V / W::LANES {
            weights[j][i] = weights[j][i].map(opaque);
            i += 1;
        }
        j += 1;
    }
    weights
}

/// Weights that all rows share: of the rows' type `T`, or f32.
#[derive(Clone, Copy)]
pub(crate) struct Weights {
    start: *const u8,
    is_f32: bool,
    /// What they are where there are none.
    instead: f32,
}

impl Weights {
    /// Those at `start`, which is null where there are none.
    #[inline(always)]
    pub(crate) fn new(start: *const u8, is_f32: bool, instead: f32) -> Self {
        Self {
            start,
            is_f32,
            instead,
        }
    }

    /// All of them, of type `W`.
    #[inline(always)]
    pub(crate) fn row<W: Packed>(&self) -> *const W {
        self.start.cast()
    }

    /// Weights `at..at + V`, of type `W`, through the read-only cache, where `is_there`; else, and
    /// where there are none, what they are then: one vector of them, or two.
    ///
    /// # Safety
    /// There are so many, aligned to vectors, and nobody writes them while the kernel runs.
    #[inline(always)]
    pub(crate) unsafe fn vector<W: Packed, const V: usize>(
        &self,
        at: usize,
        is_there: bool,
    ) -> [Raw; 2] {
        let is_there = is_there && !self.start.is_null();
        let start = self.start.cast::<W>().wrapping_add(at);
        let otherwise = W::word(self.instead, self.instead);
        let mut raw = [[0; 4]; 2];
        let mut i = 0;
        while i < V / W::LANES {
            let ptr = start.wrapping_add(i * W::LANES).cast();
            // SAFETY: passed on to the caller.
            raw[i] = unsafe { mem::ld_global_nc_v4_u32_or(ptr, is_there, otherwise) };
            i += 1;
        }
        raw
    }

    /// The numbers of a vector.
    #[inline(always)]
    pub(crate) fn unpack<W: Packed, const V: usize>(raw: &[Raw; 2]) -> [f32; V] {
        let mut values = [0.0; V];
        let mut i = 0;
        while i < V {
            values[i] = W::lane(&raw[i / W::LANES], i % W::LANES);
            i += 1;
        }
        values
    }

    /// Weight `at`.
    ///
    /// # Safety
    /// It is readable.
    #[inline(always)]
    pub(crate) unsafe fn one<T: Packed>(&self, at: usize) -> f32 {
        // SAFETY: passed on to the caller.
        unsafe {
            match (self.start.is_null(), self.is_f32) {
                (true, _) => self.instead,
                (false, true) => self.start.cast::<f32>().wrapping_add(at).read(),
                (false, false) => T::load(self.start.cast::<T>().wrapping_add(at)),
            }
        }
    }
}
