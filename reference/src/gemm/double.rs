//! GEMM in f64.
//!
//! # Bound
//!
//! With `f = alpha * scales`, `S = |A| @ |B|`, `u = 2^-53` and `eta = 2^-1074`, each of
//! `T = |f| S + |beta c| + |bias| + |residual|` passes through:
//!
//! 1. The sum: `k` fused multiply-adds in a row, `|acc - A @ B| <= gamma(k) S + k eta`.
//! 2. The epilogue: two roundings of alpha on the host, three of `f acc`, and one for each
//!    addition, `gamma(8) T`. For each, `eta (1 + S) (1 + |row scale|) (1 + |column scale|)` is the
//!    loss where a factor or a product is subnormal.
//!
//! The values here are sums of products and of their rounding errors (two doubles each), which is
//! as good as exact beside 1. Then comes the same epilogue in f64, which counts once more. Hence
//!
//! `|d - D| <= |f| (gamma(k) S + k eta) + 2 gamma(8) T + 16 eta (1 + S) (1 + |row|) (1 + |column|)`.
//!
//! Where `T` comes near the largest f64, a partial sum may overflow although the result would not,
//! so the bound is infinite.

use abi::DType;
use ndarray::{ArrayD, ArrayViewD, Axis, IxDyn};
use rayon::prelude::*;

use super::parts::{Part, Parts};
use super::{extents, matrix};
use crate::{Expected, ReferenceError};

/// Unit roundoff of f64, and its smallest number.
const U64: f64 = f64::EPSILON / 2.0;
const ETA64: f64 = f64::from_bits(1);

/// Roundings of the epilogue.
const ROUNDINGS: usize = 8;

/// What is added where factors are subnormal, in units of the last place, at most.
const SUBNORMAL: f64 = 16.0;

/// The epilogue. Arrays broadcast to the result.
#[derive(Clone, Debug)]
pub struct DoubleOptions<'a> {
    /// Factor of `a @ b`.
    pub alpha: f64,
    /// Row and column scales: `[m, 1]` has one factor per row, `[n]` one per column.
    pub scales: [Option<ArrayViewD<'a, f64>>; 2],
    /// Factor of `c`; if it is 0, `c` is not read.
    pub beta: f64,
    /// Added after multiplication by `beta`.
    pub c: Option<ArrayViewD<'a, f64>>,
    /// Added.
    pub bias: Option<ArrayViewD<'a, f64>>,
    /// Whether negative sums of these become 0.
    pub has_relu: bool,
    /// Added after that.
    pub residual: Option<ArrayViewD<'a, f64>>,
}

impl Default for DoubleOptions<'_> {
    fn default() -> Self {
        Self {
            alpha: 1.0,
            scales: [None, None],
            beta: 0.0,
            c: None,
            bias: None,
            has_relu: false,
            residual: None,
        }
    }
}

/// `n u / (1 - n u)` for f64: an upper bound of the relative error of `n` roundings in a row.
fn gamma(n: usize) -> f64 {
    let nu = n as f64 * U64;
    nu / (1.0 - nu)
}

/// A sum of products and of their rounding errors, and the sum of their magnitudes.
#[derive(Clone, Copy, Default)]
struct Sum {
    high: f64,
    low: f64,
    magnitude: f64,
}

impl Sum {
    fn plus(self, x: f64, y: f64) -> Self {
        let product = x * y;
        let high = self.high + product;
        // What the addition lost (Knuth), and the multiplication.
        let of_product = high - self.high;
        let lost = (self.high - (high - of_product)) + (product - of_product);
        Self {
            high,
            low: self.low + (lost + x.mul_add(y, -product)),
            magnitude: self.magnitude + product.abs(),
        }
    }

    /// The sum, rounded. Beside infinities the errors are NaN, and the plain sum is as it should be.
    fn value(self) -> f64 {
        if self.high.is_finite() {
            self.high + self.low
        } else {
            self.high
        }
    }
}

/// `relu(alpha * scales * (a @ b) + beta * c + bias) + residual` in f64, for operands with the shapes
/// of [`super::gemm`].
///
/// # Errors
/// [`ReferenceError::ShapeMismatch`].
pub fn double(
    a: &ArrayViewD<'_, f64>,
    b: &ArrayViewD<'_, f64>,
    options: &DoubleOptions<'_>,
) -> Result<Expected, ReferenceError> {
    let extents = extents(a, b)?;
    let parts = Parts::new(
        &extents,
        &options.scales,
        (options.beta, &options.c),
        &options.bias,
        &options.residual,
    )?;
    let shape = [extents.batch, extents.m, extents.n];
    let mut values = ArrayD::zeros(IxDyn(&shape));
    let mut errors = ArrayD::zeros(IxDyn(&shape));
    for batch_idx in 0..extents.batch {
        let (a, b) = (matrix(a, batch_idx), matrix(b, batch_idx));
        let mut value = values.index_axis_mut(Axis(0), batch_idx);
        let mut error = errors.index_axis_mut(Axis(0), batch_idx);
        let rows = value
            .axis_iter_mut(Axis(0))
            .zip(error.axis_iter_mut(Axis(0)));
        let rows: Vec<_> = rows.enumerate().collect();
        rows.into_par_iter()
            .for_each(|(i, (mut value, mut error))| {
                for (j, (value, error)) in value.iter_mut().zip(&mut error).enumerate() {
                    let products = a.row(i).into_iter().zip(b.column(j));
                    let sum = products.fold(Sum::default(), |sum, (&x, &y)| sum.plus(x, y));
                    let part = parts.at([batch_idx, i, j]);
                    (*value, *error) = result(sum, extents.k, &part, options);
                }
            });
    }
    extents.expected(DType::F64, values, errors)
}

