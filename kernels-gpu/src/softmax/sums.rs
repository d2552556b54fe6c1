//! Maximum and sum of exponentials of a row in slices, with few instructions an element, as clusters
//! of many blocks have no time for more.
//!
//! An exponential is `ex2.approx.ftz(x log2 e - shift)`: one multiply-add before `ex2`. The shift is
//! `max log2 e`, rounded. As all exponentials of a row have the same shift, its rounding cancels out
//! of every quotient; [`Whole::sum_about_max`] takes it out of the sum.
//!
//! Of each part of a slice that lands, a thread finds the maximum first, two elements by one
//! instruction, and rescales its sum once.

use crate::row::group::{butterfly, of_lanes};
use crate::row::packed::{Packed, Raw, unpack};
use crate::row::slices::{Slice, ThreadGroup};
use abi::rows::RowParams;
use cuda_std::hint::opaque;
use cuda_std::math::approx::ex2_approx_ftz;
use cuda_std::math::{fma, mul_rn};
use cuda_std::thread;
use cuda_std::warp::{FULL_MASK, Words, redux_max_i32};

/// Lanes of a warp.
const LANES: u32 = thread::WARP_THREADS;

const LOG2_E: f32 = core::f32::consts::LOG2_E;

/// From this magnitude on, the rounding of `max log2 e` is up to 128 and more, too much for the
/// exponent of an f32. Numbers are 128 and more apart there, so that the exponentials of all but the
/// maximum are 0, whatever the factor. It is 2^31 / log2 e; below it the rounding is 64 at most.
const HUGE: f32 = 1.48e9;
/// The factor there, in place of log2 e: differences are exact, and the maximum's is 0.
const FACTOR_OF_HUGE: f32 = 1.0;

/// Computes exponentials relative to a maximum.
#[derive(Clone, Copy)]
pub(super) struct Powers {
    /// The maximum; 0 if that is -inf, as then all elements are, and their exponentials are 0.
    base: f32,
    factor: f32,
    shift: f32,
}

impl Powers {
    #[inline(always)]
    fn new(max: f32) -> Self {
        let base = if max == f32::NEG_INFINITY { 0.0 } else { max };
        let factor = factor_of(base);
        Self {
            base,
            factor,
            shift: mul_rn(base, factor),
        }
    }

    /// The exponential of `x`.
    #[inline(always)]
    pub(super) fn of(self, x: f32) -> f32 {
        ex2_approx_ftz(fma(x, self.factor, -self.shift))
    }

    /// A sum of exponentials relative to `max`, relative to the greater maximum of these.
    #[inline(always)]
    fn lowered(self, sum: f32, max: f32) -> f32 {
        let factor = self.factor.min(factor_of(max));
        mul_rn(
            sum,
            ex2_approx_ftz(mul_rn(max, factor) - mul_rn(self.base, factor)),
        )
    }
}

#[inline(always)]
fn factor_of(max: f32) -> f32 {
    if max.abs() < HUGE {
        LOG2_E
    } else {
        FACTOR_OF_HUGE
    }
}

/// What the results of a row need.
#[derive(Clone, Copy)]
pub(super) struct Whole {
    pub(super) max: f32,
    /// The sum of the exponentials that `powers` gives.
    pub(super) sum: f32,
    pub(super) powers: Powers,
    /// The sum of the elements, if it was asked for.
    pub(super) total: f32,
}

impl Whole {
    /// The sum of exp(x - max), not below that of the maximum alone: a rounding must not make the
    /// logarithm negative.
    #[inline(always)]
    pub(super) fn sum_about_max(&self) -> f32 {
        let Powers {
            base,
            factor,
            shift,
        } = self.powers;
        let sum = self.sum * ex2_approx_ftz(-fma(base, factor, -shift));
        if sum < 1.0 { 1.0 } else { sum }
    }
}

/// What a thread, a warp or the thread group has of a row; warps exchange it.
#[derive(Clone, Copy)]
struct Part {
    max: f32,
    sum: f32,
    total: f32,
}

impl Words for Part {
    #[inline(always)]
    fn map_words(self, mut f: impl FnMut(u32) -> u32) -> Self {
        Self {
            max: self.max.map_words(&mut f),
            sum: self.sum.map_words(&mut f),
            total: self.total.map_words(&mut f),
        }
    }
}

