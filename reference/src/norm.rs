//! Layer norm and RMS norm along the last axis: `y = (h - mean) rstd weight + bias`,
//! `rstd = 1 / √(V + epsilon)`, with the variance V; in RMS norm, the mean is replaced by 0.
//!
//! # Bound
//!
//! The mean is computed in one of two ways. A sum over n is off by at most `dm = gamma(additions +
//! 2) mean |h|`. A merge of means of parts, four roundings each, is off by at most `gamma(4 merges)
//! max |h|`. `dm` is the larger. V is computed in one of two ways, and `dV` is the larger error.
//! The first is the sum of squared deviations from the computed mean. Deviations from a mean that
//! is off by `dm` have squares that add up to `n (V + dm²)`. With their roundings, it errs by at
//! most `dm² + gamma(additions + 6) (V + dm²)`. The second is merged from parts, where squared
//! differences of means that are each off by `dm` are added, weighted. By Cauchy and Schwarz, it
//! errs by `gamma(8 merges) V + 4 dm √(merges V) + 4 merges dm²`. RMS norm has no mean: `dV =
//! gamma(additions + 4) V`.
//!
//! `rstd` errs relatively by `r = dV / (2 (V + epsilon - dV)) + gamma(4)`. A difference and two
//! products or multiply-adds follow, each rounded.

use abi::DType;
use ndarray::{ArrayD, ArrayView1, ArrayViewD, Axis};

use crate::precision::{ETA32, U32, gamma};
use crate::{Expected, ReferenceError};

/// How an implementation sums rows, as far as its errors depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NormModel {
    /// Additions in the longest chain of a row's sums.
    pub additions: usize,
    /// Merges in the longest chain of merged means of parts; 0 if it merges none.
    pub merges: usize,
}

/// The operation.
#[derive(Clone, Copy, Debug)]
pub struct Norm<'a> {
    /// Whether the mean is subtracted: true for layer norm.
    pub is_centered: bool,
    /// Added to the variance.
    pub epsilon: f64,
    /// `[n]`; `None` for 1.
    pub weight: Option<ArrayView1<'a, f64>>,
    /// `[n]`; `None` for 0.
    pub bias: Option<ArrayView1<'a, f64>>,
}

/// The results of a norm.
#[derive(Clone, Debug)]
pub struct Normalized {
    /// The normalised rows, in their dtype.
    pub y: Expected,
    /// The mean of each row, in f32.
    pub mean: Expected,
    /// The `rstd` of each row, in f32.
    pub rstd: Expected,
}

/// Mean and `rstd` of one row, with their errors.
struct Row {
    mean: f64,
    mean_error: f64,
    rstd: f64,
    /// Relative error.
    rstd_error: f64,
}

impl Row {
    fn new(h: &[f64], norm: &Norm<'_>, model: NormModel) -> Self {
        let n = h.len() as f64;
        let (mut mean, mut mean_error) = (0.0, 0.0);
        if norm.is_centered {
            mean = h.iter().sum::<f64>() / n;
            let magnitude = h.iter().map(|h| h.abs()).sum::<f64>() / n;
            let largest = h.iter().map(|h| h.abs()).fold(0.0, f64::max);
            let by_sum = gamma(model.additions + 2) * magnitude;
            mean_error = by_sum.max(gamma(4 * model.merges) * largest) + ETA32;
        }
        let variance = h.iter().map(|h| (h - mean) * (h - mean)).sum::<f64>() / n;
        let square = mean_error * mean_error;
        let merges = model.merges as f64;
        let by_sum = square + gamma(model.additions + 6) * (variance + square);
        let by_merges = gamma(8 * model.merges) * variance
            + 4.0 * mean_error * (merges * variance).sqrt()
            + 4.0 * merges * square;
        let error = by_sum.max(by_merges) + ETA32;
        let rest = variance + norm.epsilon - error;
        let rstd_error = if rest > 0.0 {
            0.5 * error / rest + gamma(4)
        } else if variance.is_finite() {
            f64::INFINITY
        } else {
            0.0
        };
        Self {
            mean,
            mean_error,
            // Beside an infinity, or where squares overflow, a row is NaN, and not 0.
            rstd: match variance.is_finite() {
                true => 1.0 / (variance + norm.epsilon).sqrt(),
                false => f64::NAN,
            },
            rstd_error,
        }
    }

    /// `(h - mean) rstd` and its error.
    fn normalise(&self, h: f64) -> (f64, f64) {
        let deviation = h - self.mean;
        let error = self.mean_error + U32 * (deviation.abs() + self.mean_error);
        let value = deviation * self.rstd;
        let upper = (deviation.abs() + error) * self.rstd * (1.0 + self.rstd_error);
        let error = error * self.rstd * (1.0 + self.rstd_error) + value.abs() * self.rstd_error;
        (value, error + U32 * upper + ETA32)
    }
}

