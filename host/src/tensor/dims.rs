//! A list of extents or strides of bounded length, without heap allocation.

use crate::error::{Error, Result};
use std::fmt;
use std::ops::{Deref, DerefMut};

/// Largest number of dimensions of a [`Tensor`](crate::Tensor).
pub const MAX_RANK: usize = abi::elementwise::MAX_RANK;

/// Up to [`MAX_RANK`] values.
#[derive(Clone, Copy)]
pub(crate) struct Dims<T> {
    values: [T; MAX_RANK],
    len: u8,
}

impl<T: Copy + Default> Dims<T> {
    /// # Errors
    /// [`ShapeError::OutOfBounds`](crate::ShapeError::OutOfBounds) where there are more than
    /// [`MAX_RANK`].
    pub(crate) fn new(values: &[T]) -> Result<Self> {
        if values.len() > MAX_RANK {
            return Err(Error::out_of_bounds(
                "number of dimensions",
                values.len() as u64,
                MAX_RANK as u64 + 1,
            ));
        }
        let mut dims = Self {
            values: [T::default(); MAX_RANK],
            len: values.len() as u8,
        };
        dims.copy_from_slice(values);
        Ok(dims)
    }

    /// The list without the value at `index`, which must be in bounds.
    pub(crate) fn without(mut self, index: usize) -> Self {
        self.values.copy_within(index + 1.., index);
        self.len -= 1;
        self
    }
}

impl<T> Deref for Dims<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.values[..usize::from(self.len)]
    }
}

impl<T> DerefMut for Dims<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.values[..usize::from(self.len)]
    }
}

impl<T: PartialEq> PartialEq for Dims<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Eq> Eq for Dims<T> {}

impl<T: fmt::Debug> fmt::Debug for Dims<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
