//! Merging of two partial results into attention to the keys of both.
//!
//! `lse = ln(exp(lse_a) + exp(lse_b))`, `o = o_a exp(lse_a - lse) + o_b exp(lse_b - lse)`: a
//! softmax of two scores, with the bound of one. A row that saw no key in one part, `lse = -inf`, is
//! that of the other.

use abi::DType;
use ndarray::{ArrayD, Dimension};

use super::AttentionExpected;
use crate::precision::ETA32;
use crate::softmax::{Row, Scores};
use crate::{Expected, Model, ReferenceError};

/// A partial result.
#[derive(Clone, Debug, PartialEq)]
pub struct Partial {
    /// `[batch, seqlen_q, heads_q, head_dim_v]`, or without the batch.
    pub o: ArrayD<f64>,
    /// `[batch, heads_q, seqlen_q]`, or without the batch.
    pub lse: ArrayD<f64>,
}

/// The result for the keys of both parts, with `o` in `dtype`. `model` is that of a sum of two
/// terms.
///
/// # Errors
/// [`ReferenceError::ShapeMismatch`].
pub fn merge(
    a: &Partial,
    b: &Partial,
    dtype: DType,
    model: &Model,
) -> Result<AttentionExpected, ReferenceError> {
    // [.., heads, seqlen] of lse is [.., seqlen, heads, head_dim_v] of o.
    let mut rows_of_o = a.lse.shape().to_vec();
    let [.., heads, seqlen] = &mut rows_of_o[..] else {
        let want = "it has to be [.., heads_q, seqlen_q]";
        return Err(ReferenceError::shape("lse of a", a.lse.shape(), want));
    };
    std::mem::swap(heads, seqlen);
    let head_dim_v = match a.o.shape() {
        [rows @ .., head_dim_v] if *rows == rows_of_o[..] => *head_dim_v,
        shape => {
            let want = format!("it has to be {rows_of_o:?} and head_dim_v, as lse of a");
            return Err(ReferenceError::shape("o of a", shape, want));
        }
    };
    ReferenceError::unless_shape_of("o of a", a.o.shape(), "o of b", b.o.shape())?;
    ReferenceError::unless_shape_of("lse of a", a.lse.shape(), "lse of b", b.lse.shape())?;
    let mut o = ArrayD::zeros(a.o.raw_dim());
    let mut o_errors = o.clone();
    let mut lse = ArrayD::zeros(a.lse.raw_dim());
    let mut lse_errors = lse.clone();
    for (place, &of_a) in a.lse.indexed_iter() {
        let scores = [of_a, b.lse[place.slice()]];
        let mut row_of_o = place.slice().to_vec();
        let last = row_of_o.len() - 1;
        row_of_o.swap(last - 1, last);
        let places = |column| -> Vec<usize> { row_of_o.iter().copied().chain([column]).collect() };
        // A part that saw no key is left out, whatever the lse of the other.
        let seen = scores.map(|lse| lse != f64::NEG_INFINITY);
        if seen != [true; 2] {
            let (part, of_part) = match seen[0] {
                true => (a, scores[0]),
                false => (b, scores[1]),
            };
            lse[place.slice()] = of_part;
            for place in (0..head_dim_v).map(places).filter(|_| seen.contains(&true)) {
                o[&place[..]] = part.o[&place[..]];
            }
            continue;
        }
        let row = Row::new(&scores, &Scores::EXACT, model);
        lse[place.slice()] = row.lse;
        lse_errors[place.slice()] = row.lse_error;
        for column in 0..head_dim_v {
            let place = places(column);
            let (mut value, mut terms) = (0.0, 0.0);
            for (part, (p, e)) in [a, b].iter().zip(row.probs.iter().zip(&row.errors)) {
                let part = part.o[&place[..]];
                value += p * part;
                terms += (p * e + row.lost) * part.abs() + ETA32;
            }
            o[&place[..]] = value;
            o_errors[&place[..]] = row.quotient_error(value, terms);
        }
    }
    Ok(AttentionExpected {
        o: Expected::rounded_to(dtype, o, &o_errors)?,
        lse: Expected::rounded_to(DType::F32, lse, &lse_errors)?,
    })
}
