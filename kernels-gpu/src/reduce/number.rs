//! What folds need of f32, f64 and i64.

use cuda_std::math::{self, wide};
use cuda_std::warp::Words;

/// A number with a sum, a product and an order.
pub(crate) trait Number: Words {
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// A zero that changes no number that it is added to, which +0 does to -0.
    const NOTHING: Self;
    /// The least value: it is above nothing.
    const LEAST: Self;
    /// The greatest value: it is below nothing.
    const MOST: Self;

    /// a + b; integers wrap.
    fn plus(self, other: Self) -> Self;
    /// a · b; rounded, integers wrap.
    fn times(self, other: Self) -> Self;
    /// What `sum = a + b` lost by rounding, by two-sum; 0 for integers.
    fn lost(a: Self, b: Self, sum: Self) -> Self;
    /// Whether it is neither NaN nor infinite.
    fn is_finite(self) -> bool;
    /// Whether it is larger, and neither is NaN.
    fn above(self, other: Self) -> bool;
    /// The argument with which [`Number::ordered`] reverses the order of numbers, or leaves it.
    fn reversal(is_reversed: bool) -> Self;
    /// The number, in the order that `reversal` says; one instruction.
    fn ordered(self, reversal: Self) -> Self;
    /// NaN if `flag` is NaN, or if the number is NaN or infinite; one instruction, which a
    /// comparison is not.
    fn flagged(self, flag: Self) -> Self;
    /// The number with its order reversed.
    fn reversed(self) -> Self;
    /// |x|; integers wrap.
    fn magnitude(self) -> Self;
    /// The larger of two; if one is NaN, the other.
    fn larger(self, other: Self) -> Self;
    /// The smaller of two; if one is NaN, the other.
    fn smaller(self, other: Self) -> Self;
    /// ln(e^a + e^b); integers are added.
    fn log_sum(self, other: Self) -> Self;
    /// Whether it is NaN.
    fn is_nan(self) -> bool;
    /// The canonical NaN that arithmetic returns, or `instead` for integers.
    fn not_a_number(instead: Self) -> Self;
    /// The number, with NaN made canonical.
    #[inline(always)]
    fn nan(self) -> Self {
        if self.is_nan() {
            Self::not_a_number(self)
        } else {
            self
        }
    }
    /// Whether it is larger; a NaN is larger than all numbers.
    fn beats(self, other: Self) -> bool;
    /// Divided by `divisor`; integers are left as they are.
    fn over(self, divisor: f64) -> Self;
    /// The square root; integers are left as they are.
    fn root(self) -> Self;
}

/// A [`Number`] with functions for real numbers.
pub(crate) trait Real: Number {
    /// `a · b + c`, rounded once.
    fn fma(self, b: Self, c: Self) -> Self;
    /// a - b.
    fn minus(self, other: Self) -> Self;
    /// a / b.
    fn quotient(self, other: Self) -> Self;
    /// e^x.
    fn exp(self) -> Self;
    /// ln x.
    fn log(self) -> Self;
    /// `count`, rounded to nearest.
    fn of(count: u32) -> Self;
}

