//! Elementwise operations, with broadcasting.
//!
//! # Bound
//!
//! The implementation evaluates a function of f32 values with an error up to a given number of ulp
//! of f32. Half an ulp is correctly rounded; 0 is exact, like negation. Then it rounds to the
//! output's dtype.

use abi::DType;
use ndarray::{ArrayD, ArrayViewD, IxDyn, Zip};

use crate::precision::{ETA32, U32};
pub use crate::special::{erf, erfc};
use crate::{Expected, ReferenceError};

/// `f` applied to every element.
pub fn unary(x: &ArrayViewD<'_, f64>, dtype: DType, ulps: f64, f: impl Fn(f64) -> f64) -> Expected {
    Expected::within_ulps(dtype, x.mapv(f), ulps)
}

/// `f` applied to every pair of elements. Shapes broadcast as in NumPy: they are aligned at the
/// last dimension, and an extent of 1 is repeated.
///
/// # Errors
/// [`ReferenceError::ShapeMismatch`].
pub fn binary(
    x: &ArrayViewD<'_, f64>,
    y: &ArrayViewD<'_, f64>,
    dtype: DType,
    ulps: f64,
    f: impl Fn(f64, f64) -> f64,
) -> Result<Expected, ReferenceError> {
    let shape = broadcast_shape(x.shape(), y.shape()).ok_or_else(|| {
        let want = format!("it has to broadcast with {:?}", x.shape());
        ReferenceError::shape("y", y.shape(), want)
    })?;
    let shape = IxDyn(&shape);
    let mut values = ArrayD::zeros(shape.clone());
    if let (Some(x), Some(y)) = (x.broadcast(shape.clone()), y.broadcast(shape)) {
        Zip::from(&mut values)
            .and(&x)
            .and(&y)
            .for_each(|value, &x, &y| *value = f(x, y));
    }
    Ok(Expected::within_ulps(dtype, values, ulps))
}

/// `dx = f'(x) dy` for every pair of elements, where f' is the sum of two terms. Shapes broadcast.
///
/// The implementation's f' has an error of at most `ulps` ulp of f32, relative to the largest of f'
/// and its terms, because errors remain where the terms cancel. The product is rounded once more.
///
/// # Errors
/// [`ReferenceError::ShapeMismatch`].
pub fn gradient(
    x: &ArrayViewD<'_, f64>,
    dy: &ArrayViewD<'_, f64>,
    dtype: DType,
    ulps: f64,
    f: impl Fn(f64) -> [f64; 2],
) -> Result<Expected, ReferenceError> {
    let of = |terms: [f64; 2]| terms[0] + terms[1];
    let exact = binary(x, dy, dtype, ulps, |x, dy| of(f(x)) * dy)?;
    let errors = binary(x, dy, dtype, ulps, |x, dy| {
        let terms = f(x);
        let size = of(terms).abs().max(terms[0].abs()).max(terms[1].abs());
        // Subnormals have the absolute error of the smallest normal number.
        let off = ulps * (2.0 * U32 * size).max(ETA32) * dy.abs();
        let error = off + U32 * (of(terms) * dy).abs() + ETA32;
        if error.is_finite() { error } else { 0.0 }
    })?;
    Expected::rounded_to(dtype, exact.values, &errors.values)
}

/// The shape that two shapes broadcast to.
fn broadcast_shape(x: &[usize], y: &[usize]) -> Option<Vec<usize>> {
    let rank = x.len().max(y.len());
    let extent = |shape: &[usize], i: usize| match (i + shape.len()).checked_sub(rank) {
        Some(i) => shape[i],
        None => 1,
    };
    (0..rank)
        .map(|i| match (extent(x, i), extent(y, i)) {
            (a, b) if a == b => Some(a),
            (1, b) => Some(b),
            (a, 1) => Some(a),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use ndarray::{arr1, arr2};

    use super::*;

    #[test]
    fn shapes_broadcast_from_the_last_dimension() {
        let x = arr2(&[[1.0], [2.0]]).into_dyn();
        let y = arr1(&[10.0, 20.0, 30.0]).into_dyn();
        let sum = binary(&x.view(), &y.view(), DType::F32, 0.5, |x, y| x + y).unwrap();
        assert_eq!(
            sum.values,
            arr2(&[[11.0, 21.0, 31.0], [12.0, 22.0, 32.0]]).into_dyn()
        );
        let z = arr1(&[1.0, 2.0]).into_dyn();
        assert!(binary(&y.view(), &z.view(), DType::F32, 0.5, |x, y| x + y).is_err());
        let empty = ArrayD::zeros(vec![0, 1]);
        let none = binary(&empty.view(), &y.view(), DType::F32, 0.5, |x, y| x + y).unwrap();
        assert_eq!(none.values.shape(), [0, 3]);
    }

    #[test]
    fn f32_functions_are_within_their_ulps() {
        let x: Vec<f32> = (-300..300).map(|i| i as f32 * 0.037).collect();
        let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
        let want = unary(&arr1(&wide).into_dyn().view(), DType::F32, 1.0, f64::exp);
        let got: Vec<f64> = x.iter().map(|x| f64::from(x.exp())).collect();
        want.compare(&arr1(&got).into_dyn().view()).unwrap();
        let off: Vec<f64> = got.iter().map(|y| y * (1.0 + 4e-7)).collect();
        assert!(want.compare(&arr1(&off).into_dyn().view()).is_err());
    }
}
