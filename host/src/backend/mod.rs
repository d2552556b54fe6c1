//! The seam between the library and what runs kernels: a GPU's driver, or the emulator.
//!
//! Handles are plain numbers that the backend gave out. Work given to a stream happens in order;
//! a call may return before it is done. The callers of this trait ([`Device`](crate::Device) and
//! what hangs off it) own the rules on lifetimes: a handle is used only while its owner lives, and
//! memory is freed in an order that follows all its uses.

#[cfg(feature = "emulator")]
pub(crate) mod emulator;
pub(crate) mod gpu;
#[cfg(test)]
pub(crate) mod recorder;
#[cfg(feature = "emulator")]
mod tensor_map;

use crate::device::{DeviceInfo, MemoryInfo};
use crate::error::Result;
use crate::launch::LaunchConfig;
use crate::signature::Signature;
use crate::tensor_map::{TensorMap, TensorMapDesc};
use std::ffi::c_void;
#[cfg(feature = "emulator")]
use std::sync::Arc;

/// A stream of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RawStream(pub(crate) usize);

/// An event of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RawEvent(pub(crate) usize);

/// What an event is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventUse {
    /// Ordering only.
    Order,
    /// Ordering and time stamps.
    Timing,
}

/// One element's bytes, repeated by a fill.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pattern {
    /// One byte.
    B1(u8),
    /// Two bytes, native order.
    B2(u16),
    /// Four bytes, native order.
    B4(u32),
    /// Eight bytes, native order.
    B8(u64),
}

/// What runs kernels and holds memory. Methods that touch memory by address are unsafe: the caller
/// vouches that the ranges belong to live allocations, and host ranges stay valid until the
/// stream has passed.
pub(crate) trait Backend: Send + Sync {
    /// Name, architecture, limits; fixed.
    fn info(&self) -> &DeviceInfo;
    /// Bytes free and in all, now.
    fn memory(&self) -> Result<MemoryInfo>;
    /// Waits for all work on the device.
    fn synchronize(&self) -> Result<()>;
    /// Waits for all work, and gives memory that is kept for later back to the system.
    fn trim(&self) -> Result<()>;

    /// A new stream, independent of all others.
    fn create_stream(&self) -> Result<RawStream>;
    /// Waits until all work given to the stream is done.
    fn synchronize_stream(&self, stream: RawStream) -> Result<()>;
    /// Whether all work given to the stream is done.
    fn stream_is_done(&self, stream: RawStream) -> Result<bool>;
    /// Later work of the stream starts after what the event recorded.
    fn wait_event(&self, stream: RawStream, event: RawEvent) -> Result<()>;

    /// A new event.
    fn create_event(&self, usage: EventUse) -> Result<RawEvent>;
    /// Frees an event; its work goes on.
    fn destroy_event(&self, event: RawEvent);
    /// Marks the point that the stream has reached.
    fn record_event(&self, event: RawEvent, stream: RawStream) -> Result<()>;
    /// Waits until the recorded point is reached.
    fn synchronize_event(&self, event: RawEvent) -> Result<()>;
    /// Whether the recorded point is reached.
    fn event_is_done(&self, event: RawEvent) -> Result<bool>;
    /// Milliseconds between two recorded points that were reached.
    fn elapsed_ms(&self, start: RawEvent, end: RawEvent) -> Result<f32>;

    /// `bytes` (> 0) of uninitialised device memory, usable by work given to `stream` from now on;
    /// aligned to 256 bytes.
    fn alloc(&self, bytes: u64, stream: RawStream) -> Result<u64>;
    /// Frees after all work given to `stream` so far.
    unsafe fn free(&self, address: u64, stream: RawStream) -> Result<()>;
    /// Host to device.
    unsafe fn copy_in(&self, to: u64, from: *const u8, bytes: usize, on: RawStream) -> Result<()>;
    /// Device to host.
    unsafe fn copy_out(&self, to: *mut u8, from: u64, bytes: usize, on: RawStream) -> Result<()>;
    /// Device to device; the ranges do not overlap.
    unsafe fn copy(&self, to: u64, from: u64, bytes: usize, on: RawStream) -> Result<()>;
    /// `count` times `pattern`.
    unsafe fn fill(&self, to: u64, pattern: Pattern, count: usize, on: RawStream) -> Result<()>;
    /// `bytes` (> 0) of host memory that copies reach without staging; aligned to 64 bytes.
    fn alloc_host(&self, bytes: usize) -> Result<*mut u8>;
    /// Frees host memory that no copy in flight uses.
    unsafe fn free_host(&self, pointer: *mut u8, bytes: usize);

    /// Instructions times active lanes, of all launches so far; `None` where nobody counts.
    fn lane_instructions(&self) -> Option<u64>;
    /// What the latest launch counted; `None` where nobody counts, or before the first.
    #[cfg(feature = "emulator")]
    fn last_launch(&self) -> Option<Arc<warpsmith_emulator::LaunchStats>> {
        None
    }

    /// The bytes of a tensor map that was held against the rules.
    fn encode_tensor_map(
        &self,
        address: u64,
        desc: &TensorMapDesc,
    ) -> Result<[u8; TensorMap::BYTES]>;

    /// Loads PTX text.
    fn load(&self, ptx: &str) -> Result<Box<dyn LoadedModule>>;
}

/// A module on a device; its kernels keep it alive.
pub(crate) trait LoadedModule: Send + Sync {
    /// The kernel that the module has of that signature.
    fn kernel(&self, signature: &Signature) -> Result<Box<dyn LoadedKernel>>;
}

/// What the device says of a loaded kernel.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KernelLimits {
    /// Most threads of a block.
    pub(crate) max_threads: u32,
    /// Statically declared shared memory.
    pub(crate) static_shared_bytes: u32,
    /// Most dynamic shared memory.
    pub(crate) max_dynamic_shared_bytes: u32,
    /// Registers a thread; 0 where the device has none to count.
    pub(crate) registers: u32,
    /// Local memory a thread.
    pub(crate) local_bytes: u32,
}

/// A kernel on a device.
pub(crate) trait LoadedKernel: Send + Sync {
    /// Its limits on this device.
    fn limits(&self) -> KernelLimits;
    /// Enqueues one launch that was checked against parameters and limits. `args` point to the
    /// parameters' bytes, which are read before this returns; `sizes` are the parameters' sizes.
    ///
    /// # Safety
    /// The arguments are what the kernel's code expects of them.
    unsafe fn launch(
        &self,
        stream: RawStream,
        config: &LaunchConfig,
        args: &[*const c_void],
        sizes: &[u32],
    ) -> Result<()>;
}
