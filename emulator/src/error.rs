//! Errors of the three things that a caller does: manage memory, load a module, launch a kernel.

use ptx_syntax::explain::MOST_STATIC_SHARED_BYTES;
use ptx_syntax::target::{NewerInstruction, Target, UnknownTarget};

use crate::emulator::COMPUTE_CAPABILITY;
use crate::report::Report;

/// A request on global memory that cannot be fulfilled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The capacity set in the configuration is used up.
    #[error("out of memory: {requested} bytes requested, {free} of {capacity} bytes are free")]
    OutOfMemory {
        /// Bytes asked for.
        requested: u64,
        /// Bytes left.
        free: u64,
        /// Bytes in all.
        capacity: u64,
    },
    /// The configured capacity would allow it, but the host has no memory.
    #[error("the host has no memory for an allocation of {requested} bytes")]
    HostMemory {
        /// Bytes asked for.
        requested: u64,
    },
    /// `free` of an address that `alloc` did not return, or that was already freed.
    #[error("0x{address:x} is not the start of a live allocation")]
    NotAllocated {
        /// The address given.
        address: u64,
    },
    /// An allocation at a given address where there is one.
    #[error("{bytes} bytes at 0x{address:x} overlap a live allocation")]
    Occupied {
        /// First byte.
        address: u64,
        /// Length in bytes.
        bytes: u64,
    },
    /// A copy or fill by the host that is not inside one live allocation.
    #[error(
        "{bytes} bytes at 0x{address:x} are not inside one live allocation{}",
        describe_nearest(.nearest)
    )]
    OutOfBounds {
        /// First byte.
        address: u64,
        /// Length in bytes.
        bytes: u64,
        /// The allocation that holds the first byte, if any: base and length in bytes.
        nearest: Option<(u64, u64)>,
    },
}

fn describe_nearest(allocation: &Option<(u64, u64)>) -> String {
    match allocation {
        Some((base, len)) => format!("; the allocation at 0x{base:x} has {len} bytes"),
        None => String::new(),
    }
}

/// A texture or a surface that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct ImageError {
    pub(crate) what: &'static str,
}

/// A module that cannot be loaded.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The text is not PTX.
    #[error("{0}")]
    Syntax(#[from] ptx_syntax::ParseError),
    /// A `.target` that PTX does not know.
    #[error("PTX line {line}: {source}")]
    UnknownTarget {
        /// Line in the text, from 1.
        line: u32,
        /// The name, and what there is.
        source: UnknownTarget,
    },
    /// A module without an architecture in its `.target`.
    #[error(
        "PTX line {line}: `.target` names no architecture; {} is the newest that runs here",
        newest()
    )]
    NoTarget {
        /// Line in the text, from 1.
        line: u32,
    },
    /// A module for another architecture than the emulated one.
    #[error(
        "PTX line {line}: a module for {target} does not run on compute capability {}.{}, which the \
         emulator has; {} and older ones do, and {}a",
        .on.0, .on.1, newest(), newest()
    )]
    OtherTarget {
        /// The module's target.
        target: Target,
        /// Line in the text, from 1.
        line: u32,
        /// The emulated compute capability: major, minor.
        on: (u32, u32),
    },
    /// An instruction that the module's target lacks: no driver loads it.
    #[error("PTX line {line}: {0}", line = .0.line)]
    NewerInstruction(#[from] NewerInstruction),
    /// A kernel with more static shared memory than a driver loads.
    #[error(
        "PTX line {line}: {bytes} bytes of static shared memory, want {MOST_STATIC_SHARED_BYTES} or \
         less; dynamic shared memory may have more"
    )]
    StaticShared {
        /// What its variables need.
        bytes: u64,
        /// Line of the kernel in the text, from 1.
        line: u32,
    },
    /// An instruction, modifier or directive that the emulator does not implement.
    #[error("PTX line {line}: `{what}` is not supported")]
    Unsupported {
        /// Name as written, with its modifiers.
        what: String,
        /// Line in the text, from 1.
        line: u32,
    },
    /// A statement that is recognised but malformed, such as an instruction whose operands do not
    /// fit it.
    #[error("PTX line {line}: {message}")]
    Invalid {
        /// What is wrong, and what would be right.
        message: String,
        /// Line in the text, from 1.
        line: u32,
    },
    /// A name that nothing declares.
    #[error("PTX line {line}: `{name}` is not declared")]
    Undeclared {
        /// The name.
        name: String,
        /// Line in the text, from 1.
        line: u32,
    },
    /// A called function that has no body in the module.
    #[error("PTX line {line}: `{name}` is external, and nothing defines it")]
    Unresolved {
        /// The function.
        name: String,
        /// Line in the text, from 1.
        line: u32,
    },
    /// A module-scope variable that could not be placed.
    #[error("PTX line {line}: variable `{name}`: {source}")]
    Variable {
        /// The variable.
        name: String,
        /// Line in the text, from 1.
        line: u32,
        /// Why.
        source: MemoryError,
    },
}

