//! The one error of this crate.

/// What went wrong, with the value got and what would have been right.
///
/// Grouped by who must act: the caller (shapes, strides, arguments), this build (no such kernel,
/// feature off), the machine (no driver, out of memory, a failing driver call), a kernel at fault
/// (the emulator's report), or us ([`Error::Bug`]). Nothing is launched when an operation returns
/// an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A tensor's shape does not fit the operation.
    #[error("shape of `{operand}` is {got:?}, want {want}")]
    ShapeMismatch {
        /// Which tensor.
        operand: &'static str,
        /// Its shape.
        got: Box<[usize]>,
        /// What would fit.
        want: Box<str>,
    },
    /// A tensor's strides are not ones the operation can use.
    #[error("strides of `{operand}` are {got:?} elements, want {want}")]
    StrideMismatch {
        /// Which tensor.
        operand: &'static str,
        /// Its strides in elements.
        got: Box<[i64]>,
        /// What would fit.
        want: Box<str>,
    },
    /// A pointer is not aligned as the operation needs it.
    #[error("`{operand}` is aligned to {got_bytes} bytes, want a multiple of {want_bytes}")]
    Misaligned {
        /// Which tensor or buffer.
        operand: &'static str,
        /// Largest power of two that divides its address.
        got_bytes: u64,
        /// Alignment needed.
        want_bytes: u64,
    },
    /// Two lengths that must be equal are not.
    #[error("{what}: {got} elements, want {want}")]
    LengthMismatch {
        /// Whose length.
        what: &'static str,
        /// Length got.
        got: usize,
        /// Length needed.
        want: usize,
    },
    /// An index, axis or range lies outside of what there is.
    #[error("{what} is {got}, {}", want_below(*.limit))]
    OutOfBounds {
        /// What kind of index.
        what: &'static str,
        /// Its value.
        got: u64,
        /// First value that is too large.
        limit: u64,
    },
    /// A view would reach outside of its storage.
    #[error("a view of elements {first}..={last} does not fit a storage of {len} elements")]
    ViewOutOfBounds {
        /// Lowest element reached.
        first: i128,
        /// Highest element reached.
        last: i128,
        /// Elements of the storage.
        len: usize,
    },
    /// A shape has more elements or bytes than can be addressed.
    #[error("shape {shape:?} has more elements than 64-bit strides can address")]
    ShapeOverflow {
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
        /// Shape asked for.
        want: Box<[usize]>,
    },
    /// An output shares memory with an input, or with itself.
    #[error("`{output}` (written) overlaps `{other}`")]
    Overlap {
        /// The tensor written.
        output: &'static str,
        /// The tensor it shares memory with.
        other: &'static str,
    },
    /// Tensors, streams and kernels of one call must live on one device.
    #[error("`{operand}` lives on {got}, want {want}")]
    DeviceMismatch {
        /// What lives elsewhere.
        operand: &'static str,
        /// Its device.
        got: Box<str>,
        /// The device of the call.
        want: Box<str>,
    },
    /// An option has a value that makes no sense.
    #[error("{what} is {got}, want {want}")]
    InvalidValue {
        /// The option.
        what: &'static str,
        /// Its value.
        got: Box<str>,
        /// Which values make sense.
        want: Box<str>,
    },
    /// A tensor map says what no tensor copy can do.
    #[error("tensor map: {what} is {got}, want {want}")]
    TensorMap {
        /// Which value.
        what: Box<str>,
        /// It.
        got: Box<str>,
        /// The rule that it breaks.
        want: Box<str>,
    },
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
    /// A launch asks for more than the kernel or the device allows.
    #[error("kernel `{kernel}`: {what} is {got}, the limit is {limit}")]
    LaunchLimit {
        /// The kernel.
        kernel: Box<str>,
        /// What is too large.
        what: &'static str,
        /// Value asked for.
        got: u64,
        /// Largest value allowed.
        limit: u64,
    },
    /// A launch does not have as many arguments as the kernel has parameters.
    #[error("kernel `{kernel}` takes {want} arguments, got {got}")]
    ArgumentCount {
        /// The kernel.
        kernel: Box<str>,
        /// Arguments given.
        got: usize,
        /// Parameters of the kernel.
        want: usize,
    },
    /// An argument is not of its parameter's size.
    #[error(
        "kernel `{kernel}`: argument {index} has {got_bytes} bytes, the parameter has {want_bytes}"
    )]
    ArgumentSize {
        /// The kernel.
        kernel: Box<str>,
        /// Position, from 0.
        index: usize,
        /// Size of the argument.
        got_bytes: usize,
        /// Size of the parameter.
        want_bytes: usize,
    },
    /// A module has no kernel of that name.
    #[error("no kernel `{name}` in this module; it has: {known}")]
    UnknownKernel {
        /// Name asked for.
        name: Box<str>,
        /// Names that exist.
        known: Box<str>,
    },
    /// A device name that cannot be read.
    #[error("unknown device `{name}`, want `gpu`, `gpu:<ordinal>`, `emulator` or `auto`")]
    UnknownDevice {
        /// The name.
        name: Box<str>,
    },
    /// PTX text that does not parse.
    #[error("PTX line {line}, column {column}: {message}")]
    PtxSyntax {
        /// Line, from 1.
        line: u32,
        /// Column, from 1.
        column: u32,
        /// What is wrong there.
        message: Box<str>,
    },
    /// Something this version or build does not do.
    #[error("{what} is not supported; supported: {supported}")]
    Unsupported {
        /// What was asked for.
        what: Box<str>,
        /// What could be asked for instead.
        supported: Box<str>,
    },
    /// A kernel cannot be composed.
    #[error("{0}")]
    Fuse(Box<crate::fuse::FuseError>),
    /// This build embeds no kernel that the operation needs on that device.
    #[error("this build has no kernel `{name}` for {device}")]
    MissingKernel {
        /// Entry name.
        name: Box<str>,
        /// Device and its architecture.
        device: Box<str>,
    },
    /// An embedded module is not what its manifest says.
    #[error("module `{module}` does not match its manifest: {detail}")]
    ManifestMismatch {
        /// Path of the module in the manifest.
        module: Box<str>,
        /// What differs.
        detail: Box<str>,
    },
    /// No CUDA driver on this machine.
    #[error(
        "no CUDA driver: {detail}; install NVIDIA's driver, or use the emulator \
         (`Device::emulator()`, `--device emulator`)"
    )]
    NoDriver {
        /// What was looked for, and what was found.
        detail: Box<str>,
    },
    /// The driver knows no GPU of that number.
    #[error("no GPU {ordinal}: the driver sees {count}")]
    NoDevice {
        /// Number asked for, from 0.
        ordinal: usize,
        /// GPUs that the driver sees.
        count: usize,
    },
    /// An allocation did not fit.
    #[error("out of memory on {device}: asked for {requested_bytes} bytes, {free_bytes} are free")]
    OutOfMemory {
        /// The device.
        device: Box<str>,
        /// Bytes asked for.
        requested_bytes: u64,
        /// Bytes free at that moment.
        free_bytes: u64,
    },
    /// The host has not that much memory, or not that much to lock for copies.
    #[error("out of host memory: asked for {requested_bytes} bytes")]
    OutOfHostMemory {
        /// Bytes asked for.
        requested_bytes: u64,
    },
    /// A driver call failed. Faults of a kernel surface at the next call that waits for it, and
    /// every later call on that device fails likewise.
    #[error("{call} failed with {code}: {message}")]
    Driver {
        /// The driver's function.
        call: &'static str,
        /// Its result code.
        code: u32,
        /// The code's name and the driver's description of it, and what was being done.
        message: Box<str>,
    },
    /// The driver could not compile PTX for the device.
    #[error("the driver could not load PTX for {device} ({code}):\n{log}")]
    Jit {
        /// The device.
        device: Box<str>,
        /// Name of the result code.
        code: Box<str>,
        /// What the driver's compiler printed.
        log: Box<str>,
    },
    /// An event has not been recorded, or its work is not done.
    #[error("event: {0}")]
    EventNotReady(&'static str),
    /// The emulator found a kernel at fault.
    #[cfg(feature = "emulator")]
    #[error("emulator: {0}")]
    Emulator(#[source] Box<warpsmith_emulator::LaunchError>),
    /// The emulator cannot load a module.
    #[cfg(feature = "emulator")]
    #[error("emulator: {0}")]
    EmulatorLoad(#[source] Box<warpsmith_emulator::LoadError>),
    /// The emulator refused an access to its memory.
    #[cfg(feature = "emulator")]
    #[error("emulator: {0}")]
    EmulatorMemory(#[source] Box<warpsmith_emulator::MemoryError>),
    /// A mistake in this library: please report it.
    #[error("bug in warpsmith: {0}")]
    Bug(&'static str),
}

/// [`std::result::Result`] with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

fn want_below(limit: u64) -> String {
    match limit {
        0 => "but there is none".into(),
        _ => format!("want less than {limit}"),
    }
}

impl From<crate::fuse::FuseError> for Error {
    fn from(error: crate::fuse::FuseError) -> Self {
        Self::Fuse(Box::new(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_stays_small_enough_to_return_by_value() {
        assert!(size_of::<Error>() <= 64, "{} bytes", size_of::<Error>());
    }

    #[test]
    fn error_can_cross_threads() {
        fn check<T: Send + Sync + 'static>() {}
        check::<Error>();
    }
}
