//! Softmax along an axis: `y_j = exp(x_j - m) / sum_i exp(x_i - m)`, `m = max x`.
//!
//! A row that contains NaN or `+inf`, or consists of `-inf` only, becomes NaN, since the definition
//! contains `inf - inf`. In other rows, `-inf` gives 0.
//!
//! # Bound
//!
//! Softmax does not change when all scores are shifted, so the error of the maximum does not
//! matter; only errors of differences do. Write `z_j` for the scores (natural units),
//! `w_j = m - z_j`, `a_j` for the error of the score itself (0 here, not in attention), and
//! `A = max a`. The implementation computes the exponent in base 2 or base e, against the final
//! maximum or in steps against running maxima. The steps add up to at most `w_j`, so the total
//! error of all roundings of constants (scale, `log2 e`), differences and products is at most
//!
//! `delta_j = a_j + gamma(6) (w_j + a_j + A)`, plus `gamma(1) (|z_j| + a_j)` where a product is
//! rounded before the maximum is subtracted (attention).
//!
//! The term enters its sum with the factor `(1 + e_j)`, `e_j = exp(delta_j) (1 + exp error)^(1 +
//! rescales) (1 + gamma(additions + rescales + 1)) - 1`. Terms below `2^-126`, relative to the
//! largest, may be lost. If all are computed `2^r` times too small, as `m log2 e` was rounded
//! first, the limit is `2^(-126 + r)`: `r = |m| log2 e 2^-24`, but 64 at most. Absolutely, that is
//! `lost = (1 + rescales) 2^(-126 + r)`. With `P_j` the exact softmax and `E = sum_j P_j e_j + n
//! lost`, the quotient of two such sums obeys
//!
//! `|y_j - P_j| <= (P_j e_j + lost + P_j E) / (1 - E)`
//!
//! and its division adds `gamma(2)` (a reciprocal and a product), then the output's rounding.

use abi::DType;
use ndarray::{ArrayD, ArrayViewD, Axis};
use rayon::prelude::*;
use std::f64::consts::LOG2_E;

use crate::precision::{ETA32, TINY32, U32, gamma};
use crate::sum::total;
use crate::{Expected, Model, ReferenceError};

/// Softmax of `x` along `axis`, written in `dtype`.
///
/// # Errors
/// [`ReferenceError::AxisOutOfRange`].
pub fn softmax(
    x: &ArrayViewD<'_, f64>,
    axis: usize,
    dtype: DType,
    model: &Model,
) -> Result<Expected, ReferenceError> {
    by_rows(x, axis, dtype, |x| {
        let row = Row::new(x, &Scores::EXACT, model);
        let outputs = row.probs.iter().zip(&row.errors);
        outputs
            .map(|(&p, &e)| (p, row.quotient_error(p, p * e + row.lost)))
            .collect()
    })
}

/// Logarithm of softmax of `x` along `axis`, written in `dtype`: `y_j = (x_j - m) - ln S`.
///
/// The implementation adds the difference from the maximum, or two differences that add up to it,
/// and the logarithm of a sum with relative error `E`. Its error is at most
/// `gamma(5) (w_j + |ln S|) - ln(1 - E)` plus the error of the logarithm. In rows that are not NaN,
/// `-inf` stays `-inf`.
///
/// # Errors
/// [`ReferenceError::AxisOutOfRange`].
pub fn log_softmax(
    x: &ArrayViewD<'_, f64>,
    axis: usize,
    dtype: DType,
    model: &Model,
) -> Result<Expected, ReferenceError> {
    by_rows(x, axis, dtype, |x| {
        let row = Row::new(x, &Scores::EXACT, model);
        let element = |&x: &f64| {
            let (distance, log) = (x - row.max, row.log_sum());
            let value = distance - log;
            let error = if value.is_finite() {
                gamma(5) * (distance.abs() + log.abs()) + row.log_sum_error(model) + ETA32
            } else {
                0.0
            };
            (value, error)
        };
        x.iter().map(element).collect()
    })
}

