//! Gradients of layer norm and RMS norm, from the rows and what the forward pass kept. With
//! `z = (x - mean) rstd` and `w = weight dy`: `dx = rstd (w - mean(w) - z mean(w z)) + dsum`
//! (without `mean(w)` in RMS norm), `dweight = sum of dy z` and `dbias = sum of dy` over rows.
//!
//! # Bound
//!
//! `mean` and `rstd` are inputs, so z errs relatively by `gamma(2)` and w by `gamma(1)`. The means
//! err by `dc2 = gamma(additions + 3) mean |w|` and `dc1 = gamma(additions + 6) mean |w z|`. So dx
//! errs by at most `rstd (dc2 + |z| dc1 + gamma(6) (|w| + |mean(w)| + |z mean(w z)|))` and, with
//! dsum, another rounding. Sums over rows have one addition a row at most, and those of partial
//! sums beside: `gamma(rows + 4) sum |dy z|`. Below the normal numbers z, and each product with it,
//! errs by half the smallest number, eta.

use abi::DType;
use ndarray::{Array1, ArrayD, ArrayView1, ArrayViewD, Axis};

use crate::norm::NormModel;
use crate::precision::{ETA32, U32, gamma};
use crate::{Expected, ReferenceError};

/// The operands.
#[derive(Clone, Copy, Debug)]
pub struct NormGrad<'a> {
    /// The input of the normalisation.
    pub x: &'a ArrayViewD<'a, f64>,
    /// The gradient with respect to the result.
    pub dy: &'a ArrayViewD<'a, f64>,
    /// The mean of each row, in row-major order; `None` for RMS norm.
    pub mean: Option<&'a [f64]>,
    /// The `rstd` of each row, in row-major order.
    pub rstd: &'a [f64],
    /// `[n]`; `None` for 1.
    pub weight: Option<ArrayView1<'a, f64>>,
    /// Added to dx.
    pub dsum: Option<&'a ArrayViewD<'a, f64>>,
}

/// The gradients.
#[derive(Clone, Debug)]
pub struct NormGradients {
    /// The gradient with respect to `x`.
    pub dx: Expected,
    /// `[n]`, in f32.
    pub dweight: Expected,
    /// `[n]`, in f32.
    pub dbias: Expected,
}

/// Sums over rows, of magnitudes, and of what terms lose below the normal numbers.
struct Columns {
    sum: Array1<f64>,
    magnitude: Array1<f64>,
    lost: Array1<f64>,
}

impl Columns {
    fn new(n: usize) -> Self {
        Self {
            sum: Array1::zeros(n),
            magnitude: Array1::zeros(n),
            lost: Array1::zeros(n),
        }
    }

    fn add(&mut self, column: usize, term: f64, lost: f64) {
        self.sum[column] += term;
        self.magnitude[column] += term.abs();
        self.lost[column] += lost;
    }

    fn expected(self, rows: usize) -> Result<Expected, ReferenceError> {
        let errors = self.magnitude.mapv(|sum| gamma(rows + 4) * sum + ETA32) + self.lost;
        let values = self.sum.into_dyn();
        let mut errors = errors.into_dyn();
        errors.zip_mut_with(&values, |error, value| {
            if !value.is_finite() {
                *error = 0.0;
            }
        });
        Expected::rounded_to(DType::F32, values, &errors)
    }
}

impl NormGrad<'_> {
    /// Refuses operands that do not fit `x`.
    fn check(&self) -> Result<(), ReferenceError> {
        let shape = self.x.shape();
        let Some((&n, outer)) = shape.split_last() else {
            return Err(ReferenceError::AxisOutOfRange { axis: 0, rank: 0 });
        };
        ReferenceError::unless_shape_of("x", shape, "dy", self.dy.shape())?;
        if let Some(dsum) = self.dsum {
            ReferenceError::unless_shape_of("x", shape, "dsum", dsum.shape())?;
        }
        let rows = outer.iter().product();
        if let Some(mean) = self.mean {
            ReferenceError::unless_one_per("row", rows, "mean", mean.len())?;
        }
        ReferenceError::unless_one_per("row", rows, "rstd", self.rstd.len())?;
        if let Some(weight) = self.weight {
            ReferenceError::unless_one_per("element of a row", n, "weight", weight.len())?;
        }
        Ok(())
    }
}

