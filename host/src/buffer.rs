//! Typed device memory without a shape.

use crate::backend::Pattern;
use crate::device::Device;
use crate::element::{Element, as_bytes, as_bytes_mut};
use crate::error::{DeviceError, Error, Result, ShapeError};
use crate::pinned::PinnedBuffer;
use crate::storage::Storage;
use crate::stream::Stream;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// A contiguous, owned array of `len` elements in device memory.
///
/// Copies from and to a slice block until they are done. Copies from and to a [`PinnedBuffer`],
/// fills, and copies between buffers are enqueued on a stream.
///
/// ```
/// # fn main() -> warpsmith::Result<()> {
/// use warpsmith::{Device, DeviceBuffer};
/// let device = Device::auto()?;
/// let buffer = DeviceBuffer::from_slice(&device, &[1.0_f32, 2.0, 3.0])?;
/// assert_eq!(buffer.to_vec()?, [1.0, 2.0, 3.0]);
/// # Ok(())
/// # }
/// ```
pub struct DeviceBuffer<T: Element> {
    storage: Arc<Storage>,
    /// Kernel arguments point at this field ([`DeviceBuffer::address_ref`]).
    address: u64,
    len: usize,
    elements: PhantomData<T>,
}

impl<T: Element> DeviceBuffer<T> {
    /// A buffer of `len` uninitialised elements. A kernel that reads an element before it is
    /// written gets an arbitrary value on a GPU, and fails with a report on the emulator. A copy to
    /// the host gets arbitrary values on both. Enqueued on `stream`.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`], [`ShapeError::Overflow`], [`DeviceError::Driver`].
    pub fn uninit(stream: &Stream, len: usize) -> Result<Self> {
        let bytes = (len as u64).checked_mul(size_of::<T>() as u64);
        let bytes = bytes.ok_or_else(|| {
            Error::Shape(ShapeError::Overflow {
                shape: [len].into(),
            })
        })?;
        Ok(Self::from_storage(
            Arc::new(Storage::alloc(stream, bytes)?),
            len,
        ))
    }

    /// A buffer of `len` zeros. Enqueued on `stream`.
    ///
    /// # Errors
    /// As [`DeviceBuffer::uninit`].
    pub fn zeros(stream: &Stream, len: usize) -> Result<Self> {
        let mut buffer = Self::uninit(stream, len)?;
        buffer.fill(T::default(), stream)?;
        Ok(buffer)
    }

    /// A copy of `values` on the device. Blocks until the copy is done.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn from_slice(device: &Device, values: &[T]) -> Result<Self> {
        let mut buffer = Self::uninit(&device.default_stream(), values.len())?;
        buffer.copy_from_slice(values)?;
        Ok(buffer)
    }

    /// A buffer over memory that other code owns and frees. For a `DeviceSlice` of cust, the address
    /// is `memory.as_device_ptr().as_raw()`.
    ///
    /// # Safety
    /// `address` points to `len` elements of allocated memory of `device` and is aligned to the
    /// size of an element. The memory stays allocated until the buffer, all tensors made from it
    /// and all work that uses them are gone. Earlier writes to it are ordered before the work of
    /// the device's default stream.
    pub unsafe fn borrowed(device: &Device, address: u64, len: usize) -> Self {
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        // SAFETY: guaranteed by the caller.
        Self::from_storage(
            Arc::new(unsafe { Storage::borrowed(device, address, bytes) }),
            len,
        )
    }

    pub(crate) fn from_storage(storage: Arc<Storage>, len: usize) -> Self {
        Self {
            address: storage.address(),
            storage,
            len,
            elements: PhantomData,
        }
    }

    pub(crate) fn into_storage(self) -> Arc<Storage> {
        self.storage
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

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True where there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The device it lives on.
    pub fn device(&self) -> &Device {
        self.storage.device()
    }

    /// The device address, as a kernel argument that does not borrow the buffer. A launch with it
    /// does not know of the buffer: the caller keeps the buffer alive until the launch is done and
    /// orders it with other work. A launch with `&buffer` keeps the memory allocated by itself.
    pub fn device_ptr(&self) -> DevicePtr<T> {
        DevicePtr::from_raw(self.address)
    }

    /// Overwrites all elements with `values`, after all work on all streams that uses this buffer.
    /// Blocks until the copy is done, so every stream sees it.
    ///
    /// # Errors
    /// [`ShapeError::Length`], [`DeviceError::Driver`].
    pub fn copy_from_slice(&mut self, values: &[T]) -> Result<()> {
        self.check_len("values copied to a buffer", values.len())?;
        self.storage.write(0, as_bytes(values))
    }

    /// Copies all elements to `values`, after all work on all streams that uses this buffer. Blocks
    /// until the copy is done.
    ///
    /// # Errors
    /// [`ShapeError::Length`], [`DeviceError::Driver`].
    pub fn copy_to_slice(&self, values: &mut [T]) -> Result<()> {
        self.check_len("values copied from a buffer", values.len())?;
        self.storage.read(0, as_bytes_mut(values))
    }

    /// All elements, read as by [`DeviceBuffer::copy_to_slice`].
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn to_vec(&self) -> Result<Vec<T>> {
        let mut values = host_vec(self.len)?; // devices have more memory than some hosts
        values.resize(self.len, T::default());
        self.copy_to_slice(&mut values)?;
        Ok(values)
    }

    /// Enqueues a copy of all of `from` to this buffer. Writing to `from` afterwards waits for the
    /// copy.
    ///
    /// # Errors
    /// [`ShapeError::Length`], [`Error::Device`].
    pub fn copy_from_pinned(&mut self, from: &PinnedBuffer<T>, stream: &Stream) -> Result<()> {
        self.check_len("values copied to a buffer", from.len())?;
        self.storage.use_on("buffer", stream)?;
        from.copy_to_device(self.address, stream)
    }

    /// Enqueues a copy of all elements to `to`. Reading `to` afterwards waits for the copy.
    ///
    /// # Errors
    /// [`ShapeError::Length`], [`Error::Device`].
    pub fn copy_to_pinned(&self, to: &mut PinnedBuffer<T>, stream: &Stream) -> Result<()> {
        self.check_len("values copied from a buffer", to.len())?;
        self.storage.use_on("buffer", stream)?;
        to.copy_from_device(self.address, stream)
    }

    /// Enqueues a copy of all elements of `from`, a buffer of the same device.
    ///
    /// # Errors
    /// [`ShapeError::Length`], [`Error::Device`]; [`ShapeError::Overlap`] if both are over the same
    /// memory of other code ([`DeviceBuffer::borrowed`]).
    pub fn copy_from_buffer(&mut self, from: &Self, stream: &Stream) -> Result<()> {
        self.check_len("values copied to a buffer", from.len())?;
        self.storage.use_on("destination", stream)?;
        from.storage.use_on("source", stream)?;
        if self.is_empty() {
            return Ok(());
        }
        let bytes = self.len * size_of::<T>();
        if self.address.abs_diff(from.address) < bytes as u64 {
            return Err(Error::overlap("destination", "source"));
        }
        let backend = self.device().backend();
        // SAFETY: both have `bytes` bytes, which do not overlap and are freed after this work.
        unsafe { backend.copy(self.address, from.address, bytes, stream.raw()) }
    }

    /// Enqueues a fill of all elements with `value`.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn fill(&mut self, value: T, stream: &Stream) -> Result<()> {
        self.storage.use_on("buffer", stream)?;
        if self.is_empty() {
            return Ok(());
        }
        let backend = self.device().backend();
        // SAFETY: `len` elements lie in the storage, which is freed after this work.
        unsafe { backend.fill(self.address, pattern(value), self.len, stream.raw()) }
    }

    fn check_len(&self, what: &'static str, got: usize) -> Result<()> {
        if got == self.len {
            return Ok(());
        }
        Err(Error::length(what, got, self.len))
    }
}

