//! A backend that does nothing but record its calls, for tests of the order of work.

use super::{Backend, EventUse, LoadedModule, Pattern, RawEvent, RawStream};
use crate::device::{Device, DeviceInfo, DeviceKind, MemoryInfo, lock};
use crate::error::{Error, Result};
use crate::tensor_map::{TensorMap, TensorMapDesc};
use std::sync::{Arc, Mutex};

/// Calls in order, such as `wait s1 e2`.
pub(crate) type Log = Arc<Mutex<Vec<String>>>;

/// A device whose calls end up in the log.
pub(crate) fn recording_device() -> (Device, Log) {
    device(false)
}

/// The same, all of whose streams are captured into graphs.
pub(crate) fn capturing_device() -> (Device, Log) {
    device(true)
}

fn device(is_capturing: bool) -> (Device, Log) {
    let log = Log::default();
    let state = Mutex::new(State {
        streams: 0,
        events: 0,
        next_address: 0x1000,
    });
    let recorder = Recorder {
        info: info(),
        log: log.clone(),
        state,
        is_capturing,
    };
    let device = Device::from_backend(Box::new(recorder)).expect("nothing can fail");
    (device, log)
}

/// Takes the calls recorded so far.
pub(crate) fn take(log: &Log) -> Vec<String> {
    std::mem::take(&mut lock(log))
}

fn info() -> DeviceInfo {
    DeviceInfo {
        kind: DeviceKind::Emulator,
        name: "recorder".into(),
        arch: (9, 0),
        memory_bytes: 1 << 40,
        multiprocessors: 1,
        l2_bytes: 1 << 20,
        max_threads_per_block: 1024,
        max_block: [1024, 1024, 64],
        max_grid: [u32::MAX; 3],
        max_shared_bytes_per_block: 48 << 10,
        driver_version: None,
    }
}

struct Recorder {
    info: DeviceInfo,
    log: Log,
    state: Mutex<State>,
    is_capturing: bool,
}

struct State {
    streams: usize,
    events: usize,
    next_address: u64,
}

impl Recorder {
    fn note(&self, call: String) {
        lock(&self.log).push(call);
    }
}

impl Backend for Recorder {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn memory(&self) -> Result<MemoryInfo> {
        Ok(MemoryInfo {
            free_bytes: 1 << 40,
            total_bytes: 1 << 40,
        })
    }

    fn synchronize(&self) -> Result<()> {
        self.note("synchronize device".into());
        Ok(())
    }

    fn trim(&self) -> Result<()> {
        self.synchronize()
    }

    fn create_stream(&self) -> Result<RawStream> {
        let mut state = lock(&self.state);
        state.streams += 1;
        Ok(RawStream(state.streams - 1))
    }

    fn synchronize_stream(&self, stream: RawStream) -> Result<()> {
        self.note(format!("synchronize s{}", stream.0));
        Ok(())
    }

    fn stream_is_done(&self, _stream: RawStream) -> Result<bool> {
        Ok(true)
    }

    fn is_capturing(&self, _stream: RawStream) -> Result<bool> {
        Ok(self.is_capturing)
    }

    fn wait_event(&self, stream: RawStream, event: RawEvent) -> Result<()> {
        self.note(format!("wait s{} e{}", stream.0, event.0));
        Ok(())
    }

    fn create_event(&self, _usage: EventUse) -> Result<RawEvent> {
        let mut state = lock(&self.state);
        state.events += 1;
        Ok(RawEvent(state.events - 1))
    }

    fn destroy_event(&self, event: RawEvent) {
        self.note(format!("destroy e{}", event.0));
    }

    fn record_event(&self, event: RawEvent, stream: RawStream) -> Result<()> {
        self.note(format!("record e{} s{}", event.0, stream.0));
        Ok(())
    }

    fn synchronize_event(&self, event: RawEvent) -> Result<()> {
        self.note(format!("synchronize e{}", event.0));
        Ok(())
    }

    fn event_is_done(&self, _event: RawEvent) -> Result<bool> {
        Ok(false) // as long as nobody waited
    }

    fn elapsed_ms(&self, _start: RawEvent, _end: RawEvent) -> Result<f32> {
        Ok(0.0)
    }

    fn alloc(&self, bytes: u64, stream: RawStream) -> Result<u64> {
        self.note(format!("alloc s{}", stream.0));
        let mut state = lock(&self.state);
        state.next_address += bytes.next_multiple_of(256);
        Ok(state.next_address)
    }

    unsafe fn free(&self, _address: u64, stream: RawStream) -> Result<()> {
        self.note(format!("free s{}", stream.0));
        Ok(())
    }

    unsafe fn copy_in(&self, _: u64, _: *const u8, _: usize, on: RawStream) -> Result<()> {
        self.note(format!("copy in s{}", on.0));
        Ok(())
    }

    unsafe fn copy_out(&self, _: *mut u8, _: u64, _: usize, on: RawStream) -> Result<()> {
        self.note(format!("copy out s{}", on.0));
        Ok(())
    }

    unsafe fn copy(&self, _: u64, _: u64, _: usize, on: RawStream) -> Result<()> {
        self.note(format!("copy s{}", on.0));
        Ok(())
    }

    unsafe fn fill(&self, _: u64, _: Pattern, _: usize, on: RawStream) -> Result<()> {
        self.note(format!("fill s{}", on.0));
        Ok(())
    }

    fn alloc_host(&self, bytes: usize) -> Result<*mut u8> {
        let bytes = vec![0_u64; bytes.div_ceil(8)].into_boxed_slice();
        Ok(Box::into_raw(bytes).cast())
    }

    unsafe fn free_host(&self, pointer: *mut u8, bytes: usize) {
        self.note("free host".into());
        let slice = std::ptr::slice_from_raw_parts_mut(pointer.cast::<u64>(), bytes.div_ceil(8));
        // SAFETY: `alloc_host` made it of a box of that length.
        drop(unsafe { Box::from_raw(slice) });
    }

    fn lane_instructions(&self) -> Option<u64> {
        None
    }

    fn encode_tensor_map(
        &self,
        _address: u64,
        _desc: &TensorMapDesc,
    ) -> Result<[u8; TensorMap::BYTES]> {
        Err(Error::Bug("the recorder encodes nothing"))
    }

    fn load(&self, _ptx: &str) -> Result<Box<dyn LoadedModule>> {
        Err(Error::Bug("the recorder loads nothing"))
    }
}
