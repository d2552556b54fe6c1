//! Maximum and sum of exponentials of a part of a row, and how parts are merged.
//!
//! Exponentials are `ex2.approx.ftz` of `(x - max) log2 e`. The difference is rounded by itself, so
//! that errors grow with the distance to the maximum and not with the maximum's size. NaN does not
//! enter the maximum but does enter the sum; so does +inf, as inf - inf.

use cuda_std::math::approx::ex2_approx_ftz;
use cuda_std::math::{fma, mul_rn};
use cuda_std::warp::Words;

const LOG2_E: f32 = core::f32::consts::LOG2_E;

/// Maximum and sum of exponentials of a part of a row.
#[derive(Clone, Copy)]
pub(super) struct MaxSum {
    pub(super) max: f32,
    /// The sum of exp(x - max).
    pub(super) sum: f32,
}

/// Computes exp(x - max) for a given maximum.
#[derive(Clone, Copy)]
pub(super) struct Exp {
    base: f32,
}

impl Exp {
    /// Relative to `max`. If that is -inf, so are all x, and their exponentials are 0.
    #[inline(always)]
    pub(super) fn new(max: f32) -> Self {
        Self {
            base: if max == f32::NEG_INFINITY { 0.0 } else { max },
        }
    }

    /// The value that exponentials are relative to.
    #[inline(always)]
    pub(super) fn base(self) -> f32 {
        self.base
    }

    /// The distance from the maximum to `x`.
    #[inline(always)]
    pub(super) fn distance(self, x: f32) -> f32 {
        x - self.base
    }

    #[inline(always)]
    pub(super) fn of_distance(distance: f32) -> f32 {
        ex2_approx_ftz(mul_rn(distance, LOG2_E))
    }

    #[inline(always)]
    pub(super) fn of(self, x: f32) -> f32 {
        Self::of_distance(self.distance(x))
    }
}

impl MaxSum {
    /// A part without elements.
    pub(super) const EMPTY: Self = Self {
        max: f32::NEG_INFINITY,
        sum: 0.0,
    };

    /// exp(-|difference of the maxima|), and whether the maximum of `other` is greater.
    #[inline(always)]
    fn factor(self, other: Self) -> (f32, bool) {
        let difference = if self.max == other.max {
            0.0
        } else {
            other.max - self.max
        };
        (
            ex2_approx_ftz(mul_rn(-difference.abs(), LOG2_E)),
            difference > 0.0,
        )
    }

    /// Merges both parts; commutative to the bit.
    #[inline(always)]
    pub(super) fn merge(self, other: Self) -> Self {
        let (factor, is_greater) = self.factor(other);
        if is_greater {
            Self {
                max: other.max,
                sum: fma(self.sum, factor, other.sum),
            }
        } else {
            Self {
                max: self.max,
                sum: fma(other.sum, factor, self.sum),
            }
        }
    }

    /// Adds elements.
    #[inline(always)]
    pub(super) fn push<const N: usize>(self, values: [f32; N]) -> Self {
        let mut max = self.max;
        let mut i = 0;
        while i < N {
            max = max.max(values[i]);
            i += 1;
        }
        let exp = Exp::new(max);
        let mut sum = self.sum * exp.of(self.max);
        let mut i = 0;
        while i < N {
            sum += exp.of(values[i]);
            i += 1;
        }
        Self { max, sum }
    }
}

impl Words for MaxSum {
    #[inline(always)]
    fn map_words(self, mut f: impl FnMut(u32) -> u32) -> Self {
        Self {
            max: self.max.map_words(&mut f),
            sum: self.sum.map_words(&mut f),
        }
    }
}