/// Gradients along the last axis, with `dx` written in `dtype`.
///
/// # Errors
/// [`ReferenceError::AxisOutOfRange`] if `x` has no axis; [`ReferenceError::ShapeMismatch`].
pub fn norm_grad(
    of: &NormGrad<'_>,
    dtype: DType,
    model: NormModel,
) -> Result<NormGradients, ReferenceError> {
    of.check()?;
    let last = Axis(of.x.ndim() - 1);
    let n = of.x.len_of(last);
    let (mut dx, mut errors) = (ArrayD::zeros(of.x.raw_dim()), ArrayD::zeros(of.x.raw_dim()));
    let (mut dweight, mut dbias) = (Columns::new(n), Columns::new(n));
    let inputs = of.x.lanes(last).into_iter().zip(of.dy.lanes(last));
    let outputs = dx.lanes_mut(last).into_iter().zip(errors.lanes_mut(last));
    let mut rows = 0;
    for (row, ((x, dy), (mut dx, mut error))) in inputs.zip(outputs).enumerate() {
        rows += 1;
        let (mean, rstd) = (of.mean.map_or(0.0, |mean| mean[row]), of.rstd[row]);
        let z: Vec<f64> = x.iter().map(|x| (x - mean) * rstd).collect();
        let weight = |j: usize| of.weight.map_or(1.0, |weight| weight[j]);
        let w: Vec<f64> = dy
            .iter()
            .enumerate()
            .map(|(j, dy)| dy * weight(j))
            .collect();
        let mean_of = |terms: &dyn Fn(usize) -> f64| (0..n).map(terms).sum::<f64>() / n as f64;
        let by_z = mean_of(&|j| w[j] * z[j]);
        let by_z_error = gamma(model.additions + 6) * mean_of(&|j| (w[j] * z[j]).abs())
            + ETA32 * (1.0 + mean_of(&|j| w[j].abs()));
        let (mut plain, mut plain_error) = (0.0, 0.0);
        if of.mean.is_some() {
            plain = mean_of(&|j| w[j]);
            plain_error = gamma(model.additions + 3) * mean_of(&|j| w[j].abs()) + ETA32;
        }
        for j in 0..n {
            dx[j] = (w[j] - plain - z[j] * by_z) * rstd;
            let parts = w[j].abs() + plain.abs() + (z[j] * by_z).abs();
            let own = plain_error + (z[j].abs() + ETA32) * by_z_error * (1.0 + gamma(6));
            let own = own + ETA32 * (1.0 + by_z.abs());
            error[j] = rstd * (own + gamma(6) * (parts + own)) + ETA32;
            dweight.add(j, dy[j] * z[j], ETA32 * (1.0 + dy[j].abs()));
            dbias.add(j, dy[j], 0.0);
        }
    }
    if let Some(dsum) = of.dsum {
        dx += dsum;
        errors.zip_mut_with(&dx, |error, dx| *error += U32 * (dx.abs() + *error));
    }
    errors.zip_mut_with(&dx, |error, value| {
        if !value.is_finite() {
            *error = 0.0;
        }
    });
    Ok(NormGradients {
        dx: Expected::rounded_to(dtype, dx, &errors)?,
        dweight: dweight.expected(rows)?,
        dbias: dbias.expected(rows)?,
    })
}

#[cfg(test)]
mod tests {
    use ndarray::{ArrayD, arr1, arr2};

    use super::*;
    use crate::norm::{Norm, norm};

    #[test]
    fn gradients_are_those_of_the_forward() {
        let model = NormModel {
            additions: 4,
            merges: 0,
        };
        let x = arr2(&[[0.3, -1.0, 2.0], [1.5, 0.2, -0.7]]).into_dyn();
        let dy = arr2(&[[1.0, -0.5, 0.25], [0.75, 2.0, -1.0]]).into_dyn();
        let weight = arr1(&[1.5, 0.5, -2.0]);
        for is_centered in [true, false] {
            let of = Norm {
                is_centered,
                epsilon: 1e-3,
                weight: Some(weight.view()),
                bias: None,
            };
            let forward = |x: &ArrayD<f64>| norm(&x.view(), DType::F32, &of, model).unwrap();
            let kept = forward(&x);
            let (mean, rstd) = (kept.mean.values.clone(), kept.rstd.values.clone());
            let (x_view, dy_view) = (x.view(), dy.view());
            let got = norm_grad(
                &NormGrad {
                    x: &x_view,
                    dy: &dy_view,
                    mean: is_centered.then_some(mean.as_slice().unwrap()),
                    rstd: rstd.as_slice().unwrap(),
                    weight: Some(weight.view()),
                    dsum: None,
                },
                DType::F32,
                model,
            );
            let got = got.unwrap();
            let loss = |x: &ArrayD<f64>| (forward(x).y.values * &dy).sum();
            for (index, got) in got.dx.values.indexed_iter() {
                let (mut up, mut down) = (x.clone(), x.clone());
                up[&index] += 1e-5;
                down[&index] -= 1e-5;
                let want = (loss(&up) - loss(&down)) / 2e-5;
                assert!((got - want).abs() < 1e-8, "{got} is not {want}");
            }
        }
    }

    #[test]
    fn every_operand_fits_x() {
        let model = NormModel {
            additions: 3,
            merges: 0,
        };
        let (x, other) = (ArrayD::zeros(vec![2, 3]), ArrayD::zeros(vec![2, 1]));
        let (x, other) = (x.view(), other.view());
        let two = arr1(&[1.0; 2]);
        let good = NormGrad {
            x: &x,
            dy: &x,
            mean: Some(&[0.0; 2]),
            rstd: &[1.0; 2],
            weight: None,
            dsum: Some(&x),
        };
        let refused = |of: NormGrad<'_>| {
            let error = norm_grad(&of, DType::F32, model).unwrap_err();
            error.to_string()
        };
        let text = refused(NormGrad { dy: &other, ..good });
        assert_eq!(text, "dy has shape [2, 1]; it has to be [2, 3], as x");
        let dsum = Some(&other);
        let text = refused(NormGrad { dsum, ..good });
        assert_eq!(text, "dsum has shape [2, 1]; it has to be [2, 3], as x");
        let mean = Some(&[0.0; 3][..]);
        let text = refused(NormGrad { mean, ..good });
        assert_eq!(
            text,
            "mean has shape [3]; it has to be [2], one element per row"
        );
        let text = refused(NormGrad {
            rstd: &[1.0],
            ..good
        });
        assert_eq!(
            text,
            "rstd has shape [1]; it has to be [2], one element per row"
        );
        let weight = Some(two.view());
        let text = refused(NormGrad { weight, ..good });
        assert!(
            text.starts_with("weight has shape [2]; it has to be [3]"),
            "{text}"
        );
        let scalar = ArrayD::zeros(Vec::new());
        let scalar = scalar.view();
        let text = refused(NormGrad { x: &scalar, ..good });
        assert!(
            text.starts_with("axis 0 of an array with 0 dimensions"),
            "{text}"
        );
        assert!(norm_grad(&good, DType::F32, model).is_ok());
    }
}
