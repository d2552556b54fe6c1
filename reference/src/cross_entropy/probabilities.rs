//! Targets that are probabilities: with `q_j = w_j ((1 - s) p_j + s / n)` and `l_j = ln S + m - x_j`,
//! `loss = sum_j q_j l_j` over the classes whose q is not 0, and `dx_j = g (P_j sum q - q_j)`. The mean
//! is over the number of rows.

use super::{CrossEntropy, Reduction, reduced};
use crate::precision::{ETA32, gamma};
use crate::softmax::{Row, Scores};
use crate::{Expected, Model, ReferenceError};
use abi::DType;
use ndarray::{ArrayD, ArrayViewD, Axis};

/// The loss in f32, and its gradient with respect to `x` in `dtype`, for targets that are
/// probabilities, with the shape of `x`. `ignore_index` has no effect.
///
/// # Bound
/// As for class indices with weights. A `q_j` has an error of `gamma(5)` of the magnitudes of its
/// terms.
///
/// # Errors
/// As for [`cross_entropy`](super::cross_entropy()).
pub fn cross_entropy_of_probabilities(
    x: &ArrayViewD<'_, f64>,
    probabilities: &ArrayViewD<'_, f64>,
    dtype: DType,
    of: &CrossEntropy<'_>,
    model: &Model,
) -> Result<(Expected, Expected), ReferenceError> {
    let rows = x
        .shape()
        .split_last()
        .map_or(0, |(_, outer)| outer.iter().product());
    of.check(x.shape(), &vec![0; rows])?;
    if probabilities.shape() != x.shape() {
        let want = format!("it has to be {:?}, as the logits", x.shape());
        return Err(ReferenceError::shape(
            "probabilities",
            probabilities.shape(),
            want,
        ));
    }
    let last = Axis(x.ndim() - 1);
    let factor = match of.reduction {
        Reduction::Mean => 1.0 / rows as f64,
        Reduction::None | Reduction::Sum => 1.0,
    };
    let (mut losses, mut loss_errors) = (Vec::new(), Vec::new());
    let (mut dx, mut errors) = (ArrayD::zeros(x.raw_dim()), ArrayD::zeros(x.raw_dim()));
    let outputs = dx.lanes_mut(last).into_iter().zip(errors.lanes_mut(last));
    let inputs = x.lanes(last).into_iter().zip(probabilities.lanes(last));
    for (index, ((x, p), (mut dx, mut error))) in inputs.zip(outputs).enumerate() {
        let dloss = of.dloss.map_or(1.0, |dloss| match of.reduction {
            Reduction::None => dloss[index],
            Reduction::Mean | Reduction::Sum => dloss[0],
        });
        let x = x.to_vec();
        let row = Row::new(&x, &Scores::EXACT, model);
        let even = of.label_smoothing / x.len() as f64;
        let share = |(j, p): (usize, &f64)| {
            let (own, weight) = ((1.0 - of.label_smoothing) * p, of.weight(j as i64));
            (weight * (own + even), weight.abs() * (own.abs() + even))
        };
        let shares: Vec<(f64, f64)> = p.iter().enumerate().map(share).collect();
        let (log, log_error) = (row.log_sum(), row.log_sum_error(model));
        let (mut loss, mut loss_error, mut all, mut magnitude) = (0.0, 0.0, 0.0, 0.0);
        let relative = gamma(model.additions + 11);
        for (x, &(q, size)) in x.iter().zip(&shares) {
            all += q;
            magnitude += size;
            if q != 0.0 {
                loss += q * ((row.max - x) + log);
                let terms = size * ((row.max - x).abs() + log.abs() + log_error);
                loss_error += size * log_error + relative * terms + ETA32;
            }
        }
        losses.push(loss);
        loss_errors.push(if loss.is_finite() { loss_error } else { 0.0 });
        let scale = of.gradient_scale * factor * dloss;
        for (j, &(q, size)) in shares.iter().enumerate() {
            let prob = row.probs[j];
            dx[j] = scale * (all * prob - q);
            let p_error = row.quotient_error(prob, prob * row.errors[j] + row.lost);
            let parts = magnitude * (prob + p_error) + size;
            let e = magnitude * p_error + (gamma(14) + 2.0 * relative) * parts;
            let e = scale.abs() * e + ETA32;
            error[j] = if dx[j].is_finite() { e } else { 0.0 };
        }
    }
    let gradient = Expected::rounded_to(dtype, dx, &errors)?;
    let relative = gamma(model.additions + 6);
    let loss = reduced(
        of.reduction,
        &x.shape()[..last.0],
        (losses, loss_errors),
        (factor, relative),
    )?;
    Ok((loss, gradient))
}

