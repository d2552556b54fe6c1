//! Devices: a GPU, or the emulator.

use crate::backend::{Backend, EventUse, RawEvent, RawStream, gpu};
use crate::builtin;
use crate::error::{Error, Result};
use crate::fuse;
use crate::module::Module;
use crate::ops::{AttentionState, GemmState, MapCache, ReduceState};
use crate::stream::{Stream, StreamTable};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[cfg(feature = "emulator")]
use {crate::backend::emulator::EmulatorBackend, std::sync::OnceLock};

/// Where kernels run and tensors live: a GPU, or the emulator. Cloning is cheap and gives the same
/// device; two values are equal when they are the same device.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

struct Inner {
    backend: Box<dyn Backend>,
    streams: StreamTable,
    /// Events for ordering, in no use right now.
    events: Mutex<Vec<RawEvent>>,
    builtin: builtin::Cache,
    compositions: fuse::Cache,
    maps: MapCache,
    gemm: GemmState,
    attention: AttentionState,
    reduce: ReduceState,
}

/// Which kind a [`Device`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeviceKind {
    /// A GPU, by the driver's number.
    Gpu {
        /// The driver's number, from 0.
        ordinal: usize,
    },
    /// The emulator.
    Emulator,
}

/// What is known of a device. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// GPU or emulator.
    pub kind: DeviceKind,
    /// The vendor's name for it.
    pub name: String,
    /// Compute capability, major and minor: `(9, 0)`.
    pub arch: (u32, u32),
    /// Device memory in all.
    pub memory_bytes: u64,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Most threads of a block.
    pub max_threads_per_block: u32,
    /// Most threads of a block in x, y, z.
    pub max_block: [u32; 3],
    /// Most blocks of a grid in x, y, z.
    pub max_grid: [u32; 3],
    /// Most shared memory of a block, static and dynamic together.
    pub max_shared_bytes_per_block: u32,
    /// CUDA version that the driver serves, major and minor; `None` for the emulator.
    pub driver_version: Option<(u32, u32)>,
}

/// Device memory at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Bytes not in use.
    pub free_bytes: u64,
    /// Bytes in all.
    pub total_bytes: u64,
}

impl Device {
    /// The GPU of that number. Every call gives the same device.
    ///
    /// # Errors
    /// [`Error::NoDriver`], [`Error::NoDevice`], or [`Error::Driver`] where the GPU cannot be used.
    /// Never anything but that GPU.
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

    /// The emulator: runs PTX on the CPU and checks every access. Every call gives the same
    /// device; [`Device::emulator_with`] makes others.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where this build lacks the feature `emulator`.
    #[cfg(feature = "emulator")]
    pub fn emulator() -> Result<Self> {
        static EMULATOR: OnceLock<Device> = OnceLock::new();
        if let Some(device) = EMULATOR.get() {
            return Ok(device.clone());
        }
        let made = Self::emulator_with(warpsmith_emulator::EmulatorConfig::default())?;
        Ok(EMULATOR.get_or_init(|| made).clone())
    }

    /// The emulator.
    ///
    /// # Errors
    /// [`Error::Unsupported`]: this build lacks the feature `emulator`.
    #[cfg(not(feature = "emulator"))]
    pub fn emulator() -> Result<Self> {
        Err(Error::Unsupported {
            what: "the emulator in a build without the feature `emulator`".into(),
            supported: "`gpu`, `gpu:<ordinal>`".into(),
        })
    }

    /// A new emulator of its own with these settings. Its memory, streams and modules are its own.
    ///
    /// # Errors
    /// Those of creating its first stream: none today.
    #[cfg(feature = "emulator")]
    pub fn emulator_with(config: warpsmith_emulator::EmulatorConfig) -> Result<Self> {
        Self::from_backend(Box::new(EmulatorBackend::new(config)))
    }

    /// GPU 0 where there is a driver and a GPU, else the emulator. [`Device::kind`] says which it
    /// took, and so does a `tracing` event.
    ///
    /// # Errors
    /// Where there is a GPU that cannot be used, its error: `auto` covers for a GPU that is not
    /// there, not for one that is broken.
    pub fn auto() -> Result<Self> {
        match Self::gpu(0) {
            Ok(device) => {
                tracing::info!(device = %device.info(), "auto took the GPU");
                Ok(device)
            }
            Err(absent @ (Error::NoDriver { .. } | Error::NoDevice { .. }))
                if cfg!(feature = "emulator") =>
            {
                let device = Self::emulator()?;
                tracing::info!(device = %device.info(), reason = %absent, "auto took the emulator");
                Ok(device)
            }
            Err(error) => Err(error),
        }
    }

    /// The device of that name: `gpu` (number 0), `gpu:1`, `emulator` or `auto`.
    ///
    /// # Errors
    /// [`Error::UnknownDevice`], or what the named constructor returns.
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
                None => Err(Error::UnknownDevice { name: name.into() }),
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

