//! Selection along an axis by indices, which is exact.

use ndarray::{ArrayD, ArrayViewD, Axis, Dimension, IxDyn};

use crate::ReferenceError;

/// `y[a.., j.., b..] = x[a.., indices[j..], b..]`, where `axis` is behind the dimensions `a`; `fill`
/// where an index is below 0 or not below the extent of the axis.
///
/// # Errors
/// [`ReferenceError::AxisOutOfRange`].
pub fn take<T: Clone>(
    x: &ArrayViewD<'_, T>,
    axis: usize,
    indices: &ArrayViewD<'_, i64>,
    fill: &T,
) -> Result<ArrayD<T>, ReferenceError> {
    ReferenceError::unless_axis(x.ndim(), axis)?;
    let (before, behind) = x.shape().split_at(axis);
    let shape = [before, indices.shape(), &behind[1..]].concat();
    let count = x.len_of(Axis(axis));
    let element = |at: IxDyn| {
        let (before, rest) = at.slice().split_at(axis);
        let (index, behind) = rest.split_at(indices.ndim());
        let selected = usize::try_from(indices[index]).ok();
        match selected.filter(|&selected| selected < count) {
            Some(selected) => x[[before, &[selected], behind].concat().as_slice()].clone(),
            None => fill.clone(),
        }
    };
    Ok(ArrayD::from_shape_fn(shape, element))
}

/// `y[a.., j, b..] = x[a.., indices[a.., j, b..], b..]`, where `axis` is behind the dimensions `a`;
/// `fill` where an index is below 0 or not below the extent of the axis. The other extents of
/// `indices` are those of `x`.
///
/// # Errors
/// [`ReferenceError::AxisOutOfRange`].
pub fn take_each<T: Clone>(
    x: &ArrayViewD<'_, T>,
    axis: usize,
    indices: &ArrayViewD<'_, i64>,
    fill: &T,
) -> Result<ArrayD<T>, ReferenceError> {
    ReferenceError::unless_axis(x.ndim(), axis)?;
    let element = |at: IxDyn| {
        let mut from = at.clone();
        let selected = usize::try_from(indices[at]).ok();
        match selected.filter(|&selected| selected < x.len_of(Axis(axis))) {
            Some(selected) => {
                from[axis] = selected;
                x[from].clone()
            }
            None => fill.clone(),
        }
    };
    Ok(ArrayD::from_shape_fn(indices.raw_dim(), element))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Array, array};

    #[test]
    fn rows_of_a_table_are_selected_in_the_order_of_the_indices() {
        let table = array![[1, 2], [3, 4], [5, 6]].into_dyn();
        let indices = array![[2, 0], [3, -1]].into_dyn();
        let got = take(&table.view(), 0, &indices.view(), &-7).expect("axis 0 is there");
        let want = array![[[5, 6], [1, 2]], [[-7, -7], [-7, -7]]].into_dyn();
        assert_eq!(got, want);
    }

    #[test]
    fn it_is_what_ndarray_selects_along_every_axis() {
        let x = Array::from_shape_fn((2, 3, 4), |(i, j, k)| 100 * i + 10 * j + k).into_dyn();
        for axis in 0..3 {
            let indices = array![1, 0, 1, 1].into_dyn();
            let got = take(&x.view(), axis, &indices.view(), &0).expect("the axis is there");
            assert_eq!(got, x.select(Axis(axis), &[1, 0, 1, 1]));
        }
    }

    #[test]
    fn one_index_without_dimensions_removes_the_axis() {
        let x = array![[1, 2], [3, 4]].into_dyn();
        let index = ArrayD::from_elem(vec![], 1);
        let got = take(&x.view(), 1, &index.view(), &0).expect("the axis is there");
        assert_eq!(got, array![2, 4].into_dyn());
        let refused = take(&x.view(), 2, &index.view(), &0);
        assert_eq!(
            refused,
            Err(ReferenceError::AxisOutOfRange { axis: 2, rank: 2 })
        );
    }

    #[test]
    fn each_element_has_an_index_of_its_own() {
        let x = array![[1, 2, 3], [4, 5, 6]].into_dyn();
        let indices = array![[2, 0], [1, 3]].into_dyn();
        let got = take_each(&x.view(), 1, &indices.view(), &-7).expect("the axis is there");
        assert_eq!(got, array![[3, 1], [5, -7]].into_dyn());
        let indices = array![[1, 0, -1]].into_dyn();
        let got = take_each(&x.view(), 0, &indices.view(), &-7).expect("the axis is there");
        assert_eq!(got, array![[4, 2, -7]].into_dyn());
    }
}
