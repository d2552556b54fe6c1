//! What lives behind handles, and which context is current.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use warpsmith_emulator::{Emulator, EmulatorConfig, ImageDesc, Module};

use crate::api::array::Array3dDesc;
use crate::api::host_memory::Managed;
use crate::api::mapping::Mappings;
use crate::api::old_launch::Prepared;
use crate::api::stream::AttributeValue;
use crate::api::texture::{ResourceDesc, SamplingDesc};
use crate::api::user_object::Held;
use crate::c::{Address, Device, Handle};
use crate::code::{Answer, Code};
use crate::graph::{Captures, Graph, Node};
use crate::order::Order;
use crate::report;

/// Addresses of device memory. Linux gives them to no program, so an address tells whose it is.
pub(crate) const DEVICE_ADDRESSES: std::ops::Range<u64> = 0x1000_0000_0000..0x2000_0000_0000;

/// The context of memory that belongs to a module.
pub(crate) const NO_CONTEXT: Handle = 0;

/// The seed of schedules, if it is not 0.
const SEED: &str = "WARPSMITH_SEED";
/// 1 if kernels and the program go on after findings that let them.
const KEEP_GOING: &str = "WARPSMITH_KEEP_GOING";
/// Names how many seconds a launch may take.
const TIMEOUT: &str = "WARPSMITH_TIMEOUT";
/// That many unless it is set.
const USUAL_TIMEOUT: u64 = 600;

/// Streams that every context has: the legacy one, by its two names, and each thread's own.
const BUILT_IN_STREAMS: std::ops::RangeInclusive<Handle> = 0..=2;

/// The driver of this process, with its one device.
pub(crate) struct Driver {
    pub(crate) emulator: Emulator,
    /// Memory of the device in bytes.
    pub(crate) memory_bytes: u64,
    /// Whether the program goes on after findings that let a kernel go on.
    pub(crate) keep_going: bool,
    /// The process that initialised the driver: what a fork makes is another.
    process: u32,
    state: Mutex<State>,
    order: Mutex<Order>,
    /// Held while a piece of work is done: one at a time, in the order of the calls.
    turn: Mutex<()>,
}

#[derive(Default)]
pub(crate) struct State {
    last_handle: Handle,
    pub(crate) contexts: HashMap<Handle, Context>,
    pub(crate) primary: Primary,
    pub(crate) modules: HashMap<Handle, LoadedModule>,
    pub(crate) functions: HashMap<Handle, Function>,
    pub(crate) streams: HashMap<Handle, Stream>,
    /// Attributes of streams that were set, by stream and number.
    pub(crate) attributes: HashMap<(Handle, u32), AttributeValue>,
    pub(crate) events: HashMap<Handle, Event>,
    pub(crate) arrays: HashMap<Handle, Array>,
    /// Textures and surfaces, by the emulator's handles.
    pub(crate) objects: HashMap<u64, Object>,
    pub(crate) pools: HashMap<Handle, Pool>,
    pub(crate) mappings: Mappings,
    /// What was set for the next launch of a function, in the way of CUDA 3.
    pub(crate) prepared: HashMap<Handle, Prepared>,
    pub(crate) links: HashMap<Handle, Link>,
    pub(crate) graphs: HashMap<Handle, Graph>,
    /// Graphs that can be launched: their nodes in order.
    pub(crate) executables: HashMap<Handle, Vec<Node>>,
    /// References to objects of the program, by the graph that has them.
    pub(crate) held: HashMap<Handle, Held>,
    pub(crate) captures: Captures,
    /// Live memory that programs allocated or registered, by its address.
    pub(crate) ranges: BTreeMap<Address, Range>,
    last_range: u64,
}

/// The device's primary context.
#[derive(Default)]
pub(crate) struct Primary {
    /// Its handle, which stays the same from the first user on.
    pub(crate) handle: Option<Handle>,
    /// The handle while it has users.
    pub(crate) context: Option<Handle>,
    pub(crate) users: u32,
    pub(crate) flags: u32,
}

