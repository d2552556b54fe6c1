//! The backend for a GPU, through the CUDA driver API.
//!
//! Memory is allocated in stream order (`cuMemAllocFromPoolAsync`) from a pool of the backend's own.
//! The pool keeps freed memory, so a loop that allocates gets system memory only in its first
//! iteration. The device's default pool belongs to the process, and stays as it is.

pub(crate) mod driver;
mod graph;
mod module;
mod tensor_map;

use super::{Backend, CapturedGraph, EventUse, LoadedModule, Pattern, RawEvent, RawStream};
use crate::device::{DeviceInfo, DeviceKind, MemoryInfo};
use crate::error::{DeviceError, Error, Result};
use crate::tensor_map::{TensorMap, TensorMapDesc};
use cudarc::driver::sys::{
    self, CUcontext, CUdevice, CUdevice_attribute, CUevent, CUevent_flags, CUmemAllocationType,
    CUmemLocationType, CUmemPool_attribute, CUmemPoolProps, CUmemoryPool, CUresult, CUstream,
    CUstream_flags, CUstreamCaptureStatus,
};
use driver::{cu, driver, failure};
use std::ffi::CStr;

/// One GPU and its primary context, which is shared with other users of the driver in this process.
pub(crate) struct GpuBackend {
    info: DeviceInfo,
    context: Context,
    /// `None` where the device has no stream-ordered allocator.
    pool: Option<Pool>,
}

/// A driver context: valid on every thread, for the life of the process (it is never released).
#[derive(Clone, Copy)]
pub(super) struct Context(CUcontext);

// SAFETY: the driver's contexts may be used from any thread.
unsafe impl Send for Context {}
// SAFETY: the driver synchronises calls on one context itself.
unsafe impl Sync for Context {}

/// A memory pool on one device.
struct Pool(CUmemoryPool);

// SAFETY: the driver's pools may be used from any thread.
unsafe impl Send for Pool {}
// SAFETY: the driver synchronises calls on one pool itself.
unsafe impl Sync for Pool {}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: the pool is not used after this; the driver keeps it while it has allocations.
        if let Err(error) = unsafe { cu!(cuMemPoolDestroy(self.0)) } {
            tracing::warn!(%error, "a memory pool was not destroyed");
        }
    }
}

impl Context {
    /// Makes the context the calling thread's current one.
    pub(super) fn bind(self) -> Result<()> {
        let mut current: CUcontext = std::ptr::null_mut();
        // SAFETY: `current` is a valid place for the answer.
        unsafe { cu!(cuCtxGetCurrent(&raw mut current)) }?;
        if current != self.0 {
            // SAFETY: the context was retained and is never released.
            unsafe { cu!(cuCtxSetCurrent(self.0)) }?;
        }
        Ok(())
    }
}

impl GpuBackend {
    /// The GPU with this ordinal.
    pub(crate) fn new(ordinal: usize) -> Result<Self> {
        let device = handle(ordinal)?;
        let info = info(ordinal, device)?;
        let mut context: CUcontext = std::ptr::null_mut();
        // SAFETY: `device` came from cuDeviceGet, `context` is a valid place.
        unsafe { cu!(cuDevicePrimaryCtxRetain(&raw mut context, device)) }?;
        let context = Context(context);
        context.bind()?;
        let pool = pool(device)?;
        Ok(Self {
            info,
            context,
            pool,
        })
    }

    fn bind(&self) -> Result<()> {
        self.context.bind()
    }

    fn try_alloc(&self, bytes: usize, stream: RawStream) -> (CUresult, u64) {
        let mut address = 0;
        let code = match &self.pool {
            // SAFETY: the stream is one of this device's, `address` is a valid place.
            Some(Pool(pool)) => unsafe {
                sys::cuMemAllocFromPoolAsync(&raw mut address, bytes, *pool, cu_stream(stream))
            },
            // SAFETY: as above.
            None => unsafe { sys::cuMemAlloc_v2(&raw mut address, bytes) },
        };
        (code, address)
    }
}

/// Properties of a GPU, read without creating a context on it.
pub(crate) fn describe(ordinal: usize) -> Result<DeviceInfo> {
    info(ordinal, handle(ordinal)?)
}

fn handle(ordinal: usize) -> Result<CUdevice> {
    let count = driver()?.count;
    match i32::try_from(ordinal) {
        Ok(number) if ordinal < count => {
            let mut device = 0;
            // SAFETY: the driver is initialised (`driver()` above), `device` is a valid place.
            unsafe { cu!(cuDeviceGet(&raw mut device, number)) }?;
            Ok(device)
        }
        _ => Err(Error::Device(DeviceError::NoDevice { ordinal, count })),
    }
}

