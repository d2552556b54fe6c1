//! Graphs of the driver.

use super::driver::cu;
use super::{Context, cu_stream};
use crate::backend::{CapturedGraph, RawStream};
use crate::error::Result;
use cudarc::driver::sys::{CUgraph, CUgraphExec, CUstreamCaptureMode};

/// A graph that can be launched.
pub(super) struct GpuGraph {
    context: Context,
    executable: CUgraphExec,
}

// SAFETY: handles that the driver lets every thread use.
unsafe impl Send for GpuGraph {}
// SAFETY: as above: the driver serialises launches of one graph.
unsafe impl Sync for GpuGraph {}

/// Begins to capture the work of a stream, with the context bound.
pub(super) fn begin(stream: RawStream) -> Result<()> {
    // Allocations and loads of this and other threads go on meanwhile.
    let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    // SAFETY: a live stream.
    unsafe { cu!(cuStreamBeginCapture_v2(cu_stream(stream), mode)) }
}

/// Ends it, with the context bound.
pub(super) fn end(context: Context, stream: RawStream) -> Result<Box<dyn CapturedGraph>> {
    let mut graph: CUgraph = std::ptr::null_mut();
    let mut executable: CUgraphExec = std::ptr::null_mut();
    // SAFETY: a live stream, places to write to, and a graph that is destroyed once.
    unsafe {
        cu!(cuStreamEndCapture(cu_stream(stream), &raw mut graph))?;
        let made = cu!(cuGraphInstantiateWithFlags(&raw mut executable, graph, 0));
        cu!(cuGraphDestroy(graph))?;
        made?;
    }
    Ok(Box::new(GpuGraph {
        context,
        executable,
    }))
}

impl CapturedGraph for GpuGraph {
    unsafe fn launch(&self, stream: RawStream) -> Result<()> {
        self.context.bind()?;
        // SAFETY: a live graph and stream; the caller answers for what it does.
        unsafe { cu!(cuGraphLaunch(self.executable, cu_stream(stream))) }
    }
}

impl Drop for GpuGraph {
    fn drop(&mut self) {
        // SAFETY: made in `end`, destroyed once, after its launches.
        let destroyed = self
            .context
            .bind()
            .and_then(|()| unsafe { cu!(cuGraphExecDestroy(self.executable)) });
        if let Err(error) = destroyed {
            tracing::warn!(%error, "a graph was not freed");
        }
    }
}