/// One result and its largest error.
fn result(sum: Sum, k: usize, part: &Part, options: &DoubleOptions<'_>) -> (f64, f64) {
    let factor = part.factor(options.alpha);
    let scaled = [factor * sum.value(), factor.abs() * sum.magnitude];
    let [mut x, mut terms] = part.plus(scaled, options.beta);
    // An operand is not finite, so the result is the same; beside relu it may be finite.
    let mut is_same = !x.is_finite();
    if options.has_relu && x < 0.0 {
        x = 0.0;
    }
    if let Some(residual) = part.residual {
        x += residual;
        terms += residual.abs();
    }
    is_same |= !x.is_finite();
    if is_same {
        return (x, 0.0);
    }
    let largest = terms.max(sum.magnitude);
    if largest > f64::MAX / 4.0 {
        return (x, f64::INFINITY);
    }
    let of_sum = factor.abs() * (gamma(k) * sum.magnitude + k as f64 * ETA64);
    let [row, column] = part.scales;
    let scales = (1.0 + row.abs()) * (1.0 + column.abs());
    let subnormal = SUBNORMAL * ETA64 * (1.0 + sum.magnitude) * scales;
    (x, of_sum + 2.0 * gamma(ROUNDINGS) * terms + subnormal)
}

#[cfg(test)]
mod tests {
    use ndarray::{Array, arr2};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_f64_loses_is_in_the_values() {
        let tiny = 2f64.powi(-60);
        let a = arr2(&[[1.0, tiny, -1.0]]).into_dyn();
        let b = arr2(&[[1.0], [1.0], [1.0]]).into_dyn();
        let d = double(&a.view(), &b.view(), &DoubleOptions::default()).unwrap();
        assert_eq!(d.values[[0, 0]], tiny);
        let third = 1.0 / 3.0;
        let a = arr2(&[[third, -1.0]]).into_dyn();
        let b = arr2(&[[third], [third * third]]).into_dyn();
        let d = double(&a.view(), &b.view(), &DoubleOptions::default()).unwrap();
        assert_eq!(d.values[[0, 0]], third.mul_add(third, -(third * third)));
    }

    #[test]
    fn nan_and_infinity_go_through_and_c_is_not_read_at_beta_0() {
        let a = arr2(&[[f64::INFINITY, 1.0], [f64::NAN, 1.0]]).into_dyn();
        let b = arr2(&[[1.0, 0.0], [1.0, 1.0]]).into_dyn();
        let c = arr2(&[[f64::NAN; 2]; 2]).into_dyn();
        let options = DoubleOptions {
            c: Some(c.view()),
            ..DoubleOptions::default()
        };
        let d = double(&a.view(), &b.view(), &options).unwrap();
        assert_eq!(d.values[[0, 0]], f64::INFINITY);
        assert!(d.values[[0, 1]].is_nan() && d.values[[1, 0]].is_nan());
        let empty = ArrayD::zeros(vec![2, 0]);
        let d = double(&empty.view(), &empty.t(), &options).unwrap();
        assert_eq!(d.values, ArrayD::zeros(vec![2, 2]));
    }

    proptest! {
        #[test]
        fn a_chain_of_multiply_adds_is_within_the_bound(
            values in proptest::collection::vec((-1e3f64..1e3, -1e3f64..1e3), 0..200),
            alpha in -2f64..2.0,
            c in -1e6f64..1e6,
            beta in -2f64..2.0,
        ) {
            let k = values.len();
            let a = Array::from_shape_fn((1, k), |(_, l)| values[l].0).into_dyn();
            let b = Array::from_shape_fn((k, 1), |(l, _)| values[l].1).into_dyn();
            let addend = ArrayD::from_elem(vec![1, 1], c);
            let options = DoubleOptions {
                alpha,
                beta,
                c: Some(addend.view()),
                ..DoubleOptions::default()
            };
            let want = double(&a.view(), &b.view(), &options).unwrap();
            let acc = values.iter().fold(0.0, |sum, x| x.0.mul_add(x.1, sum));
            let got = ArrayD::from_elem(vec![1, 1], beta.mul_add(c, alpha * acc));
            let agreement = want.compare(&got.view());
            prop_assert!(agreement.is_ok(), "{}", agreement.unwrap_err());
        }
    }
}
