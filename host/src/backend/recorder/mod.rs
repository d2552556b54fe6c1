//! A backend that records the calls that it passes on to another one.
//!
//! [`Capture`](crate::capture::Capture) is made of the calls that move data and launch kernels.
//! Tests of the order of work read all of them, and need no device: a recorder with nothing behind
//! it answers by itself.

#[cfg(test)]
mod nothing;

use super::{
    Backend, CapturedGraph, EventUse, KernelLimits, LoadedKernel, LoadedModule, Pattern, RawEvent,
    RawStream,
};
use crate::device::{DeviceInfo, MemoryInfo, lock};
use crate::error::{Error, Result};
use crate::launch::LaunchConfig;
use crate::load::Signature;
use crate::tensor_map::{TensorMap, TensorMapDesc};
use std::ffi::c_void;
use std::fmt;
use std::sync::{Arc, Mutex};

/// Calls, in order.
pub(crate) type Log = Arc<Mutex<Vec<Call>>>;

/// A call. Its `Display` names the call and its stream and event, such as `wait s1 e2`.
pub(crate) enum Call {
    /// An order, a wait, or memory of the host, as text.
    Other(String),
    Alloc(u64, u64, RawStream),
    Free(u64, RawStream),
    /// Address, and the bytes that are written there.
    CopyIn(u64, Vec<u8>, RawStream),
    /// Address, and the bytes that were read there.
    CopyOut(u64, Vec<u8>, RawStream),
    /// To, from, number of bytes.
    Copy(u64, u64, u64, RawStream),
    Fill(u64, Pattern, u64, RawStream),
    /// A tensor map of an address, and its encoding.
    Encode(u64, TensorMapDesc, [u8; TensorMap::BYTES]),
    Launch(LaunchCall, RawStream),
}

/// A launch.
pub(crate) struct LaunchCall {
    /// Text of the module, as it was loaded.
    pub(crate) text: Arc<str>,
    pub(crate) entry: Box<str>,
    /// See [`Signature::begins_early`].
    pub(crate) begins_early: bool,
    pub(crate) config: LaunchConfig,
    /// Bytes of each parameter.
    pub(crate) params: Vec<Vec<u8>>,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, on) = match self {
            Self::Other(text) => return f.write_str(text),
            Self::Encode(..) => return f.write_str("encode"),
            Self::Alloc(.., on) => ("alloc", on),
            Self::Free(.., on) => ("free", on),
            Self::CopyIn(.., on) => ("copy in", on),
            Self::CopyOut(.., on) => ("copy out", on),
            Self::Copy(.., on) => ("copy", on),
            Self::Fill(.., on) => ("fill", on),
            Self::Launch(_, on) => ("launch", on),
        };
        write!(f, "{name} s{}", on.0)
    }
}

/// See the module.
pub(crate) struct Recorder {
    info: DeviceInfo,
    log: Log,
    to: To,
}

/// What a recorder passes calls on to.
enum To {
    Backend(Box<dyn Backend>),
    #[cfg(test)]
    Nothing(nothing::Nothing),
}

impl Recorder {
    /// A recorder of the calls of `backend`, as which it presents `info`.
    pub(crate) fn new(backend: Box<dyn Backend>, info: DeviceInfo) -> (Self, Log) {
        let log = Log::default();
        let recorder = Self {
            info,
            log: log.clone(),
            to: To::Backend(backend),
        };
        (recorder, log)
    }

    fn note(&self, call: Call) {
        lock(&self.log).push(call);
    }

    fn say(&self, text: String) {
        self.note(Call::Other(text));
    }

    fn to(&self) -> &dyn Backend {
        match &self.to {
            To::Backend(backend) => &**backend,
            #[cfg(test)]
            To::Nothing(nothing) => nothing,
        }
    }
}

impl Backend for Recorder {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn memory(&self) -> Result<MemoryInfo> {
        self.to().memory()
    }

    fn synchronize(&self) -> Result<()> {
        self.say("synchronize device".into());
        self.to().synchronize()
    }

    fn trim(&self) -> Result<()> {
        self.say("synchronize device".into());
        self.to().trim()
    }

    fn create_stream(&self) -> Result<RawStream> {
        self.to().create_stream()
    }

    fn synchronize_stream(&self, stream: RawStream) -> Result<()> {
        self.say(format!("synchronize s{}", stream.0));
        self.to().synchronize_stream(stream)
    }

    fn stream_is_done(&self, stream: RawStream) -> Result<bool> {
        self.to().stream_is_done(stream)
    }

    fn is_capturing(&self, stream: RawStream) -> Result<bool> {
        self.to().is_capturing(stream)
    }

    fn begin_capture(&self, _: RawStream) -> Result<()> {
        Err(Error::unsupported(
            "a graph on a device that records what it does",
            "graphs on other devices",
        ))
    }

    fn end_capture(&self, _: RawStream) -> Result<Box<dyn CapturedGraph>> {
        Err(Error::Bug("no capture has begun"))
    }

    fn wait_event(&self, stream: RawStream, event: RawEvent) -> Result<()> {
        self.say(format!("wait s{} e{}", stream.0, event.0));
        self.to().wait_event(stream, event)
    }

    fn create_event(&self, usage: EventUse) -> Result<RawEvent> {
        self.to().create_event(usage)
    }

    fn destroy_event(&self, event: RawEvent) {
        self.say(format!("destroy e{}", event.0));
        self.to().destroy_event(event);
    }

    fn record_event(&self, event: RawEvent, stream: RawStream) -> Result<()> {
        self.say(format!("record e{} s{}", event.0, stream.0));
        self.to().record_event(event, stream)
    }

