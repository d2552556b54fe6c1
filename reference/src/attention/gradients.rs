//! Gradients of attention: dq, dk and dv from q, k, v, o, lse and d_o, all of which are given, and that
//! of a sink.
//!
//! With `S` the scaled (and capped) scores, `P_ij = exp(S_ij - lse_i)` for every pair that the mask
//! leaves, `G = dO V^T` and `delta_i = sum_c o_ic dO_ic` (dropout multiplies P in dV, and G, by 0 or its
//! factor):
//!
//! `dV = P^T dO`, `dS = P (G - delta)` (times `1 - (S / c)^2` with a softcap c), `dQ = scale dS K`,
//! `dK = scale dS^T Q`. Those of a key head add up over the query heads that share it. A query with
//! `lse = -inf` contributes nothing, and has `dQ = 0`. The gradient of a head's sink is
//! `-sum_i exp(sink - lse_i) delta_i` over all of its queries.
//!
//! # Bound
//!
//! Let `a` be the error of a score, as in [`super`]. The exponent is a fused multiply-add (or a
//! product and a difference) of factors rounded to f32 and of lse times `log2 e`. Its error is at
//! most `x = a + gamma(4) (|S| + a + |lse|)`. Hence the error of P, with that of an exponential and
//! of one that is flushed, is
//!
//! `e_P = P (exp(x) (1 + exp error) - 1) + 2^-126`.
//!
//! G and delta are dot products of length `head_dim_v`, with errors `e_G` and `e_delta`; the difference
//! H is rounded once more: `e_H = (e_G + e_delta) (1 + u) + u |H|`. A softcap multiplies H by
//! `w = 1 - t^2`, whose error is `2 |t| e_t + e_t^2 + u` for a tanh with the error `e_t = e_S / c`. The
//! product of P and H has the error `e_P (|H| + e_H) + P e_H`, and one more rounding. P and dS may
//! be rounded to fewer bits before they are multiplied ([`AttentionGradModel`]).
//!
//! A result is a sum of as many products as there are pairs. With factors `p` of error `e` and exact
//! ones `x`, its error is `sum e |x|`, and that of the arithmetic for products of a magnitude of
//! `sum (|p| + e) |x|`. The scale, rounded to f32, multiplies it: `gamma(2)` more.
//!
//! The exponent of a sink's probability p is one difference, so that its error is `u |sink - lse|`. The
//! products with delta have the errors `e_p (|delta| + e_delta) + p e_delta`, and go through as many
//! roundings as the longest chain of the sum has ([`AttentionGradModel::sink_additions`]).

use std::ops::Range;

use abi::DType;
use ndarray::{Array1, Array3, ArrayD, ArrayView1, ArrayView2, ArrayView3, Axis};
use rayon::prelude::*;

use super::pair::{Pair, Query};
use super::scores::{Inexact, Place, ScoreOptions, index_of};
use super::sink_gradient::SinkSum;
use super::{Band, SequencePositions};
use crate::gemm::Arithmetic;
use crate::precision::{ETA32, gamma};
use crate::{Expected, ReferenceError};

/// Properties of an implementation on which its errors depend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionGradModel {
    /// Largest error of an exponential, in units in the last place of f32.
    pub exp_ulps: f64,
    /// The arithmetic of `q @ k^T` and `d_o @ v^T`.
    pub scores: Arithmetic,
    /// The arithmetic of products with P and dS.
    pub products: Arithmetic,
    /// Unit roundoff of the format to which P and dS are rounded before these; 0 if they stay in f32.
    pub p_roundoff: f64,
    /// Largest absolute error of rounding a small one.
    pub p_lost: f64,
    /// Largest absolute error of a softcap's tanh.
    pub tanh_error: f64,
    /// Additions of a result beyond one for each of its products: of its parts, for instance.
    pub more_additions: usize,
    /// Most roundings of a term of a sink's gradient, from its product on; never more than there are
    /// terms.
    pub sink_additions: usize,
}

impl AttentionGradModel {
    /// Everything in f32, with exponentials of this error, and no softcap.
    pub fn in_f32(exp_ulps: f64) -> Self {
        Self {
            exp_ulps,
            scores: Arithmetic::F32,
            products: Arithmetic::F32,
            p_roundoff: 0.0,
            p_lost: 0.0,
            tanh_error: 0.0,
            more_additions: 0,
            sink_additions: usize::MAX,
        }
    }
}

