//! Progress indicators on stderr.

use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Has a bar move by itself where somebody sees it. That takes a thread, and indicatif panics where
/// the system cannot start one, so one is tried first.
fn tick(bar: &ProgressBar) {
    let starts = || {
        thread::Builder::new()
            .spawn(|| ())
            .map(thread::JoinHandle::join)
    };
    if !bar.is_hidden() && starts().is_ok() {
        bar.enable_steady_tick(Duration::from_millis(200));
    }
}

/// A spinner on stderr during long operations; nothing if stderr is not a terminal.
pub(crate) struct Spinner(ProgressBar);

impl Spinner {
    /// Starts it; dropping it wipes it away.
    pub(crate) fn start(message: String) -> Self {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.set_message(message);
        tick(&bar);
        Self(bar)
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// A progress bar on stderr for operations with a known number of steps; nothing if stderr is not a
/// terminal.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    /// Starts it; dropping it wipes it away.
    pub(crate) fn start(message: String, steps: u64) -> Self {
        let bar = ProgressBar::new(steps);
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}") {
            bar.set_style(style);
        }
        bar.set_message(message);
        tick(&bar);
        Self(bar)
    }

    /// One step is done.
    pub(crate) fn step(&self) {
        self.0.inc(1);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