#[cfg(test)]
mod tests {
    use super::super::cross_entropy;
    use super::*;
    use ndarray::arr2;

    fn options(reduction: Reduction, class_weights: Option<&[f64]>) -> CrossEntropy<'_> {
        CrossEntropy {
            class_weights,
            ignore_index: -100,
            label_smoothing: 0.2,
            gradient_scale: 1.0,
            dloss: None,
            reduction,
        }
    }

    #[test]
    fn gradients_are_those_of_the_loss() {
        let model = Model::any_order(4, 0, 1.0);
        let x = arr2(&[[0.3, -1.0, 2.0], [1.5, 0.2, -0.7]]).into_dyn();
        let p = arr2(&[[0.1, 0.7, 0.2], [0.0, 0.5, 0.25]]).into_dyn();
        let weights: &[f64] = &[0.5, 2.0, 1.25];
        for reduction in [Reduction::Mean, Reduction::Sum] {
            for weights in [None, Some(weights)] {
                let of = options(reduction, weights);
                let both = |x: &ArrayD<f64>| {
                    let (x, p) = (x.view(), p.view());
                    cross_entropy_of_probabilities(&x, &p, DType::F32, &of, &model).unwrap()
                };
                let loss = |x: &ArrayD<f64>| both(x).0.values.sum();
                for (index, got) in both(&x).1.values.indexed_iter() {
                    let (mut up, mut down) = (x.clone(), x.clone());
                    up[&index] += 1e-5;
                    down[&index] -= 1e-5;
                    let want = (loss(&up) - loss(&down)) / 2e-5;
                    assert!((got - want).abs() < 1e-8, "{got} is not {want}");
                }
            }
        }
    }

    #[test]
    fn a_probability_of_1_is_a_class() {
        let model = Model::any_order(4, 0, 1.0);
        let x = arr2(&[[0.3, -1.0, 2.0], [1.5, 0.2, -0.7]]).into_dyn();
        let p = arr2(&[[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]).into_dyn();
        let of = options(Reduction::Mean, None);
        let (x, p) = (x.view(), p.view());
        let soft = cross_entropy_of_probabilities(&x, &p, DType::F32, &of, &model).unwrap();
        let hard = cross_entropy(&x, &[2, 0], DType::F32, &of, &model).unwrap();
        for (soft, hard) in [(soft.0, hard.0), (soft.1, hard.1)] {
            let apart = (soft.values - hard.values).mapv(f64::abs);
            assert!(apart.iter().all(|&apart| apart < 1e-12), "{apart}");
        }
    }

    #[test]
    fn there_is_a_probability_for_each_logit() {
        let model = Model::any_order(4, 0, 1.0);
        let (x, p) = (ArrayD::zeros(&[2, 3][..]), ArrayD::zeros(&[2, 4][..]));
        let of = options(Reduction::Sum, None);
        let (x, p) = (x.view(), p.view());
        let got = cross_entropy_of_probabilities(&x, &p, DType::F32, &of, &model).unwrap_err();
        let want = "it has to be [2, 3], as the logits";
        assert_eq!(got, ReferenceError::shape("probabilities", &[2, 4], want));
    }
}
