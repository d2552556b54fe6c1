//! Arrays viewed as rows along some of their axes.

use ndarray::ArrayD;
use proptest::prelude::*;

/// An axis as a caller may name it: odd ones count from the end.
pub fn signed(axis: usize, rank: usize) -> isize {
    match axis % 2 {
        0 => axis as isize,
        _ => axis as isize - rank as isize,
    }
}

/// Indices of an axis of this extent, where negative ones count from the end.
pub fn wrapped(indices: ArrayD<i64>, extent: usize) -> ArrayD<i64> {
    indices.mapv_into(|index| index + if index < 0 { extent as i64 } else { 0 })
}

/// The axes along which an operation works; empty means the last axis.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(transparent)]
pub struct RowAxes(pub Vec<usize>);

impl RowAxes {
    /// Any choice for a tensor of rank `rank`: the last axis, one axis or several.
    pub fn any(rank: usize) -> impl Strategy<Value = Self> {
        let some = prop::collection::vec(0..rank, 1..=rank).prop_map(Self);
        prop_oneof![Just(Self::default()), some]
    }

    /// The axes as a caller may name them.
    pub fn signed(&self, rank: usize) -> Vec<isize> {
        self.0.iter().map(|&axis| signed(axis, rank)).collect()
    }

    /// The axes of an array of rank `rank`, sorted.
    fn sorted(&self, rank: usize) -> Vec<usize> {
        match self.0.is_empty() {
            true => vec![rank - 1],
            false => (0..rank).filter(|axis| self.0.contains(axis)).collect(),
        }
    }

    /// Extents of a row.
    pub fn of_row(&self, shape: &[usize]) -> Vec<usize> {
        let axes = self.sorted(shape.len());
        axes.iter().map(|&axis| shape[axis]).collect()
    }

    /// Extents of what has one element per row.
    pub fn of_rows(&self, shape: &[usize]) -> Vec<usize> {
        let axes = self.sorted(shape.len());
        let others = (0..shape.len()).filter(|axis| !axes.contains(axis));
        others.map(|axis| shape[axis]).collect()
    }

    /// The array as `[rows, n]`.
    ///
    /// # Panics
    /// Never: the number of elements always fits.
    pub fn rows<X: Clone>(&self, array: &ArrayD<X>) -> ArrayD<X> {
        let shape = array.shape();
        let axes = self.sorted(shape.len());
        let others = (0..shape.len()).filter(|axis| !axes.contains(axis));
        let order: Vec<_> = others.chain(axes.iter().copied()).collect();
        let count = |shape: Vec<usize>| shape.iter().product::<usize>();
        let extents = vec![count(self.of_rows(shape)), count(self.of_row(shape))];
        let elements = array.view().permuted_axes(order).iter().cloned().collect();
        ArrayD::from_shape_vec(extents, elements).expect("an element for each place")
    }
}

/// All elements in row-major order, as a one-dimensional array.
pub fn flat<X: Clone>(array: &ArrayD<X>) -> ArrayD<X> {
    ndarray::Array1::from_iter(array.iter().cloned()).into_dyn()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_along_their_axes_and_numbered_along_the_others() {
        let array = ArrayD::from_shape_fn(vec![2, 3, 2], |at| at[0] * 100 + at[1] * 10 + at[2]);
        let axes = RowAxes(vec![2, 0, 2]);
        assert_eq!(axes.of_row(array.shape()), [2, 2]);
        let rows = axes.rows(&array);
        assert_eq!(rows.shape(), [3, 4]);
        assert_eq!(
            flat(&rows).as_slice(),
            Some(&[0, 1, 100, 101, 10, 11, 110, 111, 20, 21, 120, 121][..])
        );
        assert_eq!(RowAxes::default().rows(&array).shape(), [6, 2]);
    }
}
