//! The first elements along an axis in order, and their indices.
//!
//! Larger elements come first, or smaller ones. NaN is greater than everything, zeros of both signs
//! are equal, and of equal elements the lowest index comes first. There is no error: results are
//! compared bit for bit.

use std::cmp::Ordering;

use ndarray::{ArrayD, ArrayViewD, Axis};

use crate::ReferenceError;

/// The `k` largest elements along `axis`, or the smallest, and their indices, the first one first.
///
/// # Errors
/// [`ReferenceError::AxisOutOfRange`], [`ReferenceError::ShapeMismatch`] where the axis has less than `k`
/// elements.
pub fn topk(
    x: &ArrayViewD<'_, f64>,
    axis: usize,
    k: usize,
    is_smallest: bool,
) -> Result<(ArrayD<f64>, ArrayD<i64>), ReferenceError> {
    ReferenceError::unless_axis(x.ndim(), axis)?;
    let mut shape = x.shape().to_vec();
    shape[axis] = k;
    if k > x.shape()[axis] {
        let want = format!("{k} elements or more along axis {axis}");
        return Err(ReferenceError::shape("x", x.shape(), want));
    }
    let mut values = ArrayD::zeros(shape.clone());
    let mut indices = ArrayD::zeros(shape);
    let outputs = values.lanes_mut(Axis(axis)).into_iter();
    let outputs = outputs.zip(indices.lanes_mut(Axis(axis)));
    for (lane, (mut value, mut index)) in x.lanes(Axis(axis)).into_iter().zip(outputs) {
        let mut order: Vec<usize> = (0..lane.len()).collect();
        // The sort is stable: equal elements stay in the order of their indices.
        order.sort_by(|&a, &b| match is_smallest {
            false => ascending(lane[b], lane[a]),
            true => ascending(lane[a], lane[b]),
        });
        for (rank, &i) in order.iter().take(k).enumerate() {
            (value[rank], index[rank]) = (lane[i], i as i64);
        }
    }
    Ok((values, indices))
}

/// The order of numbers, with all NaN at the end.
fn ascending(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b)
        .unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn nan_is_first_among_the_largest_and_last_among_the_smallest() {
        let x = array![1.0, f64::NAN, -0.0, f64::INFINITY, 0.0, f64::NAN].into_dyn();
        let (_, largest) = topk(&x.view(), 0, 6, false).expect("six of six");
        assert_eq!(largest, array![1, 5, 3, 0, 2, 4].into_dyn());
        let (values, smallest) = topk(&x.view(), 0, 3, true).expect("three of six");
        assert_eq!(smallest, array![2, 4, 0].into_dyn());
        assert!(values[0].is_sign_negative() && values[1].is_sign_positive());
    }

    #[test]
    fn more_elements_than_there_are_is_an_error() {
        let x = array![[1.0, 2.0]].into_dyn();
        assert!(topk(&x.view(), 0, 2, false).is_err());
        assert!(topk(&x.view(), 2, 0, false).is_err());
        assert_eq!(
            topk(&x.view(), 0, 0, false).expect("none").0.shape(),
            [0, 2]
        );
    }
}
