//! A device without memory, for tests of the order of work.

use super::*;
use crate::device::{Device, DeviceKind};

/// A device without memory whose calls end up in the log.
pub(crate) fn recording_device() -> (Device, Log) {
    device(false)
}

/// The same, all of whose streams are captured into graphs.
pub(crate) fn capturing_device() -> (Device, Log) {
    device(true)
}

fn device(is_capturing: bool) -> (Device, Log) {
    let log = Log::default();
    let recorder = Recorder {
        info: info(),
        log: log.clone(),
        to: To::Nothing(Nothing {
            info: info(),
            state: Mutex::new(State {
                streams: 0,
                events: 0,
                next_address: 0x1000,
            }),
            is_capturing,
        }),
    };
    let device = Device::from_backend(Box::new(recorder)).expect("nothing can fail");
    (device, log)
}

/// Takes the calls recorded so far, as text.
pub(crate) fn take(log: &Log) -> Vec<String> {
    let calls = std::mem::take(&mut *lock(log));
    calls.iter().map(Call::to_string).collect()
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

/// A backend that does nothing.
pub(super) struct Nothing {
    info: DeviceInfo,
    state: Mutex<State>,
    is_capturing: bool,
}

struct State {
    streams: usize,
    events: usize,
    next_address: u64,
}

impl Backend for Nothing {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn memory(&self) -> Result<MemoryInfo> {
        Err(Error::Bug("the recorder has no memory"))
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn trim(&self) -> Result<()> {
        Ok(())
    }

    fn create_stream(&self) -> Result<RawStream> {
        let mut state = lock(&self.state);
        state.streams += 1;
        Ok(RawStream(state.streams - 1))
    }

    fn synchronize_stream(&self, _: RawStream) -> Result<()> {
        Ok(())
    }

    fn stream_is_done(&self, _: RawStream) -> Result<bool> {
        Ok(true)
    }

    fn is_capturing(&self, _: RawStream) -> Result<bool> {
        Ok(self.is_capturing)
    }

    fn begin_capture(&self, _: RawStream) -> Result<()> {
        Err(Error::Bug("nothing is captured"))
    }

    fn end_capture(&self, _: RawStream) -> Result<Box<dyn CapturedGraph>> {
        Err(Error::Bug("nothing is captured"))
    }

    fn wait_event(&self, _: RawStream, _: RawEvent) -> Result<()> {
        Ok(())
    }

    fn create_event(&self, _: EventUse) -> Result<RawEvent> {
        let mut state = lock(&self.state);
        state.events += 1;
        Ok(RawEvent(state.events - 1))
    }

    fn destroy_event(&self, _: RawEvent) {}

    fn record_event(&self, _: RawEvent, _: RawStream) -> Result<()> {
        Ok(())
    }

    fn synchronize_event(&self, _: RawEvent) -> Result<()> {
        Ok(())
    }

    fn event_is_done(&self, _: RawEvent) -> Result<bool> {
        Ok(false) // until something waits for it
    }

    fn elapsed_ms(&self, _: RawEvent, _: RawEvent) -> Result<f32> {
        Ok(0.0)
    }

    fn alloc(&self, bytes: u64, _: RawStream) -> Result<u64> {
        let mut state = lock(&self.state);
        state.next_address += bytes.next_multiple_of(256);
        Ok(state.next_address)
    }

    unsafe fn free(&self, _: u64, _: RawStream) -> Result<()> {
        Ok(())
    }

    unsafe fn copy_in(&self, _: u64, _: *const u8, _: usize, _: RawStream) -> Result<()> {
        Ok(())
    }

    unsafe fn copy_out(&self, to: *mut u8, _: u64, bytes: usize, _: RawStream) -> Result<()> {
        // SAFETY: guaranteed by the caller: `bytes` bytes of host memory.
        unsafe { to.write_bytes(0, bytes) };
        Ok(())
    }

    unsafe fn copy(&self, _: u64, _: u64, _: usize, _: RawStream) -> Result<()> {
        Ok(())
    }

    unsafe fn fill(&self, _: u64, _: Pattern, _: usize, _: RawStream) -> Result<()> {
        Ok(())
    }

    fn alloc_host(&self, bytes: usize) -> Result<*mut u8> {
        let bytes = vec![0_u64; bytes.div_ceil(8)].into_boxed_slice();
        Ok(Box::into_raw(bytes).cast())
    }

    unsafe fn free_host(&self, pointer: *mut u8, bytes: usize) {
        let words = bytes.div_ceil(8);
        let slice = std::ptr::slice_from_raw_parts_mut(pointer.cast::<u64>(), words);
        // SAFETY: `alloc_host` made it of a box of that length.
        drop(unsafe { Box::from_raw(slice) });
    }

    fn lane_instructions(&self) -> Option<u64> {
        None
    }

    fn encode_tensor_map(&self, _: u64, _: &TensorMapDesc) -> Result<[u8; TensorMap::BYTES]> {
        Err(Error::Bug("nothing is encoded"))
    }

    fn load(&self, _: &str) -> Result<Box<dyn LoadedModule>> {
        Err(Error::Bug("nothing is loaded"))
    }
}
