//! The kinds of errors: what is wrong, with the value found and the values allowed.

/// Operands do not fit: their shapes, axes, strides, or the memory that they share.
#[derive(thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShapeError {
    /// A tensor's shape does not fit the operation.
    #[error("shape of `{operand}` is {got:?}, want {want}")]
    Mismatch {
        /// Which tensor.
        operand: &'static str,
        /// Its shape.
        got: Box<[usize]>,
        /// What would fit.
        want: Box<str>,
    },
    /// The operation does not support a tensor's strides.
    #[error("strides of `{operand}` are {got:?} elements, want {want}")]
    Strides {
        /// Which tensor.
        operand: &'static str,
        /// Its strides in elements.
        got: Box<[i64]>,
        /// What would fit.
        want: Box<str>,
    },
    /// A pointer is not sufficiently aligned.
    #[error("`{operand}` is aligned to {got_bytes} bytes, want a multiple of {want_bytes}")]
    Misaligned {
        /// Which tensor or buffer.
        operand: &'static str,
        /// Largest power of two that divides its address.
        got_bytes: u64,
        /// Required alignment.
        want_bytes: u64,
    },
    /// Two lengths that must be equal are not.
    #[error("{what}: {got} elements, want {want}")]
    Length {
        /// Whose length it is.
        what: &'static str,
        /// The length that was found.
        got: usize,
        /// The required length.
        want: usize,
    },
    /// A tensor does not have this axis.
    #[error("axis is {axis}, {}", want_axis(*.rank))]
    Axis {
        /// The axis; a negative one counts from the end.
        axis: isize,
        /// Number of dimensions of the tensor.
        rank: usize,
    },
    /// An index, rank or range is too large.
    #[error("{what} is {got}, {}", want_below(*.limit))]
    OutOfBounds {
        /// Which value it is.
        what: &'static str,
        /// Its value.
        got: u64,
        /// The smallest value that is too large.
        limit: u64,
    },
    /// A view would reach outside of its storage.
    #[error("a view of elements {first}..={last} does not fit a storage of {len} elements")]
    ViewOutOfBounds {
        /// Lowest index into the storage that the view reaches.
        first: i128,
        /// Highest index into the storage that the view reaches.
        last: i128,
        /// Number of elements of the storage.
        len: usize,
    },
    /// A shape has more elements or bytes than can be addressed.
    #[error("shape {shape:?} has more elements, or more bytes, than signed 64-bit strides address")]
    Overflow {
        /// The shape.
        shape: Box<[usize]>,
    },
    /// A reshape cannot be expressed as a view.
    #[error(
        "shape {shape:?} with strides {strides:?} cannot be viewed as {want:?} without a copy; \
         call contiguous() first"
    )]
    ReshapeNeedsCopy {
        /// Shape of the tensor.
        shape: Box<[usize]>,
        /// Its strides in elements.
        strides: Box<[i64]>,
        /// The requested shape.
        want: Box<[usize]>,
    },
    /// An output shares memory with an input, or has two indices that refer to one element.
    #[error("`{output}` (written) overlaps `{other}`")]
    Overlap {
        /// The tensor written.
        output: &'static str,
        /// The tensor it shares memory with.
        other: &'static str,
    },
}

/// An option has a value that is not valid, or not supported.
#[derive(thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArgumentError {
    /// An option has an invalid value.
    #[error("{what} is {got}, want {want}")]
    Value {
        /// The option.
        what: &'static str,
        /// Its value.
        got: Box<str>,
        /// The valid values.
        want: Box<str>,
    },
    /// A tensor map breaks one of the driver's rules for `cuTensorMapEncode*`.
    #[error("tensor map: {what} is {got}, want {want}")]
    TensorMap {
        /// Which value of the description.
        what: Box<str>,
        /// The value.
        got: Box<str>,
        /// The rule that it breaks.
        want: Box<str>,
    },
    /// This version or build of the library, or the device, does not support something.
    #[error("{what} is not supported; supported: {supported}")]
    Unsupported {
        /// What was requested.
        what: Box<str>,
        /// What is supported instead.
        supported: Box<str>,
    },
    /// A cache has too few pages that no sequence has.
    #[error("the cache has {free} free pages, want {want}: evict sequences, or make it larger")]
    OutOfPages {
        /// Pages that are needed.
        want: usize,
        /// Pages that are free.
        free: usize,
    },
    /// A cache does not have this sequence: it is evicted, or another cache's.
    #[error("the cache has no sequence {sequence}: it is evicted, or another cache's")]
    UnknownSequence {
        /// Its number.
        sequence: u64,
    },
}