macro_rules! reals {
    ($($ty:ident, $nan:expr, $sqrt:path, $fma:path, $exp:path, $log:path;)*) => {$(
        impl Number for $ty {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const NOTHING: Self = -0.0;
            const LEAST: Self = Self::NEG_INFINITY;
            const MOST: Self = Self::INFINITY;

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self * other
            }
            #[inline(always)]
            fn lost(a: Self, b: Self, sum: Self) -> Self {
                let of_b = sum - a;
                (a - (sum - of_b)) + (b - of_b)
            }
            #[inline(always)]
            fn is_finite(self) -> bool {
                self.abs() < Self::INFINITY
            }
            #[inline(always)]
            fn above(self, other: Self) -> bool {
                self > other
            }
            #[inline(always)]
            fn reversal(is_reversed: bool) -> Self {
                if is_reversed { -1.0 } else { 1.0 }
            }
            #[inline(always)]
            fn ordered(self, reversal: Self) -> Self {
                self * reversal
            }
            #[inline(always)]
            fn flagged(self, flag: Self) -> Self {
                $fma(self, 0.0, flag)
            }
            #[inline(always)]
            fn reversed(self) -> Self {
                -self
            }
            #[inline(always)]
            fn magnitude(self) -> Self {
                self.abs()
            }
            #[inline(always)]
            fn larger(self, other: Self) -> Self {
                self.max(other)
            }
            #[inline(always)]
            fn smaller(self, other: Self) -> Self {
                self.min(other)
            }
            #[inline(always)]
            fn log_sum(self, other: Self) -> Self {
                // Two equal numbers, also infinite ones, have the distance 0.
                let apart = if self == other { 0.0 } else { self - other };
                // The larger, or NaN: the distance is NaN too, and so is the sum.
                self.max(other) + $log(1.0 + $exp(-apart.abs()))
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                self != self
            }
            #[inline(always)]
            fn not_a_number(_: Self) -> Self {
                $nan
            }
            #[inline(always)]
            fn beats(self, other: Self) -> bool {
                ((self > other) | Number::is_nan(self)) & !Number::is_nan(other)
            }
            #[inline(always)]
            fn over(self, divisor: f64) -> Self {
                self / divisor as Self
            }
            #[inline(always)]
            fn root(self) -> Self {
                $sqrt(self)
            }
        }

        impl Real for $ty {
            #[inline(always)]
            fn fma(self, b: Self, c: Self) -> Self {
                $fma(self, b, c)
            }
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self - other
            }
            #[inline(always)]
            fn quotient(self, other: Self) -> Self {
                self / other
            }
            #[inline(always)]
            fn exp(self) -> Self {
                $exp(self)
            }
            #[inline(always)]
            fn log(self) -> Self {
                $log(self)
            }
            #[inline(always)]
            fn of(count: u32) -> Self {
                count as Self
            }
        }
    )*};
}

reals! {
    f32, Self::from_bits(0x7fff_ffff), math::sqrt, math::fma, math::exp, math::log;
    f64, Self::from_bits(0x7fff_ffff_ffff_ffff), wide::sqrt, wide::fma, wide::exp,
        wide::log;
}

impl Number for i64 {
    const ZERO: Self = 0;
    const ONE: Self = 1;
    const NOTHING: Self = 0;
    const LEAST: Self = Self::MIN;
    const MOST: Self = Self::MAX;

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    #[inline(always)]
    fn times(self, other: Self) -> Self {
        self.wrapping_mul(other)
    }
    #[inline(always)]
    fn lost(_: Self, _: Self, _: Self) -> Self {
        0
    }
    #[inline(always)]
    fn is_finite(self) -> bool {
        true
    }
    #[inline(always)]
    fn above(self, other: Self) -> bool {
        self > other
    }
    #[inline(always)]
    fn reversal(is_reversed: bool) -> Self {
        -Self::from(is_reversed)
    }
    #[inline(always)]
    fn ordered(self, reversal: Self) -> Self {
        self ^ reversal
    }
    #[inline(always)]
    fn flagged(self, flag: Self) -> Self {
        flag
    }
    #[inline(always)]
    fn reversed(self) -> Self {
        !self
    }
    #[inline(always)]
    fn magnitude(self) -> Self {
        self.wrapping_abs()
    }
    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        self.max(other)
    }
    #[inline(always)]
    fn smaller(self, other: Self) -> Self {
        self.min(other)
    }
    #[inline(always)]
    fn log_sum(self, other: Self) -> Self {
        self.plus(other)
    }
    #[inline(always)]
    fn is_nan(self) -> bool {
        false
    }
    #[inline(always)]
    fn not_a_number(instead: Self) -> Self {
        instead
    }
    #[inline(always)]
    fn beats(self, other: Self) -> bool {
        self > other
    }
    #[inline(always)]
    fn over(self, _: f64) -> Self {
        self
    }
    #[inline(always)]
    fn root(self) -> Self {
        self
    }
}
