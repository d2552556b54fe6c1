//! Inputs with rows and columns.

use core::marker::PhantomData;
use core::ops::Index;

use super::Input;

/// Extents and strides, in elements, of what has rows and columns: the second parameter of a
/// [`View2`] and of an output of two dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Shape2 {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
    /// From an element to the one below.
    pub row_stride: isize,
    /// From an element to the next of its row.
    pub column_stride: isize,
}

impl Shape2 {
    /// Position of an element from element (0, 0); `None` if there is no such element.
    #[inline(always)]
    pub fn offset(&self, row: usize, column: usize) -> Option<isize> {
        (row < self.rows && column < self.columns).then(|| {
            // A launch's memory is smaller than 2^63 bytes.
            let rows = row.cast_signed().wrapping_mul(self.row_stride);
            rows.wrapping_add(column.cast_signed().wrapping_mul(self.column_stride))
        })
    }

    #[inline(always)]
    #[track_caller]
    pub(super) fn out_of_bounds(&self, row: usize, column: usize) -> ! {
        panic!(
            "index out of bounds: the shape is {} x {} but the index is ({row}, {column})",
            self.rows, self.columns
        )
    }
}

/// Extents and strides, in elements, of an output of three dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Shape3 {
    /// Number of planes.
    pub planes: usize,
    /// Number of rows of a plane.
    pub rows: usize,
    /// Number of columns of a plane.
    pub columns: usize,
    /// From an element to the same one of the next plane.
    pub plane_stride: isize,
    /// From an element to the one below.
    pub row_stride: isize,
    /// From an element to the next of its row.
    pub column_stride: isize,
}

impl Shape3 {
    /// Rows and columns of a plane.
    #[inline(always)]
    pub(super) fn plane(&self) -> Shape2 {
        Shape2 {
            rows: self.rows,
            columns: self.columns,
            row_stride: self.row_stride,
            column_stride: self.column_stride,
        }
    }
}

/// An input with rows and columns, and any strides: a tensor of two dimensions, also a transposed
/// one or a part of one.
#[derive(Debug)]
pub struct View2<'kernel, T> {
    pointer: *const T,
    shape: Shape2,
    elements: PhantomData<&'kernel T>,
}

impl<T> Clone for View2<'_, T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for View2<'_, T> {}

impl<'kernel, T: Input> View2<'kernel, T> {
    /// For `#[kernel]` alone.
    ///
    /// # Safety
    /// All elements of the shape are at `pointer`, aligned. They live as long as `'kernel`, and nobody
    /// writes them meanwhile, unless `T` is an atomic.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn new(pointer: *const T, shape: Shape2) -> Self {
        Self {
            pointer,
            shape,
            elements: PhantomData,
        }
    }

    /// Number of rows.
    #[inline(always)]
    pub fn rows(&self) -> usize {
        self.shape.rows
    }

    /// Number of columns.
    #[inline(always)]
    pub fn columns(&self) -> usize {
        self.shape.columns
    }

    /// The element, if there is one.
    #[inline(always)]
    pub fn get(&self, row: usize, column: usize) -> Option<&'kernel T> {
        let offset = self.shape.offset(row, column)?;
        // SAFETY: an element of the shape.
        Some(unsafe { &*self.pointer.offset(offset) })
    }
}

impl<T: Input> Index<(usize, usize)> for View2<'_, T> {
    type Output = T;

    #[inline(always)]
    #[track_caller]
    fn index(&self, (row, column): (usize, usize)) -> &T {
        match self.get(row, column) {
            Some(element) => element,
            None => self.shape.out_of_bounds(row, column),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transposed_view_reads_what_its_strides_say() {
        let elements = [1_u32, 2, 3, 4, 5, 6];
        let shape = Shape2 {
            rows: 3,
            columns: 2,
            row_stride: 1,
            column_stride: 3,
        };
        // SAFETY: six elements.
        let view = unsafe { View2::new(elements.as_ptr(), shape) };
        assert_eq!([view[(0, 1)], view[(2, 0)], view[(2, 1)]], [4, 3, 6]);
        assert_eq!((view.get(3, 0), view.get(0, 2)), (None, None));
    }
}
