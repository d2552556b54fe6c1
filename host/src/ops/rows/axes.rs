//! The axes that form a row. Tensors are permuted so that they come last.

use crate::ops::check;
use crate::tensor::Dims;
use crate::{Element, Error, MAX_RANK, Result, Tensor};

/// The requested axes, not validated yet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Along {
    /// This many of the last axes.
    Last(usize),
    /// A bit mask of axes, and the first requested one that exceeds the largest rank.
    These { bits: u32, bad: Option<usize> },
}

/// Methods that select the axes, for a struct with an [`Along`] at these nested fields.
macro_rules! along_axes {
    ($($field:tt),+) => {
        /// Makes the elements along this axis form a row.
        pub fn axis(self, axis: usize) -> Self {
            self.axes(&[axis])
        }

        /// Makes the elements along these axes together form a row. Their order does not matter,
        /// and a repeated axis counts once.
        pub fn axes(mut self, axes: &[usize]) -> Self {
            self$(.$field)+ = $crate::ops::rows::axes::Along::these(axes);
            self
        }
    };
}
pub(super) use along_axes;

/// The same methods, and one that takes the number of the last axes.
macro_rules! along_axes_or_last {
    ($($field:tt),+) => {
        $crate::ops::rows::axes::along_axes!($($field),+);

        /// Makes the elements along the last `count` axes together form a row, like torch's
        /// `normalized_shape` of `count` dimensions.
        pub fn last_axes(mut self, count: usize) -> Self {
            self$(.$field)+ = $crate::ops::rows::axes::Along::Last(count);
            self
        }
    };
}
pub(super) use along_axes_or_last;

impl Along {
    pub(super) fn these(axes: &[usize]) -> Self {
        let mut bits = 0;
        let mut bad = None;
        for &axis in axes {
            if axis < MAX_RANK {
                bits |= 1 << axis;
            } else {
                bad = bad.or(Some(axis));
            }
        }
        Self::These { bits, bad }
    }

    /// Validates the axes for this tensor.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] (an axis that it does not have, or more axes than it has),
    /// [`Error::InvalidValue`] (no axes).
    pub(super) fn of<T: Element>(self, x: &Tensor<T>) -> Result<RowAxes> {
        let rank = x.rank();
        let bits = match self {
            Self::Last(1) => {
                check::axis(x, rank.saturating_sub(1))?;
                1 << (rank - 1)
            }
            Self::Last(count) if count > rank => {
                return Err(Error::OutOfBounds {
                    what: "number of axes",
                    got: count as u64,
                    limit: rank as u64 + 1,
                });
            }
            Self::Last(count) => ((1 << count) - 1) << (rank - count),
            Self::These { bits, bad } => {
                let beyond = (rank..MAX_RANK).find(|axis| bits >> axis & 1 == 1);
                if let Some(axis) = beyond.or(bad) {
                    check::axis(x, axis)?;
                }
                bits
            }
        };
        if bits == 0 {
            return Err(Error::InvalidValue {
                what: "axes",
                got: "none".into(),
                want: "at least one".into(),
            });
        }
        Ok(RowAxes::new(bits, rank))
    }
}

/// A permutation of a tensor's axes: first those that index the rows, then those that form a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowAxes {
    order: [usize; MAX_RANK],
    rank: usize,
    /// Number of axes that index the rows.
    outer: usize,
}

impl RowAxes {
    fn new(bits: u32, rank: usize) -> Self {
        let mut order = [0; MAX_RANK];
        let is_inner = |axis: &usize| bits >> axis & 1 == 1;
        let outer = (0..rank).filter(|axis| !is_inner(axis));
        let all = outer.clone().chain((0..rank).filter(is_inner));
        for (to, axis) in order.iter_mut().zip(all) {
            *to = axis;
        }
        Self {
            order,
            rank,
            outer: outer.count(),
        }
    }

    /// `x` with the axes of a row last; within each group, axes keep their order.
    pub(super) fn last<T: Element>(&self, x: &Tensor<T>) -> Result<Tensor<T>> {
        x.permute(&self.order[..self.rank])
    }

    /// Shape of a tensor with one element per row, of a tensor with this shape.
    pub(super) fn of_rows(&self, shape: &[usize]) -> Result<Dims<usize>> {
        extents(shape, &self.order[..self.outer])
    }

    /// This shape, with `k` elements along the only axis of a row.
    pub(super) fn with_row(&self, shape: &[usize], k: usize) -> Result<Dims<usize>> {
        let mut of = [0; MAX_RANK];
        of[..self.rank].copy_from_slice(shape);
        for &axis in &self.order[self.outer..self.rank] {
            of[axis] = k;
        }
        Dims::new(&of[..self.rank])
    }

    /// Shape of a row.
    pub(super) fn of_row(&self, shape: &[usize]) -> Result<Dims<usize>> {
        extents(shape, &self.order[self.outer..self.rank])
    }

    /// Number of axes that index the rows.
    pub(super) fn outer(&self) -> usize {
        self.outer
    }

    /// Number of rows of a tensor of this shape, and number of elements of a row.
    pub(super) fn extents(&self, shape: &[usize]) -> (usize, usize) {
        let product = |axes: &[usize]| axes.iter().map(|&axis| shape[axis]).product();
        let (outer, inner) = self.order[..self.rank].split_at(self.outer);
        (product(outer), product(inner))
    }
}

fn extents(shape: &[usize], axes: &[usize]) -> Result<Dims<usize>> {
    let mut of = [0; MAX_RANK];
    for (to, &axis) in of.iter_mut().zip(axes) {
        *to = shape[axis];
    }
    Dims::new(&of[..axes.len()])
}
