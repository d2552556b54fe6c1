//! Progress indicators on stderr.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

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
        bar.enable_steady_tick(Duration::from_millis(200));
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
        bar.enable_steady_tick(Duration::from_millis(200));
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