/// Values and errors of all rows, by a function of one row.
fn by_rows(
    x: &ArrayViewD<'_, f64>,
    axis: usize,
    dtype: DType,
    row: impl Fn(&[f64]) -> Vec<(f64, f64)> + Sync,
) -> Result<Expected, ReferenceError> {
    ReferenceError::unless_axis(x.ndim(), axis)?;
    let mut values = ArrayD::zeros(x.raw_dim());
    let mut errors = ArrayD::zeros(x.raw_dim());
    let outputs = values
        .lanes_mut(Axis(axis))
        .into_iter()
        .zip(errors.lanes_mut(Axis(axis)));
    let rows: Vec<_> = x.lanes(Axis(axis)).into_iter().zip(outputs).collect();
    rows.into_par_iter()
        .for_each(|(x, (mut values, mut errors))| {
            let outputs = values.iter_mut().zip(errors.iter_mut());
            for ((value, error), of_row) in outputs.zip(row(&x.to_vec())) {
                (*value, *error) = of_row;
            }
        });
    Expected::rounded_to(dtype, values, &errors)
}

/// Errors of the scores themselves.
pub(crate) struct Scores<'a> {
    /// `a_j`, one per score; empty for exact scores.
    pub(crate) errors: &'a [f64],
    /// True where `score * scale` is rounded before the maximum is subtracted.
    pub(crate) rounded_product: bool,
}

impl Scores<'_> {
    /// Scores read from memory.
    pub(crate) const EXACT: Self = Self {
        errors: &[],
        rounded_product: false,
    };
}

/// One row: exact probabilities, and their relative errors.
pub(crate) struct Row {
    /// `P_j`.
    pub(crate) probs: Vec<f64>,
    /// `e_j`.
    pub(crate) errors: Vec<f64>,
    /// Absolute error of a term that may be flushed, relative to the sum.
    pub(crate) lost: f64,
    /// `m`.
    pub(crate) max: f64,
    /// `S = sum exp(z - m)`.
    sum: f64,
    /// `ln sum exp(z)`.
    pub(crate) lse: f64,
    /// Error of the computed `lse`; see [`crate::reduce`].
    pub(crate) lse_error: f64,
    /// `E`.
    sum_error: f64,
}

impl Row {
    /// The row of these scores; empty ones give an empty row with `lse = -inf`.
    pub(crate) fn new(z: &[f64], scores: &Scores<'_>, model: &Model) -> Self {
        let max = z.iter().copied().fold(f64::NEG_INFINITY, max_or_nan);
        let terms: Vec<f64> = z.iter().map(|z| (z - max).exp()).collect();
        let sum = total(terms.iter().copied());
        let worst_score = scores.errors.iter().copied().fold(0.0, f64::max);
        let term_error = model.term_error();
        let errors: Vec<f64> = (0..z.len())
            .map(|j| {
                let a = scores.errors.get(j).copied().unwrap_or(0.0);
                let mut delta = a + gamma(6) * (max - z[j] + a + worst_score);
                if scores.rounded_product {
                    delta += gamma(1) * (z[j].abs() + a);
                }
                // exp(-inf) is 0 without error; 0 * inf would make it NaN.
                if terms[j] == 0.0 {
                    0.0
                } else {
                    delta.exp() * (1.0 + term_error) - 1.0
                }
            })
            .collect();
        let probs: Vec<f64> = terms.iter().map(|term| term / sum).collect();
        let rounded = (max.abs() * LOG2_E * 2.0 * U32).min(64.0);
        let lost = (1 + model.rescales) as f64 * TINY32 * rounded.exp2();
        let relative: f64 = probs.iter().zip(&errors).map(|(p, e)| p * e).sum();
        let sum_error = relative + z.len() as f64 * lost;
        let log = sum.ln();
        let lse = if max.is_infinite() { max } else { max + log };
        let log_error = if sum_error < 1.0 {
            -(-sum_error).ln_1p()
        } else {
            f64::INFINITY
        };
        let lse_error = log_error
            + gamma(7) * (max.abs() + worst_score)
            + (gamma(3) + model.log_ulps * 2.0 * U32) * (log.abs() + log_error)
            + ETA32;
        Self {
            probs,
            errors,
            lost,
            max,
            sum,
            lse,
            lse_error,
            sum_error,
        }
    }

    /// `ln S`.
    pub(crate) fn log_sum(&self) -> f64 {
        self.sum.ln()
    }

    /// Error of the computed `ln S`.
    pub(crate) fn log_sum_error(&self, model: &Model) -> f64 {
        if self.sum_error >= 1.0 {
            return f64::INFINITY;
        }
        let of_sum = -(-self.sum_error).ln_1p();
        of_sum + model.log_ulps * 2.0 * U32 * (self.log_sum().abs() + of_sum) + ETA32
    }