/// Options of the gradients: those of the forward pass that are not in its results.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionGradOptions {
    /// The mask.
    pub mask: Band,
    /// Factor of the scores; `None` is `1 / sqrt(head_dim)`, or 1 if `head_dim` is 0.
    pub softmax_scale: Option<f32>,
    /// Soft cap of the scores.
    pub softcap: Option<f32>,
    /// What else is done to scores. The gradient of a bias is computed.
    pub scores: ScoreOptions,
    /// The logit of each query head's sink, if its gradient is wanted: in lse it is anyway.
    pub sink: Option<Vec<f64>>,
    /// The dtype of the gradients.
    pub dtype: DType,
    /// The error model of the implementation.
    pub model: AttentionGradModel,
}

impl AttentionGradOptions {
    /// Options without a mask, softcap or sink, with the default scale.
    pub fn new(dtype: DType, model: AttentionGradModel) -> Self {
        Self {
            mask: Band::default(),
            softmax_scale: None,
            softcap: None,
            scores: ScoreOptions::default(),
            sink: None,
            dtype,
            model,
        }
    }

    pub(super) fn scale(&self, head_dim: usize) -> f64 {
        let usual = 1.0 / (head_dim.max(1) as f64).sqrt();
        self.softmax_scale.map_or(usual, f64::from)
    }
}

/// The operands of [`gradients`], of packed sequences.
#[derive(Clone, Copy, Debug)]
pub struct AttentionGradInputs<'a> {
    /// `[total_q, heads_q, head_dim]`.
    pub q: ArrayView3<'a, f64>,
    /// `[total_k, heads_kv, head_dim]`.
    pub k: ArrayView3<'a, f64>,
    /// `[total_k, heads_kv, head_dim_v]`.
    pub v: ArrayView3<'a, f64>,
    /// `[total_q, heads_q, head_dim_v]`.
    pub o: ArrayView3<'a, f64>,
    /// `[heads_q, total_q]`, natural logarithm.
    pub lse: ArrayView2<'a, f64>,
    /// `[total_q, heads_q, head_dim_v]`.
    pub d_o: ArrayView3<'a, f64>,
}

/// The gradients, with the shapes of q, k, v and the sinks.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionGradExpected {
    /// As q.
    pub dq: Expected,
    /// As k.
    pub dk: Expected,
    /// As v.
    pub dv: Expected,
    /// `[heads_q]`, in f32, if there are sinks.
    pub d_sink: Option<Expected>,
    /// As the bias, in f32, if there is one.
    pub d_bias: Option<Expected>,
}

/// Gradients of attention of packed sequences. Positions that belong to no sequence are not read, and
/// have gradients of 0.
///
/// # Errors
/// [`ReferenceError::ShapeMismatch`].
pub fn gradients(
    inputs: &AttentionGradInputs<'_>,
    sequences: &[SequencePositions],
    options: &AttentionGradOptions,
) -> Result<AttentionGradExpected, ReferenceError> {
    check(inputs, sequences, options)?;
    let (heads_q, heads_kv) = (inputs.q.dim().1, inputs.k.dim().1);
    let group = heads_q.checked_div(heads_kv).unwrap_or(1);
    let places: Vec<(usize, usize)> = (0..sequences.len())
        .flat_map(|s| (0..heads_kv).map(move |h| (s, h)))
        .collect();
    let of_place = |&(s, head_kv): &(usize, usize)| {
        let heads = head_kv * group..(head_kv + 1) * group;
        let sinks = options.sink.as_ref().map(|sink| &sink[heads.clone()]);
        let mut sums = HeadSums::new(inputs, &sequences[s], (group, sinks));
        for head in heads {
            let at = (&sequences[s], s);
            sums.add(inputs, at, (head, head_kv, group), options);
        }
        sums
    };
    let sums: Vec<HeadSums> = places.par_iter().map(of_place).collect();
    let scale = options.scale(inputs.q.dim().2);
    let more = options.model.more_additions;
    let mut outputs = [inputs.q.dim(), inputs.k.dim(), inputs.v.dim()].map(Output::new);
    let [dq, dk, dv] = &mut outputs;
    for ((s, head_kv), sums) in places.into_iter().zip(&sums) {
        let SequencePositions { q, k } = &sequences[s];
        for in_group in 0..group {
            let columns = in_group * q.len()..(in_group + 1) * q.len();
            let head = head_kv * group + in_group;
            dq.place(&sums.dq[columns], (q, head), (scale, options, more));
        }
        dk.place(&sums.dk, (k, head_kv), (scale, options, more));
        dv.place(&sums.dv, (k, head_kv), (1.0, options, more));
    }
    let [dq, dk, dv] = outputs.map(|output| output.finish(options.dtype));
    let d_sink = options.sink.as_ref().map(|sinks| {
        let mut of_heads: Vec<SinkSum> = sinks.iter().map(|&sink| SinkSum::new(sink)).collect();
        for (idx, sums) in sums.iter().enumerate() {
            let first = idx % heads_kv * group;
            for (head, part) in (first..).zip(&sums.sinks) {
                of_heads[head] = of_heads[head].and(part);
            }
        }
        finish_sinks(&of_heads, &options.model)
    });
    Ok(AttentionGradExpected {
        dq: dq?,
        dk: dk?,
        dv: dv?,
        d_sink: d_sink.transpose()?,
        d_bias: match &options.scores.bias {
            Some(bias) => Some(finish_bias(bias.shape(), &sums)?),
            None => None,
        },
    })
}