/// A device is missing, is another one than the call's, or failed.
#[derive(thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceError {
    /// A tensor, stream, event or kernel of a call is on another device than the rest of the call.
    #[error("`{operand}` lives on {got}, want {want}")]
    Mismatch {
        /// What is on another device.
        operand: &'static str,
        /// Its device.
        got: Box<str>,
        /// The device of the call.
        want: Box<str>,
    },
    /// A name that is not a device's; see [`Device::from_name`](crate::Device::from_name).
    #[error("unknown device `{name}`, want `gpu`, `gpu:<ordinal>`, `emulator` or `auto`")]
    Unknown {
        /// The name.
        name: Box<str>,
    },
    /// There is no usable CUDA driver on this machine.
    #[error(
        "no CUDA driver: {detail}; install NVIDIA's driver, or use the emulator \
         (`Device::emulator()`, `--device emulator`)"
    )]
    NoDriver {
        /// What was looked for, and what was found.
        detail: Box<str>,
    },
    /// The driver has no GPU with this ordinal.
    #[error("no GPU {ordinal}: the driver sees {count}")]
    NoDevice {
        /// The requested ordinal, from 0.
        ordinal: usize,
        /// Number of GPUs that the driver sees.
        count: usize,
    },
    /// The device has too little free memory for an allocation.
    #[error("out of memory on {device}: asked for {requested_bytes} bytes, {free_bytes} are free")]
    OutOfMemory {
        /// The device.
        device: Box<str>,
        /// Requested bytes.
        requested_bytes: u64,
        /// Bytes that were free at that moment.
        free_bytes: u64,
    },
    /// The host has too little memory, or too little that can be page-locked, for an allocation.
    #[error("out of host memory: asked for {requested_bytes} bytes")]
    OutOfHostMemory {
        /// Requested bytes.
        requested_bytes: u64,
    },
    /// A driver call failed. A fault of a kernel is reported by a later call on that device, at the
    /// latest by one that waits for the kernel. Every later call on that device fails likewise.
    #[error("{call} failed with {code}: {message}")]
    Driver {
        /// The driver's function.
        call: &'static str,
        /// Its result code.
        code: u32,
        /// Name of the code and the driver's description of it.
        message: Box<str>,
    },
    /// An event is not recorded, or the work before it is not done.
    #[error("event: {0}")]
    EventNotReady(&'static str),
}