    /// Error of `value = sum_j P_j v_j` computed as the quotient of two sums, if the errors of the
    /// numerator's terms add up to `terms_error`.
    pub(crate) fn quotient_error(&self, value: f64, terms_error: f64) -> f64 {
        if self.sum_error >= 1.0 {
            return f64::INFINITY;
        }
        let error = (terms_error + value.abs() * self.sum_error) / (1.0 - self.sum_error);
        error + gamma(2) * (value.abs() + error) + ETA32
    }
}

/// The larger, or NaN if either is.
pub(crate) fn max_or_nan(x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() {
        f64::NAN
    } else {
        x.max(y)
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{Array1, arr1};
    use proptest::prelude::*;

    use super::*;

    fn of(x: &[f64], model: &Model) -> Expected {
        softmax(&arr1(x).into_dyn().view(), 0, DType::F32, model).unwrap()
    }

    #[test]
    fn equal_scores_share_equally() {
        let y = of(&[3.0; 4], &Model::any_order(4, 0, 1.0));
        assert_eq!(y.values, arr1(&[0.25; 4]).into_dyn());
    }

    #[test]
    fn special_values_follow_the_definition() {
        let model = Model::any_order(3, 0, 1.0);
        let inf = f64::INFINITY;
        for row in [[1.0, f64::NAN, 2.0], [1.0, inf, 2.0], [-inf, -inf, -inf]] {
            assert!(
                of(&row, &model).values.iter().all(|y| y.is_nan()),
                "{row:?}"
            );
        }
        let y = of(&[0.0, -inf, 0.0], &model);
        assert_eq!(y.values, arr1(&[0.5, 0.0, 0.5]).into_dyn());
        assert!(y.bounds.iter().all(|bound| bound.is_finite()));
    }

    #[test]
    fn works_along_any_axis_and_on_nothing() {
        let x = ndarray::arr2(&[[0.0, 1.0], [0.0, 3.0]]).into_dyn();
        let model = Model::any_order(2, 0, 1.0);
        let columns = softmax(&x.view(), 0, DType::F32, &model).unwrap();
        let rows = softmax(&x.view().reversed_axes(), 1, DType::F32, &model).unwrap();
        assert_eq!(columns.values, rows.values.view().reversed_axes());
        let empty = ArrayD::zeros(vec![3, 0]);
        assert_eq!(
            softmax(&empty.view(), 1, DType::F32, &model)
                .unwrap()
                .values,
            empty
        );
        let error = softmax(&empty.view(), 2, DType::F32, &model).unwrap_err();
        assert_eq!(error, ReferenceError::AxisOutOfRange { axis: 2, rank: 2 });
    }

    proptest! {
        #[test]
        fn sums_to_one_and_ignores_a_shift(
            x in proptest::collection::vec(-50f64..50.0, 1..60),
            shift in -100f64..100.0,
        ) {
            let model = Model::any_order(x.len(), 0, 1.0);
            let y = of(&x, &model);
            prop_assert!((y.values.sum() - 1.0).abs() < 1e-14);
            let shifted: Vec<f64> = x.iter().map(|x| x + shift).collect();
            for (a, b) in y.values.iter().zip(of(&shifted, &model).values.iter()) {
                prop_assert!((a - b).abs() <= 1e-13 * a);
            }
        }

        #[test]
        fn an_f32_softmax_is_within_the_bound(
            x in proptest::collection::vec(-30f32..30.0, 1..300),
            online in any::<bool>(),
        ) {
            let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
            let want = of(&wide, &Model::any_order(x.len(), x.len(), 1.0));
            let got = if online { online_f32(&x) } else { two_pass_f32(&x) };
            let got: Array1<f64> = got.into_iter().map(f64::from).collect();
            let agreement = want.compare(&got.into_dyn().view());
            prop_assert!(agreement.is_ok(), "{}", agreement.unwrap_err());
        }
    }

    fn two_pass_f32(x: &[f32]) -> Vec<f32> {
        let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f32 = x.iter().map(|x| (x - max).exp()).sum();
        x.iter().map(|x| (x - max).exp() / sum).collect()
    }

    fn online_f32(x: &[f32]) -> Vec<f32> {
        let (mut max, mut sum) = (f32::NEG_INFINITY, 0f32);
        for &x in x {
            let new = max.max(x);
            sum = sum * ((max - new) * std::f32::consts::LOG2_E).exp2()
                + ((x - new) * std::f32::consts::LOG2_E).exp2();
            max = new;
        }
        let reciprocal = 1.0 / sum;
        let weight = |x: &f32| ((x - max) * std::f32::consts::LOG2_E).exp2();
        x.iter().map(|x| weight(x) * reciprocal).collect()
    }
}
