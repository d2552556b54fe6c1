//! Conversions from cust's streams and device pointers.
//!
//! Both libraries use the device's primary context, so handles are valid in both. cust must be
//! initialised (`cust::quick_init()`) while its own objects are used.

use crate::buffer::{DeviceBuffer, DevicePtr};
use crate::device::Device;
use crate::element::Element;
use crate::stream::Stream;
use cust::memory::{DeviceCopy, DevicePointer, DeviceSlice};

impl Stream {
    /// Wraps a stream of cust: launches, copies and operations are enqueued on it directly.
    ///
    /// # Safety
    /// `device` is the GPU whose primary context `stream` belongs to, and `stream` stays alive
    /// until the result and its clones are dropped.
    pub unsafe fn from_cust(device: &Device, stream: &cust::stream::Stream) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { Self::from_raw(device, stream.as_inner().cast()) }
    }
}

impl<T: DeviceCopy> From<DevicePointer<T>> for DevicePtr<T> {
    fn from(pointer: DevicePointer<T>) -> Self {
        Self::from_raw(pointer.as_raw())
    }
}

impl<T: Element + DeviceCopy> DeviceBuffer<T> {
    /// A buffer over memory of cust, which stays cust's and is never freed by the buffer.
    ///
    /// # Safety
    /// `device` is the GPU that the memory is on. The memory stays allocated until the buffer, all
    /// tensors made from it and all work that uses them are gone. Earlier writes to it are done:
    /// synchronise cust's stream first.
    pub unsafe fn from_cust(device: &Device, memory: &DeviceSlice<T>) -> Self {
        // SAFETY: guaranteed by the caller; cust aligns its memory to 256 bytes or slices by
        // elements.
        unsafe { Self::borrowed(device, memory.as_device_ptr().as_raw(), memory.len()) }
    }
}
