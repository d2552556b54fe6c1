//! Devices: a GPU, or the emulator.

use crate::backend::{Backend, EventUse, RawEvent, RawStream, gpu};
use crate::error::{DeviceError, Error, Result};
use crate::load::KernelCache;
use crate::ops::{MapCache, Plans, Workspaces};
use crate::stream::{Stream, StreamTable};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[cfg(feature = "emulator")]
use {crate::backend::emulator::EmulatorBackend, std::sync::OnceLock};

/// Where kernels run and tensors live: a GPU, or the emulator. A clone is another handle to the
/// same device; two handles are equal when they refer to the same device.
///
/// # Faults and processes
/// A fault of a kernel on a GPU, such as an illegal address or a trap, ends the driver's context.
/// Every later call in this process fails with the same
/// [`DeviceError::Driver`](crate::DeviceError), and memory of the GPU cannot be read any more. Only
/// a new process can use the GPU again. On the emulator a fault ends one launch.
///
/// A driver's context does not survive `fork`: a child process must not use a GPU that its parent has
/// opened. Start the child by `exec` (as [`std::process::Command`] does), or open devices after the
/// fork.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

struct Inner {
    backend: Box<dyn Backend>,
    streams: StreamTable,
    /// Idle events without time stamps, kept for reuse by [`Device::order`].
    events: Mutex<Vec<RawEvent>>,
    kernels: KernelCache<str>,
    compositions: KernelCache<[u64]>,
    maps: MapCache,
    plans: Plans,
    workspaces: Workspaces,
}

/// Whether a [`Device`] is a GPU or the emulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeviceKind {
    /// A GPU.
    Gpu {
        /// The driver's ordinal of it, from 0.
        ordinal: usize,
    },
    /// The emulator.
    Emulator,
}

/// Properties and limits of a device. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// GPU or emulator.
    pub kind: DeviceKind,
    /// The driver's name for it, such as `NVIDIA H200`.
    pub name: String,
    /// Compute capability, major and minor, such as `(9, 0)`. The emulator's is 9.0.
    pub arch: (u32, u32),
    /// Total device memory.
    pub memory_bytes: u64,
    /// Streaming multiprocessors (SMs); for the emulator, the CPU threads that it uses.
    pub multiprocessors: u32,
    /// Bytes of the L2 cache. For the emulator it is 4 KiB, so that small tensors test the kernels
    /// for tensors that are far larger than L2.
    pub l2_bytes: u64,
    /// Largest number of threads in a block.
    pub max_threads_per_block: u32,
    /// Largest extents of a block in x, y, z, in threads.
    pub max_block: [u32; 3],
    /// Largest extents of a grid in x, y, z, in blocks.
    pub max_grid: [u32; 3],
    /// Largest shared memory of a block, static and dynamic together. Launches opt in to more than
    /// 48 KiB by themselves.
    pub max_shared_bytes_per_block: u32,
    /// Newest CUDA version that the driver supports, major and minor; `None` for the emulator.
    pub driver_version: Option<(u32, u32)>,
}

/// Free and total device memory at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Bytes not in use.
    pub free_bytes: u64,
    /// All bytes.
    pub total_bytes: u64,
}

impl Device {
    /// The GPU with the driver's ordinal `ordinal`. Every call returns the same device.
    ///
    /// Its methods make its primary context the current one of the calling thread, and do not
    /// restore the previous context. If you also call the driver with another context, set that
    /// context again.
    ///
    /// # Errors
    /// [`Error::Device`], or [`DeviceError::Driver`](crate::DeviceError::Driver) where the GPU
    /// cannot be used. It never returns another device instead.
    pub fn gpu(ordinal: usize) -> Result<Self> {
        static GPUS: Mutex<BTreeMap<usize, Device>> = Mutex::new(BTreeMap::new());
        let mut gpus = lock(&GPUS);
        if let Some(device) = gpus.get(&ordinal) {
            return Ok(device.clone());
        }
        let device = Self::from_backend(Box::new(gpu::GpuBackend::new(ordinal)?))?;
        gpus.insert(ordinal, device.clone());
        Ok(device)
    }

