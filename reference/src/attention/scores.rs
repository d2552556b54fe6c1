//! What is done to scaled scores, after the soft cap: a function, a bias, ALiBi, a mask.
//!
//! A function passes the error of a score on times its slope, and a sum adds a rounding of its
//! result.

use ndarray::ArrayD;

use super::{Dropout, SequencePositions};
use crate::ReferenceError;
use crate::precision::{ETA32, U32};

/// The options that concern scores, in the order in which they are applied.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScoreOptions {
    /// A function of the score.
    pub function: Option<ScoreFunction>,
    /// Is added; broadcasts to `[batch, heads_q, seqlen_q, seqlen_k]`. -inf hides the key.
    pub bias: Option<ArrayD<f64>>,
    /// Slopes of ALiBi; broadcasts to `[batch, heads_q]`. Subtracts
    /// `slope * |i + seqlen_k - seqlen_q - j|`.
    pub alibi: Option<ArrayD<f64>>,
    /// False hides a key; broadcasts as the bias does.
    pub mask: Option<ArrayD<bool>>,
    /// Drops probabilities.
    pub dropout: Option<Dropout>,
}

/// A function of a score at `[batch, head, query, key]`.
#[derive(Clone, Copy, Debug)]
pub struct ScoreFunction {
    /// The function; a result of -inf hides the key.
    pub value: fn(f64, [usize; 4]) -> f64,
    /// Its derivative with respect to the score.
    pub slope: fn(f64, [usize; 4]) -> f64,
    /// Largest magnitude of the derivative, and of its own derivative.
    pub most: [f64; 2],
    /// Error of the implementation's value, relative to its magnitude, and of the derivative,
    /// absolute; in units of f32's roundoff.
    pub roundoffs: [f64; 2],
}

impl PartialEq for ScoreFunction {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::fn_addr_eq(self.value, other.value)
            && std::ptr::fn_addr_eq(self.slope, other.slope)
            && (self.most, self.roundoffs) == (other.most, other.roundoffs)
    }
}

/// Where a score is: `[batch, head, query, key]`, and the lengths of its sequence.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) at: [usize; 4],
    /// Number of query heads.
    pub(super) heads: usize,
    pub(super) seqlen_q: usize,
    pub(super) seqlen_k: usize,
}

/// A number and its largest error.
pub(super) type Inexact = (f64, f64);

impl ScoreOptions {
    /// Whether scores are changed.
    fn any(&self) -> bool {
        let unchanged = Self {
            dropout: self.dropout,
            ..Self::default()
        };
        *self != unchanged
    }

    /// What dropout multiplies the probability of a place by, and the relative error of that.
    pub(super) fn kept(&self, at: [usize; 4], heads: usize) -> Inexact {
        match &self.dropout {
            Some(dropout) if !dropout.keeps(at.map(|x| x as u32), heads as u32) => (0.0, 0.0),
            Some(dropout) => (1.0 / (1.0 - f64::from(dropout.p)), 3.0 * U32),
            None => (1.0, 0.0),
        }
    }

    /// The new score, -inf where the key is hidden, and the derivative with respect to the old one.
    pub(super) fn change(&self, (score, error): Inexact, place: Place) -> (Inexact, Inexact) {
        let (mut score, mut error, mut slope) = (score, error, (1.0, 0.0));
        if self.any() {
            // The product with the scale is rounded, and so is the product with log2 e.
            error += 3.0 * U32 * (score.abs() + error) + ETA32;
        }
        if let Some(function) = self.function {
            let [steepest, most_bent] = function.most;
            let [of_value, of_slope] = function.roundoffs;
            let of_score = (function.slope)(score, place.at);
            slope = (of_score, most_bent * error + of_slope * U32);
            score = (function.value)(score, place.at);
            error = steepest * error + of_value * U32 * score.abs() + ETA32;
        }
        if let Some(bias) = &self.bias {
            score += element(bias, &place.at);
            error += U32 * (score.abs() + error);
        }
        if let Some(slopes) = &self.alibi {
            let query = place.at[2] as f64 + place.seqlen_k as f64 - place.seqlen_q as f64;
            score -= element(slopes, &place.at[..2]) * (query - place.at[3] as f64).abs();
            error += U32 * (score.abs() + error);
        }
        if let Some(mask) = &self.mask
            && !element(mask, &place.at)
        {
            score = f64::NEG_INFINITY;
        }
        if score == f64::NEG_INFINITY {
            error = 0.0;
        }
        ((score, error), slope)
    }

    /// Checks that all have an element for every score.
    pub(super) fn check(
        &self,
        sequences: &[SequencePositions],
        heads: usize,
    ) -> Result<(), ReferenceError> {
        let longest = |len: fn(&SequencePositions) -> usize| sequences.iter().map(len).max();
        let want = [
            sequences.len(),
            heads,
            longest(|it| it.q.len()).unwrap_or(0),
            longest(|it| it.k.len()).unwrap_or(0),
        ];
        let has_all = |name: &'static str, got: &[usize], want: &[usize]| {
            let mut extents = got.iter().rev().zip(want.iter().rev());
            let fits = extents.all(|(&got, &want)| got == 1 || got >= want);
            match got.len() <= want.len() && fits {
                true => Ok(()),
                false => {
                    let want = format!("its extents have to be 1 or at least those of {want:?}");
                    Err(ReferenceError::shape(name, got, want))
                }
            }
        };
        if let Some(bias) = &self.bias {
            has_all("bias", bias.shape(), &want)?;
        }
        if let Some(mask) = &self.mask {
            has_all("mask", mask.shape(), &want)?;
        }
        match &self.alibi {
            Some(slopes) => has_all("alibi", slopes.shape(), &want[..2]),
            None => Ok(()),
        }
    }
}

/// The element of a tensor that broadcasts to one that has this index.
fn element<T: Copy>(tensor: &ArrayD<T>, at: &[usize]) -> T {
    tensor[&index_of(tensor.shape(), at)[..]]
}

/// The index in a tensor of this shape that broadcasts to index `at`.
pub(super) fn index_of(shape: &[usize], at: &[usize]) -> Vec<usize> {
    let at = &at[at.len() - shape.len()..];
    let extents = shape.iter().zip(at);
    extents
        .map(|(&extent, &idx)| if extent == 1 { 0 } else { idx })
        .collect()
}
