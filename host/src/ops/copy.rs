//! Copies between any strides and between dtypes.

use crate::ops::elementwise::Walk;
use crate::ops::{check, kernels};
use crate::{E4m3, E5m2, Element, Result, Stream, Tensor};
use half::{bf16, f16};
use spec::elementwise::{CastEntry, CopyEntry};

impl<T: Element> Tensor<T> {
    /// The same elements in row-major order without gaps: this tensor itself where it is
    /// contiguous, else a copy, enqueued on `stream`.
    ///
    /// # Errors
    /// [`Error::DeviceMismatch`](crate::Error::DeviceMismatch),
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory), [`Error::Driver`](crate::Error::Driver).
    pub fn contiguous(&self, stream: &Stream) -> Result<Self> {
        check::device("tensor", self, stream)?;
        if self.is_contiguous() {
            Ok(self.clone())
        } else {
            contiguous(self, stream)
        }
    }

    /// Enqueues a copy of all elements of `from`, which has the same shape; strides may be any.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`](crate::Error::ShapeMismatch),
    /// [`Error::StrideMismatch`](crate::Error::StrideMismatch) where an element of this tensor has
    /// two indices, [`Error::Overlap`](crate::Error::Overlap),
    /// [`Error::DeviceMismatch`](crate::Error::DeviceMismatch),
    /// [`Error::Driver`](crate::Error::Driver).
    pub fn assign(&self, from: &Self, stream: &Stream) -> Result<()> {
        check::device("source", from, stream)?;
        check::output("destination", self, from.shape(), stream)?;
        check::no_overlap("destination", self, "source", from)?;
        strided_copy(from, self, stream)
    }
}

/// A type that tensors can be cast from and to: f32, f16, bf16 and the floats of 8 bits.
pub trait CastElement: Element {}

impl CastElement for f32 {}
impl CastElement for f16 {}
impl CastElement for bf16 {}
impl CastElement for E4m3 {}
impl CastElement for E5m2 {}

impl<T: CastElement> Tensor<T> {
    /// The elements rounded to another dtype, to nearest with ties to even, in a new contiguous
    /// tensor. What is beyond the largest finite value of a type of 8 bits becomes that value.
    /// Enqueued on `stream`.
    ///
    /// # Errors
    /// As [`Tensor::contiguous`].
    pub fn cast<U: CastElement>(&self, stream: &Stream) -> Result<Tensor<U>> {
        check::device("tensor", self, stream)?;
        let to = Tensor::<U>::empty(stream, self.shape())?;
        if to.is_empty() {
            return Ok(to);
        }
        let walk = Walk::new(self.shape(), [to.strides(), self.strides()]);
        let (config, params) = walk.launch(2, 0.0);
        let kernel = if T::DTYPE == U::DTYPE {
            kernels::kernel(
                stream,
                CopyEntry {
                    size_bytes: size_of::<T>(),
                },
            )?
        } else {
            kernels::kernel(
                stream,
                CastEntry {
                    from: T::DTYPE,
                    to: U::DTYPE,
                },
            )?
        };
        // SAFETY: both tensors have the walk's shape and strides; the new one overlaps nothing.
        unsafe { kernel.launch(stream, config, (self, &to, params)) }?;
        Ok(to)
    }
}

/// A row-major copy of `tensor`, which lives on the stream's device.
pub(super) fn contiguous<T: Element>(tensor: &Tensor<T>, stream: &Stream) -> Result<Tensor<T>> {
    let copy = Tensor::empty(stream, tensor.shape())?;
    strided_copy(tensor, &copy, stream)?;
    Ok(copy)
}

/// Copies `from` to `to`: of one shape, on the stream's device; `to` is injective and does not
/// overlap `from`.
pub(super) fn strided_copy<T: Element>(
    from: &Tensor<T>,
    to: &Tensor<T>,
    stream: &Stream,
) -> Result<()> {
    if to.is_empty() {
        return Ok(());
    }
    let kernel = kernels::kernel(
        stream,
        CopyEntry {
            size_bytes: size_of::<T>(),
        },
    )?;
    let walk = Walk::new(to.shape(), [to.strides(), from.strides()]);
    let (config, params) = walk.launch(2, 0.0);
    // SAFETY: both tensors have the walk's shape and strides, so every element it names lies
    // inside of their storage; the caller vouches for `to`.
    unsafe { kernel.launch(stream, config, (from, to, params)) }
}
