//! Attention: `o = softmax(softmax_scale * q @ k^T + mask) @ v`, and `lse`.
//!
//! `causal` aligns to the bottom-right corner: query `i` sees key `j` where
//! `j <= i + seqlen_k - seqlen_q`. A query that sees no key has `o = 0` and `lse = -inf`.
//!
//! # Bound
//!
//! A score is a product of length `head_dim` computed in f32, so (see [`crate::gemm`]) it is off
//! by at most `a_j = |scale| (gamma(d) sum_c |q_c k_jc| + d eta)` in natural units; `scale` is
//! rounded to f32 and multiplied by `log2 e`, which [`crate::softmax`] counts. With that module's
//! `P_j`, `e_j`, `lost` and `E`, and the sum over keys of `P_j v_j` computed with the same
//! relative errors `e_j` (probabilities rounded to `p` bits first where [`Model`] says so),
//!
//! `|o_c - O_c| <= (sum_j (P_j e_j + lost) |v_jc| + |O_c| E) / (1 - E)`
//!
//! plus the division and the output's rounding. `lse` is bounded as logsumexp is, in
//! [`crate::reduce`].

use ndarray::{Array1, Array3, Array4, ArrayView1, ArrayView2, ArrayView4, Axis};
use rayon::prelude::*;
use spec::DType;

use crate::precision::{ETA32, gamma};
use crate::softmax::{Row, Scores};
use crate::{Expected, Model, ReferenceError};

/// Options of one attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionOptions {
    /// Whether queries see only keys up to their own position, aligned bottom-right.
    pub causal: bool,
    /// Factor of the scores; `None` is `1 / sqrt(head_dim)`, or 1 where that is 0.
    pub softmax_scale: Option<f32>,
    /// The dtype of `o`.
    pub dtype: DType,
    /// How the implementation computes.
    pub model: Model,
}

/// What attention returns.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionExpected {
    /// `[batch, seqlen_q, heads_q, head_dim_v]`.
    pub o: Expected,
    /// `[batch, heads_q, seqlen_q]`, f32, natural logarithm.
    pub lse: Expected,
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
    check(q, k, v)?;
    let (batch, seqlen_q, heads_q, head_dim) = q.dim();
    let heads_kv = k.dim().2;
    let head_dim_v = v.dim().3;
    let scale = options
        .softmax_scale
        .map_or(1.0 / (head_dim.max(1) as f64).sqrt(), f64::from);
    let heads: Vec<(usize, usize)> = (0..batch)
        .flat_map(|b| (0..heads_q).map(move |h| (b, h)))
        .collect();
    let results: Vec<Vec<QueryRow>> = heads
        .par_iter()
        .map(|&(b, h)| {
            let h_kv = h / (heads_q / heads_kv).max(1);
            let head = Head {
                k: rows_of(k, b, h_kv),
                v: rows_of(v, b, h_kv),
                scale,
            };
            let q = rows_of(q, b, h);
            (0..seqlen_q)
                .map(|i| head.row(&q.row(i), i, seqlen_q, options))
                .collect()
        })
        .collect();
    let mut o = Array4::zeros((batch, seqlen_q, heads_q, head_dim_v));
    let mut o_errors = o.clone();
    let mut lse = Array3::zeros((batch, heads_q, seqlen_q));
    let mut lse_errors = lse.clone();
    for (&(b, h), rows) in heads.iter().zip(results) {
        for (i, row) in rows.into_iter().enumerate() {
            o.index_axis_mut(Axis(0), b)
                .index_axis_mut(Axis(0), i)
                .index_axis_mut(Axis(0), h)
                .assign(&row.o);
            o_errors
                .index_axis_mut(Axis(0), b)
                .index_axis_mut(Axis(0), i)
                .index_axis_mut(Axis(0), h)
                .assign(&row.o_errors);
            lse[[b, h, i]] = row.lse;
            lse_errors[[b, h, i]] = row.lse_error;
        }
    }
    Ok(AttentionExpected {
        o: Expected::rounded_to(options.dtype, o.into_dyn(), &o_errors.into_dyn()),
        lse: Expected::rounded_to(DType::F32, lse.into_dyn(), &lse_errors.into_dyn()),
    })
}

/// Rows of one head: `[seqlen, head_dim]`.
fn rows_of<'a>(
    x: &'a ArrayView4<'_, f64>,
    batch_idx: usize,
    head_idx: usize,
) -> ArrayView2<'a, f64> {
    x.index_axis(Axis(0), batch_idx)
        .index_axis_move(Axis(1), head_idx)
}

