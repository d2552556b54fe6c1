//! Launches of kernels.

use std::ffi::c_void;

use warpsmith_emulator::{
    FaultKind, Footprint, LaunchConfig, LaunchError, MULTIPROCESSORS, Report,
};

use crate::c::{Handle, In, LaunchAttribute, LaunchShape, bytes};
use crate::call::entries;
use crate::code::{Answer, Code};
use crate::order::Lane;
use crate::report;
use crate::state::{Current, Function, current_of};
use crate::work::{Work, in_order, submit};

use super::graph_node::KernelNode;
use super::{event, host_memory};

/// Attributes of launches, by their numbers in the API.
const COOPERATIVE: u32 = 2;
const CLUSTER: u32 = 4;
/// Events that the launch records.
const EVENTS: [u32; 2] = [7, 12];
/// Hints to the hardware.
const HINTS: [u32; 13] = [0, 1, 3, 5, 6, 8, 9, 10, 11, 14, 15, 16, 17];
/// `CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE`
const UPDATABLE_NODE: u32 = 13;

/// Blocks of a cluster that every device has.
const PORTABLE_CLUSTER: u32 = 8;

/// `CU_LAUNCH_PARAM_BUFFER_POINTER` and the like: marks in the list `extra`.
pub(super) const EXTRA_END: usize = 0;
pub(super) const EXTRA_BUFFER: usize = 1;
pub(super) const EXTRA_BYTES: usize = 2;

/// Pointers to the parameters, or a list of marks and values with a buffer of them.
#[derive(Clone, Copy)]
pub(crate) struct Parameters {
    pub(crate) each: In<*const c_void>,
    pub(crate) extra: In<usize>,
}

/// Where a parameter is.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Place(*const c_void);

// SAFETY: nothing here follows it.
unsafe impl Send for Place {}

/// A launch that was checked, with its parameters.
#[derive(Clone)]
pub(crate) struct Launch {
    function: Function,
    config: LaunchConfig,
    attributes: Attributes,
    params: Vec<Vec<u8>>,
    handle: Handle,
    /// Where the parameters are, as a caller asked for them.
    places: Vec<Place>,
}

/// What the attributes of a launch ask for.
#[derive(Clone, Default)]
struct Attributes {
    is_cooperative: bool,
    cluster: Option<[u32; 3]>,
    events: Vec<Handle>,
}

impl Attributes {
    fn of(list: In<LaunchAttribute>, count: u32) -> Answer<Self> {
        let mut found = Self::default();
        for attribute in list.list(count as usize)? {
            let LaunchAttribute { id, value, .. } = attribute;
            match id {
                COOPERATIVE => found.is_cooperative = value[0] != 0,
                CLUSTER => found.cluster = Some([value[0], value[1], value[2]]),
                id if EVENTS.contains(&id) => {
                    let event = u64::from(value[1]) << 32 | u64::from(value[0]);
                    found.events.push(event as Handle);
                }
                id if HINTS.contains(&id) => {}
                UPDATABLE_NODE => return Err(Code::NOT_SUPPORTED),
                _ => return Err(Code::INVALID_VALUE),
            }
        }
        Ok(found)
    }
}

impl Parameters {
    /// The bytes of each parameter.
    fn read(self, function: &Function) -> Answer<Vec<Vec<u8>>> {
        let layouts = function.module.params(&function.name);
        let layouts = layouts.ok_or(Code::INVALID_HANDLE)?;
        if layouts.is_empty() {
            return Ok(Vec::new());
        }
        if self.extra.is_null() {
            let layouts = layouts.iter().enumerate();
            return layouts
                .map(|(at, layout)| {
                    // SAFETY: by the contract of launches, a pointer to a value of this size.
                    Ok(unsafe { bytes(self.each.at(at)?, layout.bytes as usize) }?.to_vec())
                })
                .collect();
        }
        let packed = packed(self.extra)?;
        let layouts = layouts.iter();
        layouts
            .map(|layout| {
                let range = layout.offset as usize..(layout.offset + layout.bytes) as usize;
                Ok(packed.get(range).ok_or(Code::INVALID_VALUE)?.to_vec())
            })
            .collect()
    }
}

