//! Mean and sum of squared deviations of a set of elements, merged pairwise: Chan, Golub and
//! LeVeque, Updating formulae and a pairwise algorithm for computing sample variances (1979). No
//! difference of large squares is ever computed.

use super::group::butterfly;
use super::loose::CHUNK;
use cuda_std::math::{fma, mul_rn};
use cuda_std::warp::Words;

/// A number of elements.
#[derive(Clone, Copy)]
pub(crate) struct Count {
    pub(crate) count: f32,
    /// 1 / count, or 0 if there are none.
    pub(crate) share: f32,
}

impl Count {
    #[inline(always)]
    pub(crate) fn new(count: f32) -> Self {
        Self {
            count,
            share: if count > 0.0 { 1.0 / count } else { 0.0 },
        }
    }
}

/// The moments of `count` elements.
#[derive(Clone, Copy)]
pub(crate) struct Moments {
    count: f32,
    pub(crate) mean: f32,
    /// Sum of squared deviations from the mean.
    pub(crate) squares: f32,
}

impl Moments {
    /// The moments of no elements.
    pub(crate) const EMPTY: Self = Self {
        count: 0.0,
        mean: 0.0,
        squares: 0.0,
    };

    /// The moments of `count` elements.
    #[inline(always)]
    pub(crate) fn new(count: f32, mean: f32, squares: f32) -> Self {
        Self {
            count,
            mean,
            squares,
        }
    }

    /// From `mean` to this one's: 0 of no elements, whose mean is none. Times no elements, the square of a
    /// distance from there would be NaN where it is infinite.
    #[inline(always)]
    fn distance(self, mean: f32) -> f32 {
        if self.count > 0.0 {
            self.mean - mean
        } else {
            0.0
        }
    }

    /// Of both sets; commutative to the bit: the smaller set is merged into the larger, equal ones
    /// meet in the middle.
    #[inline(always)]
    pub(crate) fn merge(self, other: Self) -> Self {
        let (large, small) = if self.count >= other.count {
            (self, other)
        } else {
            (other, self)
        };
        let count = large.count + small.count;
        // Most sets are of equal size, which needs no division.
        let share = if large.count == small.count {
            0.5
        } else {
            small.count / count
        };
        let delta = small.distance(large.mean);
        Self {
            count,
            mean: if large.count == small.count {
                0.5 * (large.mean + small.mean)
            } else {
                fma(delta, share, large.mean)
            },
            squares: fma(
                delta * delta,
                large.count * share,
                large.squares + small.squares,
            ),
        }
    }

    /// Merges the sets of `width` neighbouring lanes, a power of two, which have `count` elements
    /// together: first their mean, then the squared deviations from it. `UNROLLED` is as for
    /// [`butterfly`].
    ///
    /// # Safety
    /// The warp calls it, converged.
    #[inline(always)]
    pub(crate) unsafe fn of_lanes<const UNROLLED: bool>(self, width: u32, count: Count) -> Self {
        // SAFETY: passed on to the caller.
        unsafe {
            let sum = |value: f32| butterfly::<f32, UNROLLED>(value, width, &|a, b| a + b);
            let mean = mul_rn(sum(mul_rn(self.mean, self.count)), count.share);
            let delta = self.distance(mean);
            let squares = sum(fma(mul_rn(delta, delta), self.count, self.squares));
            Self {
                count: count.count,
                mean,
                squares,
            }
        }
    }

    /// Adds `count` elements, the first of `values`.
    #[inline(always)]
    pub(crate) fn push(self, values: [f32; CHUNK], count: u32) -> Self {
        let mut sum = 0.0;
        let mut i = 0;
        while i < CHUNK {
            sum += if (i as u32) < count { values[i] } else { 0.0 };
            i += 1;
        }
        let mean = sum / count as f32;
        let mut squares = 0.0;
        let mut i = 0;
        while i < CHUNK {
            let deviation = if (i as u32) < count {
                values[i] - mean
            } else {
                0.0
            };
            squares = fma(deviation, deviation, squares);
            i += 1;
        }
        self.merge(Self {
            count: count as f32,
            mean,
            squares,
        })
    }
}

impl Words for Moments {
    #[inline(always)]
    fn map_words(self, mut f: impl FnMut(u32) -> u32) -> Self {
        Self {
            count: self.count.map_words(&mut f),
            mean: self.mean.map_words(&mut f),
            squares: self.squares.map_words(&mut f),
        }
    }
}
