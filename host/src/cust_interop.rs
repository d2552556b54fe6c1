//! cust's streams and device pointers in our launches.
//!
//! Both libraries use the device's primary context, so handles mean the same to both. cust must be
//! initialised (`cust::quick_init()`) while its own objects are used.

use crate::buffer::{DeviceBuffer, DevicePtr};
use crate::device::Device;
use crate::element::Element;
use crate::stream::Stream;
use cust::memory::{DeviceCopy, DevicePointer, DeviceSlice};

impl Stream {
    /// cust's stream as one of ours: launches, copies and operations go straight to it.
    ///
    /// # Safety
    /// `device` is the GPU whose primary context `stream` belongs to, and `stream` stays alive
    /// until the result and its clones are dropped.
    pub unsafe fn from_cust(device: &Device, stream: &cust::stream::Stream) -> Self {
        // SAFETY: the caller's.
        unsafe { Self::from_raw(device, stream.as_inner().cast()) }
    }
}

impl<T: DeviceCopy> From<DevicePointer<T>> for DevicePtr<T> {
    fn from(pointer: DevicePointer<T>) -> Self {
        Self::from_raw(pointer.as_raw())
    }
}

impl<T: Element + DeviceCopy> DeviceBuffer<T> {
    /// cust's memory as one of our buffers, which borrows and never frees it.
    ///
    /// # Safety
    /// `device` is the GPU that the memory is on, the memory stays alive until the buffer,
    /// everything made of it and all work that uses them are done, and what was written to it is
    /// visible to the device's default stream: synchronise cust's stream first.
    pub unsafe fn from_cust(device: &Device, memory: &DeviceSlice<T>) -> Self {
        // SAFETY: the caller's; cust aligns its memory to 256 bytes or slices by elements.
        unsafe { Self::borrowed(device, memory.as_device_ptr().as_raw(), memory.len()) }
    }
}
