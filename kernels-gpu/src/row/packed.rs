//! Vectors of 16 bytes: 4 elements of f32, 8 of the 16-bit types.

use super::policy::of_weights;
use cuda_std::convert::{self, Halves};
use cuda_std::element::Element;
use cuda_std::hint::opaque;
use cuda_std::{math, mem};
use half::{bf16, f16};

use crate::realign::joined;

pub(crate) use crate::realign::Raw;

/// An element type that is loaded and stored in vectors of 16 bytes.
pub(crate) trait Packed: Element {
    /// Elements of a vector.
    const LANES: usize;

    /// Element `i` of a vector; `i` is a constant once loops are unrolled.
    fn lane(raw: &Raw, i: usize) -> f32;

    /// The larger of each two elements of words that are as in memory; of NaN and a number, the
    /// number.
    fn larger(a: u32, b: u32) -> u32;

    /// Packs elements into a word: two of 16 bits (`high` in the upper half), or `low` alone.
    fn word(low: f32, high: f32) -> u32;
}

impl Packed for f32 {
    const LANES: usize = 4;

    #[inline(always)]
    fn lane(raw: &Raw, i: usize) -> f32 {
        f32::from_bits(raw[i])
    }

    #[inline(always)]
    fn larger(a: u32, b: u32) -> u32 {
        f32::from_bits(a).max(f32::from_bits(b)).to_bits()
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
        half_of::<Self>(raw, i)
    }

    #[inline(always)]
    fn larger(a: u32, b: u32) -> u32 {
        math::max_bf16x2(a, b)
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
        half_of::<Self>(raw, i)
    }

    #[inline(always)]
    fn larger(a: u32, b: u32) -> u32 {
        math::max_f16x2(a, b)
    }

    #[inline(always)]
    fn word(low: f32, high: f32) -> u32 {
        convert::f32x2_to_f16x2_cvt(low, high)
    }
}

/// Element `i` of a vector of 16-bit elements.
#[inline(always)]
fn half_of<T: Halves>(raw: &Raw, i: usize) -> f32 {
    let word = raw[i / 2];
    if i.is_multiple_of(2) {
        T::low_to_f32(word)
    } else {
        T::high_to_f32(word)
    }
}

/// The elements of a vector; `V` is [`Packed::LANES`].
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

/// A vector of these elements, each rounded once.
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

/// The vectors of weights, made opaque to the compiler: they are unpacked only where they are used.
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

/// The first `count` elements of a vector; the others are 0.
///
/// # Safety
/// They are readable.
#[inline(always)]
unsafe fn elements<T: Packed>(from: *const T, count: usize) -> Raw {
    let mut raw = [0; 4];
    let mut lane = 0;
    while lane < opaque(T::LANES as u32) as usize {
        let at = from.wrapping_add(lane);
        let [a, b, c, d] = raw;
        // Each element comes in at the top, and moves down with those before it.
        // SAFETY: passed on to the caller.
        raw = unsafe {
            if size_of::<T>() == 4 {
                let top = if lane < count {
                    at.cast::<u32>().read()
                } else {
                    0
                };
                [b, c, d, top]
            } else {
                let top = if lane < count {
                    at.cast::<u16>().read()
                } else {
                    0
                };
                let half = |low: u32, high: u32| (low >> 16) | (high << 16);
                [half(a, b), half(b, c), half(c, d), half(d, u32::from(top))]
            }
        };
        lane += 1;
    }
    raw
}

/// Weights by column, which all rows share: in the rows' type `T`, or in f32.
#[derive(Clone, Copy)]
pub(crate) struct Weights {
    start: *const u8,
    is_f32: bool,
    /// The value of each weight if there is no tensor of them.
    instead: f32,
}

impl Weights {
    /// The weights at `start`, which is null if there are none.
    #[inline(always)]
    pub(crate) fn new(start: *const u8, is_f32: bool, instead: f32) -> Self {
        Self {
            start,
            is_f32,
            instead,
        }
    }

    /// The tensor of weights, of type `W`.
    #[inline(always)]
    pub(crate) fn row<W: Packed>(&self) -> *const W {
        self.start.cast()
    }

    /// Loads the weights `at..at + V`, of type `W`, through the read-only cache: one vector of
    /// them, or two. If they are not `is_there`, or there is no tensor, each is the value used
    /// instead.
    ///
    /// # Safety
    /// These weights exist, aligned to vectors, and nobody writes them while the kernel runs.
    #[inline(always)]
    pub(crate) unsafe fn vector<W: Packed, const V: usize>(
        &self,
        at: usize,
        is_there: bool,
    ) -> [Raw; 2] {
        // SAFETY: passed on to the caller.
        self.vector_by::<W, V>(at, is_there, |ptr, is_there, otherwise| unsafe {
            mem::ld_global_nc_v4_u32_or(ptr, is_there, otherwise)
        })
    }

