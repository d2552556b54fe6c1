//! Streams: queues of work on a device.

use crate::backend::{Backend, RawStream};
use crate::device::{Device, lock};
use crate::error::Result;
use crate::event::Event;
use crate::graph::Capture;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

/// A queue of work on one device, which runs in order. A clone is another handle to the same queue.
///
/// Two streams run concurrently. Where one reads what the other writes, order them with
/// [`Stream::wait`], or call [`Stream::synchronize`] in between. Allocation and freeing need no
/// such order: an allocation is usable on every stream of its device at once, and is freed after
/// its last use on any of them.
///
/// On the emulator, work is done when the call that enqueues it returns.
#[derive(Clone)]
pub struct Stream(Arc<Inner>);

struct Inner {
    device: Device,
    raw: RawStream,
    slot: Slot,
    /// Of a stream that was made to be captured into a graph.
    capture: Option<Capture>,
}

/// A stream's index in its device's table; storage keeps one bit for each slot that used it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(u8);

impl Slot {
    /// The device's default stream.
    pub(crate) const DEFAULT: Self = Self(0);
    /// All streams made elsewhere: their handles may be destroyed, so they are not in the table.
    pub(crate) const FOREIGN: Self = Self(63);

    /// All slots but that of streams made elsewhere.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..StreamTable::SLOTS as u8).map(Self)
    }

    /// Its index among [`all`](Self::all) slots.
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }

    /// The bit of this slot in a mask.
    pub(crate) const fn bit(self) -> u64 {
        1 << self.0
    }
}

/// The backend's streams of a device. They live as long as the device, and are reused.
pub(crate) struct StreamTable {
    raw: [OnceLock<RawStream>; Self::SLOTS],
    state: Mutex<State>,
    /// Streams that were captured, to be used again.
    captured: Mutex<Vec<RawStream>>,
}

struct State {
    /// Live [`Stream`]s of each slot.
    users: [u32; StreamTable::SLOTS],
}

impl StreamTable {
    /// Most backend streams of a device, the default one included.
    pub(crate) const SLOTS: usize = 63;

    pub(crate) fn new(backend: &dyn Backend) -> Result<Self> {
        let raw = [const { OnceLock::new() }; Self::SLOTS];
        let default = backend.create_stream()?;
        raw[0].get_or_init(|| default);
        // The default stream is never handed out as a new one before all others are.
        let mut users = [0; Self::SLOTS];
        users[0] = 1;
        Ok(Self {
            raw,
            state: Mutex::new(State { users }),
            captured: Mutex::default(),
        })
    }

    /// The handle of a slot that is in use.
    pub(crate) fn raw(&self, slot: Slot) -> Option<RawStream> {
        self.raw.get(slot.index())?.get().copied()
    }

    /// The slot with the fewest live [`Stream`]s: an unused one while there is one.
    fn acquire(&self, backend: &dyn Backend) -> Result<(Slot, RawStream)> {
        let mut state = lock(&self.state);
        let by_use = state
            .users
            .iter()
            .enumerate()
            .min_by_key(|&(_, &users)| users);
        let index = by_use.map_or(0, |(index, _)| index);
        let raw = match self.raw[index].get() {
            Some(&raw) => raw,
            None => {
                let made = backend.create_stream()?;
                *self.raw[index].get_or_init(|| made)
            }
        };
        state.users[index] += 1;
        Ok((Slot(index as u8), raw))
    }

    fn release(&self, slot: Slot) {
        if let Some(users) = lock(&self.state).users.get_mut(slot.index()) {
            *users = users.saturating_sub(1);
        }
    }

    /// The slots whose bit is set in `mask`, with their handles.
    pub(crate) fn of_mask(&self, mask: u64) -> impl Iterator<Item = RawStream> + '_ {
        Slot::all()
            .filter(move |slot| mask & slot.bit() != 0)
            .filter_map(|slot| self.raw(slot))
    }
}

impl Stream {
    pub(crate) fn acquire(device: &Device) -> Result<Self> {
        let (slot, raw) = device.streams().acquire(device.backend())?;
        Ok(Self(Arc::new(Inner {
            device: device.clone(),
            raw,
            slot,
            capture: None,
        })))
    }

    pub(crate) fn default_of(device: &Device) -> Self {
        let streams = device.streams();
        let slot = Slot::DEFAULT;
        lock(&streams.state).users[0] += 1;
        // The table's constructor made it.
        let raw = streams.raw(slot).unwrap_or(RawStream(0));
        Self(Arc::new(Inner {
            device: device.clone(),
            raw,
            slot,
            capture: None,
        }))
    }

