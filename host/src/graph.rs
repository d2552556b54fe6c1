//! Graphs: work that is captured once and launched as a whole.

use crate::backend::CapturedGraph;
use crate::device::{Device, lock};
use crate::error::{Error, Result};
use crate::kernel::KernelInner;
use crate::sharing::in_turn;
use crate::storage::Storage;
use crate::stream::Stream;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

/// Work that [`Stream::capture`] recorded. A launch does all of it, in its order, and costs the host
/// what one launch costs.
///
/// The graph keeps the memory and the kernels that it uses. It reads and writes the tensors and
/// buffers that it was captured with, and those may be changed between launches.
pub struct Graph {
    device: Device,
    captured: Box<dyn CapturedGraph>,
    kept: Kept,
}

/// What a graph uses, and keeps.
#[derive(Default)]
pub(crate) struct Kept {
    storages: HashMap<usize, Storage>,
    kernels: Vec<Arc<KernelInner>>,
}

/// The capture of a stream.
pub(crate) struct Capture {
    /// The only one that gives work to the stream meanwhile, so that the capture's end is behind all of
    /// it.
    thread: ThreadId,
    /// What the work uses while it is captured; `None` after that.
    kept: Mutex<Option<Kept>>,
}

impl Default for Capture {
    /// A capture by this thread.
    fn default() -> Self {
        Self {
            thread: thread::current().id(),
            kept: Mutex::new(Some(Kept::default())),
        }
    }
}

impl Kept {
    pub(crate) fn storage(&mut self, storage: &Storage) {
        let known = self.storages.entry(storage.key());
        known.or_insert_with(|| storage.clone());
    }

    pub(crate) fn kernel(&mut self, kernel: &Arc<KernelInner>) {
        if !self.kernels.iter().any(|known| Arc::ptr_eq(known, kernel)) {
            self.kernels.push(kernel.clone());
        }
    }
}

/// A capture that has begun. It ends also where the work panics.
struct Begun<'a> {
    stream: &'a Stream,
    has_ended: bool,
}

impl Begun<'_> {
    fn end(&mut self) -> (Result<Box<dyn CapturedGraph>>, Kept) {
        self.has_ended = true;
        let backend = self.stream.device().backend();
        let captured = backend.end_capture(self.stream.raw());
        // From here on, any thread may use a clone of the stream.
        let capture = self.stream.captured();
        let kept = capture.and_then(|capture| lock(&capture.kept).take());
        (captured, kept.unwrap_or_default())
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            drop(self.end());
        }
    }
}

impl Stream {
    /// Records what `work` enqueues on the stream that it gets, and does nothing of it. That stream is
    /// another one of the same device, so that other work goes on meanwhile.
    ///
    /// ```
    /// # fn main() -> warpsmith::Result<()> {
    /// use warpsmith::{Binary, BinaryOp, Device, Tensor};
    /// let device = Device::auto()?;
    /// let stream = device.stream()?;
    /// let x = Tensor::from_slice(&device, &[2], &[1.0_f32, 2.0])?;
    /// let y = Tensor::<f32>::zeros(&stream, &[2])?;
    /// let double = |stream: &_| Binary::new(BinaryOp::Add, &x, &x).run_into(&y, stream);
    /// double(&stream)?; // loads the kernel
    ///
    /// let graph = stream.capture(double)?;
    /// y.fill(0.0, &stream)?;
    /// graph.launch(&stream)?;
    /// assert_eq!(y.to_vec()?, [2.0, 4.0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// - Launch each operation once before. A first launch loads its kernel, which a driver may refuse
    ///   during a capture.
    /// - Memory that is allocated meanwhile has no contents before the graph is launched.
    /// - This thread alone gives work to the stream meanwhile. After that, a clone of it is a stream like
    ///   any other.
    /// - Copies of the host ([`Tensor::from_slice`](crate::Tensor::from_slice)) are done at once, and
    ///   are not part of the graph.
    ///
    /// # Errors
    /// Those of `work`. [`ArgumentError::Unsupported`](crate::ArgumentError::Unsupported) for what
    /// waits for the captured stream, records an event on it, or copies between it and pinned memory, and
    /// for work that another thread gives to it. [`DeviceError::Driver`](crate::DeviceError::Driver).
    pub fn capture(&self, work: impl FnOnce(&Self) -> Result<()>) -> Result<Graph> {
        let device = self.device();
        let stream = Self::for_capture(device)?;
        device.backend().begin_capture(stream.raw())?;
        let mut begun = Begun {
            stream: &stream,
            has_ended: false,
        };
        let done = work(&stream);
        let (captured, kept) = begun.end();
        done?;
        Ok(Graph {
            device: device.clone(),
            captured: captured?,
            kept,
        })
    }

    /// Keeps memory for the graph that this stream is captured into; `false` if there is none.
    ///
    /// # Errors
    /// [`ArgumentError::Unsupported`](crate::ArgumentError::Unsupported) where another thread captures it.
    pub(crate) fn keep(&self, storage: &Storage) -> Result<bool> {
        self.keep_by(|kept| kept.storage(storage))
    }

    /// Keeps a kernel for the graph that this stream is captured into.
    ///
    /// # Errors
    /// As [`keep`](Self::keep).
    pub(crate) fn keep_kernel(&self, kernel: &Arc<KernelInner>) -> Result<()> {
        self.keep_by(|kept| kept.kernel(kernel)).map(drop)
    }

    fn keep_by(&self, keep: impl FnOnce(&mut Kept)) -> Result<bool> {
        let Some(capture) = self.captured() else {
            return Ok(false);
        };
        let kept = &mut *lock(&capture.kept);
        if kept.is_some() && capture.thread != thread::current().id() {
            return Err(Error::unsupported(
                "work of another thread on a stream that is captured into a graph",
                "work of the thread that captures it, and any work after that",
            ));
        }
        Ok(kept.as_mut().map(keep).is_some())
    }

    /// Refuses `what` where this stream is captured.
    pub(crate) fn refuse_in_capture(&self, what: &str) -> Result<()> {
        match self.captured() {
            Some(capture) if lock(&capture.kept).is_some() => Err(Error::unsupported(
                format!("{what} while it is captured into a graph"),
                "launches, fills, and copies between memory of the device",
            )),
            _ => Ok(()),
        }
    }
}

impl Graph {
    /// Enqueues all of it. It waits for what other streams have done so far with the memory that it
    /// uses, and their later work on that memory waits for it.
    ///
    /// # Errors
    /// [`DeviceError::Mismatch`](crate::DeviceError::Mismatch),
    /// [`DeviceError::Driver`](crate::DeviceError::Driver), and on the emulator the fault of a kernel.
    pub fn launch(&self, stream: &Stream) -> Result<()> {
        self.device.check_same("stream", stream.device())?;
        stream.refuse_in_capture("launching a graph on a stream")?;
        let storages = self.kept.storages.values();
        for storage in storages.clone() {
            storage.use_on("memory of the graph", stream)?;
        }
        in_turn(storages, stream, &mut || {
            // SAFETY: `kept` has the memory and the kernels, whose uses are ordered. An `unsafe`
            // launch in the capture answered for its replays too.
            unsafe { self.captured.launch(stream.raw()) }
        })
    }

    /// The device it is for.
    pub fn device(&self) -> &Device {
        &self.device
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // Its launches end before its kernels go.
        if let Err(error) = self.device.backend().synchronize() {
            tracing::warn!(%error, "a graph was dropped after a failure");
        }
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph(on {})", self.device)
    }
}