    /// The emulator, which runs PTX on the CPU and checks every memory access. Every call returns
    /// the same device; [`Device::emulator_with`] creates others.
    ///
    /// In debug builds, which tests are, a block may run 2^28 warp instructions. An endless loop
    /// then ends within seconds with a report that says where each warp is. The environment
    /// variable `WARPSMITH_INSTRUCTION_BUDGET` sets another number, in every build, or `none`.
    ///
    /// # Errors
    /// [`ArgumentError::Value`](crate::ArgumentError::Value) where the variable has another value,
    /// [`ArgumentError::Unsupported`](crate::ArgumentError::Unsupported) where this build lacks the
    /// feature `emulator`.
    #[cfg(feature = "emulator")]
    pub fn emulator() -> Result<Self> {
        static EMULATOR: OnceLock<Device> = OnceLock::new();
        if let Some(device) = EMULATOR.get() {
            return Ok(device.clone());
        }
        let made = Self::from_backend(Box::new(EmulatorBackend::usual()?))?;
        Ok(EMULATOR.get_or_init(|| made).clone())
    }

    /// The emulator.
    ///
    /// # Errors
    /// [`ArgumentError::Unsupported`](crate::ArgumentError::Unsupported) where this build lacks the
    /// feature `emulator`.
    #[cfg(not(feature = "emulator"))]
    pub fn emulator() -> Result<Self> {
        Err(Error::unsupported(
            "the emulator in a build without the feature `emulator`",
            "`gpu`, `gpu:<ordinal>`",
        ))
    }

    /// A new emulator with these settings. It shares no memory, stream or module with another one.
    ///
    /// # Errors
    /// Those of creating its first stream: none today.
    #[cfg(feature = "emulator")]
    pub fn emulator_with(config: warpsmith_emulator::EmulatorConfig) -> Result<Self> {
        Self::from_backend(Box::new(EmulatorBackend::new(config)))
    }

    /// GPU 0 where there is a driver and a GPU, else the emulator. [`Device::kind`] tells which one
    /// was chosen, and so does a `tracing` event.
    ///
    /// # Errors
    /// The error of [`Device::gpu`] where there is a GPU that cannot be used: only a missing GPU or
    /// driver makes it choose the emulator. Without the feature `emulator`, also
    /// [`DeviceError::NoDriver`](crate::DeviceError::NoDriver) and
    /// [`DeviceError::NoDevice`](crate::DeviceError::NoDevice).
    pub fn auto() -> Result<Self> {
        match Self::gpu(0) {
            Ok(device) => {
                tracing::info!(device = %device.info(), "auto took the GPU");
                Ok(device)
            }
            Err(
                absent @ (Error::Device(DeviceError::NoDriver { .. })
                | Error::Device(DeviceError::NoDevice { .. })),
            ) if cfg!(feature = "emulator") => {
                let device = Self::emulator()?;
                tracing::info!(device = %device.info(), reason = %absent, "auto took the emulator");
                Ok(device)
            }
            Err(error) => Err(error),
        }
    }

    /// The device with this name: `gpu` (ordinal 0), `gpu:<ordinal>`, `emulator` or `auto`.
    ///
    /// # Errors
    /// [`DeviceError::Unknown`](crate::DeviceError::Unknown) for another name, else the errors of
    /// [`Device::gpu`], [`Device::emulator`] or [`Device::auto`].
    pub fn from_name(name: &str) -> Result<Self> {
        match name {
            "gpu" => Self::gpu(0),
            "emulator" => Self::emulator(),
            "auto" => Self::auto(),
            _ => match name
                .strip_prefix("gpu:")
                .and_then(|number| number.parse().ok())
            {
                Some(ordinal) => Self::gpu(ordinal),
                None => Err(Error::Device(DeviceError::Unknown { name: name.into() })),
            },
        }
    }

    /// GPU or emulator.
    pub fn kind(&self) -> DeviceKind {
        self.info().kind
    }

    /// True for the emulator.
    pub fn is_emulator(&self) -> bool {
        self.kind() == DeviceKind::Emulator
    }

