//! Inputs with rows and columns, and with planes of them.

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
    /// Where an element is, with element (0, 0) at `pointer`; `None` if there is no such element.
    ///
    /// # Safety
    /// The elements of the shape are there.
    #[inline(always)]
    pub unsafe fn element<T>(
        &self,
        pointer: *const T,
        row: usize,
        column: usize,
    ) -> Option<*const T> {
        // One step after the other, so that LLVM takes what stays out of a loop. A launch's memory is
        // smaller than 2^63 bytes.
        let steps = (
            column.cast_signed().wrapping_mul(self.column_stride),
            row.cast_signed().wrapping_mul(self.row_stride),
        );
        // SAFETY: elements (0, column) and (row, column) of the shape.
        (row < self.rows && column < self.columns)
            .then(|| unsafe { pointer.offset(steps.0).offset(steps.1) })
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

/// Extents and strides, in elements, of what has planes, rows and columns: the second parameter of a
/// [`View3`] and of an output of three dimensions.
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
    /// Where an element is, with element (0, 0, 0) at `pointer`; `None` if there is no such element.
    ///
    /// # Safety
    /// The elements of the shape are there.
    #[inline(always)]
    pub unsafe fn element<T>(
        &self,
        pointer: *const T,
        plane: usize,
        row: usize,
        column: usize,
    ) -> Option<*const T> {
        if plane >= self.planes {
            return None;
        }
        // SAFETY: those of plane 0 are there.
        let in_plane = unsafe { self.plane().element(pointer, row, column) }?;
        let step = plane.cast_signed().wrapping_mul(self.plane_stride);
        // SAFETY: an element of the shape.
        Some(unsafe { in_plane.offset(step) })
    }

    #[inline(always)]
    #[track_caller]
    pub(super) fn out_of_bounds(&self, plane: usize, row: usize, column: usize) -> ! {
        if plane >= self.planes {
            super::out_of_bounds(plane, self.planes)
        }
        self.plane().out_of_bounds(row, column)
    }

    /// Rows and columns of a plane.
    #[inline(always)]
    fn plane(&self) -> Shape2 {
        Shape2 {
            rows: self.rows,
            columns: self.columns,
            row_stride: self.row_stride,
            column_stride: self.column_stride,
        }
    }
}

macro_rules! views {
    ($($(#[$doc:meta])* $name:ident($shape:ty): $index:ty: $($at:ident),*; $($extent:ident $what:literal),*;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name<'kernel, T> {
            pointer: *const T,
            shape: $shape,
            elements: PhantomData<&'kernel T>,
        }

        impl<T> Clone for $name<'_, T> {
            #[inline(always)]
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T> Copy for $name<'_, T> {}

        impl<'kernel, T: Input> $name<'kernel, T> {
            /// For `#[kernel]` alone.
            ///
            /// # Safety
            /// All elements of the shape are at `pointer`, aligned to `T::ALIGN`. They live as long as
            /// `'kernel`, and nothing writes them meanwhile, unless `T` is an atomic.
            #[doc(hidden)]
            #[inline(always)]
            pub unsafe fn new(pointer: *const T, shape: $shape) -> Self {
                // SAFETY: guaranteed by the caller.
                unsafe { super::assume_aligned(pointer) };
                Self {
                    pointer,
                    shape,
                    elements: PhantomData,
                }
            }

            $(
                #[doc = $what]
                #[inline(always)]
                pub fn $extent(&self) -> usize {
                    self.shape.$extent
                }
            )*

            /// The element, if there is one.
            #[inline(always)]
            pub fn get(&self, $($at: usize),*) -> Option<&'kernel T> {
                // SAFETY: `new` was given the elements of the shape, and this is one of them.
                unsafe { Some(&*self.shape.element(self.pointer, $($at),*)?) }
            }
        }

        impl<T: Input> Index<$index> for $name<'_, T> {
            type Output = T;

            #[inline(always)]
            #[track_caller]
            fn index(&self, ($($at),*): $index) -> &T {
                match self.get($($at),*) {
                    Some(element) => element,
                    None => self.shape.out_of_bounds($($at),*),
                }
            }
        }
    )*};
}

views! {
    /// An input with rows and columns, and any strides: a tensor of two dimensions, also a transposed
    /// one or a part of one.
    View2(Shape2): (usize, usize): row, column;
        rows "Number of rows.", columns "Number of columns.";
    /// An input with planes, rows and columns, and any strides: a tensor of three dimensions.
    View3(Shape3): (usize, usize, usize): plane, row, column;
        planes "Number of planes.", rows "Number of rows of a plane.",
        columns "Number of columns of a plane.";
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
    #[test]
    fn a_view_of_planes_reads_what_its_strides_say() {
        let elements = [1_u32, 2, 3, 4, 5, 6, 7, 8];
        let shape = Shape3 {
            planes: 2,
            rows: 2,
            columns: 2,
            plane_stride: 1,
            row_stride: 4,
            column_stride: 2,
        };
        // SAFETY: eight elements.
        let view = unsafe { View3::new(elements.as_ptr(), shape) };
        assert_eq!(
            [view[(0, 0, 1)], view[(1, 0, 0)], view[(1, 1, 1)]],
            [3, 2, 8]
        );
        assert_eq!((view.get(2, 0, 0), view.get(0, 2, 0)), (None, None));
    }
}