    /// The same where they are loaded again for each row: by the policy for that ([`of_weights`]),
    /// and not through the read-only cache, with which it has no effect (docs/decisions/0040).
    ///
    /// # Safety
    /// As for [`Weights::vector`].
    #[inline(always)]
    pub(crate) unsafe fn vector_again<W: Packed, const V: usize>(
        &self,
        at: usize,
        is_there: bool,
    ) -> [Raw; 2] {
        let policy = of_weights();
        // SAFETY: passed on to the caller.
        self.vector_by::<W, V>(at, is_there, |ptr, is_there, otherwise| unsafe {
            mem::ld_global_l2_cache_hint_v4_u32_or(ptr, is_there, otherwise, policy)
        })
    }

    #[inline(always)]
    fn vector_by<W: Packed, const V: usize>(
        &self,
        at: usize,
        is_there: bool,
        load: impl Fn(*const u32, bool, u32) -> Raw,
    ) -> [Raw; 2] {
        let is_there = is_there && !self.start.is_null();
        let start = self.start.cast::<W>().wrapping_add(at);
        let otherwise = W::word(self.instead, self.instead);
        let mut raw = [[0; 4]; 2];
        let mut i = 0;
        while i < V / W::LANES {
            let ptr = start.wrapping_add(i * W::LANES).cast();
            raw[i] = load(ptr, is_there, otherwise);
            i += 1;
        }
        raw
    }

    /// Loads the vectors `number(0..R)` of the weights, of the rows' type `T`, through the read-only
    /// cache. If there is no tensor, each weight is the value used instead.
    ///
    /// # Safety
    /// As for [`Weights::vector`], of each of these vectors.
    #[inline(always)]
    pub(crate) unsafe fn vectors<T: Packed, const R: usize>(
        &self,
        number: impl Fn(usize) -> u32,
    ) -> [Raw; R] {
        let mut raw = [[T::word(self.instead, self.instead); 4]; R];
        // One branch that all threads take, for fewer instructions than a predicate a vector.
        if !self.start.is_null() {
            let mut j = 0;
            while j < R {
                let at = self.row::<T>().wrapping_add(number(j) as usize * T::LANES);
                // SAFETY: passed on to the caller.
                raw[j] = unsafe { mem::ld_global_nc_v4_u32(at.cast()) };
                j += 1;
            }
        }
        raw
    }

    /// Loads the weights `at..at + V`, of type `W`, through the read-only cache. If there is no tensor,
    /// each is the value used instead: by one branch that all threads take, for fewer instructions than
    /// a predicate and a fill.
    ///
    /// # Safety
    /// As for [`Weights::vector`].
    #[inline(always)]
    pub(crate) unsafe fn columns<W: Packed, const V: usize>(&self, at: usize) -> [Raw; 2] {
        let mut raw = [[W::word(self.instead, self.instead); 4]; 2];
        if !self.start.is_null() {
            let mut i = 0;
            while i < V / W::LANES {
                let at = self.row::<W>().wrapping_add(at + i * W::LANES);
                // SAFETY: passed on to the caller.
                raw[i] = unsafe { mem::ld_global_nc_v4_u32(at.cast()) };
                i += 1;
            }
        }
        raw
    }

    /// Loads the weights `at..at + V` of `n`, of the rows' type `T`, for any `at`, as two aligned
    /// vectors. If the second one ends beyond `n`, it is loaded by elements. If there is no tensor,
    /// each is the value used instead.
    ///
    /// # Safety
    /// As for [`Weights::vector`], of all `n` weights.
    #[inline(always)]
    pub(crate) unsafe fn anywhere<T: Packed>(&self, at: usize, n: usize) -> Raw {
        if self.start.is_null() {
            return [T::word(self.instead, self.instead); 4];
        }
        let behind = at % T::LANES;
        let (low, high) = (at - behind, at - behind + T::LANES);
        // SAFETY: passed on to the caller.
        unsafe {
            let load = |at| mem::ld_global_nc_v4_u32(self.row::<T>().wrapping_add(at).cast());
            let first = load(low);
            let second = match (behind, high + T::LANES <= n) {
                (0, _) => [0; 4],
                (_, true) => load(high),
                (_, false) => elements(self.row::<T>().wrapping_add(high), behind),
            };
            let bytes = (behind * size_of::<T>()) as u32;
            joined::<T>(first, second, bytes)
        }
    }

    /// The numbers that a vector of weights holds.
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
                (false, false) => T::load_alike(self.start.cast::<T>().wrapping_add(at)),
            }
        }
    }
}