/// An empty vector with capacity for `len` elements; an error, not an abort, without memory.
pub(crate) fn host_vec<T>(len: usize) -> Result<Vec<T>> {
    let mut values = Vec::new();
    match values.try_reserve_exact(len) {
        Ok(()) => Ok(values),
        Err(_) => Err(Error::Device(DeviceError::OutOfHostMemory {
            requested_bytes: (len as u64).saturating_mul(size_of::<T>() as u64),
        })),
    }
}

/// The bytes of one element, as a fill's pattern.
pub(crate) fn pattern<T: Element>(value: T) -> Pattern {
    let bytes = as_bytes(std::slice::from_ref(&value));
    match *bytes {
        [a] => Pattern::B1(a),
        [a, b] => Pattern::B2(u16::from_ne_bytes([a, b])),
        [a, b, c, d] => Pattern::B4(u32::from_ne_bytes([a, b, c, d])),
        // `Element` has no other sizes; a shorter value cannot get here.
        _ => {
            let mut all = [0; 8];
            all.copy_from_slice(bytes);
            Pattern::B8(u64::from_ne_bytes(all))
        }
    }
}

impl<T: Element> fmt::Debug for DeviceBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "DeviceBuffer<{}>({} elements on {})",
            T::DTYPE,
            self.len,
            self.device()
        )
    }
}

/// An address in device memory, as a kernel argument. It borrows nothing: the caller of a launch
/// keeps the memory allocated until the launch is done, and orders it with other work.
#[repr(transparent)]
pub struct DevicePtr<T>(u64, PhantomData<*mut T>);

// SAFETY: a number; the host never dereferences it.
unsafe impl<T> Send for DevicePtr<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for DevicePtr<T> {}

impl<T> DevicePtr<T> {
    /// The null pointer, for a parameter that the kernel does not use.
    pub const NULL: Self = Self(0, PhantomData);

    /// From an address of the device (`CUdeviceptr`).
    pub const fn from_raw(address: u64) -> Self {
        Self(address, PhantomData)
    }

    /// The address.
    pub const fn as_raw(self) -> u64 {
        self.0
    }

    /// The address `count` elements further on, or back where `count` is negative.
    pub const fn wrapping_offset(self, count: i64) -> Self {
        Self(
            self.0
                .wrapping_add_signed(count.wrapping_mul(size_of::<T>() as i64)),
            PhantomData,
        )
    }
}

impl<T> Clone for DevicePtr<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for DevicePtr<T> {}

impl<T> PartialEq for DevicePtr<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T> Eq for DevicePtr<T> {}

impl<T> fmt::Debug for DevicePtr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DevicePtr(0x{:x})", self.0)
    }
}