/// The newest target that the emulator runs, of those that newer devices run too.
fn newest() -> Target {
    Target::onward(COMPUTE_CAPABILITY)
}

/// A launch that was refused, or that ran into a fault.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The module has no such kernel.
    #[error("no kernel `{name}` in the module; it has {}", list(.available))]
    UnknownKernel {
        /// The name given.
        name: String,
        /// The kernels there are.
        available: Vec<String>,
    },
    /// A kernel with something wrong or unsupported in it, or in a function that it may call. Other
    /// kernels of the module may run.
    #[error("kernel `{kernel}` cannot run: {source}")]
    Unusable {
        /// The kernel.
        kernel: String,
        /// What is wrong, and the line.
        source: Box<LoadError>,
    },
    /// The device has no memory for the workspace of a grid whose blocks wait for each other.
    #[error("the workspace of the grid: {0}")]
    Memory(#[source] MemoryError),
    /// The module belongs to another emulator.
    #[error("the module was loaded by another emulator; load it into this one")]
    ForeignModule,
    /// A wrong number of parameters.
    #[error("kernel `{kernel}` takes {want} parameters, {got} were given")]
    ParameterCount {
        /// The kernel.
        kernel: String,
        /// Given.
        got: usize,
        /// Declared.
        want: usize,
    },
    /// A parameter of the wrong size.
    #[error("parameter {index} of kernel `{kernel}` has {want} bytes, {got} were given")]
    ParameterSize {
        /// The kernel.
        kernel: String,
        /// Position from 0.
        index: usize,
        /// Bytes given.
        got: usize,
        /// Bytes declared.
        want: usize,
    },
    /// A grid, block or cluster shape that is out of the hardware's limits, or that the kernel's
    /// directives do not allow.
    #[error("kernel `{kernel}`: {what} is {got:?}, allowed is {allowed}")]
    Shape {
        /// The kernel.
        kernel: String,
        /// What is wrong: "the grid", "the block" or "the cluster".
        what: &'static str,
        /// Extents given.
        got: [u32; 3],
        /// What is allowed.
        allowed: String,
    },
    /// More shared memory than a block can have.
    #[error(
        "kernel `{kernel}` needs {static_bytes} bytes of static and {dynamic_bytes} bytes of \
         dynamic shared memory; a block can have {limit}"
    )]
    SharedMemory {
        /// The kernel.
        kernel: String,
        /// Declared in the module.
        static_bytes: u64,
        /// Asked for by the launch.
        dynamic_bytes: u64,
        /// Most a block can have.
        limit: u64,
    },
    /// The host has no memory for what the emulator keeps about a launch. The check for races needs
    /// most of it: [`Checks::QUICK`](crate::Checks::QUICK) does without.
    #[error("the host has no memory: {what} needs a block of {requested} bytes")]
    HostMemory {
        /// What the memory is for.
        what: &'static str,
        /// Bytes asked for.
        requested: u64,
    },
    /// The kernel ran and hit a fault.
    #[error("{0}")]
    Fault(Box<Report>),
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}
