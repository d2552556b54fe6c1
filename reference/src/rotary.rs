//! Rotary position embedding: `(a cos - b sin, b cos + a sin)` of the pairs of each head.
//!
//! # Bound
//!
//! Each result is a sum of two products. The products are both rounded and added, or one is rounded
//! and the other is in a fused multiply-add. Each passes at most two roundings:
//! `gamma(2) (|a cos| + |b sin|)`. Up to two results may be subnormal, `2 eta`. Where a product may
//! exceed f32, there is no bound. Copied elements are exact.

use abi::DType;
use ndarray::{ArrayD, ArrayView2, ArrayViewD, Axis};

use crate::precision::{ETA32, Format, gamma};
use crate::{Expected, ReferenceError};

/// What is turned, and how.
#[derive(Clone, Copy, Debug)]
pub struct Rotation<'a> {
    /// Cosines: `[seqlen_max, rotary_dim / 2]`.
    pub cos: ArrayView2<'a, f64>,
    /// Sines, likewise.
    pub sin: ArrayView2<'a, f64>,
    /// Whether pairs are neighbours, not elements of two halves.
    pub interleaved: bool,
    /// Whether it turns by the negative angles.
    pub inverse: bool,
}

/// The rotation of `x`, `[.., seqlen, heads, head_dim]`, by the angles of `positions`, `[..,
/// seqlen]`, rounded to `dtype`. The pairs of a token whose position is not a row of the tables are
/// NaN; elements behind the pairs are those of `x`.
///
/// # Errors
/// [`ReferenceError::ShapeMismatch`].
pub fn rotary(
    x: &ArrayViewD<'_, f64>,
    rotation: &Rotation<'_>,
    positions: &ArrayViewD<'_, i64>,
    dtype: DType,
) -> Result<Expected, ReferenceError> {
    let shape = x.shape();
    let [tokens @ .., _, head_dim] = shape else {
        let want = "it has to be [.., seqlen, heads, head_dim]";
        return Err(ReferenceError::shape("x", shape, want));
    };
    ReferenceError::unless_shape_of("the tokens of x", tokens, "positions", positions.shape())?;
    let (cos, sin) = (&rotation.cos, &rotation.sin);
    ReferenceError::unless_shape_of("cos", cos.shape(), "sin", sin.shape())?;
    let half = cos.ncols();
    if 2 * half > *head_dim {
        let want = format!("it has to have at most {} columns", head_dim / 2);
        return Err(ReferenceError::shape("cos", cos.shape(), want));
    }
    let mut values = x.to_owned();
    let mut errors = ArrayD::zeros(x.raw_dim());
    let rank = x.ndim();
    let of_tokens = values
        .lanes_mut(Axis(rank - 1))
        .into_iter()
        .zip(errors.lanes_mut(Axis(rank - 1)));
    let heads = shape[rank - 2];
    let positions: Vec<i64> = positions.iter().copied().collect();
    for (lane, (mut values, mut errors)) in of_tokens.enumerate() {
        let row = usize::try_from(positions[lane / heads]).ok();
        let row = row.filter(|&row| row < cos.nrows());
        for i in 0..half {
            let (first, second) = match rotation.interleaved {
                true => (2 * i, 2 * i + 1),
                false => (i, i + half),
            };
            let angle = row.map(|row| (cos[[row, i]], sin[[row, i]]));
            let (cos, sin) = angle.unwrap_or((f64::NAN, f64::NAN));
            let sin = if rotation.inverse { -sin } else { sin };
            let (a, b) = (values[first], values[second]);
            for (at, x, y) in [(first, a * cos, -b * sin), (second, b * cos, a * sin)] {
                values[at] = x + y;
                errors[at] = error(x, y);
            }
        }
    }
    let mut expected = Expected::rounded_to(dtype, values, &errors)?;
    for mut bounds in expected.bounds.lanes_mut(Axis(rank - 1)) {
        bounds
            .iter_mut()
            .skip(2 * half)
            .for_each(|bound| *bound = 0.0);
    }
    Ok(expected)
}

/// The largest error of the sum of two products.
fn error(x: f64, y: f64) -> f64 {
    let size = x.abs() + y.abs();
    match size {
        // NaN and infinities must be met exactly.
        _ if !(x + y).is_finite() => 0.0,
        _ if Format::of(DType::F32).is_some_and(|f32| size > f32.max) => f64::INFINITY,
        _ => gamma(2) * size + 2.0 * ETA32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Array2, array};

    /// A position turns by as many times 90 degrees.
    fn quarters() -> [Array2<f64>; 2] {
        [
            array![[1.0, 1.0], [0.0, 0.0], [-1.0, -1.0]],
            array![[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]],
        ]
    }

    fn turned(positions: &[i64], interleaved: bool, inverse: bool) -> Vec<f64> {
        let x = ArrayD::from_shape_fn(vec![positions.len(), 1, 5], |at| (1 + at[2]) as f64);
        let [cos, sin] = quarters();
        let rotation = Rotation {
            cos: cos.view(),
            sin: sin.view(),
            interleaved,
            inverse,
        };
        let positions = ArrayD::from_shape_vec(vec![positions.len()], positions.to_vec());
        let positions = positions.expect("as many as there are");
        let got = rotary(&x.view(), &rotation, &positions.view(), DType::F32);
        got.expect("the shapes fit").values.into_iter().collect()
    }

    #[test]
    fn pairs_are_turned_and_the_rest_is_copied() {
        assert_eq!(turned(&[0], false, false), [1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(turned(&[1], false, false), [-3.0, -4.0, 1.0, 2.0, 5.0]);
        assert_eq!(turned(&[1], true, false), [-2.0, 1.0, -4.0, 3.0, 5.0]);
        assert_eq!(turned(&[1], false, true), [3.0, 4.0, -1.0, -2.0, 5.0]);
        assert_eq!(turned(&[2], true, true), [-1.0, -2.0, -3.0, -4.0, 5.0]);
    }

    #[test]
    fn a_position_that_is_no_row_gives_nan_but_for_what_is_copied() {
        for position in [-1, 3, i64::MAX] {
            let got = turned(&[position, 0], false, false);
            assert!(got[..4].iter().all(|x| x.is_nan()));
            assert_eq!(got[4..], [5.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        }
    }

    #[test]
    fn shapes_that_do_not_fit_are_refused() {
        let [cos, sin] = quarters();
        let x = |shape: &[usize]| ArrayD::zeros(shape);
        let refused = |x: &ArrayD<f64>, sin: &Array2<f64>, positions: &[usize]| {
            let rotation = Rotation {
                cos: cos.view(),
                sin: sin.view(),
                interleaved: false,
                inverse: false,
            };
            let positions = ArrayD::zeros(positions);
            let got = rotary(&x.view(), &rotation, &positions.view(), DType::F32);
            matches!(got, Err(ReferenceError::ShapeMismatch { .. }))
        };
        assert!(refused(&x(&[4]), &sin, &[4]));
        assert!(refused(&x(&[4, 1, 3]), &sin, &[4]));
        assert!(refused(&x(&[4, 1, 4]), &sin, &[3]));
        assert!(refused(&x(&[4, 1, 4]), &Array2::zeros((3, 1)), &[4]));
        assert!(!refused(&x(&[4, 1, 4]), &sin, &[4]));
    }
}
