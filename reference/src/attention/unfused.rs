//! Attention as a chain of operations, each of which rounds what it returns.

use abi::DType;
use ndarray::{Array1, Array2, Array3, ArrayD, ArrayView1, ArrayView3, Axis};
use rayon::prelude::*;

use super::scores::Place;
use super::{AttentionOptions, SequencePositions, check, of_heads};
use crate::ReferenceError;
use crate::precision::round_to;

/// Attention as a framework computes it without a fused kernel, with all intermediate tensors in
/// `dtype`. These are k times the scale, the scores, the softcap's quotient, tanh and product, and
/// the probabilities. `o` is rounded to the dtype of the options. Elements of each tensor are
/// rounded once; sums inside of an operation are exact. Shapes are those of
/// [`packed`](super::packed); positions that belong to no sequence are 0.
///
/// Its error is a yardstick: a fused kernel rounds less often, so its error may be compared with a
/// small multiple of this one, for any shape and any values.
///
/// # Errors
/// [`ReferenceError::ShapeMismatch`].
pub fn unfused(
    q: &ArrayView3<'_, f64>,
    k: &ArrayView3<'_, f64>,
    v: &ArrayView3<'_, f64>,
    sequences: &[SequencePositions],
    options: &AttentionOptions,
    dtype: DType,
) -> Result<ArrayD<f64>, ReferenceError> {
    check(q, k, v, sequences, options)?;
    let (total_q, heads_q, head_dim) = q.dim();
    let scale = options.scale(head_dim);
    let results = of_heads((q, k, v), sequences, |(s, h), q, k, v| {
        let chain = Chain {
            place: (s, h),
            heads: heads_q,
            scaled_k: k.mapv(|k| round_to(dtype, k * scale)),
            v,
            sink: options.sink.as_ref().map(|sink| sink[h]),
            options,
            dtype,
        };
        let seqlen_q = q.nrows();
        let row = |i: usize| chain.row(&q.row(i), (i, seqlen_q));
        (0..seqlen_q)
            .into_par_iter()
            .map(row)
            .collect::<Vec<Array1<f64>>>()
    });
    let mut o = Array3::zeros((total_q, heads_q, v.dim().2));
    for ((s, h), rows) in results {
        for (position, row) in sequences[s].q.clone().zip(rows) {
            let mut place = o.index_axis_mut(Axis(0), position);
            place.index_axis_mut(Axis(0), h).assign(&row);
        }
    }
    Ok(o.into_dyn())
}

/// One head.
struct Chain<'a> {
    /// The sequence and the query head.
    place: (usize, usize),
    /// Number of query heads.
    heads: usize,
    scaled_k: Array2<f64>,
    v: Array2<f64>,
    sink: Option<f64>,
    options: &'a AttentionOptions,
    dtype: DType,
}

impl Chain<'_> {
    /// Query `i` of `seqlen_q`.
    fn row(&self, q: &ArrayView1<'_, f64>, (i, seqlen_q): (usize, usize)) -> Array1<f64> {
        let seqlen_k = self.v.nrows();
        let sees = |&j: &usize| self.options.mask.sees((i, seqlen_q), (j, seqlen_k));
        let score = |j: usize| {
            let at = [self.place.0, self.place.1, i, j];
            let place = Place {
                at,
                heads: self.heads,
                seqlen_q,
                seqlen_k,
            };
            let ((score, _), _) = self.options.scores.change((self.score(q, j), 0.0), place);
            (j, round_to(self.dtype, score))
        };
        let seen = (0..seqlen_k).filter(sees).map(score);
        let (visible, scores): (Vec<usize>, Vec<f64>) = seen
            .filter(|(_, score)| *score != f64::NEG_INFINITY)
            .unzip();
        let logits = scores.iter().copied().chain(self.sink);
        let most = logits.clone().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = logits.map(|logit| (logit - most).exp()).sum();
        let mut o = Array1::zeros(self.v.ncols());
        for (&j, score) in visible.iter().zip(scores) {
            let p = round_to(self.dtype, (score - most).exp() / sum);
            let at = [self.place.0, self.place.1, i, j];
            let (factor, _) = self.options.scores.kept(at, self.heads);
            o.scaled_add(round_to(self.dtype, factor * p), &self.v.row(j));
        }
        o.mapv_into(|o| round_to(self.options.dtype, o))
    }

    fn score(&self, q: &ArrayView1<'_, f64>, j: usize) -> f64 {
        let round = |x: f64| round_to(self.dtype, x);
        let score = round(q.dot(&self.scaled_k.row(j)));
        match self.options.softcap.map(f64::from) {
            Some(cap) => round(cap * round(round(score / cap).tanh())),
            None => score,
        }
    }
}