    /// Properties and limits of the device.
    pub fn info(&self) -> &DeviceInfo {
        self.backend().info()
    }

    /// The driver's name for it, as in [`DeviceInfo::name`].
    pub fn name(&self) -> &str {
        &self.info().name
    }

    /// Compute capability, major and minor.
    pub fn arch(&self) -> (u32, u32) {
        self.info().arch
    }

    /// Free and total memory at this moment. On a GPU, freed memory that the memory pool keeps for
    /// later allocations counts as used.
    ///
    /// # Errors
    /// [`DeviceError::Driver`](crate::DeviceError::Driver).
    pub fn memory(&self) -> Result<MemoryInfo> {
        self.backend().memory()
    }

    /// Instructions that the emulator has executed since it was created, each counted once for
    /// every active lane. `None` on a GPU.
    pub fn lane_instructions(&self) -> Option<u64> {
        self.backend().lane_instructions()
    }

    /// Statistics of the last launch on this emulator that ran to its end: instruction counts, and
    /// with [`EmulatorConfig::profile`](warpsmith_emulator::EmulatorConfig::profile) all
    /// [`Counters`](warpsmith_emulator::profile::Counters). `None` on a GPU, and before the first
    /// such launch.
    ///
    /// ```
    /// # fn main() -> warpsmith::Result<()> {
    /// use warpsmith::emulator::EmulatorConfig;
    /// use warpsmith::{Device, Tensor, Unary, UnaryOp};
    /// let device = Device::emulator_with(EmulatorConfig {
    ///     profile: true,
    ///     ..EmulatorConfig::default()
    /// })?;
    /// let x = Tensor::from_slice(&device, &[1024], &[1.0_f32; 1024])?;
    /// Unary::new(UnaryOp::Neg, &x).run(&device.default_stream())?;
    /// let stats = device.last_launch().expect("it was launched");
    /// let global = &stats.counters().global;
    /// assert_eq!(global.loads.bytes, global.distinct_read); // each byte is read once
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "emulator")]
    pub fn last_launch(&self) -> Option<Arc<warpsmith_emulator::LaunchStats>> {
        self.backend().last_launch()
    }

    /// A new stream. Its work runs in order, and concurrently with that of other streams.
    ///
    /// The driver's streams are reused. Beyond 62 live streams, a further one shares a driver
    /// stream with an older one. Both stay correct, but they do not run concurrently.
    ///
    /// # Errors
    /// [`DeviceError::Driver`](crate::DeviceError::Driver).
    pub fn stream(&self) -> Result<Stream> {
        Stream::acquire(self)
    }

    /// The stream of calls that take no stream, such as
    /// [`Tensor::from_slice`](crate::Tensor::from_slice). It is not the driver's legacy default
    /// stream, and does not synchronise with other streams.
    pub fn default_stream(&self) -> Stream {
        Stream::default_of(self)
    }

    /// Waits for all work on the device.
    ///
    /// # Errors
    /// [`DeviceError::Driver`](crate::DeviceError::Driver), which also reports the fault of an
    /// earlier kernel on a GPU.
    pub fn synchronize(&self) -> Result<()> {
        self.backend().synchronize()
    }

    /// Waits for all work on the device, and releases the memory that it keeps for later calls, so
    /// that other processes can use it. This is the freed memory of the memory pool, and the
    /// workspaces of streams. The next call that needs a workspace allocates it again.
    ///
    /// # Errors
    /// [`DeviceError::Driver`](crate::DeviceError::Driver).
    pub fn trim_memory(&self) -> Result<()> {
        self.workspaces().free(self)?;
        self.backend().trim()
    }

    pub(crate) fn from_backend(backend: Box<dyn Backend>) -> Result<Self> {
        let streams = StreamTable::new(&*backend)?;
        let events = Mutex::new(Vec::new());
        Ok(Self(Arc::new(Inner {
            backend,
            streams,
            events,
            kernels: KernelCache::default(),
            compositions: KernelCache::default(),
            maps: MapCache::default(),
            plans: Plans::default(),
            workspaces: Workspaces::default(),
        })))
    }

    pub(crate) fn backend(&self) -> &dyn Backend {
        &*self.0.backend
    }

    pub(crate) fn streams(&self) -> &StreamTable {
        &self.0.streams
    }

    pub(crate) fn kernels(&self) -> &KernelCache<str> {
        &self.0.kernels
    }

    pub(crate) fn compositions(&self) -> &KernelCache<[u64]> {
        &self.0.compositions
    }

    pub(crate) fn maps(&self) -> &MapCache {
        &self.0.maps
    }

    pub(crate) fn plans(&self) -> &Plans {
        &self.0.plans
    }

    pub(crate) fn workspaces(&self) -> &Workspaces {
        &self.0.workspaces
    }

    /// Makes work enqueued on `later` from now on wait for all work enqueued on `earlier` so far.
    pub(crate) fn order(&self, earlier: RawStream, later: RawStream) -> Result<()> {
        if earlier == later {
            return Ok(());
        }
        let backend = self.backend();
        let kept = lock(&self.0.events).pop();
        let event = match kept {
            Some(event) => event,
            None => backend.create_event(EventUse::Order)?,
        };
        let ordered = backend
            .record_event(event, earlier)
            .and_then(|()| backend.wait_event(later, event));
        // The wait refers to the point recorded above, so the event may be recorded again at once.
        lock(&self.0.events).push(event);
        ordered
    }

    /// [`DeviceError::Mismatch`](crate::DeviceError::Mismatch) unless `other` is this device.
    pub(crate) fn check_same(&self, operand: &'static str, other: &Self) -> Result<()> {
        if self == other {
            return Ok(());
        }
        let (mut got, want) = (other.info().to_string(), self.info().to_string());
        if got == want {
            got.insert_str(0, "another ");
        }
        Err(Error::Device(DeviceError::Mismatch {
            operand,
            got: got.into(),
            want: want.into(),
        }))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // GPU devices are never dropped (`Device::gpu` keeps them), so this is an emulator's.
        for event in self
            .events
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .drain(..)
        {
            self.backend.destroy_event(event);
        }
    }
}

