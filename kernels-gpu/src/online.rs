//! The running maximum and sum of exponentials that softmax and logsumexp share.
//!
//! `sum` counts exp(x - max) over the elements so far; when the maximum moves, the sum is scaled to
//! it. Infinities: equal maxima have difference 0 even where both are infinite, so a row may start
//! with -inf; what an infinite maximum means is for the caller to say.

use cuda_std::math::{exp, fma};
use cuda_std::warp::Words;

/// Maximum, and sum of exponentials relative to it.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct MaxSum {
    pub(crate) max: f32,
    pub(crate) sum: f32,
}

impl MaxSum {
    /// Of no elements.
    pub(crate) const EMPTY: Self = Self {
        max: f32::NEG_INFINITY,
        sum: 0.0,
    };

    /// With one element more.
    #[inline(always)]
    pub(crate) fn push(self, x: f32) -> Self {
        self.merge(Self { max: x, sum: 1.0 })
    }

    /// Of both sets of elements; commutative to the bit.
    #[inline(always)]
    pub(crate) fn merge(self, other: Self) -> Self {
        let difference = if self.max == other.max {
            0.0
        } else {
            other.max - self.max
        };
        let factor = exp(-difference.abs());
        if difference > 0.0 {
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
