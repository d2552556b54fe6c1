//! The threads that work is spread over.

use anyhow::{Context, Result};

/// Starts the threads of rayon, which would end the process at its first use if there can be none.
/// To be called once, by commands that use them on the host; the emulator has its own.
pub(crate) fn start() -> Result<()> {
    rayon::ThreadPoolBuilder::new()
        .build_global()
        .context("no threads can be started to work on")
}
