//! Attention of one query.

use ndarray::{Array1, Array2, ArrayView1, Axis};

use super::AttentionOptions;
use super::scores::Place;
use crate::precision::{ETA32, gamma};
use crate::softmax::{Row, Scores};

/// Keys, values and options that the queries of one head attend with.
pub(super) struct Head<'a> {
    /// The sequence and the query head.
    pub(super) place: (usize, usize),
    /// Number of query heads.
    pub(super) heads: usize,
    pub(super) k: Array2<f64>,
    pub(super) v: Array2<f64>,
    pub(super) scale: f64,
    pub(super) sink: Option<f64>,
    pub(super) options: &'a AttentionOptions,
}

pub(super) struct QueryRow {
    pub(super) o: Array1<f64>,
    pub(super) o_errors: Array1<f64>,
    pub(super) lse: f64,
    pub(super) lse_error: f64,
}

impl Head<'_> {
    /// Query `i` of `seqlen_q`.
    pub(super) fn row(&self, q: &ArrayView1<'_, f64>, (i, seqlen_q): (usize, usize)) -> QueryRow {
        let seqlen_k = self.k.nrows();
        let mask = &self.options.mask;
        let (mut visible, mut scores, mut errors) = (Vec::new(), Vec::new(), Vec::new());
        for j in (0..seqlen_k).filter(|&j| mask.sees((i, seqlen_q), (j, seqlen_k))) {
            let place = Place {
                at: [self.place.0, self.place.1, i, j],
                heads: self.heads,
                seqlen_q,
                seqlen_k,
            };
            let ((score, error), _) = self.options.scores.change(self.score(q, j), place);
            if score != f64::NEG_INFINITY {
                visible.push(j);
                scores.push(score);
                errors.push(error);
            }
        }
        if let Some(sink) = self.sink.filter(|&sink| sink != f64::NEG_INFINITY) {
            scores.push(sink);
            errors.push(0.0);
        }
        let (mut o, mut terms) = (Array1::zeros(self.v.ncols()), Array1::zeros(self.v.ncols()));
        if scores.is_empty() {
            return QueryRow {
                o,
                o_errors: terms,
                lse: f64::NEG_INFINITY,
                lse_error: 0.0,
            };
        }
        let known = Scores {
            errors: &errors,
            rounded_product: true,
        };
        let model = &self.options.model;
        let row = Row::new(&scores, &known, &model.softmax);
        let lost = row.lost + model.p_lost;
        for ((&j, &p), &e) in visible.iter().zip(&row.probs).zip(&row.errors) {
            let at = [self.place.0, self.place.1, i, j];
            let (factor, roundings) = self.options.scores.kept(at, self.heads);
            let (p, e, lost) = (factor * p, e + roundings, factor * lost);
            let v = self.v.index_axis(Axis(0), j);
            o.scaled_add(p, &v);
            terms.zip_mut_with(&v, |sum: &mut f64, v: &f64| {
                *sum += (p * e + lost) * v.abs() + ETA32;
            });
        }
        let mut o_errors = terms;
        if visible.is_empty() {
            o_errors.fill(0.0);
        } else {
            o_errors.zip_mut_with(&o, |error, &o| *error = row.quotient_error(o, *error));
        }
        QueryRow {
            o,
            o_errors,
            lse: row.lse,
            lse_error: row.lse_error,
        }
    }

    /// The score of key `j`, and its largest error.
    fn score(&self, q: &ArrayView1<'_, f64>, j: usize) -> (f64, f64) {
        let k = self.k.row(j);
        let products = || q.iter().zip(k).map(|(q, k)| q * k);
        let magnitude: f64 = products().map(f64::abs).sum();
        let largest = q
            .iter()
            .chain(k)
            .fold(0.0, |most: f64, x| most.max(x.abs()));
        let model = &self.options.model;
        let mut error = model.scores.error(q.len(), magnitude, largest, 0);
        if model.q_lost != 0.0 {
            let largest_q = q.iter().fold(0.0, |most: f64, q| most.max(q.abs()));
            error += model.q_lost * largest_q * k.iter().map(|k| k.abs()).sum::<f64>();
        }
        let score = self.scale * products().sum::<f64>();
        let error = self.scale.abs() * error;
        match self.options.softcap.map(f64::from) {
            Some(cap) => (
                cap * (score / cap).tanh(),
                error + cap * (model.tanh_error + gamma(2)),
            ),
            None => (score, error),
        }
    }
}
