//! Cross-entropy of logits along the last axis and class indices, and its gradient:
//! `loss = ln S + (1 - s) (m - x_t) + s (m - mean x)` with `S = sum exp(x - m)` and label smoothing
//! s, and `dx_j = g (P_j - (1 - s) [j = t] - s / n)`.
//!
//! With weights w of the classes: `loss = (1 - s) w_t l_t + s / n sum_j w_j l_j` with
//! `l_j = ln S + m - x_j`, and `dx_j = g (c P_j - (1 - s) w_t [j = t] - s w_j / n)` with
//! `c = (1 - s) w_t + s / n sum w`; the mean is over the targets' weights.
//!
//! An ignored row has loss and gradient 0; a row whose target is not a class has NaN.
//!
//! # Bound
//!
//! - `ln S` has the error of [`crate::softmax`]. The differences from the maximum and the terms
//!   added to them have `gamma(6)` of their magnitudes, and the mean
//!   `gamma(additions + 3) mean |x|`.
//! - The sum of all losses has `gamma(additions + 4)` of their magnitudes, and their own errors.
//! - A gradient has the error of the probability, and `gamma(9)` of the magnitudes of its terms.
//! - Sums of weights have a relative error of `gamma(additions)`, and so do values computed with
//!   them.

mod probabilities;

pub use probabilities::cross_entropy_of_probabilities;

use abi::DType;
use ndarray::{ArrayD, ArrayViewD, Axis};

use crate::precision::{ETA32, gamma};
use crate::softmax::{Row, Scores};
use crate::{Expected, Model, ReferenceError};

/// How the losses of the rows are reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Not at all: the result is the loss of each row.
    None,
    /// Mean over the rows that are not ignored.
    Mean,
    /// Sum.
    Sum,
}

/// Options of a cross-entropy.
#[derive(Clone, Copy, Debug)]
pub struct CrossEntropy<'a> {
    /// A weight per class; `None` for 1.
    pub class_weights: Option<&'a [f64]>,
    /// The target value of rows to ignore.
    pub ignore_index: i64,
    /// Share of the target distribution that is spread evenly over all classes.
    pub label_smoothing: f64,
    /// Factor of the gradient.
    pub gradient_scale: f64,
    /// The gradient with respect to the loss: of each row, or of all; `None` for 1.
    pub dloss: Option<&'a [f64]>,
    /// How losses are reduced.
    pub reduction: Reduction,
}

impl CrossEntropy<'_> {
    /// The weight of a class; 1 if it is not a class.
    fn weight(&self, class: i64) -> f64 {
        let at = |weights: &[f64]| weights.get(usize::try_from(class).ok()?).copied();
        self.class_weights.and_then(at).unwrap_or(1.0)
    }

    /// Relative error of sums of weights.
    fn weights_error(&self, model: &Model) -> f64 {
        match self.class_weights {
            Some(_) => gamma(model.additions + 4),
            None => 0.0,
        }
    }

    /// Refuses targets that are not one a row of `x`, and weights that are not one a class.
    fn check(&self, x: &[usize], targets: &[i64]) -> Result<(), ReferenceError> {
        let Some((&classes, outer)) = x.split_last() else {
            return Err(ReferenceError::AxisOutOfRange { axis: 0, rank: 0 });
        };
        let rows = outer.iter().product();
        ReferenceError::unless_one_per("row", rows, "targets", targets.len())?;
        let weights = self.class_weights.map_or(classes, <[f64]>::len);
        ReferenceError::unless_one_per("class", classes, "class_weights", weights)
    }
}

