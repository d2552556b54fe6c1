//! GEMM with all fused epilogues.
//!
//! # Bound
//!
//! With `f = alpha * scale` and `P = A @ B`, for which the implementation computes `p` with
//! `|p - P| <= e` ([`Arithmetic`]):
//!
//! 1. `x = f p + beta c + bias` takes at most 4 roundings for `f`, 1 for `f p`, and one for each
//!    addition: `|x - X| <= |f| e + gamma(8) (|f| S + |beta c| + |bias|) + 8 eta`.
//! 2. `y = g(x)` for an activation `g` whose slope is at most `L`, evaluated with an absolute error
//!    of at most `2^-20 |x|` (`2^-20` for sigmoid and tanh). So
//!    `|y - Y| <= L |x - X| + 2^-20 (|X| + |x - X|)`.
//! 3. `y + residual` takes one more rounding.
//!
//! Then the rounding to the output's dtype ([`Expected::rounded_to`]).

use abi::DType;
use abi::gemm::Activation;
use ndarray::{ArrayD, ArrayViewD, Axis, IxDyn};

use super::integer::wrapped;
use super::parts::{Part, Parts};
use super::{Arithmetic, extents, matrix, product};
use crate::precision::{ETA32, gamma};
use crate::special::erf;
use crate::{Expected, ReferenceError};

/// The epilogue. Arrays broadcast to the result.
#[derive(Clone, Debug)]
pub struct FusedOptions<'a> {
    /// Factor of `a @ b`.
    pub alpha: f32,
    /// Row and column scales: `[m, 1]` has one factor per row, `[n]` one per column.
    pub scales: [Option<ArrayViewD<'a, f64>>; 2],
    /// Factor of `c`; if it is 0, `c` is not read.
    pub beta: f32,
    /// Added after multiplication by `beta`.
    pub c: Option<ArrayViewD<'a, f64>>,
    /// Added.
    pub bias: Option<ArrayViewD<'a, f64>>,
    /// Applied to the sum of these.
    pub activation: Activation,
    /// Added after the activation.
    pub residual: Option<ArrayViewD<'a, f64>>,
    /// The arithmetic of the implementation.
    pub arithmetic: Arithmetic,
    /// The dtype of the result.
    pub dtype: DType,
}

impl Default for FusedOptions<'_> {
    fn default() -> Self {
        Self {
            alpha: 1.0,
            scales: [None, None],
            beta: 0.0,
            c: None,
            bias: None,
            activation: Activation::Identity,
            residual: None,
            arithmetic: Arithmetic::F32,
            dtype: DType::F32,
        }
    }
}

/// `activation(alpha * scales * (a @ b) + beta * c + bias) + residual`, for operands with the
/// shapes of [`super::gemm`].
///
/// # Errors
/// [`ReferenceError::ShapeMismatch`].
pub fn fused(
    a: &ArrayViewD<'_, f64>,
    b: &ArrayViewD<'_, f64>,
    options: &FusedOptions<'_>,
) -> Result<Expected, ReferenceError> {
    let extents = extents(a, b)?;
    let parts = Parts::new(
        &extents,
        &options.scales,
        (options.beta.into(), &options.c),
        &options.bias,
        &options.residual,
    )?;
    let shape = [extents.batch, extents.m, extents.n];
    let mut values = ArrayD::zeros(IxDyn(&shape));
    let mut errors = ArrayD::zeros(IxDyn(&shape));
    let largest = |array: &ArrayViewD<'_, f64>| {
        let finite = array.iter().filter(|x| x.is_finite());
        finite.fold(0.0_f64, |max, x| max.max(x.abs()))
    };
    let largest = largest(a).max(largest(b));
    for batch_idx in 0..extents.batch {
        let (mut product, mut magnitude) = product(&matrix(a, batch_idx), &matrix(b, batch_idx));
        if options.arithmetic == Arithmetic::Integer {
            product.mapv_inplace(wrapped);
            magnitude = product.mapv(f64::abs); // of the only term
        }
        let mut value = values.index_axis_mut(Axis(0), batch_idx);
        let mut error = errors.index_axis_mut(Axis(0), batch_idx);
        for ((i, j), &product) in product.indexed_iter() {
            let terms = Terms {
                product,
                magnitude: magnitude[[i, j]],
                part: parts.at([batch_idx, i, j]),
            };
            let (x, e) = terms.result(extents.k, largest, options);
            (value[[i, j]], error[[i, j]]) = (x, e);
        }
    }
    extents.expected(options.dtype, values, errors)
}

