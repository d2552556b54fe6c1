//! Attention: `o = softmax(softmax_scale * q @ k^T + mask) @ v`, and `lse`.
//!
//! Query i sees key j if `i + shift - left <= j <= i + shift + right`, with `shift = seqlen_k -
//! seqlen_q` (bottom-right alignment) or 0 (top-left); causal is `right = 0`. With a softcap c, a
//! score s becomes `c tanh(s / c)`. A sink is an additional score of each row, with a value of 0. A
//! query that sees no key has `o = 0`, and `lse = -inf` or the sink.
//!
//! # Bound
//!
//! A score is a dot product of length `head_dim`. So (see [`crate::gemm`]) its error is at most
//! `a_j = |scale| (gamma(d) sum_c |q_c k_jc| + d eta)` in natural units if it is computed in f32,
//! and larger with tensor cores
//! ([`Arithmetic`]). It is larger, too, if q is rounded first (`q_lost`). `scale` is rounded to f32 and multiplied by `log2
//! e`, which [`crate::softmax`] includes. The tanh of a softcap has a slope of at most 1, so it
//! passes `a_j` on and adds its own error `c (t + gamma(2))`. t is the error of the
//! implementation's tanh, and the rest is for `scale / c` and the product with it. `P_j`, `e_j`,
//! `lost` and `E` are those of that module. The sum of `P_j v_j` over keys has the same relative
//! errors `e_j`. Probabilities may be rounded first ([`AttentionModel`]), to a format that loses up
//! to `p_lost` of a small one. Then
//!
//! `|o_c - O_c| <= (sum_j (P_j e_j + lost + p_lost) |v_jc| + |O_c| E) / (1 - E)`
//!
//! plus the division and the rounding of the output. Dropout multiplies some `P_j` by 0 and the others
//! by its factor, which is two roundings more. The bound of `lse` is that of logsumexp in
//! [`crate::reduce`].

mod gradients;
mod merge;
mod pages;
mod pair;
mod row;
mod scores;
mod sink_gradient;
mod unfused;

use std::ops::Range;

use abi::DType;
use ndarray::{Array2, Array3, ArrayView3, ArrayView4, Axis};
use rayon::prelude::*;

pub use abi::attention::dropout::Dropout;
pub use gradients::{
    AttentionGradExpected, AttentionGradInputs, AttentionGradModel, AttentionGradOptions, gradients,
};
pub use merge::{Partial, merge};
pub use pages::gathered;
pub use scores::{ScoreFunction, ScoreOptions};
pub use unfused::unfused;

use crate::gemm::Arithmetic;
use crate::{Expected, Model, ReferenceError};
use row::{Head, QueryRow};

/// The mask: which keys a query sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Band {
    /// Visible keys to the left of the diagonal; `None` is unlimited.
    pub left: Option<u64>,
    /// Visible keys to the right of the diagonal; `None` is unlimited, 0 is causal.
    pub right: Option<u64>,
    /// If true, query 0 is at key 0; if false, the last query is at the last key.
    pub top_left: bool,
}

impl Band {
    /// Causal, aligned to the bottom-right corner.
    pub const CAUSAL: Self = Self {
        left: None,
        right: Some(0),
        top_left: false,
    };

    /// Whether query `i` of `seqlen_q` sees key `j` of `seqlen_k`.
    pub fn sees(&self, (i, seqlen_q): (usize, usize), (j, seqlen_k): (usize, usize)) -> bool {
        let shift = if self.top_left {
            0
        } else {
            seqlen_k as i128 - seqlen_q as i128
        };
        let right_of_diagonal = j as i128 - (i as i128 + shift);
        let fits = |distance: i128, window: Option<u64>| {
            window.is_none_or(|window| distance <= i128::from(window))
        };
        fits(right_of_diagonal, self.right) && fits(-right_of_diagonal, self.left)
    }
}

/// Properties of an implementation on which its errors depend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionModel {
    /// Sums, exponentials and logarithms.
    pub softmax: Model,
    /// The arithmetic of `q @ k^T`.
    pub scores: Arithmetic,
    /// Largest absolute error of rounding a small probability before it multiplies v.
    pub p_lost: f64,
    /// Largest absolute error of rounding an element of q, relative to the largest of its row.
    pub q_lost: f64,
    /// Largest absolute error of a softcap's tanh.
    pub tanh_error: f64,
}

impl From<Model> for AttentionModel {
    /// Scores and probabilities in f32, no softcap.
    fn from(softmax: Model) -> Self {
        Self {
            softmax,
            scores: Arithmetic::F32,
            p_lost: 0.0,
            q_lost: 0.0,
            tanh_error: 0.0,
        }
    }
}

/// Options of an attention.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionOptions {
    /// The mask.
    pub mask: Band,
    /// Factor of the scores; `None` is `1 / sqrt(head_dim)`, or 1 if `head_dim` is 0.
    pub softmax_scale: Option<f32>,
    /// Soft cap of the scores: `s` becomes `softcap * tanh(s / softcap)`.
    pub softcap: Option<f32>,
    /// What else is done to scores.
    pub scores: ScoreOptions,
    /// An extra logit per query head, which is added to the softmax denominator of its rows.
    pub sink: Option<Vec<f64>>,
    /// The dtype of `o`.
    pub dtype: DType,
    /// The error model of the implementation.
    pub model: AttentionModel,
}

