//! Views: other shapes and strides over the same storage, without a copy.

use super::Tensor;
use super::layout::{Layout, axis_of};
use crate::element::Element;
use crate::error::Result;
use std::ops::{Bound, RangeBounds};

impl<T: Element> Tensor<T> {
    /// The indices `range` of `axis`: `x.slice(1, 2..5)` is NumPy's `x[:, 2:5]`. A negative axis
    /// counts from the end, here and in the methods below.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape).
    pub fn slice(&self, axis: isize, range: impl RangeBounds<usize>) -> Result<Self> {
        self.slice_step(axis, range, 1)
    }

    /// Every `step`th index of `range` of `axis`. A negative step starts at the last index of the
    /// range, so `x.slice_step(0, .., -1)` reverses an axis.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape), and
    /// [`ArgumentError::Value`](crate::ArgumentError::Value) for a step of 0.
    pub fn slice_step(
        &self,
        axis: isize,
        range: impl RangeBounds<usize>,
        step: i64,
    ) -> Result<Self> {
        let axis = axis_of(self.rank(), axis)?;
        let start = match range.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&start) => start.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&end) => end.saturating_add(1),
            Bound::Excluded(&end) => end,
            Bound::Unbounded => self.shape()[axis],
        };
        Ok(self.view(self.layout.slice(axis, start, end, step)?))
    }

    /// The elements at `index` of `axis`, with that dimension removed.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape).
    pub fn index_axis(&self, axis: isize, index: usize) -> Result<Self> {
        let axis = axis_of(self.rank(), axis)?;
        Ok(self.view(self.layout.index_axis(axis, index)?))
    }

    /// Inserts a dimension of extent 1, which becomes `axis` of the result: 0 is the first, -1 the
    /// last.
    ///
    /// # Errors
    /// [`ShapeError::Axis`](crate::ShapeError::Axis) for an axis that the result does not have,
    /// [`ShapeError::OutOfBounds`](crate::ShapeError::OutOfBounds) for too many dimensions.
    pub fn insert_axis(&self, axis: isize) -> Result<Self> {
        let axis = axis_of(self.rank() + 1, axis)?;
        Ok(self.view(self.layout.insert_axis(axis)?))
    }

    /// Reorders the dimensions: dimension `axes[i]` becomes dimension `i`.
    ///
    /// # Errors
    /// [`ShapeError::Axis`](crate::ShapeError::Axis), and
    /// [`ArgumentError::Value`](crate::ArgumentError::Value) unless `axes` is a permutation.
    pub fn permute(&self, axes: &[isize]) -> Result<Self> {
        let axes = axes.iter().map(|&axis| axis_of(self.rank(), axis));
        self.permuted(&axes.collect::<Result<Vec<_>>>()?)
    }

    /// As [`permute`](Self::permute), of axes that count from the start.
    pub(crate) fn permuted(&self, axes: &[usize]) -> Result<Self> {
        Ok(self.view(self.layout.permute(axes)?))
    }

    /// Exchanges the last two dimensions: the transpose of a matrix, or of each matrix of a batch.
    /// A tensor with fewer than two dimensions is returned as it is.
    #[must_use]
    pub fn t(&self) -> Self {
        self.view(self.layout.transposed())
    }

    /// The same elements in the same row-major order with another shape, as a view.
    ///
    /// # Errors
    /// [`ShapeError::Mismatch`](crate::ShapeError::Mismatch) for another number of elements.
    /// [`ShapeError::ReshapeNeedsCopy`](crate::ShapeError::ReshapeNeedsCopy) if no strides over the
    /// same storage give this shape. [`ShapeError::Overflow`](crate::ShapeError::Overflow) if a
    /// stride does not fit an i64, as of the empty shape `[usize::MAX, 0]`.
    /// [`ShapeError::OutOfBounds`](crate::ShapeError::OutOfBounds) for too many dimensions.
    pub fn reshape(&self, shape: &[usize]) -> Result<Self> {
        Ok(self.view(self.layout.reshape(shape)?))
    }

    /// Repeats dimensions of extent 1, and missing leading ones, to `shape`, with stride 0 (NumPy's
    /// broadcasting rules).
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape),
    /// [`ShapeError::OutOfBounds`](crate::ShapeError::OutOfBounds) for too many dimensions.
    pub fn broadcast_to(&self, shape: &[usize]) -> Result<Self> {
        Ok(self.view(self.layout.broadcast_to(shape)?))
    }

    /// A view with any shape and strides over the whole storage. `strides` and `offset`, the
    /// position of the element at index (0, 0, ..) in the storage, are in elements.
    ///
    /// # Errors
    /// [`ShapeError::ViewOutOfBounds`](crate::ShapeError::ViewOutOfBounds) where an index would
    /// reach outside of the storage, [`ShapeError::Length`](crate::ShapeError::Length) for shape
    /// and strides of different lengths, [`ShapeError::Overflow`](crate::ShapeError::Overflow),
    /// [`ShapeError::OutOfBounds`](crate::ShapeError::OutOfBounds) for too many dimensions.
    pub fn as_strided(&self, shape: &[usize], strides: &[i64], offset: usize) -> Result<Self> {
        let len = (self.storage.bytes() / size_of::<T>() as u64) as usize;
        Ok(self.view(Layout::new(shape, strides, offset, len)?))
    }

    fn view(&self, layout: Layout) -> Self {
        Self::from_parts(self.storage.clone(), layout)
    }
}
