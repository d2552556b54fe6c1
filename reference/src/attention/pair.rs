//! P and dS of a query and a key.

use super::AttentionGradOptions;
use super::scores::{Inexact, Place};
use crate::gemm::Arithmetic;
use crate::precision::{ETA32, TINY32, U32, gamma};

/// A query of a head.
pub(super) struct Query<'a> {
    pub(super) q: Vec<f64>,
    pub(super) d_o: Vec<f64>,
    pub(super) o: Vec<f64>,
    pub(super) lse: f64,
    pub(super) options: &'a AttentionGradOptions,
}

impl Query<'_> {
    /// delta and its error.
    pub(super) fn delta(&self) -> (f64, f64) {
        dot(&self.o, &self.d_o, Arithmetic::F32)
    }

    /// What there is of a key; `None` if it is hidden.
    pub(super) fn pair(
        &self,
        (k, v): (&[f64], &[f64]),
        delta: Inexact,
        place: Place,
    ) -> Option<Pair> {
        let model = &self.options.model;
        let scale = self.options.scale(self.q.len());
        let (product, error) = dot(&self.q, k, model.scores);
        let (score, score_error) = (scale * product, scale.abs() * error);
        let (score, score_error, slope, slope_error) = match self.options.softcap.map(f64::from) {
            Some(cap) => {
                let tanh = (score / cap).tanh();
                let tanh_error = score_error / cap + model.tanh_error + gamma(2);
                let slope_error = 2.0 * tanh.abs() * tanh_error + tanh_error * tanh_error + U32;
                (cap * tanh, cap * tanh_error, 1.0 - tanh * tanh, slope_error)
            }
            None => (score, score_error, 1.0, 0.0),
        };
        let changed = self.options.scores.change((score, score_error), place);
        let ((score, score_error), (other, other_error)) = changed;
        if score == f64::NEG_INFINITY {
            return None;
        }
        let slope_error = slope_error * (other.abs() + other_error) + slope.abs() * other_error;
        let slope = slope * other;
        let p = (score - self.lse).exp();
        let exponent = score_error + gamma(4) * (score.abs() + score_error + self.lse.abs());
        let exponential = 1.0 + model.exp_ulps * 2.0 * U32;
        // exp(-inf) is 0 without error; 0 * inf would make it NaN.
        let p_error = if p == 0.0 {
            TINY32
        } else {
            p * (exponent.exp() * exponential - 1.0) + TINY32
        };
        let (g, g_error) = dot(&self.d_o, v, model.scores);
        let (factor, roundings) = self.options.scores.kept(place.at, place.heads);
        let kept = |(x, error): Inexact| {
            let error = factor * error;
            (factor * x, error + roundings * (factor * x.abs() + error))
        };
        let (g, g_error) = kept((g, g_error));
        let h = g - delta.0;
        let h_error = (g_error + delta.1) * (1.0 + U32) + U32 * h.abs();
        let times_p = |(h, h_error): Inexact| {
            let ds = p * h;
            let ds_error = p_error * (h.abs() + h_error) + p * h_error;
            (ds, ds_error + U32 * (ds.abs() + ds_error) + ETA32)
        };
        let of_score = times_p((h, h_error));
        let (h, h_error) =
            if self.options.softcap.is_some() || self.options.scores.function.is_some() {
                let error = h_error * (slope.abs() + slope_error) + h.abs() * slope_error;
                // Of a softcap and a function, and of their product.
                let roundings = 3.0 * U32 * slope.abs().max(1.0);
                (h * slope, error + roundings * (h.abs() + h_error) + ETA32)
            } else {
                (h, h_error)
            };
        let (ds, ds_error) = times_p((h, h_error));
        let rounded = |(x, error): (f64, f64)| {
            (
                x,
                error + model.p_roundoff * (x.abs() + error) + model.p_lost,
            )
        };
        Some(Pair {
            p: rounded(kept((p, p_error))),
            ds: rounded((ds, ds_error)),
            of_score,
        })
    }
}

/// What there is of a query and a key, each with its error.
pub(super) struct Pair {
    /// P and dS, as factors of a product.
    pub(super) p: Inexact,
    pub(super) ds: Inexact,
    /// The gradient with respect to the new score.
    pub(super) of_score: Inexact,
}

/// A dot product and its error.
fn dot(x: &[f64], y: &[f64], arithmetic: Arithmetic) -> (f64, f64) {
    let products = || x.iter().zip(y).map(|(x, y)| x * y);
    let magnitude: f64 = products().map(f64::abs).sum();
    let largest = x
        .iter()
        .chain(y)
        .fold(0.0, |most: f64, x| most.max(x.abs()));
    let error = arithmetic.error(x.len(), magnitude, largest, 0);
    (products().sum(), error)
}
