//! The backend for the emulator.
//!
//! Work is done when the call that enqueues it returns, and each stream does one piece of work at a
//! time. A GPU may execute in that order too, so a program that is correct on a GPU is correct
//! here. The fault of a kernel is the error of its launch.

mod work;

use super::{
    Backend, CapturedGraph, EventUse, KernelLimits, LoadedKernel, LoadedModule, Pattern, RawEvent,
    RawStream,
};
use crate::device::{DeviceInfo, DeviceKind, MemoryInfo, lock};
use crate::error::{DeviceError, EmulatorError, Error, Result, ShapeError};
use crate::launch::LaunchConfig;
use crate::load::Signature;
use crate::tensor_map::{TensorMap, TensorMapDesc};
use std::alloc::Layout;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};
use warpsmith_emulator::{
    COMPUTE_CAPABILITY, Emulator, EmulatorConfig, FaultKind, LaunchError, LaunchStats,
    MULTIPROCESSORS, MemoryError, Module,
};
use work::{EmulatorGraph, Launch, Work};

/// Alignment of host memory for copies.
const HOST_ALIGN: usize = 64;

/// Limits of the emulated device.
const MAX_THREADS_PER_BLOCK: u32 = 1024;
const MAX_SHARED_BYTES_PER_BLOCK: u32 = 227 << 10;
const L2_BYTES: u64 = 4 << 10;

/// Names how many warp instructions a block may run on [`Device::emulator`](crate::Device::emulator);
/// `none` lets it run any number.
const BUDGET: &str = "WARPSMITH_INSTRUCTION_BUDGET";
/// Where the variable is not set. Tests run in debug builds, and an endless loop of theirs ends
/// within seconds.
const USUAL_BUDGET: Option<u64> = if cfg!(debug_assertions) {
    Some(1 << 28)
} else {
    None
};
/// How long a launch may take, in debug builds.
const USUAL_TIMEOUT: Option<Duration> = if cfg!(debug_assertions) {
    Some(Duration::from_mins(10))
} else {
    None
};

/// An emulator with streams and events.
pub(crate) struct EmulatorBackend {
    info: DeviceInfo,
    shared: Arc<Shared>,
}

/// What modules and kernels need of the backend.
struct Shared {
    emulator: Emulator,
    /// Whether [`BUDGET`] sets the budget.
    is_usual: bool,
    state: Mutex<State>,
}

struct State {
    /// Sizes of the live allocations, by address.
    allocated: HashMap<u64, u64>,
    /// A stream is a mutex, held while one piece of its work is done.
    streams: Vec<Arc<Mutex<()>>>,
    /// Work of the streams that are captured.
    captures: HashMap<usize, Vec<Work>>,
    /// Time stamps of the live events that were recorded.
    events: HashMap<usize, Instant>,
    next_event: usize,
    /// Total of all launches.
    lane_instructions: u64,
    last_launch: Option<Arc<LaunchStats>>,
}

impl EmulatorBackend {
    /// That of [`Device::emulator`](crate::Device::emulator).
    ///
    /// # Errors
    /// [`ArgumentError::Value`](crate::ArgumentError::Value) where [`BUDGET`] is not a budget.
    pub(crate) fn usual() -> Result<Self> {
        let instruction_budget = match std::env::var(BUDGET) {
            Err(std::env::VarError::NotPresent) => USUAL_BUDGET,
            value => budget(&value.unwrap_or_default())?,
        };
        let config = EmulatorConfig {
            instruction_budget,
            timeout: USUAL_TIMEOUT,
            ..EmulatorConfig::default()
        };
        Ok(Self::with(config, true))
    }

    pub(crate) fn new(config: EmulatorConfig) -> Self {
        Self::with(config, false)
    }