/// The gradient of a bias of this shape: sums over what it is broadcast along.
fn finish_bias(shape: &[usize], sums: &[HeadSums]) -> Result<Expected, ReferenceError> {
    let mut values = ArrayD::zeros(shape);
    let (mut errors, mut magnitudes) = (values.clone(), values.clone());
    let mut counts = ArrayD::<usize>::zeros(shape);
    for (at, (value, error)) in sums.iter().flat_map(|sums| &sums.scores) {
        let at = &index_of(shape, at)[..];
        values[at] += value;
        errors[at] += error;
        magnitudes[at] += value.abs() + error;
        counts[at] += 1;
    }
    for ((error, magnitude), &count) in errors.iter_mut().zip(&magnitudes).zip(&counts) {
        *error += gamma(count) * magnitude;
    }
    Expected::rounded_to(DType::F32, values, &errors)
}

fn finish_sinks(sums: &[SinkSum], model: &AttentionGradModel) -> Result<Expected, ReferenceError> {
    let (values, errors): (Vec<f64>, Vec<f64>) = sums.iter().map(|sum| sum.finish(model)).unzip();
    let (values, errors) = (Array1::from(values), Array1::from(errors));
    Expected::rounded_to(DType::F32, values.into_dyn(), &errors.into_dyn())
}

/// A vector of sums of products: of an inexact factor with the elements of exact vectors.
#[derive(Clone)]
struct Sums {
    values: Vec<f64>,
    /// `sum e |x|`.
    errors: Vec<f64>,
    /// `sum (|p| + e) |x|`.
    magnitudes: Vec<f64>,
    /// Number of products, and the largest magnitude of a factor.
    terms: usize,
    largest: f64,
}

impl Sums {
    fn zero(extent: usize) -> Self {
        Self {
            values: vec![0.0; extent],
            errors: vec![0.0; extent],
            magnitudes: vec![0.0; extent],
            terms: 0,
            largest: 0.0,
        }
    }

    /// Adds `factor * vector`.
    fn add(&mut self, (factor, error): (f64, f64), vector: ArrayView1<'_, f64>) {
        self.terms += 1;
        self.largest = self.largest.max(factor.abs() + error);
        for (idx, &x) in vector.iter().enumerate() {
            self.values[idx] += factor * x;
            self.errors[idx] += error * x.abs();
            self.magnitudes[idx] += (factor.abs() + error) * x.abs();
            self.largest = self.largest.max(x.abs());
        }
    }

    /// Value and error of an element times a factor that was rounded to f32.
    fn scaled(&self, idx: usize, scale: f64, arithmetic: Arithmetic, more: usize) -> (f64, f64) {
        let sum_error = arithmetic.error(self.terms, self.magnitudes[idx], self.largest, more);
        let value = scale * self.values[idx];
        let error = scale.abs() * (self.errors[idx] + sum_error);
        if self.terms == 0 {
            return (0.0, 0.0);
        }
        (value, error + gamma(2) * (value.abs() + error) + ETA32)
    }
}

/// The sums of a key head of a sequence.
struct HeadSums {
    /// By query head of the group, then query.
    dq: Vec<Sums>,
    dk: Vec<Sums>,
    dv: Vec<Sums>,
    /// By query head of the group, if there are sinks.
    sinks: Vec<SinkSum>,
    /// Gradients with respect to new scores and their errors, with batch, head, query and key, if
    /// there is a bias.
    scores: Vec<([usize; 4], Inexact)>,
}

impl HeadSums {
    fn new(
        inputs: &AttentionGradInputs<'_>,
        at: &SequencePositions,
        (group, sinks): (usize, Option<&[f64]>),
    ) -> Self {
        let (head_dim, head_dim_v) = (inputs.k.dim().2, inputs.v.dim().2);
        Self {
            dq: vec![Sums::zero(head_dim); group * at.q.len()],
            dk: vec![Sums::zero(head_dim); at.k.len()],
            dv: vec![Sums::zero(head_dim_v); at.k.len()],
            sinks: sinks.map_or(Vec::new(), |sinks| {
                sinks.iter().map(|&sink| SinkSum::new(sink)).collect()
            }),
            scores: Vec::new(),
        }
    }

