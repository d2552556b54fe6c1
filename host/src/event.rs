//! Events: recorded points in a stream's work, for ordering and timing.

use crate::backend::{EventUse, RawEvent};
use crate::device::Device;
use crate::error::{DeviceError, Error, Result};
use crate::stream::Stream;
use std::fmt;

/// A point in the work of a stream, to wait for, and to measure time between two of them.
///
/// ```
/// # fn main() -> warpsmith::Result<()> {
/// let device = warpsmith::Device::auto()?;
/// let stream = device.stream()?;
/// let start = stream.record()?;
/// // .. give work to the stream ..
/// let end = stream.record()?;
/// end.synchronize()?;
/// println!("{} ms", start.elapsed_ms(&end)?);
/// # Ok(())
/// # }
/// ```
pub struct Event {
    device: Device,
    raw: RawEvent,
    is_recorded: bool,
}

impl Event {
    /// An event that is not recorded yet.
    ///
    /// # Errors
    /// [`DeviceError::Driver`].
    pub fn new(device: &Device) -> Result<Self> {
        let raw = device.backend().create_event(EventUse::Timing)?;
        Ok(Self {
            device: device.clone(),
            raw,
            is_recorded: false,
        })
    }

    /// Records the point behind all work enqueued on `stream` so far; replaces the last recording.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn record(&mut self, stream: &Stream) -> Result<()> {
        self.device.check_same("stream", stream.device())?;
        self.device.backend().record_event(self.raw, stream.raw())?;
        self.is_recorded = true;
        Ok(())
    }

    /// Blocks until the recorded point is reached.
    ///
    /// # Errors
    /// [`DeviceError::EventNotReady`] where nothing was recorded, [`DeviceError::Driver`].
    pub fn synchronize(&self) -> Result<()> {
        self.device.backend().synchronize_event(self.recorded()?)
    }

    /// Whether the recorded point is reached. Does not block.
    ///
    /// # Errors
    /// [`DeviceError::EventNotReady`] where nothing was recorded, [`DeviceError::Driver`].
    pub fn is_done(&self) -> Result<bool> {
        self.device.backend().event_is_done(self.recorded()?)
    }

    /// Milliseconds from this event to `end`: device time on a GPU, host time on the emulator.
    ///
    /// # Errors
    /// [`DeviceError::EventNotReady`] where one of them is not recorded or not yet reached,
    /// [`Error::Device`].
    pub fn elapsed_ms(&self, end: &Self) -> Result<f32> {
        self.device.check_same("event", &end.device)?;
        self.device
            .backend()
            .elapsed_ms(self.recorded()?, end.recorded()?)
    }

    /// The device it belongs to.
    pub fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn recorded(&self) -> Result<RawEvent> {
        if self.is_recorded {
            Ok(self.raw)
        } else {
            Err(Error::Device(DeviceError::EventNotReady(
                "nothing was recorded; call record first",
            )))
        }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.device.backend().destroy_event(self.raw);
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.is_recorded {
            "recorded"
        } else {
            "not recorded"
        };
        write!(f, "Event({state}, {})", self.device)
    }
}
