//! Where kernels print to.

use std::fmt;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::fifo::Fifo;

/// Where kernels print to. Clones write to the same place.
///
/// No lock is held while the writer runs: it may launch kernels that print to this output. What
/// they print follows when the writer returns. The same holds for launches of other threads that
/// end meanwhile; of their texts, too, the newest
/// [`PRINTF_FIFO_BYTES`](crate::PRINTF_FIFO_BYTES) are kept.
#[derive(Clone)]
pub struct Output(Arc<Mutex<State>>);

type Writer = Box<dyn Write + Send>;

struct State {
    /// Text that the writer has not got.
    pending: Fifo,
    /// `None` while it runs.
    writer: Option<Writer>,
}

impl Output {
    /// Standard output of the process.
    pub fn stdout() -> Self {
        Self::to(std::io::stdout())
    }

    /// Any writer.
    pub fn to(writer: impl Write + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(State {
            pending: Fifo::default(),
            writer: Some(Box::new(writer)),
        })))
    }

    /// An output to memory, and the buffer that it fills.
    pub fn buffer() -> (Self, Arc<Mutex<Vec<u8>>>) {
        let buffer = Arc::<Mutex<Vec<u8>>>::default();
        (Self::to(Buffer(buffer.clone())), buffer)
    }

    /// Keeps a launch's text for the next [`flush`](Self::flush).
    pub(crate) fn keep(&self, mut text: Fifo) {
        locked(&self.0).pending.append(&mut text);
    }

    /// Hands the text that is kept to the writer, unless the writer runs already: then it gets the
    /// text next. If it cannot write (a closed pipe, say), that is logged and not reported: the
    /// kernel is not at fault.
    pub(crate) fn flush(&self) {
        while let Some(mut turn) = Turn::take(self) {
            if let Some(writer) = &mut turn.writer
                && let Err(error) = writer.write_all(&turn.text).and_then(|()| writer.flush())
            {
                tracing::debug!(%error, "kernel output was not written");
            }
        }
    }
}

/// The writer, taken out of its output, with the text for it. It goes back at the end, even if it
/// panics.
struct Turn<'a> {
    output: &'a Output,
    writer: Option<Writer>,
    text: Vec<u8>,
}

impl<'a> Turn<'a> {
    /// `None` if the writer is in use, or has nothing to write.
    fn take(output: &'a Output) -> Option<Self> {
        let mut state = locked(&output.0);
        if state.pending.is_empty() {
            return None;
        }
        let writer = Some(state.writer.take()?);
        let text = std::mem::take(&mut state.pending);
        drop(state);
        let text = text.into_text();
        Some(Self {
            output,
            writer,
            text,
        })
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        locked(&self.output.0).writer = self.writer.take();
    }
}

/// A writer to memory that others read.
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        locked(&self.0).extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Output(..)")
    }
}
