//! The axes that an operation works along.

use crate::ops::check;
use crate::tensor::Dims;
use crate::{Element, Error, MAX_RANK, Result, ShapeError, Tensor};

/// Axes of a tensor, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Axes(u32);

impl Axes {
    pub(super) const NONE: Self = Self(0);

    pub(super) fn with(self, axis: usize) -> Self {
        Self(self.0 | 1 << axis)
    }

    pub(super) fn has(self, axis: usize) -> bool {
        self.0 >> axis & 1 == 1
    }
}

/// The axes that a caller selected. A bad one is refused when the operation runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Selected {
    axes: Axes,
    /// The first one that the tensor does not have.
    bad: Option<isize>,
}

impl Selected {
    /// Every axis of a tensor of this rank.
    pub(super) fn all(rank: usize) -> Self {
        Self {
            axes: (0..rank).fold(Axes::NONE, Axes::with),
            bad: None,
        }
    }

    /// These axes of a tensor of this rank. Negative ones count from the end.
    pub(super) fn these(rank: usize, axes: &[isize]) -> Self {
        let none = Self {
            axes: Axes::NONE,
            bad: None,
        };
        axes.iter()
            .fold(none, |all, &axis| match check::axis(rank, axis) {
                Ok(axis) => Self {
                    axes: all.axes.with(axis),
                    ..all
                },
                Err(_) => Self {
                    bad: all.bad.or(Some(axis)),
                    ..all
                },
            })
    }

    /// The axes, which a tensor of this rank has.
    pub(super) fn checked(self, rank: usize) -> Result<Axes> {
        match self.bad {
            Some(axis) => Err(Error::Shape(ShapeError::Axis { axis, rank })),
            None => Ok(self.axes),
        }
    }

    /// The permutation for rows of at least one axis.
    ///
    /// # Errors
    /// [`ShapeError::Axis`], and [`ArgumentError::Value`](crate::ArgumentError::Value) for no axes.
    pub(super) fn rows_of<T: Element>(self, x: &Tensor<T>) -> Result<RowAxes> {
        match self.checked(x.rank())? {
            Axes::NONE => Err(Error::value("axes", "none", "at least one")),
            axes => Ok(RowAxes::new(axes, x.rank())),
        }
    }
}

/// Methods that select the axes of a row, for a struct with [`Selected`] axes and their tensor in
/// these fields.
macro_rules! select_axes {
    ($($axes:tt).+, $($x:tt).+) => {
        /// Makes the elements along this axis form a row. A negative axis counts from the end.
        pub fn axis(self, axis: isize) -> Self {
            self.axes(&[axis])
        }

        /// Makes the elements along these axes together form a row. Negative axes count from the
        /// end. Their order does not matter, and a repeated axis counts once.
        pub fn axes(mut self, axes: &[isize]) -> Self {
            self$(.$axes)+ = $crate::ops::axes::Selected::these(self$(.$x)+.rank(), axes);
            self
        }
    };
}
pub(super) use select_axes;

/// A permutation of a tensor's axes: first those that index the rows, then those that form a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowAxes {
    order: [usize; MAX_RANK],
    rank: usize,
    /// Number of axes that index the rows.
    outer: usize,
}

impl RowAxes {
    /// The permutation for rows along these axes.
    pub(super) fn new(axes: Axes, rank: usize) -> Self {
        let mut order = [0; MAX_RANK];
        let outer = (0..rank).filter(|&axis| !axes.has(axis));
        let all = outer
            .clone()
            .chain((0..rank).filter(|&axis| axes.has(axis)));
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
        x.permuted(&self.order[..self.rank])
    }

    /// A tensor's extents, those of a row last.
    pub(super) fn permuted(&self, shape: &[usize]) -> Vec<usize> {
        self.order[..self.rank]
            .iter()
            .map(|&axis| shape[axis])
            .collect()
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
