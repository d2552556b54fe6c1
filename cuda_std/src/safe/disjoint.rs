//! Outputs.

use core::marker::PhantomData;
use core::ops::{Index, IndexMut};

use super::{Plain, Shape2, Shape3, Witness};

/// An output of which each thread has its own elements: those that its witnesses `W` name.
///
/// ```compile_fail
/// # use cuda_std::prelude::*;
/// #[kernel]
/// pub fn an_index_is_no_witness(mut y: Disjoint<'_, f32, Index1>) {
///     y[&0_usize] = 1.0;
/// }
/// ```
/// ```compile_fail
/// # use cuda_std::prelude::*;
/// #[kernel]
/// pub fn a_witness_of_another_kind(mut y: Disjoint<'_, f32, PerBlock>) {
///     y[&Index1::here()] = 1.0;
/// }
/// ```
#[derive(Debug)]
pub struct Disjoint<'kernel, T, W: Witness> {
    pointer: *mut T,
    shape: W::Shape,
    elements: PhantomData<&'kernel mut T>,
    witness: PhantomData<W>,
}

impl<T: Plain, W: Witness> Disjoint<'_, T, W> {
    /// For `#[kernel]` alone.
    ///
    /// # Safety
    /// All elements of the shape are at `pointer`, aligned to `T::ALIGN`, and different indices are different
    /// elements. They live as long as `'kernel`. Each thread has one such value, and nothing else
    /// accesses them meanwhile.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn new(pointer: *mut T, shape: W::Shape) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { super::assume_aligned(pointer.cast_const()) };
        Self {
            pointer,
            shape,
            elements: PhantomData,
            witness: PhantomData,
        }
    }

    /// The thread's element, if there is one of that index.
    #[inline(always)]
    pub fn get(&self, at: &W) -> Option<&T> {
        // SAFETY: `new` was given the elements of the shape. No other thread has this one.
        unsafe { Some(&*at.element(self.pointer, &self.shape)?) }
    }

    /// The thread's element, if there is one of that index.
    #[inline(always)]
    pub fn get_mut(&mut self, at: &W) -> Option<&mut T> {
        // SAFETY: `new` was given the elements of the shape. No other thread has this one, and `self` is
        // borrowed.
        unsafe { Some(&mut *at.element(self.pointer, &self.shape)?.cast_mut()) }
    }
}

impl<T, W: Witness<Shape = usize>> Disjoint<'_, T, W> {
    /// Number of elements of all threads.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty)] // a loop over none needs no question
    pub fn len(&self) -> usize {
        self.shape
    }
}

impl<T, W: Witness<Shape = Shape2>> Disjoint<'_, T, W> {
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
}

impl<T, W: Witness<Shape = Shape3>> Disjoint<'_, T, W> {
    /// Extents and strides.
    #[inline(always)]
    pub fn shape(&self) -> Shape3 {
        self.shape
    }
}

impl<T: Plain, W: Witness> Index<&W> for Disjoint<'_, T, W> {
    type Output = T;

    #[inline(always)]
    #[track_caller]
    fn index(&self, at: &W) -> &T {
        match self.get(at) {
            Some(element) => element,
            None => at.out_of_bounds(&self.shape),
        }
    }
}

impl<T: Plain, W: Witness> IndexMut<&W> for Disjoint<'_, T, W> {
    #[inline(always)]
    #[track_caller]
    fn index_mut(&mut self, at: &W) -> &mut T {
        let shape = self.shape;
        match self.get_mut(at) {
            Some(element) => element,
            None => at.out_of_bounds(&shape),
        }
    }
}