fn attribute(device: CUdevice, which: CUdevice_attribute) -> Result<u32> {
    let mut value = 0;
    // SAFETY: `device` came from cuDeviceGet, `value` is a valid place.
    unsafe { cu!(cuDeviceGetAttribute(&raw mut value, which, device)) }?;
    Ok(u32::try_from(value).unwrap_or(0))
}

fn info(ordinal: usize, device: CUdevice) -> Result<DeviceInfo> {
    use CUdevice_attribute as A;
    let get = |which| attribute(device, which);
    let mut name = [0_u8; 256];
    // SAFETY: the buffer has the length given; the driver ends the name with a zero.
    unsafe { cu!(cuDeviceGetName(name.as_mut_ptr().cast(), 256, device)) }?;
    let mut memory_bytes = 0;
    // SAFETY: `memory_bytes` is a valid place.
    unsafe { cu!(cuDeviceTotalMem_v2(&raw mut memory_bytes, device)) }?;
    let name = CStr::from_bytes_until_nul(&name)
        .map_err(|_| Error::Bug("the driver's device name does not end"))?;
    Ok(DeviceInfo {
        kind: DeviceKind::Gpu { ordinal },
        name: name.to_string_lossy().into_owned(),
        arch: (
            get(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            get(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        memory_bytes: memory_bytes as u64,
        multiprocessors: get(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        l2_bytes: get(A::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?.into(),
        max_threads_per_block: get(A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        max_block: [
            get(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X)?,
            get(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y)?,
            get(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)?,
        ],
        max_grid: [
            get(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)?,
            get(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)?,
            get(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)?,
        ],
        max_shared_bytes_per_block: get(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        driver_version: {
            let version = driver()?.version.unsigned_abs();
            Some((version / 1000, version % 1000 / 10))
        },
    })
}

fn pool(device: CUdevice) -> Result<Option<Pool>> {
    let pools = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
    if attribute(device, pools)? == 0 {
        tracing::warn!("the device has no stream-ordered allocator: frees will synchronise");
        return Ok(None);
    }
    // SAFETY: a structure of numbers and pointers, for which the driver takes 0 as the default.
    let mut properties: CUmemPoolProps = unsafe { std::mem::zeroed() };
    properties.allocType = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = device;
    let mut pool: CUmemoryPool = std::ptr::null_mut();
    // SAFETY: both are valid places.
    unsafe { cu!(cuMemPoolCreate(&raw mut pool, &raw const properties)) }?;
    let pool = Pool(pool);
    let mut keep = u64::MAX;
    let threshold = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    // SAFETY: this attribute is a u64, which `keep` is.
    unsafe {
        cu!(cuMemPoolSetAttribute(
            pool.0,
            threshold,
            (&raw mut keep).cast()
        ))
    }?;
    Ok(Some(pool))
}

pub(super) fn cu_stream(stream: RawStream) -> CUstream {
    stream.0 as CUstream
}

fn cu_event(event: RawEvent) -> CUevent {
    event.0 as CUevent
}

/// Result of a query: done, not yet done, or failed.
fn is_done(call: &'static str, code: CUresult) -> Result<bool> {
    match code {
        CUresult::CUDA_SUCCESS => Ok(true),
        CUresult::CUDA_ERROR_NOT_READY => Ok(false),
        code => Err(failure(call, code)),
    }
}

impl Backend for GpuBackend {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn memory(&self) -> Result<MemoryInfo> {
        self.bind()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: both are valid places.
        unsafe { cu!(cuMemGetInfo_v2(&raw mut free, &raw mut total)) }?;
        Ok(MemoryInfo {
            free_bytes: free as u64,
            total_bytes: total as u64,
        })
    }

    fn synchronize(&self) -> Result<()> {
        self.bind()?;
        // SAFETY: the context is bound.
        unsafe { cu!(cuCtxSynchronize()) }
    }

    fn trim(&self) -> Result<()> {
        self.synchronize()?;
        if let Some(Pool(pool)) = &self.pool {
            // SAFETY: `pool` is this backend's.
            unsafe { cu!(cuMemPoolTrimTo(*pool, 0)) }?;
        }
        Ok(())
    }

    fn create_stream(&self) -> Result<RawStream> {
        self.bind()?;
        let mut stream: CUstream = std::ptr::null_mut();
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: `stream` is a valid place.
        unsafe { cu!(cuStreamCreate(&raw mut stream, flags)) }?;
        Ok(RawStream(stream as usize))
    }

    fn synchronize_stream(&self, stream: RawStream) -> Result<()> {
        self.bind()?;
        // SAFETY: the stream lives as long as its device.
        unsafe { cu!(cuStreamSynchronize(cu_stream(stream))) }
    }

    fn stream_is_done(&self, stream: RawStream) -> Result<bool> {
        self.bind()?;
        // SAFETY: as above.
        is_done("cuStreamQuery", unsafe {
            sys::cuStreamQuery(cu_stream(stream))
        })
    }

    fn is_capturing(&self, stream: RawStream) -> Result<bool> {
        self.bind()?;
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: the stream lives as long as its device, `status` is a valid place.
        unsafe { cu!(cuStreamIsCapturing(cu_stream(stream), &raw mut status)) }?;
        Ok(status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
    }

    fn begin_capture(&self, stream: RawStream) -> Result<()> {
        self.bind()?;
        graph::begin(stream)
    }

    fn end_capture(&self, stream: RawStream) -> Result<Box<dyn CapturedGraph>> {
        self.bind()?;
        graph::end(self.context, stream)
    }

    fn wait_event(&self, stream: RawStream, event: RawEvent) -> Result<()> {
        self.bind()?;
        // SAFETY: stream and event are live handles.
        unsafe { cu!(cuStreamWaitEvent(cu_stream(stream), cu_event(event), 0)) }
    }

    fn create_event(&self, usage: EventUse) -> Result<RawEvent> {
        self.bind()?;
        let flags = match usage {
            EventUse::Order => CUevent_flags::CU_EVENT_DISABLE_TIMING,
            EventUse::Timing => CUevent_flags::CU_EVENT_DEFAULT,
        };
        let mut event: CUevent = std::ptr::null_mut();
        // SAFETY: `event` is a valid place.
        unsafe { cu!(cuEventCreate(&raw mut event, flags as u32)) }?;
        Ok(RawEvent(event as usize))
    }

    fn destroy_event(&self, event: RawEvent) {
        // SAFETY: the owner destroys it once; work that waits for it is unaffected.
        let destroyed = self
            .bind()
            .and_then(|()| unsafe { cu!(cuEventDestroy_v2(cu_event(event))) });
        if let Err(error) = destroyed {
            tracing::warn!(%error, "an event was not freed");
        }
    }

    fn record_event(&self, event: RawEvent, stream: RawStream) -> Result<()> {
        self.bind()?;
        // SAFETY: stream and event are live handles of one context.
        unsafe { cu!(cuEventRecord(cu_event(event), cu_stream(stream))) }
    }

    fn synchronize_event(&self, event: RawEvent) -> Result<()> {
        self.bind()?;
        // SAFETY: a live handle.
        unsafe { cu!(cuEventSynchronize(cu_event(event))) }
    }

    fn event_is_done(&self, event: RawEvent) -> Result<bool> {
        self.bind()?;
        // SAFETY: a live handle.
        is_done("cuEventQuery", unsafe {
            sys::cuEventQuery(cu_event(event))
        })
    }

    fn elapsed_ms(&self, start: RawEvent, end: RawEvent) -> Result<f32> {
        self.bind()?;
        let mut ms = 0.0;
        // SAFETY: live handles, made with time stamps; `ms` is a valid place.
        let code = unsafe { sys::cuEventElapsedTime(&raw mut ms, cu_event(start), cu_event(end)) };
        match code {
            CUresult::CUDA_SUCCESS => Ok(ms),
            CUresult::CUDA_ERROR_NOT_READY => Err(Error::Device(DeviceError::EventNotReady(
                "its work is not done; call synchronize first",
            ))),
            code => Err(failure("cuEventElapsedTime", code)),
        }
    }

    fn alloc(&self, bytes: u64, stream: RawStream) -> Result<u64> {
        self.bind()?;
        let out_of_memory = |free_bytes| {
            Error::Device(DeviceError::OutOfMemory {
                device: self.info.to_string().into(),
                requested_bytes: bytes,
                free_bytes,
            })
        };
        let Ok(size) = usize::try_from(bytes) else {
            return Err(out_of_memory(self.memory()?.free_bytes));
        };
        let (mut code, mut address) = self.try_alloc(size, stream);
        if code == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            self.trim()?;
            (code, address) = self.try_alloc(size, stream);
        }
        match code {
            CUresult::CUDA_SUCCESS => Ok(address),
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => Err(out_of_memory(self.memory()?.free_bytes)),
            code => Err(failure("cuMemAllocFromPoolAsync", code)),
        }
    }

    unsafe fn free(&self, address: u64, stream: RawStream) -> Result<()> {
        self.bind()?;
        match self.pool {
            // SAFETY: guaranteed by the caller: allocated here, freed once, after all uses.
            Some(_) => unsafe { cu!(cuMemFreeAsync(address, cu_stream(stream))) },
            None => {
                // SAFETY: as above. Synchronise first: cuMemFree need not wait for work in flight.
                unsafe {
                    cu!(cuStreamSynchronize(cu_stream(stream)))?;
                    cu!(cuMemFree_v2(address))
                }
            }
        }
    }

    unsafe fn copy_in(&self, to: u64, from: *const u8, bytes: usize, on: RawStream) -> Result<()> {
        self.bind()?;
        // SAFETY: guaranteed by the caller: both ranges are valid until the stream has passed.
        unsafe { cu!(cuMemcpyHtoDAsync_v2(to, from.cast(), bytes, cu_stream(on))) }
    }

    unsafe fn copy_out(&self, to: *mut u8, from: u64, bytes: usize, on: RawStream) -> Result<()> {
        self.bind()?;
        // SAFETY: guaranteed by the caller: both ranges are valid until the stream has passed.
        unsafe { cu!(cuMemcpyDtoHAsync_v2(to.cast(), from, bytes, cu_stream(on))) }
    }

    unsafe fn copy(&self, to: u64, from: u64, bytes: usize, on: RawStream) -> Result<()> {
        self.bind()?;
        // SAFETY: guaranteed by the caller: both ranges are live and do not overlap.
        unsafe { cu!(cuMemcpyDtoDAsync_v2(to, from, bytes, cu_stream(on))) }
    }

    unsafe fn fill(&self, to: u64, pattern: Pattern, count: usize, on: RawStream) -> Result<()> {
        self.bind()?;
        let stream = cu_stream(on);
        // SAFETY: guaranteed by the caller: `count` patterns lie in a live allocation, aligned to
        // their size.
        unsafe {
            match pattern {
                Pattern::B1(byte) => cu!(cuMemsetD8Async(to, byte, count, stream)),
                Pattern::B2(half) => cu!(cuMemsetD16Async(to, half, count, stream)),
                Pattern::B4(word) => cu!(cuMemsetD32Async(to, word, count, stream)),
                Pattern::B8(both) => {
                    let (low, high) = (both as u32, (both >> 32) as u32);
                    if low == high {
                        return cu!(cuMemsetD32Async(to, low, 2 * count, stream));
                    }
                    // Every other 32-bit word: `count` rows of one word at a pitch of 8 bytes.
                    cu!(cuMemsetD2D32Async(to, 8, low, 1, count, stream))?;
                    cu!(cuMemsetD2D32Async(to + 4, 8, high, 1, count, stream))
                }
            }
        }
    }

    fn alloc_host(&self, bytes: usize) -> Result<*mut u8> {
        self.bind()?;
        let mut pointer = std::ptr::null_mut();
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE;
        // SAFETY: `pointer` is a valid place.
        match unsafe { sys::cuMemHostAlloc(&raw mut pointer, bytes, flags) } {
            CUresult::CUDA_SUCCESS => Ok(pointer.cast()),
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                Err(Error::Device(DeviceError::OutOfHostMemory {
                    requested_bytes: bytes as u64,
                }))
            }
            code => Err(failure("cuMemHostAlloc", code)),
        }
    }

    unsafe fn free_host(&self, pointer: *mut u8, _bytes: usize) {
        // SAFETY: guaranteed by the caller: allocated by `alloc_host`, freed once, no copy in
        // flight.
        let freed = self
            .bind()
            .and_then(|()| unsafe { cu!(cuMemFreeHost(pointer.cast())) });
        if let Err(error) = freed {
            tracing::warn!(%error, "pinned memory was not freed");
        }
    }

    fn lane_instructions(&self) -> Option<u64> {
        None
    }

    fn encode_tensor_map(
        &self,
        address: u64,
        desc: &TensorMapDesc,
    ) -> Result<[u8; TensorMap::BYTES]> {
        self.bind()?;
        tensor_map::encode(&self.info, address, desc)
    }

    fn load(&self, ptx: &str) -> Result<Box<dyn LoadedModule>> {
        module::load(self.context, &self.info, ptx)
    }
}
