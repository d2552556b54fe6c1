//! Activation functions built on the hardware's approximate instructions.
//!
//! Each takes a handful of instructions. They are for results that are about to be rounded to a
//! narrower type. [`crate::math`] has versions that are accurate to a few ulp.

use super::{Coord, Epilogue};
use crate::math::approx::{ex2_approx_ftz, rcp_approx_ftz};
use crate::math::fma;

const LOG2_E: f32 = core::f32::consts::LOG2_E;

/// A function of a single result, independent of its coordinates.
pub trait Activation: Copy {
    /// Its value at `x`.
    fn of(&self, x: f32) -> f32;
}

/// An [`Activation`] as an epilogue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Activate<A>(pub A);

impl<A: Activation> Epilogue for Activate<A> {
    #[inline(always)]
    fn apply(&self, _coord: Coord, x: f32) -> f32 {
        self.0.of(x)
    }
}

macro_rules! activations {
    ($($(#[$doc:meta])* $name:ident = |$x:ident| $value:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name;

        impl Activation for $name {
            #[inline(always)]
            fn of(&self, $x: f32) -> f32 {
                $value
            }
        }
    )*};
}

activations! {
    /// `x`.
    Identity = |x| x;
    /// `max(x, 0)`. NaN stays NaN, and -0 stays -0.
    Relu = |x| if x < 0.0 { 0.0 } else { x };
    /// `x Φ(x)`, to an absolute error of `2^-20 |x|`; 0 at -inf.
    ///
    /// Φ(x) is computed as `1 / (1 + 2^(x p(x²)))`. The polynomial p of degree 5 is the minimax
    /// one, found by linear programming: its largest error in Φ is 2^-22. The argument of p is
    /// clamped to 5.25²; beyond that, Φ is 0 or 1 to within 2^-23.
    Gelu = |x| {
        const P: [f32; 6] = [
            -2.302_201_5, -0.104_868_11, 1.290_649_4e-4, 1.454_636_8e-4, -8.959_803e-6,
            1.923_618_3e-7,
        ];
        let t = (x * x).min(5.25 * 5.25);
        let p = fma(fma(fma(fma(fma(P[5], t, P[4]), t, P[3]), t, P[2]), t, P[1]), t, P[0]);
        above_negative_infinity(x) * logistic(x * p)
    };
    /// `x / 2 * (1 + tanh(√(2/π) (x + 0.044715 x³)))`, to an absolute error of `2^-20 |x|`; 0 at
    /// -inf.
    GeluTanh = |x| {
        const LINEAR: f32 = -2.0 * 0.797_884_6 * LOG2_E;
        above_negative_infinity(x) * logistic(x * fma(LINEAR * 0.044_715, x * x, LINEAR))
    };
}

/// `x`, or the least finite number for -inf, whose product with a logistic function of 0 is NaN. Of
/// NaN it is a number: the other factor is NaN then.
#[inline(always)]
fn above_negative_infinity(x: f32) -> f32 {
    x.max(f32::MIN)
}

/// `1 / (1 + 2^x)`, to a relative error of `2^-20` where the result is at least 2^-126.
#[inline(always)]
fn logistic(x: f32) -> f32 {
    rcp_approx_ftz(1.0 + ex2_approx_ftz(x))
}

/// `numerator / (1 + 2^(linear x)) + shift`, where the numerator is `scale`, or x if `scale` is 0.
///
/// [`SILU`], [`SIGMOID`] and [`TANH`] are instances of it, so that a kernel can serve all three
/// with the same code and choose at run time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Logistic {
    /// Factor of x in the exponent of 2.
    pub linear: f32,
    /// The numerator; 0 makes x the numerator.
    pub scale: f32,
    /// Added to the quotient.
    pub shift: f32,
}

impl Activation for Logistic {
    #[inline(always)]
    fn of(&self, x: f32) -> f32 {
        let numerator = if self.scale == 0.0 {
            above_negative_infinity(x)
        } else {
            self.scale
        };
        fma(numerator, logistic(x * self.linear), self.shift)
    }
}

/// `x / (1 + e^-x)`, to an absolute error of `2^-20 |x|`; 0 at -inf.
pub const SILU: Logistic = Logistic {
    linear: -LOG2_E,
    scale: 0.0,
    shift: 0.0,
};

/// `1 / (1 + e^-x)`, to an absolute error of `2^-20`.
pub const SIGMOID: Logistic = Logistic { scale: 1.0, ..SILU };

/// Hyperbolic tangent, to an absolute error of `2^-20`.
pub const TANH: Logistic = Logistic {
    linear: -2.0 * LOG2_E,
    scale: 2.0,
    shift: -1.0,
};