impl AttentionOptions {
    /// Options without a mask, softcap or sink, with the default scale.
    pub fn new(dtype: DType, model: impl Into<AttentionModel>) -> Self {
        Self {
            mask: Band::default(),
            softmax_scale: None,
            softcap: None,
            scores: ScoreOptions::default(),
            sink: None,
            dtype,
            model: model.into(),
        }
    }

    fn scale(&self, head_dim: usize) -> f64 {
        let usual = 1.0 / (head_dim.max(1) as f64).sqrt();
        self.softmax_scale.map_or(usual, f64::from)
    }
}

/// The result of attention.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionExpected {
    /// `[batch, seqlen_q, heads_q, head_dim_v]`, or `[total_q, heads_q, head_dim_v]`.
    pub o: Expected,
    /// `[batch, heads_q, seqlen_q]`, or `[heads_q, total_q]`; f32, natural logarithm.
    pub lse: Expected,
}

/// The positions of one packed sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequencePositions {
    /// Positions in q and o.
    pub q: Range<usize>,
    /// Positions in k and v.
    pub k: Range<usize>,
}

/// Attention of `q`: `[batch, seqlen_q, heads_q, head_dim]`, `k`: `[batch, seqlen_k, heads_kv,
/// head_dim]` and `v`: `[batch, seqlen_k, heads_kv, head_dim_v]`; query head `h` reads key head
/// `h / (heads_q / heads_kv)`.
///
/// # Errors
/// [`ReferenceError::ShapeMismatch`].
pub fn attention(
    q: &ArrayView4<'_, f64>,
    k: &ArrayView4<'_, f64>,
    v: &ArrayView4<'_, f64>,
    options: &AttentionOptions,
) -> Result<AttentionExpected, ReferenceError> {
    let (batch, seqlen_q, heads_q, _) = q.dim();
    let seqlen_k = k.dim().1;
    if k.dim().0 != batch || v.dim().0 != batch || v.dim().1 != seqlen_k {
        let want = format!("it has to be [{batch}, {seqlen_k}, heads_kv, head_dim_v] as k and q");
        return Err(ReferenceError::shape("v", v.shape(), want));
    }
    let sequences: Vec<SequencePositions> = (0..batch)
        .map(|b| SequencePositions {
            q: b * seqlen_q..(b + 1) * seqlen_q,
            k: b * seqlen_k..(b + 1) * seqlen_k,
        })
        .collect();
    let (q, k, v) = (flat(q), flat(k), flat(v));
    let got = packed(&q.view(), &k.view(), &v.view(), &sequences, options)?;
    let shape_o = [batch, seqlen_q, heads_q, v.dim().2];
    let lse = |x: ndarray::ArrayD<f64>| {
        // [heads, batch * seqlen] as [batch, heads, seqlen]
        let x = x.into_shape_with_order(vec![heads_q, batch, seqlen_q]);
        x.map(|x| {
            let x = x.permuted_axes(vec![1, 0, 2]);
            x.as_standard_layout().into_owned()
        })
    };
    let shape_error = |_| ReferenceError::shape("o", &shape_o, "a contiguous result");
    Ok(AttentionExpected {
        o: Expected {
            values: got
                .o
                .values
                .into_shape_with_order(shape_o.to_vec())
                .map_err(shape_error)?,
            bounds: got
                .o
                .bounds
                .into_shape_with_order(shape_o.to_vec())
                .map_err(shape_error)?,
            dtype: got.o.dtype,
        },
        lse: Expected {
            values: lse(got.lse.values).map_err(shape_error)?,
            bounds: lse(got.lse.bounds).map_err(shape_error)?,
            dtype: got.lse.dtype,
        },
    })
}

/// The first two dimensions as one.
fn flat(x: &ArrayView4<'_, f64>) -> Array3<f64> {
    let (batch, seqlen, heads, head_dim) = x.dim();
    let rows: Vec<f64> = x.iter().copied().collect();
    Array3::from_shape_vec((batch * seqlen, heads, head_dim), rows)
        .unwrap_or_else(|_| Array3::zeros((0, heads, head_dim)))
}

