//! Activations by the hardware's approximations: a handful of instructions each, for results that
//! are about to be rounded. [`crate::math`] has those that are good to a few ulp.

use super::{Epilogue, Place};
use crate::math::approx::{ex2_approx, rcp_approx};
use crate::math::fma;

const LOG2_E: f32 = core::f32::consts::LOG2_E;

/// A function of one result.
pub trait Activation: Copy {
    /// Its value at `x`.
    fn of(&self, x: f32) -> f32;
}

/// An [`Activation`] as an epilogue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Activate<A>(pub A);

impl<A: Activation> Epilogue for Activate<A> {
    #[inline(always)]
    fn apply(&self, _place: Place, x: f32) -> f32 {
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
    /// `max(x, 0)`; NaN stays NaN, and so does -0.
    Relu = |x| if x < 0.0 { 0.0 } else { x };
    /// `x Φ(x)`, to an absolute error of `2^-20 |x|`. Φ by Abramowitz and Stegun's formula 7.1.26.
    /// NaN at -inf (-inf · 0).
    Gelu = |x| {
        const P: f32 = 0.327_591_1 * core::f32::consts::FRAC_1_SQRT_2;
        // Halves of the published coefficients: Φ is half of 1 ± erf.
        const A: [f32; 5] = [0.127_414_8, -0.142_248_37, 0.710_706_9, -0.726_576, 0.530_702_7];
        let a = x.abs();
        let t = rcp_approx(fma(P, a, 1.0));
        let poly = fma(fma(fma(fma(A[4], t, A[3]), t, A[2]), t, A[1]), t, A[0]) * t;
        let tail = poly * ex2_approx(a * a * (-0.5 * LOG2_E));
        x * if x < 0.0 { tail } else { 1.0 - tail }
    };
}

/// `(scale x + offset) / (1 + 2^(x (cubic x² + linear))) + shift`: what [`GELU_TANH`], [`SILU`],
/// [`SIGMOID`] and [`TANH`] are cases of, so that a kernel can have one piece of code for all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Logistic {
    /// Of x³ in the exponent of 2.
    pub cubic: f32,
    /// Of x in the exponent of 2.
    pub linear: f32,
    /// Of x in the numerator.
    pub scale: f32,
    /// In the numerator.
    pub offset: f32,
    /// Added to the quotient.
    pub shift: f32,
}

impl Activation for Logistic {
    #[inline(always)]
    fn of(&self, x: f32) -> f32 {
        // Far out all are at their limits; a zero factor must not meet an infinity.
        const FAR: f32 = 1e18;
        let near = if x.abs() > FAR { FAR.copysign(x) } else { x };
        let exponent = near * fma(self.cubic, near * near, self.linear);
        let s = rcp_approx(1.0 + ex2_approx(exponent));
        let numerator = if self.scale == 0.0 {
            self.offset
        } else {
            fma(self.scale, x, self.offset)
        };
        fma(numerator, s, self.shift)
    }
}

/// `x / 2 * (1 + tanh(√(2/π) (x + 0.044715 x³)))`, to an absolute error of `2^-20 |x|`. NaN at -inf
/// (-inf · 0).
pub const GELU_TANH: Logistic = Logistic {
    cubic: -2.0 * 0.797_884_6 * 0.044_715 * LOG2_E,
    linear: -2.0 * 0.797_884_6 * LOG2_E,
    scale: 1.0,
    offset: 0.0,
    shift: 0.0,
};

/// `x / (1 + e^-x)`, to an absolute error of `2^-20 |x|`. NaN at -inf (-inf · 0).
pub const SILU: Logistic = Logistic {
    cubic: 0.0,
    linear: -LOG2_E,
    ..GELU_TANH
};

/// `1 / (1 + e^-x)`, to an absolute error of `2^-20`.
pub const SIGMOID: Logistic = Logistic {
    scale: 0.0,
    offset: 1.0,
    ..SILU
};

/// Hyperbolic tangent, to an absolute error of `2^-20`.
pub const TANH: Logistic = Logistic {
    linear: -2.0 * LOG2_E,
    offset: 2.0,
    shift: -1.0,
    ..SIGMOID
};
