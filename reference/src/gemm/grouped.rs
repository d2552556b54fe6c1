//! Rows in groups: `D[i, :] = alpha * A[i, :] @ B[g]` for the rows `i` of group `g`.
//!
//! The bound is that of [the GEMM](super) of each group alone, for f32 sums in any order. Rows of no
//! group are exactly 0.

use abi::DType;
use ndarray::{ArrayD, ArrayViewD, Axis, Slice};

use super::{GemmOptions, gemm};
use crate::{Expected, ReferenceError};

/// The rows of each group: from `max(0, ends[0..g])` to `max(0, ends[0..=g])`, both at most `m`.
pub fn rows_of_groups(ends: &[i64], m: usize) -> Vec<std::ops::Range<usize>> {
    let mut start = 0;
    let ranges = ends.iter().map(|&end| {
        let end = usize::try_from(end).unwrap_or(0).min(m).max(start);
        let rows = start..end;
        start = end;
        rows
    });
    ranges.collect()
}

/// Grouped GEMM of `a`: `[m, k]` and `b`: `[groups, k, n]`, with the end of each group's rows. The
/// result has the dtype `dtype`.
///
/// # Errors
/// [`ReferenceError::ShapeMismatch`].
pub fn grouped(
    a: &ArrayViewD<'_, f64>,
    b: &ArrayViewD<'_, f64>,
    ends: &[i64],
    alpha: f32,
    dtype: DType,
) -> Result<Expected, ReferenceError> {
    let &[m, k] = a.shape() else {
        let want = "it has to have 2 dimensions";
        return Err(ReferenceError::shape("a", a.shape(), want));
    };
    let n = match *b.shape() {
        [groups, of_b, n] if groups == ends.len() && of_b == k => n,
        _ => {
            let want = format!("it has to be [{}, {k}, n]", ends.len());
            return Err(ReferenceError::shape("b", b.shape(), want));
        }
    };
    let mut whole = Expected::exact(ArrayD::zeros(vec![m, n]), dtype);
    let options = GemmOptions {
        alpha,
        beta: 0.0,
        dtype,
    };
    for (group, rows) in rows_of_groups(ends, m).into_iter().enumerate() {
        let rows = Slice::from(rows);
        let own = gemm(
            &a.slice_axis(Axis(0), rows),
            &b.index_axis(Axis(0), group),
            None,
            &options,
        )?;
        let mut values = whole.values.slice_axis_mut(Axis(0), rows);
        values.assign(&own.values);
        let mut bounds = whole.bounds.slice_axis_mut(Axis(0), rows);
        bounds.assign(&own.bounds);
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use ndarray::{arr2, arr3};

    use super::*;

    #[test]
    fn ends_that_do_not_grow_are_empty_groups() {
        assert_eq!(rows_of_groups(&[2, 2, 5], 5), [0..2, 2..2, 2..5]);
        assert_eq!(
            rows_of_groups(&[-3, 4, 1, 9, 7], 6),
            [0..0, 0..4, 4..4, 4..6, 6..6]
        );
        assert_eq!(rows_of_groups(&[], 6), []);
        assert_eq!(rows_of_groups(&[i64::MIN, i64::MAX], 0), [0..0, 0..0]);
    }

    #[test]
    fn each_group_has_its_matrix_and_rows_of_none_are_zero() {
        let a = arr2(&[[1.0, 2.0], [3.0, 4.0], [f64::NAN, 1.0]]).into_dyn();
        let b = arr3(&[[[2.0, 0.0], [0.0, 2.0]], [[0.0, 1.0], [1.0, 0.0]]]).into_dyn();
        let d = grouped(&a.view(), &b.view(), &[1, 2], 0.5, DType::F32).unwrap();
        let want = arr2(&[[1.0, 2.0], [2.0, 1.5], [0.0, 0.0]]).into_dyn();
        assert_eq!(d.values, want);
    }

    #[test]
    fn refuses_shapes_that_do_not_fit() {
        let zeros = |shape: &[usize]| ArrayD::<f64>::zeros(shape);
        for (a, b, ends) in [
            (zeros(&[2]), zeros(&[1, 2, 3]), &[1][..]),
            (zeros(&[2, 3]), zeros(&[3, 2]), &[1]),
            (zeros(&[2, 3]), zeros(&[1, 2, 2]), &[1]),
            (zeros(&[2, 3]), zeros(&[1, 3, 2]), &[1, 2]),
        ] {
            assert!(grouped(&a.view(), &b.view(), ends, 1.0, DType::F32).is_err());
        }
    }
}