/// The buffer of all parameters, out of a list of marks and values.
pub(crate) fn packed(extra: In<usize>) -> Answer<Vec<u8>> {
    let (mut buffer, mut len) = (0, 0);
    let mut at = 0;
    loop {
        match extra.at(at)? {
            EXTRA_END => break,
            EXTRA_BUFFER => buffer = extra.at(at + 1)?,
            EXTRA_BYTES => {
                let place = extra.at(at + 1)? as *const usize;
                // SAFETY: by the contract of the mark, a size stands there.
                len = unsafe { In::new(place) }.get()?;
            }
            _ => return Err(Code::INVALID_VALUE),
        }
        at += 2;
    }
    // SAFETY: by the contract of the marks, a buffer of so many bytes.
    Ok(unsafe { bytes(buffer as *const c_void, len) }?.to_vec())
}

/// The error that a GPU has after such a fault.
fn code_of(report: &Report) -> Code {
    match report.kind {
        FaultKind::OutOfBounds | FaultKind::UseAfterFree | FaultKind::ReadOnly => {
            Code::ILLEGAL_ADDRESS
        }
        FaultKind::Misaligned => Code::MISALIGNED_ADDRESS,
        FaultKind::Trap if report.message.starts_with("assertion ") => Code::ASSERT,
        FaultKind::BadTarget => Code::INVALID_PC,
        FaultKind::StackOverflow => Code::HARDWARE_STACK_ERROR,
        FaultKind::Deadlock | FaultKind::InstructionBudget | FaultKind::TimeLimit => {
            Code::LAUNCH_TIMEOUT
        }
        FaultKind::TensorMap => Code::ILLEGAL_INSTRUCTION,
        _ => Code::LAUNCH_FAILED,
    }
}

/// What a GPU's driver checks before the launch and the emulator does not.
fn check(function: &Function, config: &LaunchConfig, attributes: &Attributes) -> Answer {
    if config.shared_bytes > function.max_dynamic_shared() {
        return Err(Code::INVALID_VALUE);
    }
    let resources = function.module.resources(&function.name);
    let resources = resources.ok_or(Code::INVALID_HANDLE)?;
    let volume = |extents: [u32; 3]| extents.into_iter().map(u64::from).product::<u64>();
    let cluster = volume(config.cluster.or(resources.cluster).unwrap_or([1; 3]));
    if cluster > u64::from(PORTABLE_CLUSTER) && !function.allows_large_clusters() {
        return Err(Code::INVALID_CLUSTER_SIZE);
    }
    let threads = volume(config.block);
    if attributes.is_cooperative && (1..=1024).contains(&threads) {
        let occupancy = resources.occupancy(threads, config.shared_bytes.into());
        let resident = u64::from(occupancy.blocks) * u64::from(MULTIPROCESSORS);
        if volume(config.grid) > resident {
            return Err(Code::COOPERATIVE_LAUNCH_TOO_LARGE);
        }
    }
    Ok(())
}

/// The code of a launch that was refused.
fn refused(error: &LaunchError, config: &LaunchConfig) -> Code {
    report::note(format_args!("launch: {error}"));
    match error {
        LaunchError::HostMemory { .. } => Code::OUT_OF_MEMORY,
        LaunchError::Shape { what, .. } if *what == "the cluster" => Code::INVALID_CLUSTER_SIZE,
        LaunchError::Shape { what, .. } if *what == "the grid" && config.cluster.is_some() => {
            Code::INVALID_CLUSTER_SIZE
        }
        _ => Code::INVALID_VALUE,
    }
}

/// Whether launches say at once what went wrong in the kernel.
fn is_blocking() -> bool {
    std::env::var_os("CUDA_LAUNCH_BLOCKING").is_some_and(|value| value == "1")
}

impl Launch {
    /// A launch of a kernel without attributes.
    pub(crate) fn plain(
        current: Current,
        function: Handle,
        config: LaunchConfig,
        parameters: Parameters,
    ) -> Answer<Self> {
        Self::new(current, function, config, Attributes::default(), parameters)
    }

    fn new(
        current: Current,
        function: Handle,
        config: LaunchConfig,
        attributes: Attributes,
        parameters: Parameters,
    ) -> Answer<Self> {
        let handle = function;
        let function = current.state().function(handle)?.clone();
        check(&function, &config, &attributes)?;
        let params = parameters.read(&function)?;
        Ok(Self {
            handle,
            places: Vec::new(),
            function,
            config,
            attributes,
            params,
        })
    }

    /// The kernel's name.
    pub(super) fn name(&self) -> &str {
        &self.function.name
    }