/// Attention of packed sequences in `q`: `[total_q, heads_q, head_dim]`, `k`: `[total_k, heads_kv,
/// head_dim]` and `v`: `[total_k, heads_kv, head_dim_v]`. Positions that belong to no sequence are
/// not read, and have `o = 0` and `lse = -inf`.
///
/// # Errors
/// [`ReferenceError::ShapeMismatch`].
pub fn packed(
    q: &ArrayView3<'_, f64>,
    k: &ArrayView3<'_, f64>,
    v: &ArrayView3<'_, f64>,
    sequences: &[SequencePositions],
    options: &AttentionOptions,
) -> Result<AttentionExpected, ReferenceError> {
    check(q, k, v, sequences, options)?;
    let (total_q, heads_q, head_dim) = q.dim();
    let scale = options.scale(head_dim);
    let results = of_heads((q, k, v), sequences, |(s, h), q, k, v| {
        let head = Head {
            place: (s, h),
            heads: heads_q,
            k,
            v,
            scale,
            sink: options.sink.as_ref().map(|sink| sink[h]),
            options,
        };
        let seqlen_q = q.nrows();
        let row = |i: usize| head.row(&q.row(i), (i, seqlen_q));
        (0..seqlen_q)
            .into_par_iter()
            .map(row)
            .collect::<Vec<QueryRow>>()
    });
    let mut o = Array3::zeros((total_q, heads_q, v.dim().2));
    let mut o_errors = o.clone();
    let mut lse = Array2::from_elem((heads_q, total_q), f64::NEG_INFINITY);
    let mut lse_errors = Array2::zeros((heads_q, total_q));
    for ((s, h), rows) in results {
        for (position, row) in sequences[s].q.clone().zip(rows) {
            let place = |o: &mut Array3<f64>, row: &ndarray::Array1<f64>| {
                let mut place = o.index_axis_mut(Axis(0), position);
                place.index_axis_mut(Axis(0), h).assign(row);
            };
            place(&mut o, &row.o);
            place(&mut o_errors, &row.o_errors);
            lse[[h, position]] = row.lse;
            lse_errors[[h, position]] = row.lse_error;
        }
    }
    Ok(AttentionExpected {
        o: Expected::rounded_to(options.dtype, o.into_dyn(), &o_errors.into_dyn())?,
        lse: Expected::rounded_to(DType::F32, lse.into_dyn(), &lse_errors.into_dyn())?,
    })
}

/// Calls `f` for every sequence and head in parallel, with the head and its parts of q, k and v.
/// Returns the results with the indices of sequence and head.
fn of_heads<R: Send>(
    (q, k, v): (
        &ArrayView3<'_, f64>,
        &ArrayView3<'_, f64>,
        &ArrayView3<'_, f64>,
    ),
    sequences: &[SequencePositions],
    f: impl Fn((usize, usize), Array2<f64>, Array2<f64>, Array2<f64>) -> R + Sync,
) -> Vec<((usize, usize), R)> {
    let heads_q = q.dim().1;
    let group = heads_q.checked_div(k.dim().1).unwrap_or(1).max(1);
    let places: Vec<(usize, usize)> = (0..sequences.len())
        .flat_map(|s| (0..heads_q).map(move |h| (s, h)))
        .collect();
    let of_head = |x: &ArrayView3<'_, f64>, head_idx: usize, positions: &Range<usize>| {
        let positions = positions.clone();
        let x = x.index_axis(Axis(1), head_idx);
        x.slice_axis(Axis(0), positions.into()).to_owned()
    };
    let of_place = |&(s, h): &(usize, usize)| {
        let SequencePositions {
            q: queries,
            k: keys,
        } = &sequences[s];
        let (k, v) = (of_head(k, h / group, keys), of_head(v, h / group, keys));
        ((s, h), f((s, h), of_head(q, h, queries), k, v))
    };
    places.par_iter().map(of_place).collect()
}

fn check(
    q: &ArrayView3<'_, f64>,
    k: &ArrayView3<'_, f64>,
    v: &ArrayView3<'_, f64>,
    sequences: &[SequencePositions],
    options: &AttentionOptions,
) -> Result<(), ReferenceError> {
    check_operands((q, k, v), sequences)?;
    if let Some(sink) = &options.sink {
        ReferenceError::unless_one_per("head of q", q.dim().1, "sink", sink.len())?;
    }
    options.scores.check(sequences, q.dim().1)
}

fn check_operands(
    (q, k, v): (
        &ArrayView3<'_, f64>,
        &ArrayView3<'_, f64>,
        &ArrayView3<'_, f64>,
    ),
    sequences: &[SequencePositions],
) -> Result<(), ReferenceError> {
    let (total_q, heads_q, head_dim) = q.dim();
    let (total_k, heads_kv, _) = k.dim();
    if k.dim() != (total_k, heads_kv, head_dim) {
        let want = format!("it has to have q's head_dim {head_dim}");
        return Err(ReferenceError::shape("k", k.shape(), want));
    }
    if v.dim() != (total_k, heads_kv, v.dim().2) {
        let want = format!("it has to be [{total_k}, {heads_kv}, head_dim_v] as k");
        return Err(ReferenceError::shape("v", v.shape(), want));
    }
    if heads_q != 0 && (heads_kv == 0 || heads_q % heads_kv != 0) {
        let want = format!("q's {heads_q} heads have to be a multiple of k's heads");
        return Err(ReferenceError::shape("k", k.shape(), want));
    }
    for sequence in sequences {
        let lies_in = |range: &Range<usize>, len| range.start <= range.end && range.end <= len;
        if !lies_in(&sequence.q, total_q) || !lies_in(&sequence.k, total_k) {
            let want = format!("{sequence:?} has to lie inside, and k is {total_k} long");
            return Err(ReferenceError::shape("q", q.shape(), want));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
