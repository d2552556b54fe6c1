//! Events: recorded points in a stream's work, for ordering and timing.

use crate::backend::{EventUse, RawEvent};
use crate::device::{Device, lock};
use crate::error::{DeviceError, Error, Result};
use crate::stream::Stream;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;

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
///
/// `.await` waits for it as [`Event::synchronize`] does, without blocking the thread:
///
/// ```
/// # async fn work(stream: &warpsmith::Stream) -> warpsmith::Result<()> {
/// // .. give work to the stream ..
/// stream.record()?.await
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
        stream.refuse_in_capture("recording an event on a stream")?;
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

impl IntoFuture for Event {
    type Output = Result<()>;
    type IntoFuture = Reached;

    fn into_future(self) -> Reached {
        Reached {
            event: Arc::new(self),
            waiting: Arc::default(),
        }
    }
}

/// The future of an [`Event`]: the recorded point is reached. Where it is not reached at the first
/// poll, a thread waits for it.
#[derive(Debug)]
pub struct Reached {
    event: Arc<Event>,
    waiting: Arc<Mutex<Waiting>>,
}

/// What the thread and the future share.
#[derive(Debug, Default)]
struct Waiting {
    has_thread: bool,
    result: Option<Result<()>>,
    waker: Option<Waker>,
}

impl Future for Reached {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let mut waiting = lock(&self.waiting);
        if let Some(result) = waiting.result.take() {
            return Poll::Ready(result);
        }
        waiting.waker = Some(context.waker().clone());
        if waiting.has_thread {
            return Poll::Pending;
        }
        if self.event.is_done()? {
            return Poll::Ready(Ok(()));
        }
        let (event, shared) = (self.event.clone(), self.waiting.clone());
        let wait = move || {
            let result = event.synchronize();
            let mut waiting = lock(&shared);
            waiting.result = Some(result);
            if let Some(waker) = waiting.waker.take() {
                waker.wake();
            }
        };
        waiting.has_thread = thread::Builder::new().spawn(wait).is_ok();
        match waiting.has_thread {
            true => Poll::Pending,
            false => Poll::Ready(self.event.synchronize()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::recorder::{recording_device, take};
    use std::pin::pin;
    use std::task::Wake;
    use std::thread::Thread;

    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    #[test]
    fn a_future_that_is_pending_is_woken_when_the_point_is_reached() {
        let (device, log) = recording_device();
        let stream = device.stream().expect("s1");
        let mut reached = pin!(stream.record().expect("records").into_future());
        let waker = Arc::new(Unpark(thread::current())).into();
        let mut context = Context::from_waker(&waker);
        // The recorder's events are not done before something waits for them.
        assert!(reached.as_mut().poll(&mut context).is_pending());
        loop {
            thread::park();
            if let Poll::Ready(result) = reached.as_mut().poll(&mut context) {
                break result.expect("reached");
            }
        }
        assert_eq!(take(&log), ["record e0 s1", "synchronize e0"]);
    }

    #[test]
    fn the_future_of_an_event_without_a_recording_is_an_error() {
        let (device, _log) = recording_device();
        let mut reached = pin!(Event::new(&device).expect("an event").into_future());
        let polled = reached
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Ready(Err(_))));
    }
}
