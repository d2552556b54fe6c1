//! What f32, f64 and i64 have in common, as far as folds need it.

use cuda_std::math::{self, wide};
use cuda_std::warp::Words;

/// A number that has a sum, a product and an order.
pub(crate) trait Number: Words {
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// Not above anything.
    const LEAST: Self;

    /// a + b, wrapping.
    fn plus(self, other: Self) -> Self;
    /// a · b, wrapping, rounded.
    fn times(self, other: Self) -> Self;
    /// What two-sum finds that `sum = a + b` lost; 0 of integers.
    fn lost(a: Self, b: Self, sum: Self) -> Self;
    /// True where it is neither NaN nor infinite.
    fn is_finite(self) -> bool;
    /// True where it is larger, and neither is NaN.
    fn above(self, other: Self) -> bool;
    /// What [`Number::turned`] takes to reverse the order of numbers, or to leave it.
    fn turn(is_reversed: bool) -> Self;
    /// The number, in the order that `turn` says: one instruction.
    fn turned(self, turn: Self) -> Self;
    /// NaN where `flag` is, or the number is NaN or infinite: one instruction, which no comparison is.
    fn flagged(self, flag: Self) -> Self;
    /// The number of reversed order.
    fn reversed(self) -> Self;
    /// |x|, wrapping.
    fn magnitude(self) -> Self;
    /// The larger one of two that are not NaN, the other one of a NaN.
    fn larger(self, other: Self) -> Self;
    /// True of a NaN.
    fn is_nan(self) -> bool;
    /// The one NaN that arithmetic gives, or `instead` where there is none.
    fn not_a_number(instead: Self) -> Self;
    /// The number, of NaN that one.
    #[inline(always)]
    fn nan(self) -> Self {
        if self.is_nan() {
            Self::not_a_number(self)
        } else {
            self
        }
    }
    /// True where it is larger; a NaN is larger than all numbers.
    fn beats(self, other: Self) -> bool;
    /// Divided, wherever that makes sense.
    fn over(self, divisor: f64) -> Self;
    /// The square root, wherever that makes sense.
    fn root(self) -> Self;
}

/// A [`Number`] with functions of real numbers.
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
    /// The nearest one.
    fn of(count: u32) -> Self;
}

macro_rules! reals {
    ($($ty:ident, $nan:expr, $sqrt:path, $fma:path, $exp:path, $log:path;)*) => {$(
        impl Number for $ty {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const LEAST: Self = Self::NEG_INFINITY;

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
            fn turn(is_reversed: bool) -> Self {
                if is_reversed { -1.0 } else { 1.0 }
            }
            #[inline(always)]
            fn turned(self, turn: Self) -> Self {
                self * turn
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
    const LEAST: Self = Self::MIN;

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
    fn turn(is_reversed: bool) -> Self {
        -Self::from(is_reversed)
    }
    #[inline(always)]
    fn turned(self, turn: Self) -> Self {
        self ^ turn
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
