//! Tensors: strided views of device memory.

mod convert;
mod dims;
mod erased;
mod layout;
mod overlap;
#[cfg(test)]
mod tests;
mod views;

pub(crate) use dims::Dims;
pub use dims::MAX_RANK;
pub(crate) use erased::{Address, Erased};
pub(crate) use layout::{Layout, axis_of};

use crate::buffer::{DeviceBuffer, DevicePtr, pattern};
use crate::device::Device;
use crate::element::Element;
use crate::error::{Error, Result, ShapeError};
use crate::storage::Storage;
use crate::stream::Stream;
use abi::DType;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// A strided array in device memory, with up to [`MAX_RANK`] dimensions and shared storage.
///
/// Clones and views ([`slice`](Self::slice), [`permute`](Self::permute), [`t`](Self::t),
/// [`reshape`](Self::reshape), [`broadcast_to`](Self::broadcast_to), ..) share the storage and
/// copy nothing. Strides are in elements and may be negative or 0.
///
/// ```
/// # fn main() -> warpsmith::Result<()> {
/// use ndarray::array;
/// use warpsmith::{Device, Tensor};
/// let device = Device::auto()?;
/// let x = Tensor::from_ndarray(&device, &array![[1.0_f32, 2.0, 3.0], [4.0, 5.0, 6.0]])?;
/// assert_eq!(x.shape(), [2, 3]);
/// assert_eq!(x.t().strides(), [1, 3]);
/// assert_eq!(x.t().to_ndarray()?, array![[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]].into_dyn());
/// # Ok(())
/// # }
/// ```
pub struct Tensor<T: Element> {
    storage: Arc<Storage>,
    /// Device address of the element at index (0, 0, ..).
    address: u64,
    layout: Layout,
    elements: PhantomData<T>,
}

impl<T: Element> Tensor<T> {
    /// A contiguous, uninitialised tensor. A kernel that reads an element before it is written gets
    /// an arbitrary value on a GPU, and fails with a report on the emulator. A copy to the host
    /// gets arbitrary values on both. Enqueued on `stream`.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`](crate::DeviceError::OutOfMemory), [`ShapeError::Overflow`],
    /// [`ShapeError::OutOfBounds`] for more than [`MAX_RANK`] dimensions,
    /// [`DeviceError::Driver`](crate::DeviceError::Driver).
    pub fn empty(stream: &Stream, shape: &[usize]) -> Result<Self> {
        let layout = Layout::contiguous(shape)?;
        let storage = Storage::alloc(stream, storage_bytes::<T>(shape)?)?;
        Ok(Self::from_parts(Arc::new(storage), layout))
    }

    /// A contiguous tensor of zeros. Enqueued on `stream`.
    ///
    /// # Errors
    /// As [`Tensor::empty`].
    pub fn zeros(stream: &Stream, shape: &[usize]) -> Result<Self> {
        Self::full(stream, shape, T::default())
    }

    /// A contiguous tensor whose elements are all `value`. Enqueued on `stream`.
    ///
    /// # Errors
    /// As [`Tensor::empty`].
    pub fn full(stream: &Stream, shape: &[usize], value: T) -> Result<Self> {
        let tensor = Self::empty(stream, shape)?;
        tensor.fill(value, stream)?;
        Ok(tensor)
    }

    /// A contiguous tensor with a copy of `values`, which are in row-major order. Blocks until the
    /// copy is done.
    ///
    /// # Errors
    /// [`ShapeError::Length`] unless `values` has as many elements as `shape`, else as
    /// [`Tensor::empty`].
    pub fn from_slice(device: &Device, shape: &[usize], values: &[T]) -> Result<Self> {
        let layout = Layout::contiguous(shape)?;
        check_len("values of a tensor", values.len(), layout.len())?;
        let buffer = DeviceBuffer::from_slice(device, values)?;
        Ok(Self::from_parts(buffer.into_storage(), layout))
    }

    /// A contiguous tensor that takes over the memory of a buffer.
    ///
    /// # Errors
    /// [`ShapeError::Length`] unless the buffer has as many elements as `shape`,
    /// [`ShapeError::Overflow`], [`ShapeError::OutOfBounds`] for more than [`MAX_RANK`] dimensions.
    pub fn from_buffer(buffer: DeviceBuffer<T>, shape: &[usize]) -> Result<Self> {
        let layout = Layout::contiguous(shape)?;
        check_len("buffer of a tensor", buffer.len(), layout.len())?;
        Ok(Self::from_parts(buffer.into_storage(), layout))
    }

    /// A tensor that takes over the memory of a buffer, with any strides. `strides` and `offset`,
    /// the position of the element at index (0, 0, ..) in the buffer, are in elements.
    ///
    /// # Errors
    /// [`ShapeError::ViewOutOfBounds`] where an index would reach outside of the buffer,
    /// [`ShapeError::Length`] for shape and strides of different lengths, [`ShapeError::Overflow`],
    /// [`ShapeError::OutOfBounds`] for more than [`MAX_RANK`] dimensions.
    pub fn from_buffer_strided(
        buffer: DeviceBuffer<T>,
        shape: &[usize],
        strides: &[i64],
        offset: usize,
    ) -> Result<Self> {
        let layout = Layout::new(shape, strides, offset, buffer.len())?;
        Ok(Self::from_parts(buffer.into_storage(), layout))
    }