    fn with(config: EmulatorConfig, is_usual: bool) -> Self {
        let threads = config
            .threads
            .or_else(|| std::thread::available_parallelism().ok().map(Into::into));
        let info = DeviceInfo {
            kind: DeviceKind::Emulator,
            name: "warpsmith emulator".into(),
            arch: COMPUTE_CAPABILITY,
            memory_bytes: config.memory_bytes,
            multiprocessors: threads.and_then(|n| u32::try_from(n).ok()).unwrap_or(1),
            l2_bytes: L2_BYTES,
            max_threads_per_block: MAX_THREADS_PER_BLOCK,
            max_block: [1024, 1024, 64],
            max_grid: [i32::MAX as u32, 65_535, 65_535],
            max_shared_bytes_per_block: MAX_SHARED_BYTES_PER_BLOCK,
            driver_version: None,
        };
        let state = State {
            allocated: HashMap::new(),
            streams: Vec::new(),
            captures: HashMap::new(),
            events: HashMap::new(),
            next_event: 0,
            lane_instructions: 0,
            last_launch: None,
        };
        let shared = Shared {
            emulator: Emulator::new(config),
            is_usual,
            state: Mutex::new(state),
        };
        Self {
            info,
            shared: Arc::new(shared),
        }
    }
}

/// The budget that [`BUDGET`] sets.
fn budget(value: &str) -> Result<Option<u64>> {
    match value.parse() {
        Ok(number @ 1..) => Ok(Some(number)),
        _ if value == "none" => Ok(None),
        _ => Err(Error::value(
            BUDGET,
            format!("`{value}`"),
            "a number of warp instructions from 1 on, or `none`",
        )),
    }
}

impl Shared {
    /// The error of a launch, which says how its budget is raised.
    fn launch_error(&self, mut error: LaunchError) -> Error {
        if let LaunchError::Fault(report) = &mut error
            && report.kind == FaultKind::InstructionBudget
            && self.is_usual
        {
            report.notes.push(format!(
                "{BUDGET}=N lets a block run N instructions, and `none` any number"
            ));
        }
        Error::Emulator(EmulatorError::Launch(Box::new(error)))
    }

    /// The mutex of a stream.
    fn stream(&self, stream: RawStream) -> Result<Arc<Mutex<()>>> {
        let streams = &lock(&self.state).streams;
        streams
            .get(stream.0)
            .cloned()
            .ok_or(Error::Bug("a stream that the emulator did not make"))
    }

    /// Does one piece of work on a stream.
    fn on_stream<T>(&self, stream: RawStream, work: impl FnOnce(&Emulator) -> T) -> Result<T> {
        let stream = self.stream(stream)?;
        let _turn = lock(&stream);
        Ok(work(&self.emulator))
    }
}

fn memory_error(error: MemoryError) -> Error {
    Error::Emulator(EmulatorError::Memory(Box::new(error)))
}

impl Backend for EmulatorBackend {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn memory(&self) -> Result<MemoryInfo> {
        let used: u64 = lock(&self.shared.state).allocated.values().sum();
        let total_bytes = self.info.memory_bytes;
        Ok(MemoryInfo {
            free_bytes: total_bytes.saturating_sub(used),
            total_bytes,
        })
    }

    fn synchronize(&self) -> Result<()> {
        let streams = lock(&self.shared.state).streams.clone();
        for stream in streams {
            drop(lock(&stream));
        }
        Ok(())
    }

    fn trim(&self) -> Result<()> {
        self.synchronize()
    }

    fn create_stream(&self) -> Result<RawStream> {
        let streams = &mut lock(&self.shared.state).streams;
        streams.push(Arc::default());
        Ok(RawStream(streams.len() - 1))
    }

    fn synchronize_stream(&self, stream: RawStream) -> Result<()> {
        self.shared.on_stream(stream, |_| ())
    }

    fn stream_is_done(&self, stream: RawStream) -> Result<bool> {
        // A panic in a launch poisons the lock; the stream goes on all the same.
        let is_busy = matches!(
            self.shared.stream(stream)?.try_lock(),
            Err(TryLockError::WouldBlock)
        );
        Ok(!is_busy)
    }

    fn is_capturing(&self, stream: RawStream) -> Result<bool> {
        let captures = &lock(&self.shared.state).captures;
        Ok(captures.contains_key(&stream.0))
    }

    fn begin_capture(&self, stream: RawStream) -> Result<()> {
        let captures = &mut lock(&self.shared.state).captures;
        captures.insert(stream.0, Vec::new());
        Ok(())
    }