/// The loss in f32, and its gradient with respect to `x` in `dtype`. `targets` has one class per
/// row, in row-major order.
///
/// # Errors
/// [`ReferenceError::AxisOutOfRange`] if `x` has no axis; [`ReferenceError::ShapeMismatch`].
pub fn cross_entropy(
    x: &ArrayViewD<'_, f64>,
    targets: &[i64],
    dtype: DType,
    of: &CrossEntropy<'_>,
    model: &Model,
) -> Result<(Expected, Expected), ReferenceError> {
    of.check(x.shape(), targets)?;
    let last = Axis(x.ndim() - 1);
    let counts = targets.iter().filter(|&&t| t != of.ignore_index);
    let counted: f64 = counts.map(|&t| of.weight(t)).sum();
    let of_weights = of.weights_error(model);
    let factor = match of.reduction {
        Reduction::Mean => 1.0 / counted,
        Reduction::None | Reduction::Sum => 1.0,
    };
    let (mut losses, mut loss_errors) = (Vec::new(), Vec::new());
    let (mut dx, mut errors) = (ArrayD::zeros(x.raw_dim()), ArrayD::zeros(x.raw_dim()));
    let outputs = dx.lanes_mut(last).into_iter().zip(errors.lanes_mut(last));
    let rows = x.lanes(last).into_iter().zip(targets);
    for (row, ((x, &target), (mut dx, mut error))) in rows.zip(outputs).enumerate() {
        if target == of.ignore_index {
            losses.push(0.0);
            loss_errors.push(0.0);
            continue;
        }
        let dloss = of.dloss.map_or(1.0, |dloss| match of.reduction {
            Reduction::None => dloss[row],
            Reduction::Mean | Reduction::Sum => dloss[0],
        });
        let x = x.to_vec();
        let row = Row::new(&x, &Scores::EXACT, model);
        let (loss, loss_error) = loss(&x, &row, target, of, model);
        losses.push(loss);
        loss_errors.push(if loss.is_finite() { loss_error } else { 0.0 });
        let scale = of.gradient_scale * factor * dloss;
        let even = of.label_smoothing / x.len() as f64;
        let all: f64 = (0..x.len()).map(|j| of.weight(j as i64)).sum();
        let factor = (1.0 - of.label_smoothing) * of.weight(target) + even * all;
        for j in 0..x.len() {
            let is_target = target == j as i64;
            let own = if is_target {
                (1.0 - of.label_smoothing) * of.weight(target)
            } else {
                0.0
            };
            let even = even * of.weight(j as i64);
            let p = row.probs[j];
            dx[j] = match usize::try_from(target) {
                Ok(target) if target < x.len() => scale * (factor * p - own - even),
                _ => f64::NAN,
            };
            let p_error = row.quotient_error(p, p * row.errors[j] + row.lost);
            let parts = factor * (p + p_error) + own + even;
            let e = factor * p_error + (gamma(9) + 2.0 * of_weights) * parts;
            let e = scale.abs() * e + ETA32;
            error[j] = if dx[j].is_finite() { e } else { 0.0 };
        }
    }
    let gradient = Expected::rounded_to(dtype, dx, &errors)?;
    let relative = gamma(model.additions + 6) + of_weights;
    let loss = reduced(
        of.reduction,
        &x.shape()[..last.0],
        (losses, loss_errors),
        (factor, relative),
    )?;
    Ok((loss, gradient))
}

/// The losses of rows of this shape, or `factor` times their sum, which has a relative error of
/// `relative`.
fn reduced(
    reduction: Reduction,
    rows: &[usize],
    (losses, errors): (Vec<f64>, Vec<f64>),
    (factor, relative): (f64, f64),
) -> Result<Expected, ReferenceError> {
    if reduction != Reduction::None {
        return summed(&losses, &errors, factor, relative);
    }
    let shaped = |values: Vec<f64>| {
        let mut array = ArrayD::zeros(rows);
        let places = array.iter_mut().zip(values);
        places.for_each(|(to, from)| *to = from);
        array
    };
    Expected::rounded_to(DType::F32, shaped(losses), &shaped(errors))
}

/// `factor` times the sum of all losses, whose own sum has a relative error of `relative`.
fn summed(
    losses: &[f64],
    loss_errors: &[f64],
    factor: f64,
    relative: f64,
) -> Result<Expected, ReferenceError> {
    let total: f64 = losses.iter().sum::<f64>() * factor;
    let magnitudes: f64 = losses.iter().map(|loss| loss.abs()).sum();
    let own: f64 = loss_errors.iter().sum();
    let error = (own + relative * (magnitudes + own)) * factor.abs() + ETA32;
    let error = if total.is_finite() { error } else { 0.0 };
    let scalar = |value| ArrayD::from_elem(Vec::new(), value);
    Expected::rounded_to(DType::F32, scalar(total), &scalar(error))
}