    /// A tensor over memory that other code owns and frees. The memory is `storage_len` elements
    /// from `address` on; shape, strides and offset select from it as in
    /// [`Tensor::from_buffer_strided`].
    ///
    /// # Errors
    /// As [`Tensor::from_buffer_strided`], [`ShapeError::Misaligned`] unless `address` is a
    /// multiple of the size of an element, and [`ShapeError::Overflow`] where `storage_len`
    /// elements exceed the address space.
    ///
    /// # Safety
    /// As [`DeviceBuffer::borrowed`].
    pub unsafe fn from_raw_parts(
        device: &Device,
        address: DevicePtr<T>,
        storage_len: usize,
        shape: &[usize],
        strides: &[i64],
        offset: usize,
    ) -> Result<Self> {
        let want_bytes = size_of::<T>() as u64;
        if !address.as_raw().is_multiple_of(want_bytes) {
            let got_bytes = 1 << address.as_raw().trailing_zeros();
            return Err(Error::Shape(ShapeError::Misaligned {
                operand: "raw parts",
                got_bytes,
                want_bytes,
            }));
        }
        storage_bytes::<T>(&[storage_len])?; // so that byte offsets fit 64 bits
        let layout = Layout::new(shape, strides, offset, storage_len)?;
        // SAFETY: guaranteed by the caller.
        let buffer = unsafe { DeviceBuffer::<T>::borrowed(device, address.as_raw(), storage_len) };
        Ok(Self::from_parts(buffer.into_storage(), layout))
    }

    fn from_parts(storage: Arc<Storage>, layout: Layout) -> Self {
        let address = storage.address() + layout.offset as u64 * size_of::<T>() as u64;
        Self {
            storage,
            address,
            layout,
            elements: PhantomData,
        }
    }

    /// Enqueues setting every element to `value`; strides may be any that give each element a place of
    /// its own.
    ///
    /// # Errors
    /// [`ShapeError::Strides`] where an element has two indices, [`Error::Device`].
    pub fn fill(&self, value: T, stream: &Stream) -> Result<()> {
        self.storage.use_on("tensor", stream)?;
        if self.is_empty() {
            return Ok(());
        }
        if !self.is_contiguous() {
            let one = Self::full(stream, &[], value)?;
            return self.assign(&one.broadcast_to(self.shape())?, stream);
        }
        let backend = self.device().backend();
        // SAFETY: contiguous, so `len` elements from `address` on, all inside of the storage,
        // which is freed after this work.
        unsafe { backend.fill(self.address, pattern(value), self.len(), stream.raw()) }
    }

    /// Extents of the dimensions, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.layout.shape
    }

    /// Strides of the dimensions, in elements.
    pub fn strides(&self) -> &[i64] {
        &self.layout.strides
    }

    /// Position of the element at index (0, 0, ..) in the storage, in elements.
    pub fn offset(&self) -> usize {
        self.layout.offset
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.layout.shape.len()
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.layout.len()
    }

    /// True if an extent is 0.
    pub fn is_empty(&self) -> bool {
        self.layout.is_empty()
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        T::DTYPE
    }

    /// The device it lives on.
    pub fn device(&self) -> &Device {
        self.storage.device()
    }

    /// True if the elements lie in row-major order without gaps. The stride of a dimension of
    /// extent 1 does not matter, and an empty tensor is contiguous.
    pub fn is_contiguous(&self) -> bool {
        self.layout.is_contiguous()
    }

    /// True if no two indices refer to the same element, which outputs require. The test is
    /// conservative: it returns true only if each stride exceeds the reach of all shorter strides
    /// together. For other injective layouts it returns false.
    pub fn is_injective(&self) -> bool {
        self.layout.is_injective()
    }

    /// Whether the two tensors may share an element. Conservative: `false` is certain, `true` is
    /// not.
    pub fn overlaps<U: Element>(&self, other: &Tensor<U>) -> bool {
        self.erased().overlaps(&other.erased())
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The tensor without its element type.
    pub(crate) fn erased(&self) -> Erased<'_> {
        Erased::new(&self.storage, &self.layout, self.address, T::DTYPE)
    }

    /// Device address of the element at index (0, 0, ..), as a kernel argument that does not borrow
    /// the tensor; see [`DeviceBuffer::device_ptr`].
    pub fn device_ptr(&self) -> DevicePtr<T> {
        DevicePtr::from_raw(self.address)
    }

    /// Alignment of [`device_ptr`](Self::device_ptr) in bytes: the largest power of two, up to 256,
    /// that divides it.
    pub fn alignment_bytes(&self) -> u64 {
        1 << self.address.trailing_zeros().min(8)
    }

    pub(crate) fn storage(&self) -> &Storage {
        &self.storage
    }

    pub(crate) fn shared_storage(&self) -> Arc<Storage> {
        self.storage.clone()
    }

    pub(crate) fn address_ref(&self) -> &u64 {
        &self.address
    }
}

fn storage_bytes<T: Element>(shape: &[usize]) -> Result<u64> {
    let len = shape
        .iter()
        .try_fold(1_u64, |len, &extent| len.checked_mul(extent as u64));
    let bytes = len.and_then(|len| len.checked_mul(size_of::<T>() as u64));
    bytes
        .filter(|&bytes| i64::try_from(bytes).is_ok())
        .ok_or_else(|| {
            Error::Shape(ShapeError::Overflow {
                shape: shape.into(),
            })
        })
}

fn check_len(what: &'static str, got: usize, want: usize) -> Result<()> {
    if got == want {
        Ok(())
    } else {
        Err(Error::length(what, got, want))
    }
}

impl<T: Element> Clone for Tensor<T> {
    /// Another handle to the same elements: it shares the storage and copies nothing.
    fn clone(&self) -> Self {
        Self::from_parts(self.storage.clone(), self.layout)
    }
}

impl<T: Element> fmt::Debug for Tensor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shape, strides) = (self.shape(), self.strides());
        write!(
            f,
            "Tensor<{}>({shape:?}, strides {strides:?}, on {})",
            T::DTYPE,
            self.device()
        )
    }
}
