//! Criterion's measure of time, by the device's own events: what a GPU spent between the first
//! iteration and the last, whatever the host did meanwhile.
//!
//! Iterations are enqueued one after the other and not waited for, so they follow each other
//! without a gap as long as the host enqueues faster than the device works. The device spins
//! before the first of them, so that the host has a start.

use criterion::Criterion;
use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use warpsmith::{Event, Stream};
use warpsmith_benches::timing::Timer;

/// What the device spins before the first iteration.
const HEAD_START_NS: u64 = 200_000;

/// Time between two events of a stream, in nanoseconds.
pub(crate) struct DeviceTime(Timer);

impl DeviceTime {
    /// Of work on `stream`.
    pub(crate) fn new(stream: &Stream) -> warpsmith_benches::error::Result<Self> {
        Timer::new(stream).map(Self)
    }

    fn record(&self) -> Event {
        let event = self.0.stream().record();
        event.unwrap_or_else(|error| panic!("no event: {error}"))
    }
}

impl Measurement for DeviceTime {
    type Intermediate = Event;
    type Value = f64;

    fn start(&self) -> Event {
        let spins = self.0.spin(HEAD_START_NS);
        spins.unwrap_or_else(|error| panic!("no head start: {error}"));
        self.record()
    }

    fn end(&self, start: Event) -> f64 {
        let end = self.record();
        let elapsed_ms = end.synchronize().and_then(|()| start.elapsed_ms(&end));
        let elapsed_ms = elapsed_ms.unwrap_or_else(|error| panic!("no time: {error}"));
        f64::from(elapsed_ms) * 1e6
    }

    fn add(&self, x: &f64, y: &f64) -> f64 {
        x + y
    }

    fn zero(&self) -> f64 {
        0.0
    }

    fn to_f64(&self, value: &f64) -> f64 {
        *value
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

/// Criterion with this measure of time on `stream`, and the options of the command line.
pub(crate) fn criterion(
    stream: &Stream,
) -> warpsmith_benches::error::Result<Criterion<DeviceTime>> {
    let time = DeviceTime::new(stream)?;
    Ok(Criterion::default()
        .with_measurement(time)
        .configure_from_args())
}