/// A row's loss and its error.
fn loss(x: &[f64], row: &Row, target: i64, of: &CrossEntropy<'_>, model: &Model) -> (f64, f64) {
    let logit = usize::try_from(target)
        .ok()
        .and_then(|target| x.get(target));
    let logit = logit.copied().unwrap_or(f64::NAN);
    let smoothing = of.label_smoothing;
    let mut value = (row.max - logit) + row.log_sum();
    let magnitude = |distance: f64| distance.abs() + row.log_sum().abs();
    let mut error = row.log_sum_error(model) + gamma(6) * magnitude(row.max - logit) + ETA32;
    value *= of.weight(target);
    error = error * of.weight(target) + gamma(1) * value.abs() + ETA32;
    if smoothing != 0.0 {
        let n = x.len() as f64;
        let (of_all, of_all_error) = match of.class_weights {
            Some(weights) => {
                let terms = x.iter().zip(weights);
                let distance: f64 = terms.clone().map(|(x, w)| w * (row.max - x)).sum();
                let all: f64 = weights.iter().sum();
                let (log, log_error) = (row.log_sum(), row.log_sum_error(model));
                let error = all * log_error
                    + gamma(model.additions + 6) * (distance.abs() + all * (log.abs() + log_error));
                ((distance + all * log) / n, error / n + ETA32)
            }
            None => {
                let mean = x.iter().sum::<f64>() / n;
                let magnitudes = x.iter().map(|x| x.abs()).sum::<f64>();
                let mean_error = gamma(model.additions + 3) * magnitudes / n;
                let error = row.log_sum_error(model) + mean_error;
                let error = error + gamma(6) * magnitude(row.max - mean) + ETA32;
                ((row.max - mean) + row.log_sum(), error)
            }
        };
        value = smoothing * of_all + (1.0 - smoothing) * value;
        error = smoothing * of_all_error + (1.0 - smoothing) * error;
        error += gamma(4) * (value.abs() + error);
    }
    (value, error)
}

#[cfg(test)]
mod tests {
    use ndarray::arr2;

    use super::*;

    #[test]
    fn gradients_are_those_of_the_loss() {
        let model = Model::any_order(4, 0, 1.0);
        let x = arr2(&[[0.3, -1.0, 2.0], [1.5, 0.2, -0.7], [9.0, 9.0, 9.0]]).into_dyn();
        let targets = [2, 0, -100];
        let weights: &[f64] = &[0.5, 2.0, 1.25];
        let reductions = [Reduction::Mean, Reduction::Sum];
        for (reduction, class_weights) in reductions
            .into_iter()
            .flat_map(|reduction| [(reduction, None), (reduction, Some(weights))])
        {
            let of = CrossEntropy {
                class_weights,
                ignore_index: -100,
                label_smoothing: 0.2,
                gradient_scale: 1.0,
                dloss: None,
                reduction,
            };
            let both = |x: &ArrayD<f64>| {
                cross_entropy(&x.view(), &targets, DType::F32, &of, &model).unwrap()
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

    #[test]
    fn a_target_that_is_no_class_gives_nan() {
        let model = Model::any_order(4, 0, 1.0);
        let x = arr2(&[[0.0, 1.0]]).into_dyn();
        let of = CrossEntropy {
            class_weights: None,
            ignore_index: -100,
            label_smoothing: 0.0,
            gradient_scale: 1.0,
            dloss: None,
            reduction: Reduction::None,
        };
        for target in [2, -1] {
            let (loss, dx) = cross_entropy(&x.view(), &[target], DType::F32, &of, &model).unwrap();
            assert!(loss.values[[0]].is_nan() && dx.values.iter().all(|dx| dx.is_nan()));
        }
    }

    #[test]
    fn there_is_a_target_for_each_row_and_a_weight_for_each_class() {
        let model = Model::any_order(4, 0, 1.0);
        let refused = |shape: &[usize], targets: &[i64], class_weights| {
            let of = CrossEntropy {
                class_weights,
                ignore_index: -100,
                label_smoothing: 0.1,
                gradient_scale: 1.0,
                dloss: None,
                reduction: Reduction::Mean,
            };
            let x = ArrayD::zeros(shape);
            let got = cross_entropy(&x.view(), targets, DType::F32, &of, &model);
            got.unwrap_err()
        };
        for count in [0, 1, 9] {
            let want = "it has to be [3], one element per row";
            let want = ReferenceError::shape("targets", &[count], want);
            assert_eq!(refused(&[3, 4], &vec![0; count], None), want);
        }
        let ones = [1.0; 5];
        for count in [0, 3, 5] {
            let want = "it has to be [4], one element per class";
            let want = ReferenceError::shape("class_weights", &[count], want);
            assert_eq!(refused(&[2, 4], &[0, 1], Some(&ones[..count])), want);
        }
        let want = ReferenceError::AxisOutOfRange { axis: 0, rank: 0 };
        assert_eq!(refused(&[], &[0], None), want);
    }
}
