//! Gradients of softmax and log-softmax, computed from their results.
//!
//! # Bound
//!
//! Softmax: `dx_j = y_j (dy_j - s)` with `s = sum y dy`, whose computed value is off by at most
//! `ds = gamma(additions + 2) sum |y dy|`. A difference and a product follow:
//! `|y_j| (ds + gamma(2) (|dy_j - s| + ds))`.
//!
//! Log-softmax: `dx_j = dy_j - exp(y_j) s` with `s = sum dy`, off by
//! `ds = gamma(additions + 2) sum |dy|`. The exponential errs relatively by
//! `e_j = exp(gamma(2) |y_j|) (1 + exp error) - 1` and may be lost below `2^-126`; a multiply-add
//! follows: `P_j ds + (|s| + ds) (P_j e_j + 2^-126) + gamma(2) (|dx_j| + ...)`.

use abi::DType;
use ndarray::{ArrayD, ArrayViewD, Axis};

use crate::precision::{ETA32, TINY32, U32, gamma};
use crate::{Expected, Model, ReferenceError};

/// Gradient of softmax along `axis`, from its result `y` and the gradient `dy` with respect to `y`.
///
/// # Errors
/// [`ReferenceError::AxisOutOfRange`], [`ReferenceError::ShapeMismatch`].
pub fn softmax_grad(
    y: &ArrayViewD<'_, f64>,
    dy: &ArrayViewD<'_, f64>,
    axis: usize,
    dtype: DType,
    model: &Model,
) -> Result<Expected, ReferenceError> {
    by_rows(y, dy, axis, dtype, |y, dy| {
        let terms = y.iter().zip(dy).map(|(y, dy)| y * dy);
        let sum: f64 = terms.clone().sum();
        let sum_error = gamma(model.additions + 2) * terms.map(f64::abs).sum::<f64>() + ETA32;
        let elements = y.iter().zip(dy);
        elements
            .map(|(y, dy)| {
                let difference = dy - sum;
                let error = sum_error + gamma(2) * (difference.abs() + sum_error);
                (y * difference, y.abs() * error + ETA32)
            })
            .collect()
    })
}

/// Gradient of log-softmax along `axis`, from its result `y` and the gradient `dy` with respect to
/// `y`.
///
/// # Errors
/// [`ReferenceError::AxisOutOfRange`], [`ReferenceError::ShapeMismatch`].
pub fn log_softmax_grad(
    y: &ArrayViewD<'_, f64>,
    dy: &ArrayViewD<'_, f64>,
    axis: usize,
    dtype: DType,
    model: &Model,
) -> Result<Expected, ReferenceError> {
    by_rows(y, dy, axis, dtype, |y, dy| {
        let sum: f64 = dy.iter().sum();
        let magnitudes: f64 = dy.iter().map(|dy| dy.abs()).sum();
        let sum_error = gamma(model.additions + 2) * magnitudes + ETA32;
        let elements = y.iter().zip(dy);
        elements
            .map(|(y, dy)| {
                let p = y.exp();
                let value = dy - p * sum;
                let relative = match p {
                    0.0 => 0.0,
                    _ => (gamma(2) * y.abs()).exp() * (1.0 + model.exp_ulps * 2.0 * U32) - 1.0,
                };
                let error = p * sum_error + (sum.abs() + sum_error) * (p * relative + TINY32);
                (value, error + gamma(2) * (value.abs() + error) + ETA32)
            })
            .collect()
    })
}

/// Values and errors of all rows, by a function of one row.
fn by_rows(
    y: &ArrayViewD<'_, f64>,
    dy: &ArrayViewD<'_, f64>,
    axis: usize,
    dtype: DType,
    row: impl Fn(&[f64], &[f64]) -> Vec<(f64, f64)>,
) -> Result<Expected, ReferenceError> {
    ReferenceError::unless_axis(y.ndim(), axis)?;
    ReferenceError::unless_shape_of("y", y.shape(), "dy", dy.shape())?;
    let mut values = ArrayD::zeros(y.raw_dim());
    let mut errors = ArrayD::zeros(y.raw_dim());
    let inputs = y.lanes(Axis(axis)).into_iter().zip(dy.lanes(Axis(axis)));
    let outputs = values
        .lanes_mut(Axis(axis))
        .into_iter()
        .zip(errors.lanes_mut(Axis(axis)));
    for ((y, dy), (mut value, mut error)) in inputs.zip(outputs) {
        let row = row(&y.to_vec(), &dy.to_vec());
        for (j, (of_value, of_error)) in row.into_iter().enumerate() {
            value[j] = of_value;
            // NaN and infinities must be met exactly.
            error[j] = if of_value.is_finite() { of_error } else { 0.0 };
        }
    }
    Expected::rounded_to(dtype, values, &errors)
}

#[cfg(test)]
mod tests {
    use ndarray::arr1;

    use super::*;
    use crate::softmax::{log_softmax, softmax};

    /// Central differences of sum dy_j f(x)_j.
    fn numeric(x: &[f64], dy: &[f64], f: impl Fn(&[f64]) -> Vec<f64>) -> Vec<f64> {
        let h = 1e-5;
        let of = |x: &[f64]| f(x).iter().zip(dy).map(|(y, dy)| y * dy).sum::<f64>();
        (0..x.len())
            .map(|j| {
                let (mut up, mut down) = (x.to_vec(), x.to_vec());
                up[j] += h;
                down[j] -= h;
                (of(&up) - of(&down)) / (2.0 * h)
            })
            .collect()
    }

    #[test]
    fn gradients_are_those_of_the_forward() {
        let model = Model::any_order(5, 0, 1.0);
        let (x, dy) = ([0.3, -1.0, 2.0, 0.0, 0.7], [1.0, -0.5, 0.25, 2.0, -1.0]);
        let values = |log: bool, x: &[f64]| {
            let x = arr1(x).into_dyn();
            let f = if log { log_softmax } else { softmax };
            f(&x.view(), 0, DType::F32, &model)
                .unwrap()
                .values
                .into_raw_vec_and_offset()
                .0
        };
        for log in [false, true] {
            let y = arr1(&values(log, &x)).into_dyn();
            let gradient = if log { log_softmax_grad } else { softmax_grad };
            let dy_array = arr1(&dy).into_dyn();
            let got = gradient(&y.view(), &dy_array.view(), 0, DType::F32, &model).unwrap();
            let want = numeric(&x, &dy, |x| values(log, x));
            for (got, want) in got.values.iter().zip(want) {
                assert!((got - want).abs() < 1e-8, "{got} is not {want}");
            }
        }
    }

    #[test]
    fn y_and_dy_have_one_shape() {
        let model = Model::any_order(3, 0, 1.0);
        let y = ArrayD::zeros(vec![2, 3]);
        for shape in [&[2, 2][..], &[3, 3], &[1, 3], &[6]] {
            let dy = ArrayD::zeros(shape);
            for gradient in [softmax_grad, log_softmax_grad] {
                let got = gradient(&y.view(), &dy.view(), 1, DType::F32, &model);
                let want = ReferenceError::shape("dy", shape, "it has to be [2, 3], as y");
                assert_eq!(got.unwrap_err(), want);
            }
        }
    }
}
