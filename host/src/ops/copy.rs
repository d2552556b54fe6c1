//! Copies between any strides and between dtypes.

use crate::ops::elementwise::{Program, Transposition, Walk, steps_of};
use crate::ops::{check, kernels};
use crate::tensor::Erased;
use crate::{E4m3, E5m2, Element, Error, LaunchConfig, Result, Stream, Tensor};
use half::{bf16, f16};
use spec::elementwise::{Arithmetic, CopyEntry, THREADS, TransposeEntry, grid_blocks};

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

/// A type that tensors can be cast from and to: all but u64.
pub trait CastElement: Element {}

macro_rules! cast_elements {
    ($($ty:ty)*) => {$(
        impl CastElement for $ty {}
    )*};
}

cast_elements! { f64 f32 f16 bf16 E4m3 E5m2 i8 i16 i32 i64 u8 u16 u32 }

impl<T: CastElement> Tensor<T> {
    /// The elements in another dtype, in a new contiguous tensor. Enqueued on `stream`.
    ///
    /// To a float: rounded once to nearest, ties to even; what is beyond the largest finite value of a
    /// type of 8 bits becomes that value. To an integer: towards zero, what is beyond its range to the
    /// end of the range, NaN to 0. The same dtype: bits.
    ///
    /// # Errors
    /// As [`Tensor::contiguous`].
    ///
    /// # Examples
    /// ```
    /// # fn main() -> warpsmith::Result<()> {
    /// use warpsmith::{Device, Tensor};
    /// let device = Device::emulator()?;
    /// let stream = device.stream()?;
    /// let x = Tensor::from_slice(&device, &[4], &[1.9_f32, -1.9, 300.0, f32::NAN])?;
    /// assert_eq!(x.cast::<i8>(&stream)?.to_vec()?, [1, -1, 127, 0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn cast<U: CastElement>(&self, stream: &Stream) -> Result<Tensor<U>> {
        check::device("tensor", self, stream)?;
        let to = Tensor::<U>::empty(stream, self.shape())?;
        let (from, into) = (self.erased(), to.erased());
        if T::DTYPE == U::DTYPE {
            copy_bits(&from, &into, stream)?;
        } else {
            let between = Arithmetic::of_cast(T::DTYPE, U::DTYPE)
                .ok_or(Error::Bug("a dtype without casts is a CastElement"))?;
            Program::load_in("tensor", from, between).launch(&into, stream)?;
        }
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
    copy_bits(&from.erased(), &to.erased(), stream)
}

/// As [`strided_copy`], of tensors of one dtype.
fn copy_bits(from: &Erased<'_>, to: &Erased<'_>, stream: &Stream) -> Result<()> {
    if to.is_empty() {
        return Ok(());
    }
    let tensors = [to, from].map(|tensor| steps_of(tensor, to.shape()));
    let mut walk = Walk::new(to.shape(), &tensors);
    let mut size_bytes = to.dtype().size_bytes();
    for wide_bytes in [16, 8, 4, 2] {
        if wide_bytes > size_bytes
            && let Some(wide) = walk.widened(wide_bytes / size_bytes)
        {
            (walk, size_bytes) = (wide, wide_bytes);
            break;
        }
    }
    if let Some(transposition) = Transposition::of(&walk, size_bytes) {
        let entry = TransposeEntry { size_bytes };
        let kernel = kernels::kernel(stream, entry)?;
        let config = LaunchConfig::linear(transposition.blocks, entry.threads());
        let x = from.argument(walk.address(1));
        let y = to.argument(walk.address(0));
        // SAFETY: as below.
        return unsafe { kernel.launch(stream, config, (x, y, transposition.params)) };
    }
    let entry = CopyEntry { size_bytes };
    let kernel = kernels::kernel(stream, entry)?;
    walk.pieces(1, |piece| {
        let blocks = grid_blocks(piece.params.len.into(), entry.per_thread());
        let config = LaunchConfig::linear(blocks, THREADS);
        let x = from.argument(piece.addresses[1]);
        let y = to.argument(piece.addresses[0]);
        // SAFETY: both tensors have the walk's shape and strides, so every element it names lies
        // inside of their storage; the caller vouches for `to`.
        unsafe { kernel.launch(stream, config, (x, y, piece.params)) }
    })
}