    fn end_capture(&self, stream: RawStream) -> Result<Box<dyn CapturedGraph>> {
        let captured = lock(&self.shared.state).captures.remove(&stream.0);
        let work = captured.ok_or(Error::Bug("a capture that has not begun"))?;
        let shared = self.shared.clone();
        Ok(Box::new(EmulatorGraph { shared, work }))
    }

    fn wait_event(&self, _stream: RawStream, _event: RawEvent) -> Result<()> {
        // All work before the recorded point is done already.
        Ok(())
    }

    fn create_event(&self, _usage: EventUse) -> Result<RawEvent> {
        let mut state = lock(&self.shared.state);
        state.next_event += 1;
        Ok(RawEvent(state.next_event))
    }

    fn destroy_event(&self, event: RawEvent) {
        lock(&self.shared.state).events.remove(&event.0);
    }

    fn record_event(&self, event: RawEvent, stream: RawStream) -> Result<()> {
        let now = self.shared.on_stream(stream, |_| Instant::now())?;
        lock(&self.shared.state).events.insert(event.0, now);
        Ok(())
    }

    fn synchronize_event(&self, _event: RawEvent) -> Result<()> {
        Ok(())
    }

    fn event_is_done(&self, _event: RawEvent) -> Result<bool> {
        Ok(true)
    }

    fn elapsed_ms(&self, start: RawEvent, end: RawEvent) -> Result<f32> {
        let events = &lock(&self.shared.state).events;
        let (Some(&start), Some(&end)) = (events.get(&start.0), events.get(&end.0)) else {
            return Err(Error::Bug("an event's recording was lost"));
        };
        let signed = |from: Instant, to: Instant| to.saturating_duration_since(from).as_secs_f32();
        Ok((signed(start, end) - signed(end, start)) * 1e3)
    }

    fn alloc(&self, bytes: u64, _stream: RawStream) -> Result<u64> {
        let address = self
            .shared
            .emulator
            .alloc(bytes)
            .map_err(|error| match error {
                MemoryError::OutOfMemory {
                    requested, free, ..
                } => Error::Device(DeviceError::OutOfMemory {
                    device: self.info.to_string().into(),
                    requested_bytes: requested,
                    free_bytes: free,
                }),
                other => memory_error(other),
            })?;
        lock(&self.shared.state).allocated.insert(address, bytes);
        Ok(address)
    }

    unsafe fn free(&self, address: u64, stream: RawStream) -> Result<()> {
        self.shared
            .on_stream(stream, |emulator| emulator.free(address))?
            .map_err(memory_error)?;
        lock(&self.shared.state).allocated.remove(&address);
        Ok(())
    }

    unsafe fn copy_in(&self, to: u64, from: *const u8, bytes: usize, on: RawStream) -> Result<()> {
        // SAFETY: guaranteed by the caller: `bytes` initialised bytes of host memory.
        let from = unsafe { std::slice::from_raw_parts(from, bytes) };
        self.shared
            .on_stream(on, |emulator| emulator.write(to, from))?
            .map_err(memory_error)
    }

    unsafe fn copy_out(&self, to: *mut u8, from: u64, bytes: usize, on: RawStream) -> Result<()> {
        // SAFETY: guaranteed by the caller: `bytes` bytes of host memory that nobody else looks at.
        let to = unsafe { std::slice::from_raw_parts_mut(to, bytes) };
        self.shared
            .on_stream(on, |emulator| emulator.read(from, to))?
            .map_err(memory_error)
    }

    unsafe fn copy(&self, to: u64, from: u64, bytes: usize, on: RawStream) -> Result<()> {
        self.shared.enqueue(on, Work::Copy(to, from, bytes))
    }

    unsafe fn fill(&self, to: u64, pattern: Pattern, count: usize, on: RawStream) -> Result<()> {
        self.shared.enqueue(on, Work::Fill(to, pattern, count))
    }

    fn alloc_host(&self, bytes: usize) -> Result<*mut u8> {
        let layout = host_layout(bytes)?;
        // SAFETY: `bytes` is not 0, by this trait's contract.
        let pointer = unsafe { std::alloc::alloc(layout) };
        if pointer.is_null() {
            return Err(Error::Device(DeviceError::OutOfHostMemory {
                requested_bytes: bytes as u64,
            }));
        }
        Ok(pointer)
    }

