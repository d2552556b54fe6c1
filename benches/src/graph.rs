//! Launches captured into a CUDA graph, which replays them without the host's time of each.

use std::ptr;

use cudarc::driver::sys;
use warpsmith::Stream;

use crate::error::{BenchError, Result};

/// Captured work, to be replayed on the stream it was captured from. It accesses the memory that it
/// was captured with, which whoever replays it keeps.
#[derive(Debug)]
pub struct Graph {
    executable: sys::CUgraphExec,
    stream: Stream,
}

impl Graph {
    /// Captures what `enqueue` enqueues on `stream`, all of which has run once before: first runs
    /// load kernels, which a capture does not allow.
    ///
    /// # Errors
    /// [`BenchError::Graph`] on the emulator, which has none, or where the driver refuses what was
    /// enqueued; the first error of `enqueue`.
    pub fn capture(stream: &Stream, enqueue: impl FnOnce() -> Result<()>) -> Result<Self> {
        if stream.device().is_emulator() {
            return Err(BenchError::Graph {
                call: "the emulator",
                message: "it has no graphs: choose a GPU or another set".to_owned(),
            });
        }
        stream.synchronize()?;
        let raw = stream.as_raw().cast();
        // Relaxed: torch may allocate meanwhile.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        let mut graph = ptr::null_mut();
        let mut executable = ptr::null_mut();
        // SAFETY: a live stream of the current context, whose capture ends below on every path;
        // `graph` and `executable` are places to write to, and the graph is destroyed once.
        unsafe {
            done(
                "cuStreamBeginCapture",
                sys::cuStreamBeginCapture_v2(raw, mode),
            )?;
            let enqueued = enqueue();
            let ended = done(
                "cuStreamEndCapture",
                sys::cuStreamEndCapture(raw, &raw mut graph),
            );
            enqueued.and(ended)?;
            let made = sys::cuGraphInstantiateWithFlags(&raw mut executable, graph, 0);
            let destroyed = sys::cuGraphDestroy(graph);
            done("cuGraphInstantiate", made)?;
            done("cuGraphDestroy", destroyed)?;
        }
        Ok(Self {
            executable,
            stream: stream.clone(),
        })
    }

    /// Enqueues all of it.
    ///
    /// # Errors
    /// [`BenchError::Graph`].
    pub fn replay(&self) -> Result<()> {
        // SAFETY: a live graph, on the live stream it was captured from.
        let launched = unsafe { sys::cuGraphLaunch(self.executable, self.stream.as_raw().cast()) };
        done("cuGraphLaunch", launched)
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // Its replays end first; a failure leaves nothing to do.
        let _ = self.stream.synchronize();
        // SAFETY: made by `capture`, destroyed once.
        let _ = unsafe { sys::cuGraphExecDestroy(self.executable) };
    }
}

fn done(call: &'static str, result: sys::CUresult) -> Result<()> {
    match result {
        sys::CUresult::CUDA_SUCCESS => Ok(()),
        failed => Err(BenchError::Graph {
            call,
            message: format!("{failed:?}"),
        }),
    }
}