#[derive(Default)]
pub(crate) struct Context {
    pub(crate) flags: u32,
    pub(crate) limits: HashMap<u32, usize>,
    pub(crate) cache: i32,
    pub(crate) banks: i32,
    /// What the first fault in the context made its error, for good.
    pub(crate) fault: Option<Code>,
}

/// A module or a library.
pub(crate) struct LoadedModule {
    /// `None` for a library, which belongs to no context.
    pub(crate) context: Option<Handle>,
    pub(crate) module: Module,
    /// Memory of its managed variables, which goes after the module.
    pub(crate) managed: Managed,
}

/// A kernel of a module, as function and as kernel of a library.
#[derive(Clone)]
pub(crate) struct Function {
    pub(crate) owner: Handle,
    pub(crate) module: Module,
    pub(crate) name: String,
    /// Attributes that were set, by number.
    pub(crate) attributes: HashMap<i32, i32>,
}

pub(crate) struct Stream {
    pub(crate) context: Handle,
    pub(crate) flags: u32,
    pub(crate) priority: i32,
}

pub(crate) struct Event {
    pub(crate) context: Handle,
    pub(crate) is_timed: bool,
    /// Its time since the driver's start.
    pub(crate) recorded: Option<Duration>,
}

#[derive(Clone)]
pub(crate) struct Array {
    pub(crate) context: Handle,
    pub(crate) desc: Array3dDesc,
    /// Where its texels are.
    pub(crate) image: ImageDesc,
    pub(crate) bytes: u64,
}

/// A texture or a surface, as it was described.
#[derive(Clone, Copy)]
pub(crate) enum Object {
    Texture(ResourceDesc, SamplingDesc),
    Surface(ResourceDesc),
}

/// A pool of memory; it keeps nothing, so only its attributes are there.
#[derive(Default)]
pub(crate) struct Pool {
    pub(crate) attributes: HashMap<u32, u64>,
}

/// PTX that is being linked.
#[derive(Default)]
pub(crate) struct Link {
    pub(crate) ptx: Vec<String>,
    /// Options of `cuLinkCreate`: their count, and where their numbers and values are.
    pub(crate) options: (u32, usize, usize),
    /// What `cuLinkComplete` gave out.
    pub(crate) linked: Option<Box<[u8]>>,
}

/// A range of memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) bytes: u64,
    pub(crate) kind: RangeKind,
    pub(crate) context: Handle,
    /// Counts the ranges of the process.
    pub(crate) id: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangeKind {
    /// Memory of the device.
    Device,
    /// Managed memory: of the host, and kernels have it at the same address.
    Managed,
    /// Page-locked memory of `cuMemHostAlloc`.
    Host { flags: u32 },
    /// Memory of the program, registered by `cuMemHostRegister`.
    Registered { flags: u32 },
}

static DRIVER: OnceLock<Driver> = OnceLock::new();

thread_local! {
    /// The contexts of the thread; the last is current.
    static STACK: RefCell<Vec<Handle>> = const { RefCell::new(Vec::new()) };
}

/// Starts the driver, once.
pub(crate) fn initialise() -> Answer {
    DRIVER.get_or_init(|| {
        let seed = std::env::var(SEED).ok();
        let seconds = std::env::var(TIMEOUT)
            .ok()
            .and_then(|value| value.parse().ok());
        let keep_going = std::env::var_os(KEEP_GOING).is_some_and(|value| value == "1");
        let config = EmulatorConfig {
            seed: seed.and_then(|seed| seed.parse().ok()).unwrap_or(0),
            keep_going,
            timeout: Some(Duration::from_secs(seconds.unwrap_or(USUAL_TIMEOUT))),
            footprint: true,
            ..EmulatorConfig::default()
        };
        let memory_bytes = config.memory_bytes;
        let emulator = Emulator::new(config);
        emulator.place_from(DEVICE_ADDRESSES.start);
        report::note("libcuda of warpsmith, an emulated GPU of compute capability 9.0");
        Driver {
            emulator,
            memory_bytes,
            keep_going,
            process: std::process::id(),
            state: Mutex::default(),
            order: Mutex::default(),
            turn: Mutex::default(),
        }
    });
    driver().map(|_| ())
}