fn check(
    q: &ArrayView4<'_, f64>,
    k: &ArrayView4<'_, f64>,
    v: &ArrayView4<'_, f64>,
) -> Result<(), ReferenceError> {
    let (batch, _, heads_q, head_dim) = q.dim();
    let (_, seqlen_k, heads_kv, _) = k.dim();
    if k.dim() != (batch, seqlen_k, heads_kv, head_dim) {
        let want = format!("it has to be [{batch}, seqlen_k, heads_kv, {head_dim}] as q");
        return Err(ReferenceError::shape("k", k.shape(), want));
    }
    if v.dim() != (batch, seqlen_k, heads_kv, v.dim().3) {
        let want = format!("it has to be [{batch}, {seqlen_k}, {heads_kv}, head_dim_v] as k");
        return Err(ReferenceError::shape("v", v.shape(), want));
    }
    if heads_q != 0 && (heads_kv == 0 || heads_q % heads_kv != 0) {
        let want = format!("q's {heads_q} heads have to be a multiple of k's heads");
        return Err(ReferenceError::shape("k", k.shape(), want));
    }
    Ok(())
}

/// What one query attends to.
struct Head<'a> {
    k: ArrayView2<'a, f64>,
    v: ArrayView2<'a, f64>,
    scale: f64,
}

struct QueryRow {
    o: Array1<f64>,
    o_errors: Array1<f64>,
    lse: f64,
    lse_error: f64,
}