/// All devices of this machine and build: GPUs in the driver's order, then the emulator. Without a
/// driver there are no GPUs in the list; a GPU whose properties cannot be read is an error.
///
/// # Errors
/// [`DeviceError::Driver`](crate::DeviceError::Driver).
pub fn devices() -> Result<Vec<DeviceInfo>> {
    let count = match gpu::driver::driver() {
        Ok(driver) => driver.count,
        Err(_) => 0,
    };
    let mut infos = (0..count).map(gpu::describe).collect::<Result<Vec<_>>>()?;
    if cfg!(feature = "emulator") {
        infos.push(Device::emulator()?.info().clone());
    }
    Ok(infos)
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic leaves the data behind these mutexes valid, so a poisoned lock may be used.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Device {}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.info())
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.info().fmt(f)
    }
}

impl fmt::Display for DeviceKind {
    /// The name that [`Device::from_name`] takes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gpu { ordinal } => write!(f, "gpu:{ordinal}"),
            Self::Emulator => f.pad("emulator"),
        }
    }
}

impl fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.arch;
        match self.kind {
            DeviceKind::Emulator => write!(f, "emulator (sm_{major}{minor})"),
            kind => write!(f, "{kind} ({}, sm_{major}{minor})", self.name),
        }
    }
}

#[cfg(all(test, feature = "emulator"))]
mod tests {
    use super::*;
    use crate::{Softmax, Tensor, Unary, UnaryOp};

    #[test]
    fn an_emulator_that_nobody_holds_goes_with_the_kernels_that_it_keeps() {
        let device = Device::emulator_with(Default::default()).expect("an emulator");
        let left = Arc::downgrade(&device.0);
        let stream = device.stream().expect("a stream");
        let x = Tensor::full(&stream, &[4, 4], 1.0_f32).expect("a tensor");
        let composed = Unary::new(UnaryOp::Neg, &x).run(&stream).expect("it runs");
        let built_in = Softmax::new(&x).run(&stream).expect("it runs");
        drop((composed, built_in, x, stream, device));
        assert!(left.upgrade().is_none(), "something keeps the device");
    }
}
