//! The interface between the library and what executes kernels: a GPU's driver, or the emulator.
//!
//! Handles are plain numbers that the backend created. Work on a stream runs in order, and a call
//! may return before its work is done. The callers of this trait ([`Device`](crate::Device) and the
//! types built on it) are responsible for lifetimes. A handle is used only while its owner lives,
//! and memory is freed after all of its uses in stream order.

#[cfg(feature = "emulator")]
pub(crate) mod emulator;
pub(crate) mod gpu;
pub(crate) mod recorder;
#[cfg(feature = "emulator")]
mod tensor_map;

use crate::device::{DeviceInfo, MemoryInfo};
use crate::error::Result;
use crate::launch::LaunchConfig;
use crate::load::Signature;
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
    /// Ordering only, without time stamps.
    Order,
    /// Ordering and time measurement.
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

/// A device's implementation. Methods that access memory by address are unsafe. The caller
/// guarantees that device ranges belong to live allocations, and that host ranges stay valid until
/// the stream has completed the work.
pub(crate) trait Backend: Send + Sync {
    /// Name, architecture and limits, which never change.
    fn info(&self) -> &DeviceInfo;
    /// Free and total memory at this moment.
    fn memory(&self) -> Result<MemoryInfo>;
    /// Waits for all work on the device.
    fn synchronize(&self) -> Result<()>;
    /// Waits for all work, and releases freed memory that is kept for later allocations.
    fn trim(&self) -> Result<()>;

    /// A new stream, independent of all others.
    fn create_stream(&self) -> Result<RawStream>;
    /// Waits until all work enqueued on the stream is done.
    fn synchronize_stream(&self, stream: RawStream) -> Result<()>;
    /// Whether all work enqueued on the stream is done.
    fn stream_is_done(&self, stream: RawStream) -> Result<bool>;
    /// Whether work given to the stream is captured into a graph instead of being done.
    fn is_capturing(&self, stream: RawStream) -> Result<bool>;
    /// Work given to the stream from now on is captured into a graph.
    fn begin_capture(&self, stream: RawStream) -> Result<()>;
    /// The graph of the work given to the stream since.
    fn end_capture(&self, stream: RawStream) -> Result<Box<dyn CapturedGraph>>;
    /// Later work of the stream starts after what the event recorded.
    fn wait_event(&self, stream: RawStream, event: RawEvent) -> Result<()>;

    /// A new event.
    fn create_event(&self, usage: EventUse) -> Result<RawEvent>;
    /// Destroys an event; work that waits for it is not affected.
    fn destroy_event(&self, event: RawEvent);
    /// Records the point behind all work enqueued on the stream.
    fn record_event(&self, event: RawEvent, stream: RawStream) -> Result<()>;
    /// Waits until the recorded point is reached.
    fn synchronize_event(&self, event: RawEvent) -> Result<()>;
    /// Whether the recorded point is reached.
    fn event_is_done(&self, event: RawEvent) -> Result<bool>;
    /// Milliseconds between two recorded points that have been reached.
    fn elapsed_ms(&self, start: RawEvent, end: RawEvent) -> Result<f32>;

    /// `bytes` (> 0) of uninitialised device memory, aligned to 256 bytes and usable by work
    /// enqueued on `stream` from now on.
    fn alloc(&self, bytes: u64, stream: RawStream) -> Result<u64>;
    /// Frees memory after all work enqueued on `stream` so far.
    unsafe fn free(&self, address: u64, stream: RawStream) -> Result<()>;
    /// Host to device.
    unsafe fn copy_in(&self, to: u64, from: *const u8, bytes: usize, on: RawStream) -> Result<()>;
    /// Device to host.
    unsafe fn copy_out(&self, to: *mut u8, from: u64, bytes: usize, on: RawStream) -> Result<()>;
    /// Device to device; the ranges do not overlap.
    unsafe fn copy(&self, to: u64, from: u64, bytes: usize, on: RawStream) -> Result<()>;
    /// Writes `pattern` `count` times.
    unsafe fn fill(&self, to: u64, pattern: Pattern, count: usize, on: RawStream) -> Result<()>;
    /// `bytes` (> 0) of page-locked host memory, aligned to 64 bytes.
    fn alloc_host(&self, bytes: usize) -> Result<*mut u8>;
    /// Frees host memory that no copy in flight uses.
    unsafe fn free_host(&self, pointer: *mut u8, bytes: usize);

    /// Instructions times active lanes of all launches so far; `None` on a GPU.
    fn lane_instructions(&self) -> Option<u64>;
    /// Statistics of the last launch; `None` on a GPU and before the first launch.
    #[cfg(feature = "emulator")]
    fn last_launch(&self) -> Option<Arc<warpsmith_emulator::LaunchStats>> {
        None
    }

    /// Encodes a tensor map, which has been checked against the rules.
    fn encode_tensor_map(
        &self,
        address: u64,
        desc: &TensorMapDesc,
    ) -> Result<[u8; TensorMap::BYTES]>;

    /// Loads PTX text.
    fn load(&self, ptx: &str) -> Result<Box<dyn LoadedModule>>;
}

/// Captured work.
pub(crate) trait CapturedGraph: Send + Sync {
    /// Enqueues it.
    ///
    /// # Safety
    /// The memory and the kernels that it uses are alive, and other work on that memory is ordered
    /// with it. Neither they nor the graph are dropped before it is done.
    unsafe fn launch(&self, stream: RawStream) -> Result<()>;
}

/// A module on a device; its kernels keep it alive.
pub(crate) trait LoadedModule: Send + Sync {
    /// The module's kernel with this signature.
    fn kernel(&self, signature: &Signature) -> Result<Box<dyn LoadedKernel>>;
    /// Address and size in bytes of a module-scope variable; `None` if there is none.
    fn variable(&self, name: &str) -> Result<Option<(u64, u64)>>;
}

/// Resource use and limits of a loaded kernel on its device.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KernelLimits {
    /// Most threads of a block.
    pub(crate) max_threads: u32,
    /// Static shared memory.
    pub(crate) static_shared_bytes: u32,
    /// Most dynamic shared memory of a launch.
    pub(crate) max_dynamic_shared_bytes: u32,
    /// Registers per thread; 0 on the emulator, which does not allocate registers.
    pub(crate) registers: u32,
    /// Local memory per thread.
    pub(crate) local_bytes: u32,
}

/// A kernel on a device.
pub(crate) trait LoadedKernel: Send + Sync {
    /// Its limits on this device.
    fn limits(&self) -> KernelLimits;
    /// Blocks that the device holds at a time, of launches with this block, shared memory and cluster.
    fn resident_blocks(&self, config: &LaunchConfig) -> Result<u32>;
    /// Enqueues one launch, which has been checked against parameters and limits. `args` point to
    /// the arguments' bytes, which are read before this returns; `sizes` are the parameters' sizes.
    ///
    /// # Safety
    /// The arguments are what the kernel's code expects.
    unsafe fn launch(
        &self,
        stream: RawStream,
        config: &LaunchConfig,
        args: &[*const c_void],
        sizes: &[u32],
    ) -> Result<()>;
}