/// A kernel cannot be found, loaded or launched.
#[derive(thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum KernelError {
    /// A grid or a block has an extent of zero.
    #[error("kernel `{kernel}`: {what} is {got:?}, want every extent at least 1")]
    EmptyLaunch {
        /// The kernel.
        kernel: Box<str>,
        /// `grid` or `block`.
        what: &'static str,
        /// The extents.
        got: [u32; 3],
    },
    /// A launch exceeds a limit of the kernel or the device.
    #[error("kernel `{kernel}`: {what} is {got}, the limit is {limit}")]
    LaunchLimit {
        /// The kernel.
        kernel: Box<str>,
        /// What is too large.
        what: &'static str,
        /// The requested value.
        got: u64,
        /// The largest allowed value.
        limit: u64,
    },
    /// A launch gives less dynamic shared memory than the kernel states that it needs.
    #[error(
        "kernel `{kernel}`: {got_bytes} bytes of dynamic shared memory, and it needs {want_bytes}"
    )]
    TooLittleSharedMemory {
        /// The kernel.
        kernel: Box<str>,
        /// Bytes of the launch.
        got_bytes: u32,
        /// Least bytes, by the kernel's `dynamic_shared`.
        want_bytes: u32,
    },
    /// The number of arguments of a launch is not that of the kernel's parameters.
    #[error("kernel `{kernel}` takes {want} arguments{names}, got {got}")]
    ArgumentCount {
        /// The kernel.
        kernel: Box<str>,
        /// The names of the parameters, where the module was loaded with its manifest: ` (x, y)`.
        names: Box<str>,
        /// Arguments given.
        got: usize,
        /// Parameters of the kernel.
        want: usize,
    },
    /// The size of an argument is not that of the kernel's parameter.
    #[error(
        "kernel `{kernel}`: argument {index}, counted from 0, has {got_bytes} bytes, the parameter has \
         {want_bytes}"
    )]
    ArgumentSize {
        /// The kernel.
        kernel: Box<str>,
        /// Position of the argument, from 0.
        index: usize,
        /// Size of the argument.
        got_bytes: usize,
        /// Size of the parameter.
        want_bytes: usize,
    },
    /// An argument is not what the kernel's parameter takes.
    #[error("kernel `{kernel}`: the parameter `{parameter}` does not take {got}")]
    ArgumentType {
        /// The kernel.
        kernel: Box<str>,
        /// The parameter's name and Rust type: `y: *mut f32`.
        parameter: Box<str>,
        /// What was given: `memory of bf16`.
        got: Box<str>,
    },
    /// Two arguments of a safe kernel may have elements in common, and the kernel writes one of them.
    #[error(
        "kernel `{kernel}`: the memory of `{parameter}` overlaps that of `{other}`; what a safe kernel \
         writes is memory of its own: pass a copy for one of the two"
    )]
    Overlap {
        /// The kernel.
        kernel: Box<str>,
        /// Name and Rust type of a parameter: `y: *mut f32`.
        parameter: Box<str>,
        /// Those of the parameter with the same memory.
        other: Box<str>,
    },
    /// A launch does not meet a requirement of the kernel, `#[kernel(requires = ..)]`.
    #[error("kernel `{kernel}` requires {condition}, but {values}")]
    Requirement {
        /// The kernel.
        kernel: Box<str>,
        /// The condition, as its source has it: `y.len() >= x.len()`.
        condition: Box<str>,
        /// The values of the launch: `y.len() = 3, x.len() = 5`.
        values: Box<str>,
    },
    /// A module has no kernel with the requested name.
    #[error("no kernel `{name}` in this module; it has: {known}")]
    Unknown {
        /// The requested name.
        name: Box<str>,
        /// The names of its kernels.
        known: Box<str>,
    },
    /// A module has no variable with the requested name.
    #[error("no variable `{name}` in this module; it has: {known}")]
    UnknownVariable {
        /// The requested name.
        name: Box<str>,
        /// The names of its variables.
        known: Box<str>,
    },
    /// A variable of a module does not hold elements of the requested type.
    #[error("the variable `{name}` is {want}, which are no elements of {got}")]
    VariableType {
        /// The variable.
        name: Box<str>,
        /// The requested type.
        got: &'static str,
        /// Its type in PTX and its size.
        want: Box<str>,
    },
    /// PTX text does not parse.
    #[error("PTX line {line}, column {column}: {message}")]
    PtxSyntax {
        /// Line, from 1.
        line: u32,
        /// Column, from 1.
        column: u32,
        /// What is wrong there.
        message: Box<str>,
    },
    /// A kernel could not be composed from fragments; see [`fuse`](crate::fuse).
    #[error("{0}")]
    Fuse(Box<crate::fuse::FuseError>),
    /// No kernel of this name is built for an architecture that the device runs.
    #[error("no kernel `{name}` is built for compute capability {}.{}", arch.0, arch.1)]
    Missing {
        /// Entry name.
        name: Box<str>,
        /// The device's compute capability.
        arch: (u32, u32),
    },
    /// This build does not embed the kernel, because features of this crate are off.
    #[error(
        "this build leaves out the kernel `{name}`; turn on these features of warpsmith: {}",
        features.join(", ")
    )]
    LeftOut {
        /// Entry name.
        name: Box<str>,
        /// The features to turn on.
        features: Box<[&'static str]>,
    },
    /// An embedded module is not what its manifest says.
    #[error("module `{module}` does not match its manifest: {detail}")]
    Manifest {
        /// Path of the module, as in the manifest.
        module: Box<str>,
        /// What differs.
        detail: Box<str>,
    },
    /// `WARPSMITH_DUMP` names a folder that a loaded kernel's PTX cannot be written to.
    #[error("WARPSMITH_DUMP: cannot write `{file}` to the folder `{folder}`: {reason}")]
    Dump {
        /// Name of the file.
        file: Box<str>,
        /// The folder.
        folder: Box<str>,
        /// Why it was not written.
        reason: Box<str>,
    },
    /// The driver could not compile PTX for the device.
    #[error("the driver could not load PTX for {device} ({code}):\n{log}")]
    Jit {
        /// The device.
        device: Box<str>,
        /// Name and description of the result code.
        code: Box<str>,
        /// The log of the driver's compiler.
        log: Box<str>,
    },
}

/// What the emulator reports.
#[cfg(feature = "emulator")]
#[derive(thiserror::Error, PartialEq)]
#[non_exhaustive]
pub enum EmulatorError {
    /// The emulator stopped a launch: a fault of the kernel, or arguments that it cannot run with.
    #[error("emulator: {0}")]
    Launch(#[source] Box<warpsmith_emulator::LaunchError>),
    /// The emulator cannot load a module.
    #[error("emulator: {0}")]
    Load(#[source] Box<warpsmith_emulator::LoadError>),
    /// The emulator refused an access to its memory.
    #[error("emulator: {0}")]
    Memory(#[source] Box<warpsmith_emulator::MemoryError>),
}

fn want_axis(rank: usize) -> String {
    match rank {
        0 => "but a tensor without dimensions has none".into(),
        _ => format!("want -{rank} to {}", rank - 1),
    }
}

fn want_below(limit: u64) -> String {
    match limit {
        0 => "but there is none".into(),
        _ => format!("want at most {}", limit - 1),
    }
}