/// The terms of one result.
struct Terms {
    product: f64,
    magnitude: f64,
    part: Part,
}

impl Terms {
    /// The result and its largest error.
    fn result(&self, k: usize, largest: f64, options: &FusedOptions<'_>) -> (f64, f64) {
        const ROUNDINGS: usize = 8;
        let factor = self.part.factor(options.alpha.into());
        let scaled = [factor * self.product, factor.abs() * self.magnitude];
        let [x, terms] = self.part.plus(scaled, options.beta.into());
        let sum = options.arithmetic.error(k, self.magnitude, largest, 0);
        let mut error = factor.abs() * sum + gamma(ROUNDINGS) * terms + 8.0 * ETA32;
        let is_large = |x: f64| x.is_finite() && x.abs() > f64::from(f32::MAX);
        if is_large(self.magnitude) || is_large(terms) {
            error = f64::INFINITY;
        }
        if !x.is_finite() {
            error = 0.0; // an operand is not finite, so the f32 result is the same
        }
        let mut value = activate(options.activation, x);
        error = activation_error(options.activation, x, error);
        if let Some(residual) = self.part.residual {
            value += residual;
            error += gamma(1) * (value.abs() + residual.abs() + error);
        }
        (value, error)
    }
}

/// The activation; at infinities, its limit.
fn activate(activation: Activation, x: f64) -> f64 {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let is_product = matches!(
        activation,
        Activation::Gelu | Activation::GeluTanh | Activation::Silu
    );
    if is_product && x == f64::NEG_INFINITY {
        return 0.0;
    }
    match activation {
        Activation::Identity => x,
        Activation::Relu if x < 0.0 => 0.0,
        Activation::Relu => x,
        Activation::Gelu => 0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2)),
        Activation::GeluTanh => {
            const ROOT: f64 = 0.797_884_560_802_865_4; // sqrt(2 / pi)
            x * sigmoid(2.0 * ROOT * (x + 0.044715 * x * x * x))
        }
        Activation::Silu => x * sigmoid(x),
        Activation::Sigmoid => sigmoid(x),
        Activation::Tanh => x.tanh(),
    }
}

/// The largest error of the activation of an `x` with an error up to `error`.
fn activation_error(activation: Activation, x: f64, error: f64) -> f64 {
    /// Error of the approximations, see `abi::gemm::Activation`.
    const APPROXIMATION: f64 = 1.0 / 1_048_576.0;
    if x.is_infinite() {
        return error;
    }
    let (slope, scale) = match activation {
        Activation::Identity | Activation::Relu => return error,
        Activation::Gelu | Activation::GeluTanh => (1.13, x.abs() + error),
        Activation::Silu => (1.1, x.abs() + error),
        Activation::Sigmoid => (0.25, 1.0),
        Activation::Tanh => (1.0, 1.0),
    };
    slope * error + APPROXIMATION * scale + ETA32
}

#[cfg(test)]
mod tests {
    use ndarray::arr2;

    use super::*;

    #[test]
    fn without_anything_else_it_is_the_product() {
        let a = arr2(&[[1.0, 2.0], [3.0, 4.0]]).into_dyn();
        let plain = fused(&a.view(), &a.view(), &FusedOptions::default()).unwrap();
        let gemm = super::super::gemm(&a.view(), &a.view(), None, &Default::default()).unwrap();
        assert_eq!(plain.values, gemm.values);
    }

    #[test]
    fn slopes_are_upper_bounds_and_limits_are_those_of_the_kernels() {
        for activation in Activation::ALL {
            for step in -4000..4000 {
                let x = f64::from(step) * 0.005;
                let change = activate(activation, x + 1e-3) - activate(activation, x);
                let allowed = activation_error(activation, x, 1e-3);
                assert!(
                    change.abs() <= allowed * (1.0 + 1e-9),
                    "{activation} at {x}"
                );
            }
            assert!(activate(activation, f64::NAN).is_nan(), "{activation}");
        }
        for product in [Activation::Silu, Activation::Gelu, Activation::GeluTanh] {
            assert_eq!(activate(product, f64::NEG_INFINITY), 0.0);
        }
        assert_eq!(activate(Activation::Gelu, f64::INFINITY), f64::INFINITY);
        assert_eq!(activate(Activation::Relu, f64::NEG_INFINITY), 0.0);
        assert_eq!(activate(Activation::Sigmoid, f64::NEG_INFINITY), 0.0);
    }
}