/// The sums over a row, whose slice then has landed. `end` is the thread's element of the row's
/// ends, or -inf; `None` if rows have no ends. `has_total` asks for the sum of the row's elements.
///
/// # Safety
/// All threads of the thread group, whole warps, call it, once, converged; the slice's loads have been
/// issued.
#[inline(always)]
pub(super) unsafe fn statistics<T: Packed, const V: usize, const ANY: bool>(
    thread_group: &ThreadGroup<ANY>,
    slice: Slice,
    end: Option<f32>,
    params: &RowParams,
    has_total: bool,
) -> Whole {
    let (mut max, mut sum) = (f32::NEG_INFINITY, 0.0);
    if let Some(end) = end {
        // NaN is not a maximum.
        max = end.max(max);
        sum = Powers::new(max).of(end);
    }
    // SAFETY: vectors of the slice that have landed.
    let read = |v| unsafe { slice.read(v) };
    thread_group.each_part(params.stages, |vectors| {
        let mut most = [T::word(f32::NEG_INFINITY, f32::NEG_INFINITY); 4];
        vectors.each(|v| most = larger::<T>(&most, &read(v)));
        let before = max;
        max = max.max(largest::<T, V>(&most));
        let powers = Powers::new(max);
        sum = powers.lowered(sum, before);
        vectors.each(|v| {
            let x = unpack::<T, V>(&read(v));
            sum += tree::<V>(x.map(|x| powers.of(x)));
        });
    });
    let mut total = 0.0;
    if has_total {
        total = end.map_or(0.0, |end| thread_group.ends.or_zero(end));
        thread_group.each(|v| total += tree::<V>(unpack::<T, V>(&read(v))));
    }
    // SAFETY: passed on to the caller.
    unsafe { whole(thread_group, Part { max, sum, total }, has_total) }
}

/// Merges what all threads of a thread group have.
///
/// # Safety
/// All threads of the thread group call it, once, converged.
#[inline(always)]
unsafe fn whole<const ANY: bool>(
    thread_group: &ThreadGroup<ANY>,
    part: Part,
    has_total: bool,
) -> Whole {
    // SAFETY: passed on to the caller; of the slots, a lane reads every 32nd.
    unsafe {
        let (part, _) = of_warp(part, LANES, has_total);
        thread_group.post_own(part);
        let width = thread_group.slots().min(LANES);
        let mut mine = thread_group.own_slot(0, part);
        let mut slot = width;
        while slot < thread_group.slots() {
            mine = mine.merge(thread_group.own_slot(slot, part));
            slot += opaque(width);
        }
        let (part, powers) = of_warp(mine, width, has_total);
        Whole {
            max: part.max,
            sum: part.sum,
            powers,
            total: part.total,
        }
    }
}

impl Part {
    #[inline(always)]
    fn merge(self, other: Self) -> Self {
        let max = self.max.max(other.max);
        let powers = Powers::new(max);
        Self {
            max,
            sum: powers.lowered(self.sum, self.max) + powers.lowered(other.sum, other.max),
            total: self.total + other.total,
        }
    }
}

/// Merges the parts of `width` neighbouring lanes, of which the others have copies: first the
/// maximum, so that each sum is rescaled once.
///
/// # Safety
/// The warp calls it, converged, with one width.
#[inline(always)]
unsafe fn of_warp(part: Part, width: u32, has_total: bool) -> (Part, Powers) {
    // SAFETY: passed on to the caller.
    unsafe {
        let max = largest_in_warp(part.max);
        let powers = Powers::new(max);
        let add = |a: f32, b: f32| a + b;
        let sum = of_lanes(powers.lowered(part.sum, part.max), width, &add);
        let total = match has_total {
            true => butterfly::<f32, false>(part.total, width, &add),
            false => 0.0,
        };
        (Part { max, sum, total }, powers)
    }
}

/// The largest number of the warp: as integers of the same order, by one instruction.
///
/// # Safety
/// The warp calls it, converged.
#[inline(always)]
unsafe fn largest_in_warp(value: f32) -> f32 {
    let ordered = |bits: i32| bits ^ ((bits >> 31) & i32::MAX);
    let value = ordered(value.to_bits() as i32);
    // SAFETY: passed on to the caller.
    let largest = unsafe { redux_max_i32(FULL_MASK, value) };
    f32::from_bits(ordered(largest) as u32)
}

/// The larger of each two elements.
#[inline(always)]
fn larger<T: Packed>(a: &Raw, b: &Raw) -> Raw {
    core::array::from_fn(|i| T::larger(a[i], b[i]))
}

/// The largest element of a vector.
#[inline(always)]
fn largest<T: Packed, const V: usize>(raw: &Raw) -> f32 {
    let word = T::larger(T::larger(raw[0], raw[1]), T::larger(raw[2], raw[3]));
    let words = [word; 4];
    T::lane(&words, 0).max(T::lane(&words, 1))
}

/// The sum of a vector's elements.
#[inline(always)]
fn tree<const V: usize>(mut x: [f32; V]) -> f32 {
    let mut half = V / 2;
    while half > 0 {
        let mut i = 0;
        while i < half {
            x[i] += x[i + half];
            i += 1;
        }
        half /= 2;
    }
    x[0]
}