/// The driver, if `cuInit` was called in this process.
pub(crate) fn driver() -> Answer<&'static Driver> {
    DRIVER
        .get()
        .filter(|driver| driver.process == std::process::id())
        .ok_or(Code::NOT_INITIALIZED)
}

/// The driver, if it was ever started, in this process or in the one that this was forked from.
pub(crate) fn running() -> Option<&'static Driver> {
    DRIVER.get()
}

/// The calling thread's stack of contexts. It is empty when the thread has ended: programs call the
/// driver until they exit.
pub(crate) fn stack<T>(with: impl FnOnce(&mut Vec<Handle>) -> T) -> T {
    let mut kept = STACK.try_with(RefCell::take).unwrap_or_default();
    let result = with(&mut kept);
    // Nobody can look at the stack of a thread that has ended.
    let _ = STACK.try_with(|stack| stack.replace(kept));
    result
}

/// The only device.
pub(crate) fn check_device(device: Device) -> Answer {
    match device {
        0 => Ok(()),
        _ => Err(Code::INVALID_DEVICE),
    }
}

impl Driver {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The order of work. Who holds it takes no other lock, and touches no memory of the program.
    pub(crate) fn order(&self) -> MutexGuard<'_, Order> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does a piece of work when no other is being done.
    pub(crate) fn in_turn<T>(&self, work: impl FnOnce() -> T) -> T {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        work()
    }
}

/// The calling thread's current context.
#[derive(Clone, Copy)]
pub(crate) struct Current {
    pub(crate) driver: &'static Driver,
    pub(crate) context: Handle,
}

/// The current context; an error if there is none, or if a kernel had a fault in it.
pub(crate) fn current() -> Answer<Current> {
    current_even_if_faulty()?.without_fault()
}

/// The context for work on a stream: the current one, or the stream's if the thread has none.
pub(crate) fn current_of(stream: Handle) -> Answer<Current> {
    current_of_even_if_faulty(stream)?.without_fault()
}

/// The same, whatever happened in it.
pub(crate) fn current_of_even_if_faulty(stream: Handle) -> Answer<Current> {
    current_even_if_faulty().or_else(|error| {
        let driver = driver()?;
        let context = driver.state().streams.get(&stream).map(|s| s.context);
        let context = context.ok_or(error)?;
        Ok(Current { driver, context })
    })
}

/// The current context, whatever happened in it.
pub(crate) fn current_even_if_faulty() -> Answer<Current> {
    let driver = driver()?;
    let context = stack(|stack| stack.last().copied()).ok_or(Code::INVALID_CONTEXT)?;
    match driver.state().contexts.contains_key(&context) {
        true => Ok(Current { driver, context }),
        false => Err(Code::CONTEXT_IS_DESTROYED),
    }
}

impl Current {
    fn without_fault(self) -> Answer<Self> {
        match self.state().context(self.context)?.fault {
            Some(code) => Err(code),
            None => Ok(self),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'static, State> {
        self.driver.state()
    }

    /// Checks a stream's handle.
    pub(crate) fn check_stream(&self, stream: Handle) -> Answer {
        self.state().check_stream(stream)
    }
}

impl State {
    /// A new handle, which no other object ever had.
    pub(crate) fn new_handle(&mut self) -> Handle {
        /// Looks like an aligned pointer: some programs keep bits of their own in handles.
        const STEP: Handle = 0x100;
        /// Where no program has memory.
        const FIRST: Handle = 0x2000_0000_0000;
        self.last_handle += STEP;
        FIRST + self.last_handle
    }