    /// The launch as a node of a graph. Its parameters stay where they are until the node changes.
    pub(super) fn as_node(&mut self) -> KernelNode {
        let params = self.params.iter();
        self.places = params.map(|param| Place(param.as_ptr().cast())).collect();
        KernelNode {
            function: self.handle,
            grid: self.config.grid,
            block: self.config.block,
            shared_bytes: self.config.shared_bytes,
            // SAFETY: pointers to parameters, which stay as long as the launch.
            each: unsafe { In::new(self.places.as_ptr().cast()) },
            extra: In::null(),
        }
    }

    /// Launches the kernel.
    pub(crate) fn run(&self, current: Current, lane: Lane) -> Answer {
        let params: Vec<&[u8]> = self.params.iter().map(Vec::as_slice).collect();
        let driver = current.driver;
        let Function { module, name, .. } = &self.function;
        let mut fault = None;
        let what = || format!("kernel {name}");
        let launched = in_order(driver, lane, what, || {
            let launched = host_memory::share(driver, || {
                driver
                    .emulator
                    .launch_unprinted(module, name, &self.config, &params)
            });
            match launched {
                Ok(stats) => Ok(stats.footprint.map(|all| *all).unwrap_or_default()),
                Err(LaunchError::Fault(report)) => {
                    fault = Some(report);
                    Ok(Footprint::default())
                }
                Err(error) => Err(refused(&error, &self.config)),
            }
        });
        driver.emulator.print();
        launched?;
        if let Some(fault) = fault {
            fail(current, &fault)?;
        }
        let mut events = self.attributes.events.iter();
        events.try_for_each(|event| event::record_now(current, *event, lane))?;
        if is_blocking() {
            driver.order().host_after(lane);
        }
        Ok(())
    }
}

/// Launches a kernel without attributes.
pub(super) fn plain(
    function: Handle,
    config: LaunchConfig,
    stream: Handle,
    parameters: Parameters,
) -> Answer {
    launch(function, config, stream, Attributes::default(), parameters)
}

fn launch(
    function: Handle,
    config: LaunchConfig,
    stream: Handle,
    attributes: Attributes,
    parameters: Parameters,
) -> Answer {
    let current = current_of(stream)?;
    let launch = Launch::new(current, function, config, attributes, parameters)?;
    submit(current, stream, Work::Kernel(Box::new(launch)))
}

/// Reports a fault. As on a GPU, the calls after the launch have the error, unless the kernel has gone
/// on to its end and the program is to go on too.
fn fail(current: Current, fault: &Report) -> Answer {
    if !current.driver.keep_going {
        report::fault(fault);
    } else {
        let mut last = fault.clone();
        let earlier = std::mem::take(&mut last.earlier);
        earlier.iter().chain([&last]).for_each(report::once);
        if fault.kind.lets_go_on() {
            return Ok(());
        }
    }
    let code = code_of(fault);
    current.state().context(current.context)?.fault = Some(code);
    if is_blocking() {
        return Err(code);
    }
    Ok(())
}

entries! {
    fn cuLaunchKernel | cuLaunchKernel_ptsz: "cuLaunchKernel" @ 4000 (
        function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32,
        block_z: u32, shared_bytes: u32, stream: Handle, each: In<*const c_void>,
        extra: In<usize>,
    ) {
        let config = LaunchConfig {
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            shared_bytes,
            cluster: None,
        };
        plain(function, config, stream, Parameters { each, extra })
    }

    fn cuLaunchCooperativeKernel | cuLaunchCooperativeKernel_ptsz:
        "cuLaunchCooperativeKernel" @ 9000 (
        function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32,
        block_z: u32, shared_bytes: u32, stream: Handle, each: In<*const c_void>,
    ) {
        let config = LaunchConfig {
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            shared_bytes,
            cluster: None,
        };
        let attributes = Attributes { is_cooperative: true, ..Attributes::default() };
        let extra = In::null();
        launch(function, config, stream, attributes, Parameters { each, extra })
    }

    fn cuLaunchKernelEx | cuLaunchKernelEx_ptsz: "cuLaunchKernelEx" @ 11060 (
        shape: In<LaunchShape>, function: Handle, each: In<*const c_void>, extra: In<usize>,
    ) {
        let shape = shape.get()?;
        let attributes = Attributes::of(shape.attributes, shape.count)?;
        let config = LaunchConfig {
            grid: shape.grid,
            block: shape.block,
            shared_bytes: shape.shared_bytes,
            cluster: attributes.cluster,
        };
        launch(function, config, shape.stream, attributes, Parameters { each, extra })
    }
}