    /// Adds a query head.
    fn add(
        &mut self,
        inputs: &AttentionGradInputs<'_>,
        (at, sequence): (&SequencePositions, usize),
        (head, head_kv, group): (usize, usize, usize),
        options: &AttentionGradOptions,
    ) {
        let (seqlen_q, seqlen_k) = (at.q.len(), at.k.len());
        for i in 0..seqlen_q {
            let position = at.q.start + i;
            let lse = inputs.lse[[head, position]];
            if lse == f64::NEG_INFINITY {
                continue;
            }
            let query = Query {
                q: vector(&inputs.q, position, head).to_vec(),
                d_o: vector(&inputs.d_o, position, head).to_vec(),
                o: vector(&inputs.o, position, head).to_vec(),
                lse,
                options,
            };
            let delta = query.delta();
            if let Some(sink) = self.sinks.get_mut(head % group) {
                sink.add(lse, delta, &options.model);
            }
            for j in 0..seqlen_k {
                if !options.mask.sees((i, seqlen_q), (j, seqlen_k)) {
                    continue;
                }
                let key = at.k.start + j;
                let (k, v) = (
                    vector(&inputs.k, key, head_kv),
                    vector(&inputs.v, key, head_kv),
                );
                let place = Place {
                    at: [sequence, head, i, j],
                    heads: inputs.q.dim().1,
                    seqlen_q,
                    seqlen_k,
                };
                let Some(Pair { p, ds, of_score }) =
                    query.pair((&k.to_vec(), &v.to_vec()), delta, place)
                else {
                    continue;
                };
                if options.scores.bias.is_some() {
                    self.scores.push((place.at, of_score));
                }
                self.dq[(head % group) * seqlen_q + i].add(ds, k);
                self.dk[j].add(ds, ArrayView1::from(&query.q));
                self.dv[j].add(p, ArrayView1::from(&query.d_o));
            }
        }
    }
}

/// The vector of a position and a head.
fn vector<'a>(x: &'a ArrayView3<'_, f64>, position: usize, head: usize) -> ArrayView1<'a, f64> {
    let of_position = x.index_axis(Axis(0), position);
    of_position.index_axis_move(Axis(0), head)
}

/// A gradient and its errors.
struct Output {
    values: Array3<f64>,
    errors: Array3<f64>,
}

impl Output {
    fn new(shape: (usize, usize, usize)) -> Self {
        Self {
            values: Array3::zeros(shape),
            errors: Array3::zeros(shape),
        }
    }

    /// Places the vectors of a head's positions.
    fn place(
        &mut self,
        sums: &[Sums],
        (positions, head): (&Range<usize>, usize),
        (scale, options, more): (f64, &AttentionGradOptions, usize),
    ) {
        for (position, sums) in positions.clone().zip(sums) {
            for idx in 0..sums.values.len() {
                let (value, error) = sums.scaled(idx, scale, options.model.products, more);
                self.values[[position, head, idx]] = value;
                self.errors[[position, head, idx]] = error;
            }
        }
    }

    fn finish(self, dtype: DType) -> Result<Expected, ReferenceError> {
        Expected::rounded_to(dtype, self.values.into_dyn(), &self.errors.into_dyn())
    }
}

fn check(
    inputs: &AttentionGradInputs<'_>,
    sequences: &[SequencePositions],
    options: &AttentionGradOptions,
) -> Result<(), ReferenceError> {
    let AttentionGradInputs { q, k, v, .. } = inputs;
    super::check_operands((q, k, v), sequences)?;
    let shape_o = [q.dim().0, q.dim().1, v.dim().2];
    for (name, x) in [("o", &inputs.o), ("d_o", &inputs.d_o)] {
        if *x.shape() != shape_o {
            let want = format!("it has to be {shape_o:?}, as q and v");
            return Err(ReferenceError::shape(name, x.shape(), want));
        }
    }
    let shape_lse = [q.dim().1, q.dim().0];
    if *inputs.lse.shape() != shape_lse {
        let want = format!("it has to be {shape_lse:?}, as q");
        return Err(ReferenceError::shape("lse", inputs.lse.shape(), want));
    }
    if let Some(sink) = &options.sink {
        ReferenceError::unless_one_per("head of q", q.dim().1, "sink", sink.len())?;
    }
    options.scores.check(sequences, q.dim().1)
}

#[cfg(test)]
#[path = "gradients_tests.rs"]
mod tests;
