//! The elements along an axis in order, and their indices.
//!
//! NaN is greater than everything, zeros of both signs are equal, and equal elements keep their order,
//! ascending or descending. The error is 0: results are compared bit for bit.

use ndarray::{ArrayD, ArrayViewD, Axis};

use crate::ReferenceError;
use crate::topk::topk;

/// The elements along `axis` in ascending order, or in descending order, and their indices.
///
/// # Errors
/// [`ReferenceError::AxisOutOfRange`].
pub fn sort(
    x: &ArrayViewD<'_, f64>,
    axis: usize,
    is_descending: bool,
) -> Result<(ArrayD<f64>, ArrayD<i64>), ReferenceError> {
    ReferenceError::unless_axis(x.ndim(), axis)?;
    topk(x, axis, x.len_of(Axis(axis)), !is_descending)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn equal_elements_keep_their_order_both_ways() {
        let x = array![0.0, f64::NAN, -0.0, 1.0, f64::NEG_INFINITY, 1.0].into_dyn();
        let indices = |is_descending| {
            let (_, indices) = sort(&x.view(), 0, is_descending).expect("an axis");
            indices.into_raw_vec_and_offset().0
        };
        assert_eq!(indices(false), [4, 0, 2, 3, 5, 1]);
        assert_eq!(indices(true), [1, 3, 5, 0, 2, 4]);
    }
}