    /// A stream to be captured. No memory remembers it: what its work uses, the graph keeps.
    pub(crate) fn for_capture(device: &Device) -> Result<Self> {
        let known = lock(&device.streams().captured).pop();
        let raw = match known {
            Some(raw) => raw,
            None => device.backend().create_stream()?,
        };
        Ok(Self(Arc::new(Inner {
            device: device.clone(),
            raw,
            slot: Slot::FOREIGN,
            capture: Some(Capture::default()),
        })))
    }

    /// What the work uses, if the stream was made to be captured.
    pub(crate) fn captured(&self) -> Option<&Capture> {
        self.0.capture.as_ref()
    }

    /// Wraps a stream that other code created, from the driver's handle (`CUstream`): that is
    /// `stream.cu_stream().cast()` of cudarc and `stream.as_inner().cast()` of cust. A null handle
    /// is the legacy default stream.
    ///
    /// Launches and copies are enqueued on it directly. An allocation that it used is freed only
    /// after the whole device is idle, which is slower than with the streams of [`Device::stream`].
    ///
    /// # Safety
    /// `device` is a GPU, `handle` is a live stream of its primary context (the one that
    /// `cuDevicePrimaryCtxRetain` gives), and stays live until this value and its clones are
    /// dropped. Where two such streams use the same memory, the caller orders their work.
    pub unsafe fn from_raw(device: &Device, handle: *mut std::ffi::c_void) -> Self {
        let raw = RawStream(handle as usize);
        Self(Arc::new(Inner {
            device: device.clone(),
            raw,
            slot: Slot::FOREIGN,
            capture: None,
        }))
    }

    /// The driver's handle (`CUstream`) on a GPU; a number without meaning on the emulator. Valid
    /// while the device is.
    ///
    /// [`capture`](Self::capture) makes graphs. To capture this stream by the driver
    /// (`cuStreamBeginCapture`):
    ///
    /// - Launch each operation once before, because a first launch loads its kernel.
    /// - Call nothing that waits during the capture. Reading back, memory of another stream, and
    ///   lengths on the host wait.
    /// - Keep all tensors of the captured launches as long as the graph. Dropping a tensor does not
    ///   wait for a graph.
    pub fn as_raw(&self) -> *mut std::ffi::c_void {
        self.0.raw.0 as *mut std::ffi::c_void
    }

    /// The device it belongs to.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// Blocks until all work enqueued so far is done.
    ///
    /// # Errors
    /// [`DeviceError::Driver`](crate::DeviceError::Driver), which also reports the fault of an
    /// earlier kernel on a GPU.
    pub fn synchronize(&self) -> Result<()> {
        self.refuse_in_capture("waiting for a stream")?;
        self.device().backend().synchronize_stream(self.raw())
    }

    /// Whether all work enqueued so far is done. Does not block.
    ///
    /// # Errors
    /// As [`Stream::synchronize`].
    pub fn is_done(&self) -> Result<bool> {
        self.refuse_in_capture("asking whether a stream is done")?;
        self.device().backend().stream_is_done(self.raw())
    }

    /// A new event, recorded behind all work enqueued so far.
    ///
    /// # Errors
    /// [`DeviceError::Driver`](crate::DeviceError::Driver).
    pub fn record(&self) -> Result<Event> {
        let mut event = Event::new(self.device())?;
        event.record(self)?;
        Ok(event)
    }

    /// Makes work that is enqueued on this stream later start after the point that `event`
    /// recorded, on any stream of the device. The host does not wait.
    ///
    /// # Errors
    /// [`DeviceError::Mismatch`](crate::DeviceError::Mismatch),
    /// [`DeviceError::EventNotReady`](crate::DeviceError::EventNotReady) for an event never
    /// recorded, [`DeviceError::Driver`](crate::DeviceError::Driver).
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.device().check_same("event", event.device())?;
        self.refuse_in_capture("making a stream wait")?;
        self.device()
            .backend()
            .wait_event(self.raw(), event.recorded()?)
    }

    pub(crate) fn raw(&self) -> RawStream {
        self.0.raw
    }

    pub(crate) fn slot(&self) -> Slot {
        self.0.slot
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let streams = self.device.streams();
        match self.capture {
            Some(_) => lock(&streams.captured).push(self.raw),
            None => streams.release(self.slot),
        }
    }
}

impl PartialEq for Stream {
    /// The same queue.
    fn eq(&self, other: &Self) -> bool {
        self.0.device == other.0.device && self.0.raw == other.0.raw
    }
}

impl Eq for Stream {}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({} of {})", self.0.slot.0, self.0.device)
    }
}
