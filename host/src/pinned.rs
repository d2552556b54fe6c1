//! Page-locked (pinned) host memory, which the device copies from and to without staging, so that
//! copies overlap with other work.

use crate::backend::{Backend, EventUse, RawEvent};
use crate::device::{Device, lock};
use crate::element::Element;
use crate::error::{Error, Result, ShapeError};
use crate::stream::{Slot, Stream};
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Mutex;

/// An array of `len` elements in page-locked host memory (ordinary memory for the emulator).
///
/// A copy from or to it is only enqueued, and the buffer keeps track of the copies in flight.
/// [`as_slice`](Self::as_slice) waits for the copies that write the buffer;
/// [`as_mut_slice`](Self::as_mut_slice) and dropping the buffer wait for all copies. The host
/// therefore never races with a copy.
///
/// ```
/// # fn main() -> warpsmith::Result<()> {
/// use warpsmith::{Device, DeviceBuffer, PinnedBuffer};
/// let device = Device::auto()?;
/// let stream = device.stream()?;
/// let mut host = PinnedBuffer::from_slice(&device, &[1_u32, 2, 3])?;
/// let mut buffer = DeviceBuffer::zeros(&stream, 3)?;
/// buffer.copy_from_pinned(&host, &stream)?;
/// host.as_mut_slice()?.fill(0); // waits for the copy
/// buffer.copy_to_pinned(&mut host, &stream)?;
/// assert_eq!(host.as_slice()?, [1, 2, 3]); // waits for the copy
/// # Ok(())
/// # }
/// ```
pub struct PinnedBuffer<T: Element> {
    device: Device,
    pointer: NonNull<T>,
    len: usize,
    /// Copies in flight: an event for each stream that has one, after its last; one for each copy on
    /// a stream made elsewhere.
    in_flight: Mutex<Vec<InFlight>>,
    elements: PhantomData<T>,
}

struct InFlight {
    slot: Slot,
    event: RawEvent,
    /// The copy writes host memory.
    writes: bool,
}

// SAFETY: the memory has one owner; the elements are `Send`; the driver's host memory may be used
// and freed on any thread.
unsafe impl<T: Element> Send for PinnedBuffer<T> {}
// SAFETY: shared access reads elements, which are `Sync`, after waiting for copies that write.
unsafe impl<T: Element> Sync for PinnedBuffer<T> {}

impl<T: Element> PinnedBuffer<T> {
    /// A buffer of `len` zeros, for copies from and to `device`.
    ///
    /// # Errors
    /// [`DeviceError::OutOfHostMemory`](crate::DeviceError::OutOfHostMemory),
    /// [`ShapeError::Overflow`], [`DeviceError::Driver`](crate::DeviceError::Driver).
    pub fn zeros(device: &Device, len: usize) -> Result<Self> {
        let bytes = len.checked_mul(size_of::<T>());
        let bytes = bytes.ok_or_else(|| {
            Error::Shape(ShapeError::Overflow {
                shape: [len].into(),
            })
        })?;
        let pointer = match bytes {
            0 => NonNull::dangling(),
            _ => {
                let pointer = device.backend().alloc_host(bytes)?;
                let pointer = NonNull::new(pointer.cast::<T>())
                    .ok_or(Error::Bug("a successful host allocation was null"))?;
                // SAFETY: the allocation has `bytes` bytes; all zeros is a valid `Element`.
                unsafe { pointer.as_ptr().cast::<u8>().write_bytes(0, bytes) };
                pointer
            }
        };
        let in_flight = Mutex::new(Vec::new());
        Ok(Self {
            device: device.clone(),
            pointer,
            len,
            in_flight,
            elements: PhantomData,
        })
    }