    /// Name, architecture and limits.
    pub fn info(&self) -> &DeviceInfo {
        self.backend().info()
    }

    /// The vendor's name for it.
    pub fn name(&self) -> &str {
        &self.info().name
    }

    /// Compute capability, major and minor.
    pub fn arch(&self) -> (u32, u32) {
        self.info().arch
    }

    /// Memory free and in all, now. On a GPU, memory that the pool keeps counts as used.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn memory(&self) -> Result<MemoryInfo> {
        self.backend().memory()
    }

    /// Instructions that the emulator has run, each counted for every active lane: exact, and the
    /// same every time. `None` on a GPU.
    pub fn lane_instructions(&self) -> Option<u64> {
        self.backend().lane_instructions()
    }

    /// What the latest launch on this emulator counted: with
    /// [`EmulatorConfig::profile`](warpsmith_emulator::EmulatorConfig::profile) all of its
    /// [`Counters`](warpsmith_emulator::profile::Counters). `None` on a GPU, and before the first
    /// launch that ran to its end.
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

    /// A stream: work given to it happens in order, beside that of other streams.
    ///
    /// Queues are reused: beyond 62 live streams, further ones share a queue with an older one,
    /// which costs parallelism and nothing else.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn stream(&self) -> Result<Stream> {
        Stream::acquire(self)
    }

    /// The stream on which things without a stream of their own happen, such as
    /// [`Tensor::zeros`](crate::Tensor::zeros).
    pub fn default_stream(&self) -> Stream {
        Stream::default_of(self)
    }

    /// Waits for all work on the device.
    ///
    /// # Errors
    /// [`Error::Driver`]: also the place where a kernel's fault on a GPU shows.
    pub fn synchronize(&self) -> Result<()> {
        self.backend().synchronize()
    }

    /// Waits for all work on the device, and gives memory that the pool keeps for later
    /// allocations back to the system, for others to use.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn trim_memory(&self) -> Result<()> {
        self.backend().trim()
    }

    /// Loads a module of PTX text.
    ///
    /// # Errors
    /// [`Error::PtxSyntax`] where the text does not parse, [`Error::Jit`] with the driver's log or
    /// `Error::EmulatorLoad` where the device does not take it.
    pub fn load_ptx(&self, ptx: &str) -> Result<Module> {
        Module::load(self, ptx)
    }

    pub(crate) fn from_backend(backend: Box<dyn Backend>) -> Result<Self> {
        let streams = StreamTable::new(&*backend)?;
        let events = Mutex::new(Vec::new());
        Ok(Self(Arc::new(Inner {
            backend,
            streams,
            events,
            builtin: builtin::Cache::default(),
            compositions: fuse::Cache::default(),
            maps: MapCache::default(),
            gemm: GemmState::default(),
            attention: AttentionState::default(),
            reduce: ReduceState::default(),
        })))
    }

    pub(crate) fn backend(&self) -> &dyn Backend {
        &*self.0.backend
    }

    pub(crate) fn streams(&self) -> &StreamTable {
        &self.0.streams
    }

    pub(crate) fn builtin(&self) -> &builtin::Cache {
        &self.0.builtin
    }

    pub(crate) fn compositions(&self) -> &fuse::Cache {
        &self.0.compositions
    }

    pub(crate) fn maps(&self) -> &MapCache {
        &self.0.maps
    }

    pub(crate) fn gemm(&self) -> &GemmState {
        &self.0.gemm
    }

    pub(crate) fn attention(&self) -> &AttentionState {
        &self.0.attention
    }

    pub(crate) fn reduce(&self) -> &ReduceState {
        &self.0.reduce
    }

    /// Work given to `later` from now on starts after what `earlier` has been given so far.
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
        // The wait took the recorded point; the event may be recorded anew at once.
        lock(&self.0.events).push(event);
        ordered
    }

    /// [`Error::DeviceMismatch`] unless `other` is this device.
    pub(crate) fn check_same(&self, operand: &'static str, other: &Self) -> Result<()> {
        if self == other {
            return Ok(());
        }
        let (mut got, want) = (other.info().to_string(), self.info().to_string());
        if got == want {
            got.insert_str(0, "another ");
        }
        Err(Error::DeviceMismatch {
            operand,
            got: got.into(),
            want: want.into(),
        })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // GPUs live as long as the process; this is an emulator going away.
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

/// All devices of this machine and build: GPUs in the driver's order, then the emulator. No driver
/// is no error here; a GPU that cannot be described is.
///
/// # Errors
/// [`Error::Driver`].
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
    // What these mutexes guard is valid after any panic: lists of handles.
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
    /// As [`Device::from_name`] reads it.
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