impl Head<'_> {
    fn row(
        &self,
        q: &ArrayView1<'_, f64>,
        query_idx: usize,
        seqlen_q: usize,
        options: &AttentionOptions,
    ) -> QueryRow {
        let (seqlen_k, head_dim) = self.k.dim();
        let visible = match options.causal {
            true => (query_idx + 1 + seqlen_k)
                .saturating_sub(seqlen_q)
                .min(seqlen_k),
            false => seqlen_k,
        };
        let zeros = Array1::zeros(self.v.ncols());
        if visible == 0 {
            let (lse, lse_error) = (f64::NEG_INFINITY, 0.0);
            return QueryRow {
                o: zeros.clone(),
                o_errors: zeros,
                lse,
                lse_error,
            };
        }
        let keys = self.k.slice_axis(Axis(0), (..visible).into());
        let (scores, errors): (Vec<f64>, Vec<f64>) = keys
            .axis_iter(Axis(0))
            .map(|k| {
                let products = || q.iter().zip(k).map(|(q, k)| q * k);
                let magnitude: f64 = products().map(f64::abs).sum();
                let error = gamma(head_dim) * magnitude + head_dim as f64 * ETA32;
                (
                    self.scale * products().sum::<f64>(),
                    self.scale.abs() * error,
                )
            })
            .unzip();
        let scores_known = Scores {
            errors: &errors,
            rounded_product: true,
        };
        let row = Row::new(&scores, &scores_known, &options.model);
        let (mut o, mut terms) = (zeros.clone(), zeros);
        let values = self.v.slice_axis(Axis(0), (..visible).into());
        for ((v, &p), &e) in values.axis_iter(Axis(0)).zip(&row.probs).zip(&row.errors) {
            o.scaled_add(p, &v);
            terms.zip_mut_with(&v, |sum, v| *sum += (p * e + row.lost) * v.abs() + ETA32);
        }
        let mut o_errors = terms;
        o_errors.zip_mut_with(&o, |error, &o| *error = row.quotient_error(o, *error));
        QueryRow {
            o,
            o_errors,
            lse: row.lse,
            lse_error: row.lse_error,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn options(causal: bool, keys: usize) -> AttentionOptions {
        AttentionOptions {
            causal,
            softmax_scale: None,
            dtype: DType::F32,
            model: Model::any_order(keys, keys, 1.0),
        }
    }

    /// Values that differ everywhere and are not symmetric.
    fn wave(shape: (usize, usize, usize, usize), seed: f64) -> Array4<f64> {
        Array4::from_shape_fn(shape, |(b, s, h, d)| {
            f64::from(((b * 7 + s * 3 + h * 11 + d) as f64 * 0.7 + seed).sin() as f32)
        })
    }

    #[test]
    fn one_key_returns_its_value() {
        let (q, k, v) = (
            wave((1, 3, 2, 4), 0.0),
            wave((1, 1, 2, 4), 1.0),
            wave((1, 1, 2, 5), 2.0),
        );
        let got = attention(&q.view(), &k.view(), &v.view(), &options(false, 1)).unwrap();
        for i in 0..3 {
            assert_eq!(
                got.o.values.index_axis(Axis(1), i),
                v.index_axis(Axis(1), 0).into_dyn()
            );
        }
    }

    #[test]
    fn equal_keys_average_the_values() {
        let k = Array4::from_elem((1, 4, 1, 2), 0.5);
        let v = Array4::from_shape_fn((1, 4, 1, 1), |(_, s, _, _)| s as f64);
        let q = wave((1, 2, 1, 2), 0.0);
        let got = attention(&q.view(), &k.view(), &v.view(), &options(false, 4)).unwrap();
        assert!(got.o.values.iter().all(|&o| (o - 1.5).abs() < 1e-15));
    }

    #[test]
    fn the_causal_mask_aligns_bottom_right() {
        // v is one-hot by key: o shows which keys a query sees.
        let v = Array4::from_shape_fn((1, 5, 1, 5), |(_, s, _, d)| f64::from(u8::from(s == d)));
        let k = wave((1, 5, 1, 2), 0.0);
        let q = wave((1, 2, 1, 2), 1.0);
        let got = attention(&q.view(), &k.view(), &v.view(), &options(true, 5)).unwrap();
        let seen: Vec<bool> = got.o.values.iter().map(|&p| p > 0.0).collect();
        assert_eq!(seen, [[true, true, true, true, false], [true; 5]].concat());
    }

    #[test]
    fn a_query_that_sees_no_key_gives_zero_and_minus_infinity() {
        let (q, k, v) = (
            wave((1, 5, 1, 2), 0.0),
            wave((1, 2, 1, 2), 1.0),
            wave((1, 2, 1, 3), 2.0),
        );
        let got = attention(&q.view(), &k.view(), &v.view(), &options(true, 2)).unwrap();
        for i in 0..5 {
            let masked = i < 3;
            let zero = got
                .o
                .values
                .index_axis(Axis(1), i)
                .iter()
                .all(|&o| o == 0.0);
            assert_eq!(zero, masked);
            assert_eq!(got.lse.values[[0, 0, i]] == f64::NEG_INFINITY, masked);
        }
        let none = k.slice_axis(Axis(1), (..0).into());
        let no_v = v.slice_axis(Axis(1), (..0).into());
        let got = attention(&q.view(), &none, &no_v, &options(false, 0)).unwrap();
        assert!(got.o.values.iter().all(|&o| o == 0.0));
    }

    #[test]
    fn query_heads_share_key_heads_in_groups() {
        let (q, k, v) = (
            wave((2, 3, 4, 4), 0.0),
            wave((2, 5, 2, 4), 1.0),
            wave((2, 5, 2, 4), 2.0),
        );
        let whole = attention(&q.view(), &k.view(), &v.view(), &options(false, 5)).unwrap();
        for h in 0..4 {
            let q = q.slice_axis(Axis(2), (h..=h).into());
            let (k, v) = (
                k.slice_axis(Axis(2), (h / 2..=h / 2).into()),
                v.slice_axis(Axis(2), (h / 2..=h / 2).into()),
            );
            let one = attention(&q, &k, &v, &options(false, 5)).unwrap();
            assert_eq!(
                whole.o.values.slice_axis(Axis(2), (h..=h).into()),
                one.o.values
            );
        }
    }

    #[test]
    fn refuses_shapes_that_do_not_fit() {
        let q = wave((1, 2, 3, 4), 0.0);
        let good = wave((1, 2, 3, 4), 0.0);
        for bad in [(2, 2, 3, 4), (1, 2, 2, 4), (1, 2, 0, 4), (1, 2, 3, 5)] {
            let k = wave(bad, 0.0);
            assert!(attention(&q.view(), &k.view(), &k.view(), &options(false, 2)).is_err());
        }
        let v = wave((1, 3, 3, 4), 0.0);
        assert!(attention(&q.view(), &good.view(), &v.view(), &options(false, 2)).is_err());
    }

    proptest! {
        #[test]
        fn an_online_f32_attention_is_within_the_bound(
            keys in 1usize..40,
            head_dim in 1usize..20,
            seed in 0f64..100.0,
            size in 0.1f64..6.0,
        ) {
            let rounded = |x: Array4<f64>| x.mapv(|x| f64::from((x * size) as f32));
            let q = rounded(wave((1, 1, 1, head_dim), seed));
            let k = rounded(wave((1, keys, 1, head_dim), seed + 1.0));
            let v = rounded(wave((1, keys, 1, 1), seed + 2.0));
            let want = attention(&q.view(), &k.view(), &v.view(), &options(false, keys)).unwrap();
            let (o, lse) = online_f32(&q, &k, &v);
            let o = Array4::from_elem((1, 1, 1, 1), f64::from(o)).into_dyn();
            let agreement = want.o.compare(&o.view());
            prop_assert!(agreement.is_ok(), "{}", agreement.unwrap_err());
            let lse = Array3::from_elem((1, 1, 1), f64::from(lse)).into_dyn();
            let agreement = want.lse.compare(&lse.view());
            prop_assert!(agreement.is_ok(), "{}", agreement.unwrap_err());
        }
    }

    /// One query against all keys as kernels do it: running maximum, base 2.
    fn online_f32(q: &Array4<f64>, k: &Array4<f64>, v: &Array4<f64>) -> (f32, f32) {
        let scale = (q.dim().3 as f32).sqrt().recip() * std::f32::consts::LOG2_E;
        let (mut max, mut sum, mut acc) = (f32::NEG_INFINITY, 0f32, 0f32);
        for j in 0..k.dim().1 {
            let products = q
                .iter()
                .zip(k.index_axis(Axis(1), j).iter().copied().collect::<Vec<_>>());
            let score = products.fold(0f32, |s, (&q, k)| (q as f32).mul_add(k as f32, s)) * scale;
            let new = max.max(score);
            let correction = (max - new).exp2();
            let p = (score - new).exp2();
            sum = sum * correction + p;
            acc = acc * correction + p * v[[0, j, 0, 0]] as f32;
            max = new;
        }
        (acc / sum, (max + sum.log2()) * std::f32::consts::LN_2)
    }
}