    pub(crate) fn context(&mut self, handle: Handle) -> Answer<&mut Context> {
        self.contexts.get_mut(&handle).ok_or(Code::INVALID_CONTEXT)
    }

    pub(crate) fn check_stream(&self, stream: Handle) -> Answer {
        match BUILT_IN_STREAMS.contains(&stream) || self.streams.contains_key(&stream) {
            true => Ok(()),
            false => Err(Code::INVALID_HANDLE),
        }
    }

    pub(crate) fn event(&mut self, handle: Handle) -> Answer<&mut Event> {
        self.events.get_mut(&handle).ok_or(Code::INVALID_HANDLE)
    }

    pub(crate) fn array(&self, handle: Handle) -> Answer<&Array> {
        self.arrays.get(&handle).ok_or(Code::INVALID_HANDLE)
    }

    pub(crate) fn function(&mut self, handle: Handle) -> Answer<&mut Function> {
        self.functions.get_mut(&handle).ok_or(Code::INVALID_HANDLE)
    }

    pub(crate) fn module(&self, handle: Handle) -> Answer<&Module> {
        let found = self.modules.get(&handle).ok_or(Code::INVALID_HANDLE)?;
        Ok(&found.module)
    }

    /// The range that holds an address: its base, and what it is.
    pub(crate) fn range_at(&self, address: Address) -> Option<(Address, Range)> {
        let (base, range) = self.ranges.range(..=address).next_back()?;
        (address - base < range.bytes).then_some((*base, *range))
    }

    pub(crate) fn add_range(
        &mut self,
        address: Address,
        bytes: u64,
        kind: RangeKind,
        context: Handle,
    ) {
        self.last_range += 1;
        let range = Range {
            bytes,
            kind,
            context,
            id: self.last_range,
        };
        self.ranges.insert(address, range);
    }

    /// Takes a module and its functions away.
    pub(crate) fn unload(&mut self, handle: Handle) -> Answer {
        let removed = self.modules.remove(&handle).ok_or(Code::INVALID_HANDLE)?;
        for (address, _) in removed.managed.ranges() {
            self.ranges.remove(&address);
        }
        self.functions
            .retain(|_, function| function.owner != handle);
        Ok(())
    }

    /// Where the arrays of a context are.
    pub(crate) fn arrays_of(&self, context: Handle) -> Vec<Address> {
        let arrays = self.arrays.values();
        let owned = arrays.filter(|array| array.context == context);
        owned.map(|array| array.image.address).collect()
    }

    /// Takes a context away, and all that belongs to it but its memory, which this returns.
    pub(crate) fn take_context(&mut self, handle: Handle) -> Answer<Vec<(Address, Range)>> {
        self.contexts.remove(&handle).ok_or(Code::INVALID_CONTEXT)?;
        let modules = self.modules.iter();
        let owned: Vec<Handle> = modules
            .filter(|(_, module)| module.context == Some(handle))
            .map(|(module, _)| *module)
            .collect();
        owned
            .into_iter()
            .try_for_each(|module| self.unload(module))?;
        self.streams.retain(|_, stream| stream.context != handle);
        let streams = &self.streams;
        let is_known =
            |stream: &Handle| BUILT_IN_STREAMS.contains(stream) || streams.contains_key(stream);
        self.captures.streams.retain(|stream, _| is_known(stream));
        self.events.retain(|_, event| event.context != handle);
        self.arrays.retain(|_, array| array.context != handle);
        let ranges = self.ranges.iter();
        let ranges: Vec<(Address, Range)> = ranges
            .filter(|(_, range)| range.context == handle)
            .map(|(address, range)| (*address, *range))
            .collect();
        for (address, _) in &ranges {
            self.ranges.remove(address);
        }
        Ok(ranges)
    }
}