    /// A copy of `values`.
    ///
    /// # Errors
    /// As [`PinnedBuffer::zeros`].
    pub fn from_slice(device: &Device, values: &[T]) -> Result<Self> {
        let mut buffer = Self::zeros(device, values.len())?;
        buffer.as_mut_slice()?.copy_from_slice(values);
        Ok(buffer)
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True where there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The device that it exchanges data with.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The elements. Blocks until the copies that write them are done.
    ///
    /// # Errors
    /// [`DeviceError::Driver`](crate::DeviceError::Driver).
    pub fn as_slice(&self) -> Result<&[T]> {
        // A new copy that writes needs `&mut self`, so none can start while the slice lives.
        self.wait(|copy| copy.writes)?;
        // SAFETY: `len` initialised elements; no copy writes them.
        Ok(unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), self.len) })
    }

    /// The elements, writable. Blocks until all copies in flight are done.
    ///
    /// # Errors
    /// [`DeviceError::Driver`](crate::DeviceError::Driver).
    pub fn as_mut_slice(&mut self) -> Result<&mut [T]> {
        self.wait(|_| true)?;
        // SAFETY: as above, and no copy reads them; new ones need a borrow of `self`.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.len) })
    }

    /// Enqueues a copy of all elements to device memory at `address`, which has room for them and
    /// stays allocated until the copy is done.
    pub(crate) fn copy_to_device(&self, address: u64, stream: &Stream) -> Result<()> {
        self.enqueue(stream, false, |bytes| {
            let backend = self.device.backend();
            // SAFETY: the host range stays as it is until the copy is done: `in_flight` sees to it.
            unsafe { backend.copy_in(address, self.pointer.as_ptr().cast(), bytes, stream.raw()) }
        })
    }

    /// Enqueues a copy of all elements from device memory at `address`; the same holds for it.
    pub(crate) fn copy_from_device(&mut self, address: u64, stream: &Stream) -> Result<()> {
        self.enqueue(stream, true, |bytes| {
            let backend = self.device.backend();
            // SAFETY: nothing accesses the host range until the copy is done: `in_flight` sees to
            // it, and `&mut self` shows that there is no slice of it now.
            unsafe { backend.copy_out(self.pointer.as_ptr().cast(), address, bytes, stream.raw()) }
        })
    }

    /// Enqueues `work` on the stream, and records it in `in_flight`. The lock is held throughout,
    /// so that a wait on another thread cannot miss it.
    fn enqueue(
        &self,
        stream: &Stream,
        writes: bool,
        work: impl FnOnce(usize) -> Result<()>,
    ) -> Result<()> {
        stream.device().check_same("pinned buffer", &self.device)?;
        stream.refuse_in_capture("copying between pinned memory and a stream")?;
        if self.is_empty() {
            return Ok(());
        }
        let backend = self.device.backend();
        let mut in_flight = lock(&self.in_flight);
        if writes || in_flight.iter().any(|copy| copy.writes) {
            // Copies on other streams must not cross one that writes host memory.
            for copy in in_flight.iter().filter(|copy| !copy.is_on(stream)) {
                backend.wait_event(stream.raw(), copy.event)?;
            }
        }
        let known = in_flight.iter().position(|copy| copy.is_on(stream));
        let index = match known {
            Some(index) => index,
            None => {
                if stream.slot() == Slot::FOREIGN {
                    forget_done(&mut in_flight, backend)?;
                }
                let event = backend.create_event(EventUse::Order)?;
                in_flight.push(InFlight {
                    slot: stream.slot(),
                    event,
                    writes,
                });
                in_flight.len() - 1
            }
        };
        work(self.len * size_of::<T>())?;
        in_flight[index].writes |= writes;
        let recorded = backend.record_event(in_flight[index].event, stream.raw());
        if recorded.is_err() {
            // Without an event nothing can wait for the copy later, so wait for it here.
            backend.synchronize_stream(stream.raw())?;
        }
        recorded
    }

    fn wait(&self, which: impl Fn(&InFlight) -> bool) -> Result<()> {
        let backend = self.device.backend();
        let mut in_flight = lock(&self.in_flight);
        while let Some(index) = in_flight.iter().position(&which) {
            backend.synchronize_event(in_flight[index].event)?;
            let copy = in_flight.swap_remove(index);
            backend.destroy_event(copy.event);
        }
        Ok(())
    }
}

impl InFlight {
    /// Whether it is certainly on this stream. A handle made elsewhere may be that of a stream which
    /// is gone, with its copy in flight, and of a new one.
    fn is_on(&self, stream: &Stream) -> bool {
        self.slot != Slot::FOREIGN && self.slot == stream.slot()
    }
}

/// Takes copies that are done from the list, which else grew with every copy.
fn forget_done(in_flight: &mut Vec<InFlight>, backend: &dyn Backend) -> Result<()> {
    let mut index = 0;
    while let Some(copy) = in_flight.get(index) {
        if backend.event_is_done(copy.event)? {
            backend.destroy_event(in_flight.swap_remove(index).event);
        } else {
            index += 1;
        }
    }
    Ok(())
}

impl<T: Element> Drop for PinnedBuffer<T> {
    fn drop(&mut self) {
        if self.is_empty() {
            return;
        }
        if let Err(error) = self.wait(|_| true) {
            // The copies may still run, so the memory is leaked rather than freed.
            tracing::warn!(%error, "pinned memory was leaked");
            return;
        }
        let bytes = self.len * size_of::<T>();
        // SAFETY: allocated in `zeros` with that size, freed once, no copy in flight.
        unsafe {
            self.device
                .backend()
                .free_host(self.pointer.as_ptr().cast(), bytes)
        };
    }
}

impl<T: Element> fmt::Debug for PinnedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "PinnedBuffer<{}>({} elements for {})",
            T::DTYPE,
            self.len,
            self.device
        )
    }
}