/// The norm of rows `h` along their last axis, with `y` written in `dtype`.
///
/// # Errors
/// [`ReferenceError::AxisOutOfRange`] if `h` has no axis; [`ReferenceError::ShapeMismatch`].
pub fn norm(
    h: &ArrayViewD<'_, f64>,
    dtype: DType,
    norm: &Norm<'_>,
    model: NormModel,
) -> Result<Normalized, ReferenceError> {
    let last = Axis(h.ndim().saturating_sub(1));
    ReferenceError::unless_axis(h.ndim(), last.0)?;
    for (operand, vector) in [("weight", &norm.weight), ("bias", &norm.bias)] {
        let len = vector
            .as_ref()
            .map_or(h.len_of(last), |vector| vector.len());
        ReferenceError::unless_one_per("element of a row", h.len_of(last), operand, len)?;
    }
    let (mut y, mut y_error) = (ArrayD::zeros(h.raw_dim()), ArrayD::zeros(h.raw_dim()));
    let outer = &h.shape()[..last.0];
    let of_rows = || ArrayD::<f64>::zeros(outer);
    let (mut mean, mut mean_error) = (of_rows(), of_rows());
    let (mut rstd, mut rstd_error) = (of_rows(), of_rows());
    let mut kept = mean
        .iter_mut()
        .zip(mean_error.iter_mut())
        .zip(rstd.iter_mut().zip(rstd_error.iter_mut()));
    let outputs = y.lanes_mut(last).into_iter().zip(y_error.lanes_mut(last));
    for (h, (mut y, mut y_error)) in h.lanes(last).into_iter().zip(outputs) {
        let h = h.to_vec();
        let row = Row::new(&h, norm, model);
        if let Some(((mean, mean_error), (rstd, rstd_error))) = kept.next() {
            (*mean, *mean_error) = (row.mean, row.mean_error);
            (*rstd, *rstd_error) = (row.rstd, row.rstd * row.rstd_error + ETA32);
        }
        for (j, &h) in h.iter().enumerate() {
            let weight = norm.weight.map_or(1.0, |weight| weight[j]);
            let bias = norm.bias.map_or(0.0, |bias| bias[j]);
            let (value, error) = row.normalise(h);
            y[j] = value * weight + bias;
            let error = weight.abs() * error;
            y_error[j] = error + gamma(2) * (y[j].abs() + error) + ETA32;
        }
    }
    let clear = |errors: &mut ArrayD<f64>, values: &ArrayD<f64>| {
        errors.zip_mut_with(values, |error, value| {
            if !value.is_finite() {
                *error = 0.0;
            }
        });
    };
    clear(&mut y_error, &y);
    clear(&mut mean_error, &mean);
    clear(&mut rstd_error, &rstd);
    Ok(Normalized {
        y: Expected::rounded_to(dtype, y, &y_error)?,
        mean: Expected::rounded_to(DType::F32, mean, &mean_error)?,
        rstd: Expected::rounded_to(DType::F32, rstd, &rstd_error)?,
    })
}

#[cfg(test)]
mod tests {
    use ndarray::{arr1, arr2};

    use super::*;

    const MODEL: NormModel = NormModel {
        additions: 4,
        merges: 0,
    };

    #[test]
    fn a_layer_norm_by_hand() {
        let h = arr2(&[[1.0, 3.0], [5.0, 5.0]]).into_dyn();
        let of = Norm {
            is_centered: true,
            epsilon: 1e-5,
            weight: None,
            bias: None,
        };
        let got = norm(&h.view(), DType::F32, &of, MODEL);
        let got = got.unwrap();
        let rstd = 1.0 / (1.0_f64 + 1e-5).sqrt();
        assert_eq!(got.y.values, arr2(&[[-rstd, rstd], [0.0, 0.0]]).into_dyn());
        assert_eq!(got.mean.values.as_slice(), Some([2.0, 5.0].as_slice()));
        assert!(got.y.bounds.iter().all(|bound| *bound < 1e-3));
    }

    #[test]
    fn rms_norm_subtracts_nothing() {
        let h = arr2(&[[3.0, -4.0]]).into_dyn();
        let of = Norm {
            is_centered: false,
            epsilon: 0.0,
            weight: None,
            bias: None,
        };
        let got = norm(&h.view(), DType::F32, &of, MODEL).unwrap();
        assert!((got.rstd.values[[0]] - 1.0 / 12.5_f64.sqrt()).abs() < 1e-15);
    }

    #[test]
    fn weight_and_bias_have_an_element_for_each_of_a_row() {
        let vector = arr1(&[1.0, 2.0]);
        let refused = |shape: &[usize], weight, bias| {
            let of = Norm {
                is_centered: true,
                epsilon: 1e-5,
                weight,
                bias,
            };
            norm(&ArrayD::zeros(shape).view(), DType::F32, &of, MODEL).unwrap_err()
        };
        for n in [0, 1, 3] {
            let want = format!("it has to be [{n}], one element per element of a row");
            let error = |operand| ReferenceError::shape(operand, &[2], want.clone());
            let of_weight = refused(&[4, n], Some(vector.view()), None);
            assert_eq!(of_weight, error("weight"));
            assert_eq!(refused(&[n], None, Some(vector.view())), error("bias"));
        }
        let error = ReferenceError::AxisOutOfRange { axis: 0, rank: 0 };
        assert_eq!(refused(&[], None, None), error);
    }
}
