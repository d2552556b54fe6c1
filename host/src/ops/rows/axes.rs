//! The axes that rows lie along: a tensor is seen with them last.

use crate::ops::check;
use crate::tensor::Dims;
use crate::{Element, Error, MAX_RANK, Result, Tensor};

/// What was asked for, not looked at yet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Along {
    /// So many of the last axes.
    Last(usize),
    /// One bit each, and the first axis that no tensor has.
    These { bits: u32, bad: Option<usize> },
}

/// Methods that say along which axes, of a struct with [`Along`] at these nested fields.
macro_rules! along_axes {
    ($($field:tt),+) => {
        /// Along this axis.
        pub fn axis(self, axis: usize) -> Self {
            self.axes(&[axis])
        }

        /// Along these axes together, in any order; one named twice counts once.
        pub fn axes(mut self, axes: &[usize]) -> Self {
            self$(.$field)+ = $crate::ops::rows::axes::Along::these(axes);
            self
        }
    };
}
pub(super) use along_axes;

/// The same, and along how many of the last ones.
macro_rules! along_axes_or_last {
    ($($field:tt),+) => {
        $crate::ops::rows::axes::along_axes!($($field),+);

        /// Along so many of the last axes together: all that a shape of so many dimensions spans.
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

    /// Of this tensor.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] (an axis that it has not, more axes than it has),
    /// [`Error::InvalidValue`] (none).
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

/// The axes of a tensor: those of which rows are numbered, then those along which elements are.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowAxes {
    order: [usize; MAX_RANK],
    rank: usize,
    /// How many number the rows.
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

    /// `x` with the elements' axes last, each group in the order that it has.
    pub(super) fn last<T: Element>(&self, x: &Tensor<T>) -> Result<Tensor<T>> {
        x.permute(&self.order[..self.rank])
    }

    /// Extents of what there is one of a row, of a tensor of this shape.
    pub(super) fn of_rows(&self, shape: &[usize]) -> Result<Dims<usize>> {
        extents(shape, &self.order[..self.outer])
    }

    /// Extents of a row.
    pub(super) fn of_row(&self, shape: &[usize]) -> Result<Dims<usize>> {
        extents(shape, &self.order[self.outer..self.rank])
    }

    /// How many axes number the rows.
    pub(super) fn outer(&self) -> usize {
        self.outer
    }

    /// Rows of a tensor of this shape, and elements of one.
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