    unsafe fn free_host(&self, pointer: *mut u8, bytes: usize) {
        if let Ok(layout) = host_layout(bytes) {
            // SAFETY: guaranteed by the caller: `alloc_host` gave it for as many bytes, and it is
            // freed once.
            unsafe { std::alloc::dealloc(pointer, layout) };
        }
    }

    fn lane_instructions(&self) -> Option<u64> {
        Some(lock(&self.shared.state).lane_instructions)
    }

    fn last_launch(&self) -> Option<Arc<LaunchStats>> {
        lock(&self.shared.state).last_launch.clone()
    }

    fn encode_tensor_map(
        &self,
        address: u64,
        desc: &TensorMapDesc,
    ) -> Result<[u8; TensorMap::BYTES]> {
        super::tensor_map::encode(address, desc)
    }

    fn load(&self, ptx: &str) -> Result<Box<dyn LoadedModule>> {
        let loaded = self.shared.emulator.load(ptx);
        let module =
            loaded.map_err(|error| Error::Emulator(EmulatorError::Load(Box::new(error))))?;
        Ok(Box::new(EmulatorModule {
            module,
            shared: self.shared.clone(),
        }))
    }
}

fn host_layout(bytes: usize) -> Result<Layout> {
    Layout::from_size_align(bytes, HOST_ALIGN).map_err(|_| {
        Error::Shape(ShapeError::Overflow {
            shape: [bytes].into(),
        })
    })
}

struct EmulatorModule {
    module: Module,
    shared: Arc<Shared>,
}

impl LoadedModule for EmulatorModule {
    fn kernel(&self, signature: &Signature) -> Result<Box<dyn LoadedKernel>> {
        let checked = self.module.check(&signature.name);
        checked.map_err(|error| self.shared.launch_error(error))?;
        let static_shared_bytes = signature.static_shared_bytes;
        let limits = KernelLimits {
            max_threads: MAX_THREADS_PER_BLOCK,
            static_shared_bytes,
            max_dynamic_shared_bytes: MAX_SHARED_BYTES_PER_BLOCK
                .saturating_sub(static_shared_bytes),
            registers: 0,
            local_bytes: 0,
        };
        Ok(Box::new(EmulatorKernel {
            module: self.module.clone(),
            name: signature.name.clone(),
            limits,
            shared: self.shared.clone(),
        }))
    }

    fn variable(&self, name: &str) -> Result<Option<(u64, u64)>> {
        Ok(self.module.variable(name))
    }
}

struct EmulatorKernel {
    module: Module,
    name: Box<str>,
    limits: KernelLimits,
    shared: Arc<Shared>,
}

impl LoadedKernel for EmulatorKernel {
    fn limits(&self) -> KernelLimits {
        self.limits
    }

    fn resident_blocks(&self, config: &LaunchConfig) -> Result<u32> {
        let resources = self.module.resources(&self.name);
        let resources =
            resources.ok_or(Error::Bug("a kernel that was checked has no resources"))?;
        let threads = config
            .block
            .iter()
            .map(|&extent| u64::from(extent))
            .product();
        let occupancy = resources.occupancy(threads, config.shared_bytes.into());
        let cluster = config.cluster.unwrap_or([1; 3]).iter().product::<u32>();
        Ok(occupancy.blocks * MULTIPROCESSORS / cluster * cluster)
    }

    unsafe fn launch(
        &self,
        stream: RawStream,
        config: &LaunchConfig,
        args: &[*const c_void],
        sizes: &[u32],
    ) -> Result<()> {
        let params = args.iter().zip(sizes).map(|(&arg, &size)| {
            // SAFETY: guaranteed by the caller: each argument has its parameter's size,
            // initialised.
            let bytes = unsafe { std::slice::from_raw_parts(arg.cast::<u8>(), size as usize) };
            bytes.into()
        });
        let launch = Launch {
            module: self.module.clone(),
            name: self.name.clone(),
            config: warpsmith_emulator::LaunchConfig {
                grid: config.grid,
                block: config.block,
                shared_bytes: config.shared_bytes,
                cluster: config.cluster,
            },
            params: params.collect(),
        };
        self.shared.enqueue(stream, Work::Launch(Box::new(launch)))
    }
}
