//! Functions of f32 and f64 as methods, under std's names.

use super::wide;
use crate::math;

macro_rules! methods {
    ($(#[$doc:meta])* $name:ident for $ty:ident in $functions:ident:
        $($method:ident = $function:ident($($argument:ident),*);)*
    ) => {
        $(#[$doc])*
        pub trait $name: Copy {
            $(
                #[doc = concat!("[`", stringify!($function), "`](", stringify!($functions), "::",
                    stringify!($function), ")")]
                fn $method(self, $($argument: Self),*) -> Self;
            )*
            /// The part behind the point, with the sign of the number.
            fn fract(self) -> Self;
            /// The nearest integer; from the middle between two, the one away from zero.
            fn round(self) -> Self;
        }

        impl $name for $ty {
            $(
                #[inline(always)]
                fn $method(self, $($argument: Self),*) -> Self {
                    $functions::$function(self, $($argument),*)
                }
            )*

            #[inline(always)]
            fn fract(self) -> Self {
                self - $functions::trunc(self)
            }

            #[inline(always)]
            fn round(self) -> Self {
                let whole = $functions::trunc(self);
                // The difference is exact.
                match (self - whole).abs() >= 0.5 {
                    true => whole + Self::copysign(1.0, self),
                    false => whole,
                }
            }
        }
    };
}

methods! {
    /// What std has as methods of f32, and `core` has not: `x.sqrt()`, `x.exp()`. The prelude has it.
    ///
    /// On the device the methods are functions of [`math`]. On the host std's own methods go before
    /// them, whose last bits may differ. Where host and device are compared bit for bit, call the
    /// functions.
    ///
    /// ```
    /// use cuda_std::prelude::*;
    ///
    /// #[kernel]
    /// pub fn soft_plus(x: &[f32], mut y: Disjoint<'_, f32, Index1>) {
    ///     let i = Index1::here();
    ///     if let Some(y) = y.get_mut(&i) {
    ///         *y = x[i.get()].exp().ln_1p();
    ///     }
    /// }
    /// ```
    F32Methods for f32 in math:
    mul_add = fma(a, b);
    sqrt = sqrt();
    exp = exp();
    exp2 = exp2();
    exp_m1 = expm1();
    ln = log();
    ln_1p = log1p();
    log2 = log2();
    log10 = log10();
    powf = pow(y);
    hypot = hypot(y);
    sin = sin();
    cos = cos();
    tan = tan();
    asin = asin();
    acos = acos();
    atan = atan();
    atan2 = atan2(x);
    sinh = sinh();
    cosh = cosh();
    tanh = tanh();
    asinh = asinh();
    acosh = acosh();
    atanh = atanh();
    floor = floor();
    ceil = ceil();
    trunc = trunc();
    round_ties_even = rint();
}

methods! {
    /// The same for f64, by functions of [`wide`].
    F64Methods for f64 in wide:
    mul_add = fma(a, b);
    sqrt = sqrt();
    exp = exp();
    ln = log();
    tanh = tanh();
    floor = floor();
    ceil = ceil();
    trunc = trunc();
    round_ties_even = rint();
}

#[cfg(test)]
mod tests {
    use super::{F32Methods, F64Methods};

    #[test]
    fn methods_are_as_in_std() {
        for step in -600..600_i16 {
            let x = f32::from(step) / 8.0;
            assert_eq!(F32Methods::round(x).to_bits(), x.round().to_bits(), "{x}");
            assert_eq!(F32Methods::fract(x), x.fract(), "{x}");
            let wide = f64::from(x);
            assert_eq!(F64Methods::round(wide).to_bits(), wide.round().to_bits());
            let near = |got: f32, want: f32| {
                assert!(
                    (got - want).abs() <= 1e-5 * want.abs().max(1e-30),
                    "{x}: {got}, {want}"
                );
            };
            let x = x.abs() / 76.0;
            near(F32Methods::exp(x), x.exp());
            near(F32Methods::exp_m1(x), x.exp_m1());
            near(F32Methods::ln_1p(x), x.ln_1p());
            near(F32Methods::powf(x, 1.5), x.powf(1.5));
            near(F32Methods::atan2(x, 2.0), x.atan2(2.0));
            near(F32Methods::mul_add(x, 2.0, 3.0), x.mul_add(2.0, 3.0));
            near(F32Methods::acosh(x + 1.5), (x + 1.5).acosh());
        }
    }
}
