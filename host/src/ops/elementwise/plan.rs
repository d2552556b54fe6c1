//! How an elementwise launch walks its tensors: dimensions merged where all of them allow it.

use crate::LaunchConfig;
use spec::elementwise::{ElementwiseParams, MAX_RANK, THREADS, grid_blocks};

/// Extents, and the strides of up to three tensors: the output first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Walk {
    rank: usize,
    shape: [usize; MAX_RANK],
    strides: [[i64; MAX_RANK]; 3],
}

impl Walk {
    /// The walk over `shape` with the output's strides and those of the inputs, each of the
    /// shape's rank. Elements are independent, so dimensions may be taken in any order: the
    /// output's longest strides come first.
    pub(crate) fn new<const TENSORS: usize>(shape: &[usize], strides: [&[i64]; TENSORS]) -> Self {
        const { assert!(TENSORS <= 3, "an output and two inputs") }
        let mut walk = Self {
            rank: 0,
            shape: [1; MAX_RANK],
            strides: [[0; MAX_RANK]; 3],
        };
        for (axis, &extent) in shape.iter().enumerate() {
            if extent != 1 {
                walk.shape[walk.rank] = extent;
                for (to, from) in walk.strides.iter_mut().zip(strides) {
                    to[walk.rank] = from[axis];
                }
                walk.rank += 1;
            }
        }
        walk.sort();
        walk.merge();
        walk
    }

    /// Insertion sort of the dimensions by the output's strides, longest first.
    fn sort(&mut self) {
        for end in 1..self.rank {
            let mut axis = end;
            while axis > 0
                && self.strides[0][axis].unsigned_abs() > self.strides[0][axis - 1].unsigned_abs()
            {
                self.shape.swap(axis, axis - 1);
                for strides in &mut self.strides {
                    strides.swap(axis, axis - 1);
                }
                axis -= 1;
            }
        }
    }

    /// Joins neighbours that every tensor steps through as if they were one dimension.
    fn merge(&mut self) {
        let mut last = 0;
        for axis in 1..self.rank {
            let extent = self.shape[axis] as i128;
            let joins = self
                .strides
                .iter()
                .all(|s| i128::from(s[last]) == i128::from(s[axis]) * extent);
            if !joins {
                last += 1;
            }
            self.shape[last] = if joins {
                self.shape[last] * self.shape[axis]
            } else {
                self.shape[axis]
            };
            for strides in &mut self.strides {
                strides[last] = strides[axis];
            }
        }
        if self.rank > 0 {
            self.rank = last + 1;
        }
    }

    fn len(&self) -> u64 {
        self.shape[..self.rank]
            .iter()
            .map(|&extent| extent as u64)
            .product()
    }

    /// The launch, of a walk over at least one element by `tensors` tensors.
    pub(crate) fn launch(&self, tensors: usize, scalar: f32) -> (LaunchConfig, ElementwiseParams) {
        let len = self.len();
        let is_dense = match self.rank {
            0 => true,
            1 => self.strides[..tensors]
                .iter()
                .all(|strides| strides[0] == 1),
            _ => false,
        };
        let mut params = ElementwiseParams {
            len,
            contiguous: u32::from(is_dense),
            rank: self.rank as u32,
            shape: [1; MAX_RANK],
            strides: [[0; MAX_RANK]; 3],
            scalar,
            reserved: 0,
        };
        let unused = MAX_RANK - self.rank;
        for axis in 0..self.rank {
            params.shape[unused + axis] = self.shape[axis] as u64;
            for (to, from) in params.strides.iter_mut().zip(&self.strides) {
                to[unused + axis] = from[axis];
            }
        }
        (LaunchConfig::linear(grid_blocks(len), THREADS), params)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dims(walk: &Walk) -> Vec<(usize, i64, i64)> {
        (0..walk.rank)
            .map(|i| (walk.shape[i], walk.strides[0][i], walk.strides[1][i]))
            .collect()
    }

    #[test]
    fn dense_tensors_are_one_dimension() {
        let walk = Walk::new(&[2, 3, 4], [&[12, 4, 1], &[12, 4, 1]]);
        assert_eq!(dims(&walk), [(24, 1, 1)]);
        let (_, params) = walk.launch(2, 0.0);
        assert_eq!((params.len, params.contiguous), (24, 1));
    }

    #[test]
    fn tensors_transposed_alike_are_dense_too() {
        let walk = Walk::new(&[3, 4], [&[1, 3], &[1, 3]]);
        assert_eq!(dims(&walk), [(12, 1, 1)]);
    }

    #[test]
    fn a_transposed_input_keeps_both_dimensions() {
        let walk = Walk::new(&[3, 4], [&[4, 1], &[1, 3]]);
        assert_eq!(dims(&walk), [(3, 4, 1), (4, 1, 3)]);
        let (_, params) = walk.launch(2, 0.0);
        assert_eq!((params.contiguous, params.rank), (0, 2));
        assert_eq!(params.shape[MAX_RANK - 2..], [3, 4]);
        assert_eq!(params.shape[..MAX_RANK - 2], [1; MAX_RANK - 2]);
    }

    #[test]
    fn a_broadcast_row_keeps_its_zero_stride() {
        let walk = Walk::new(&[5, 3, 4], [&[12, 4, 1], &[0, 0, 1]]);
        assert_eq!(dims(&walk), [(15, 4, 0), (4, 1, 1)]);
    }

    #[test]
    fn a_single_element_is_dense_whatever_its_strides() {
        let walk = Walk::new(&[1, 1], [&[7, 9], &[0, -3]]);
        assert_eq!(walk.launch(2, 0.0).1.contiguous, 1);
        let walk = Walk::new(&[], [&[], &[]]);
        assert_eq!(walk.launch(2, 0.0).1.len, 1);
    }

    #[test]
    fn a_reversed_input_is_walked_with_its_stride() {
        let walk = Walk::new(&[4, 5], [&[5, 1], &[-5, -1]]);
        assert_eq!(dims(&walk), [(20, 1, -1)]);
        assert_eq!(walk.launch(2, 0.0).1.contiguous, 0);
    }
}
