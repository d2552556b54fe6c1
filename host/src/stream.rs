//! Streams: queues of work on a device.

use crate::backend::{Backend, RawStream};
use crate::device::{Device, lock};
use crate::error::Result;
use crate::event::Event;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

/// A queue of work on one device: what is given to it happens in order. Cloning gives the same
/// queue.
///
/// Two streams run beside each other. What one writes and the other reads needs an order:
/// [`Stream::wait`], or [`Stream::synchronize`] in between. Memory itself is safe without it: an
/// allocation is usable on every stream of its device, and is freed after its last use on any.
///
/// On the emulator the work is done when the call that gave it returns.
#[derive(Clone)]
pub struct Stream(Arc<Inner>);

struct Inner {
    device: Device,
    raw: RawStream,
    slot: Slot,
}

/// A stream's place in its device's table; storage keeps a bit for each that used it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(u8);

impl Slot {
    /// The device's default stream.
    pub(crate) const DEFAULT: Self = Self(0);
    /// Streams made elsewhere: their handles may die, so they are never looked up.
    pub(crate) const FOREIGN: Self = Self(63);

    /// The bit of this slot in a mask.
    pub(crate) const fn bit(self) -> u64 {
        1 << self.0
    }
}

/// The streams of a device. They live as long as it does, and are reused.
pub(crate) struct StreamTable {
    raw: [OnceLock<RawStream>; Self::SLOTS],
    state: Mutex<State>,
}

struct State {
    /// Live [`Stream`]s of each slot.
    users: [u32; StreamTable::SLOTS],
}

impl StreamTable {
    /// Streams of a device, the default one included.
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
        })
    }

    /// The handle of a slot that is in use.
    pub(crate) fn raw(&self, slot: Slot) -> Option<RawStream> {
        self.raw.get(usize::from(slot.0))?.get().copied()
    }

    /// The least used slot: a fresh queue while there is one.
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
        if let Some(users) = lock(&self.state).users.get_mut(usize::from(slot.0)) {
            *users = users.saturating_sub(1);
        }
    }

    /// The slots whose bit is set in `mask`, with their handles.
    pub(crate) fn of_mask(&self, mask: u64) -> impl Iterator<Item = RawStream> + '_ {
        (0..Self::SLOTS as u8)
            .map(Slot)
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
        }))
    }

    /// A stream made by someone else, as the driver's handle (`CUstream`): of cudarc, of cust, or
    /// null for the legacy default stream.
    ///
    /// Launches and copies go straight to it. Memory is still safe: allocations that it uses are
    /// freed only after the whole device is idle, which is slower than with our own streams.
    ///
    /// # Safety
    /// `device` is a GPU, `handle` is a live stream of its primary context (the one that
    /// `cuDevicePrimaryCtxRetain` gives), and stays live until this value and its clones are
    /// dropped.
    pub unsafe fn from_raw(device: &Device, handle: *mut std::ffi::c_void) -> Self {
        let raw = RawStream(handle as usize);
        Self(Arc::new(Inner {
            device: device.clone(),
            raw,
            slot: Slot::FOREIGN,
        }))
    }

    /// The driver's handle (`CUstream`) on a GPU; a number without meaning on the emulator. Valid
    /// while the device is.
    pub fn as_raw(&self) -> *mut std::ffi::c_void {
        self.0.raw.0 as *mut std::ffi::c_void
    }

    /// The device it belongs to.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// Waits until all work given so far is done.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver): also where a kernel's fault on a GPU shows.
    pub fn synchronize(&self) -> Result<()> {
        self.device().backend().synchronize_stream(self.raw())
    }

    /// Whether all work given so far is done.
    ///
    /// # Errors
    /// As [`Stream::synchronize`].
    pub fn is_done(&self) -> Result<bool> {
        self.device().backend().stream_is_done(self.raw())
    }

    /// An event at the point that this stream has reached.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver).
    pub fn record(&self) -> Result<Event> {
        let mut event = Event::new(self.device())?;
        event.record(self)?;
        Ok(event)
    }

    /// Work given from now on starts after what `event` recorded. The host does not wait.
    ///
    /// # Errors
    /// [`Error::DeviceMismatch`](crate::Error::DeviceMismatch),
    /// [`Error::EventNotReady`](crate::Error::EventNotReady) for one never recorded.
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.device().check_same("event", event.device())?;
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
        self.device.streams().release(self.slot);
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
