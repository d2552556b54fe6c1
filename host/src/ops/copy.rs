//! Copies between tensors of different strides and dtypes.

use crate::load::{self, LoadVariant};
use crate::ops::check;
use crate::ops::elementwise::{Program, Steps, Transposition, Walk, steps_of};
use crate::ops::plan::MachineModel;
use crate::tensor::{Address, Erased};
use crate::{E4m3, E5m2, Element, Error, LaunchConfig, Result, Stream, Tensor};
use abi::elementwise::{Arithmetic, CopyEntry, THREADS, TransposeEntry, grid_blocks};
use half::{bf16, f16};

impl<T: Element> Tensor<T> {
    /// The same elements in row-major order without gaps. A contiguous tensor is returned as it is,
    /// sharing its storage; of any other, a copy is enqueued on `stream`.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device).
    pub fn contiguous(&self, stream: &Stream) -> Result<Self> {
        check::device("tensor", self, stream)?;
        if self.is_contiguous() {
            Ok(self.clone())
        } else {
            contiguous(self, stream)
        }
    }

    /// Enqueues a copy of all elements of `from` to this tensor. Both have the same shape, and any
    /// strides.
    ///
    /// # Errors
    /// [`ShapeError::Mismatch`](crate::ShapeError::Mismatch),
    /// [`ShapeError::Strides`](crate::ShapeError::Strides) where two indices of this tensor may
    /// refer to the same element, [`ShapeError::Overlap`](crate::ShapeError::Overlap),
    /// [`Error::Device`](crate::Error::Device).
    pub fn assign(&self, from: &Self, stream: &Stream) -> Result<()> {
        check::device("source", from, stream)?;
        check::output("destination", self, from.shape(), stream)?;
        check::no_overlap("destination", self, "source", from)?;
        strided_copy(from, self, stream)
    }
}

/// A type that [`Tensor::cast`] converts from and to: every [`Element`] but u64.
pub trait CastElement: Element {}

macro_rules! cast_elements {
    ($($ty:ty)*) => {$(
        impl CastElement for $ty {}
    )*};
}

cast_elements! { f64 f32 f16 bf16 E4m3 E5m2 i8 i16 i32 i64 u8 u16 u32 }

impl<T: CastElement> Tensor<T> {
    /// Converts the elements to another dtype, in a new contiguous tensor. Enqueued on `stream`.
    ///
    /// - To a float: rounded once to nearest, ties to even. For e4m3 and e5m2, values beyond the
    ///   largest finite value saturate to it.
    /// - To an integer: rounded towards zero. Values out of range saturate, and NaN becomes 0.
    /// - To the same dtype: the bits are copied.
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
        cast_into(self, &to, stream)?;
        Ok(to)
    }
}

/// Converts `from` into `to`. The caller guarantees what [`strided_copy`] asks for.
pub(super) fn cast_into<T: CastElement, U: CastElement>(
    from: &Tensor<T>,
    to: &Tensor<U>,
    stream: &Stream,
) -> Result<()> {
    let (from, into) = (from.erased(), to.erased());
    if T::DTYPE == U::DTYPE {
        return copy_bits(&from, &into, stream);
    }
    let between = Arithmetic::of_cast(T::DTYPE, U::DTYPE)
        .ok_or(Error::Bug("a dtype without casts is a CastElement"))?;
    Program::load_in("cast", "tensor", from, between).launch(&into, stream)
}

/// A contiguous copy of `tensor`, which must be on the stream's device.
pub(super) fn contiguous<T: Element>(tensor: &Tensor<T>, stream: &Stream) -> Result<Tensor<T>> {
    let copy = Tensor::empty(stream, tensor.shape())?;
    strided_copy(tensor, &copy, stream)?;
    Ok(copy)
}

/// Copies `from` to `to`. The caller guarantees that both have one shape and are on the stream's
/// device, and that `to` is injective and does not overlap `from`.
pub(super) fn strided_copy<T: Element>(
    from: &Tensor<T>,
    to: &Tensor<T>,
    stream: &Stream,
) -> Result<()> {
    copy_bits(&from.erased(), &to.erased(), stream)
}

/// As [`strided_copy`], of two tensors with the same dtype.
fn copy_bits(from: &Erased<'_>, to: &Erased<'_>, stream: &Stream) -> Result<()> {
    if to.is_empty() {
        return Ok(());
    }
    let tensors = [to, from].map(|tensor| steps_of(tensor, to.shape()));
    // SAFETY: the steps are those of the tensors, whose elements lie inside of their storage; the
    // caller guarantees the rest of `to`.
    unsafe {
        copy_between(
            to.shape(),
            tensors,
            stream,
            |tensor, address| match tensor {
                0 => to.argument(address),
                _ => from.argument(address),
            },
        )
    }
}

/// Copies elements of one size between two places of this shape, the written one first. `at` makes
/// an argument of an address in the memory of the first or the second.
///
/// # Safety
/// Every element of both places lies inside of the memory of `at`, on the stream's device. No two
/// written ones are the same, and none is one that is read.
pub(super) unsafe fn copy_between<'a>(
    shape: &[usize],
    places: [Steps; 2],
    stream: &Stream,
    at: impl Fn(usize, u64) -> Address<'a>,
) -> Result<()> {
    if shape.contains(&0) {
        return Ok(());
    }
    let mut walk = Walk::new(shape, &places);
    let mut size_bytes = places[0].size_bytes;
    for wide_bytes in [16, 8, 4, 2] {
        if wide_bytes > size_bytes
            && let Some(wide) = walk.widened(wide_bytes / size_bytes)
        {
            (walk, size_bytes) = (wide, wide_bytes);
            break;
        }
    }
    let elements: u64 = shape.iter().map(|&extent| extent as u64).product();
    let bytes = 2 * elements * places[0].size_bytes as u64;
    let model = MachineModel::of(stream.device().info());
    if let Some(transposition) = Transposition::of(&walk, size_bytes, &model.elementwise) {
        let entry = check::entry(TransposeEntry::of(size_bytes))?;
        let variant = LoadVariant::of_once(stream.device(), bytes);
        let kernel = load::kernel_for(variant, stream, entry)?;
        let config = LaunchConfig::linear(transposition.blocks, entry.threads());
        let (x, y) = (at(1, walk.address(1)), at(0, walk.address(0)));
        // SAFETY: as below.
        return unsafe { kernel.launch(stream, config, (x, y), &transposition.params) };
    }
    let entry = check::entry(CopyEntry::of(size_bytes))?;
    let variant = LoadVariant::of(stream.device(), bytes);
    let kernel = load::kernel_for(variant, stream, entry)?;
    walk.pieces(1, |piece| {
        let blocks = grid_blocks(piece.params.len.into(), entry.per_thread());
        let config = LaunchConfig::linear(blocks, THREADS);
        let (x, y) = (at(1, piece.addresses[1]), at(0, piece.addresses[0]));
        // SAFETY: both places have the walk's shape and strides, so the kernel accesses their elements
        // and no others; the caller guarantees the rest.
        unsafe { kernel.launch(stream, config, (x, y), &piece.params) }
    })
}