    fn synchronize_event(&self, event: RawEvent) -> Result<()> {
        self.say(format!("synchronize e{}", event.0));
        self.to().synchronize_event(event)
    }

    fn event_is_done(&self, event: RawEvent) -> Result<bool> {
        self.to().event_is_done(event)
    }

    fn elapsed_ms(&self, start: RawEvent, end: RawEvent) -> Result<f32> {
        self.to().elapsed_ms(start, end)
    }

    fn alloc(&self, bytes: u64, stream: RawStream) -> Result<u64> {
        let address = self.to().alloc(bytes, stream)?;
        self.note(Call::Alloc(address, bytes, stream));
        Ok(address)
    }

    unsafe fn free(&self, address: u64, stream: RawStream) -> Result<()> {
        self.note(Call::Free(address, stream));
        // SAFETY: passed on to the caller.
        unsafe { self.to().free(address, stream) }
    }

    unsafe fn copy_in(&self, to: u64, from: *const u8, bytes: usize, on: RawStream) -> Result<()> {
        // SAFETY: guaranteed by the caller: `bytes` initialised bytes of host memory.
        let written = unsafe { std::slice::from_raw_parts(from, bytes) }.to_vec();
        self.note(Call::CopyIn(to, written, on));
        // SAFETY: passed on to the caller.
        unsafe { self.to().copy_in(to, from, bytes, on) }
    }

    unsafe fn copy_out(&self, to: *mut u8, from: u64, bytes: usize, on: RawStream) -> Result<()> {
        // SAFETY: passed on to the caller.
        unsafe { self.to().copy_out(to, from, bytes, on) }?;
        self.to().synchronize_stream(on)?;
        // SAFETY: guaranteed by the caller: `bytes` bytes of host memory, which the copy has
        // written.
        let read = unsafe { std::slice::from_raw_parts(to, bytes) }.to_vec();
        self.note(Call::CopyOut(from, read, on));
        Ok(())
    }

    unsafe fn copy(&self, to: u64, from: u64, bytes: usize, on: RawStream) -> Result<()> {
        self.note(Call::Copy(to, from, bytes as u64, on));
        // SAFETY: passed on to the caller.
        unsafe { self.to().copy(to, from, bytes, on) }
    }

    unsafe fn fill(&self, to: u64, pattern: Pattern, count: usize, on: RawStream) -> Result<()> {
        self.note(Call::Fill(to, pattern, count as u64, on));
        // SAFETY: passed on to the caller.
        unsafe { self.to().fill(to, pattern, count, on) }
    }

    fn alloc_host(&self, bytes: usize) -> Result<*mut u8> {
        self.to().alloc_host(bytes)
    }

    unsafe fn free_host(&self, pointer: *mut u8, bytes: usize) {
        self.say("free host".into());
        // SAFETY: passed on to the caller.
        unsafe { self.to().free_host(pointer, bytes) };
    }

    fn lane_instructions(&self) -> Option<u64> {
        self.to().lane_instructions()
    }

    #[cfg(feature = "emulator")]
    fn last_launch(&self) -> Option<Arc<warpsmith_emulator::LaunchStats>> {
        self.to().last_launch()
    }

    fn encode_tensor_map(
        &self,
        address: u64,
        desc: &TensorMapDesc,
    ) -> Result<[u8; TensorMap::BYTES]> {
        let bytes = self.to().encode_tensor_map(address, desc)?;
        self.note(Call::Encode(address, desc.clone(), bytes));
        Ok(bytes)
    }

    fn load(&self, ptx: &str) -> Result<Box<dyn LoadedModule>> {
        Ok(Box::new(RecordedModule {
            loaded: self.to().load(ptx)?,
            text: ptx.into(),
            log: self.log.clone(),
        }))
    }
}

struct RecordedModule {
    loaded: Box<dyn LoadedModule>,
    text: Arc<str>,
    log: Log,
}

impl LoadedModule for RecordedModule {
    fn kernel(&self, signature: &Signature) -> Result<Box<dyn LoadedKernel>> {
        Ok(Box::new(RecordedKernel {
            loaded: self.loaded.kernel(signature)?,
            text: self.text.clone(),
            entry: signature.name.clone(),
            begins_early: signature.begins_early,
            log: self.log.clone(),
        }))
    }

    fn variable(&self, name: &str) -> Result<Option<(u64, u64)>> {
        self.loaded.variable(name)
    }
}

struct RecordedKernel {
    loaded: Box<dyn LoadedKernel>,
    text: Arc<str>,
    entry: Box<str>,
    begins_early: bool,
    log: Log,
}

impl LoadedKernel for RecordedKernel {
    fn limits(&self) -> KernelLimits {
        self.loaded.limits()
    }

    fn resident_blocks(&self, config: &LaunchConfig) -> Result<u32> {
        self.loaded.resident_blocks(config)
    }

    unsafe fn launch(
        &self,
        stream: RawStream,
        config: &LaunchConfig,
        args: &[*const c_void],
        sizes: &[u32],
    ) -> Result<()> {
        let param = |(&arg, &size): (&*const c_void, &u32)| {
            // SAFETY: guaranteed by the caller: each argument has its parameter's size,
            // initialised.
            unsafe { std::slice::from_raw_parts(arg.cast::<u8>(), size as usize) }.to_vec()
        };
        let launch = LaunchCall {
            text: self.text.clone(),
            entry: self.entry.clone(),
            begins_early: self.begins_early,
            config: *config,
            params: args.iter().zip(sizes).map(param).collect(),
        };
        lock(&self.log).push(Call::Launch(launch, stream));
        // SAFETY: passed on to the caller.
        unsafe { self.loaded.launch(stream, config, args, sizes) }
    }
}

#[cfg(test)]
pub(crate) use nothing::{capturing_device, recording_device, take};
