//! The buffer that kernels print to: it keeps the newest text, and counts what it has dropped.

use std::collections::VecDeque;

/// Bytes of text that the buffer of a launch holds: the default size of CUDA's
/// `cudaLimitPrintfFifoSize`. Newer text overwrites older text.
pub const PRINTF_FIFO_BYTES: usize = 1 << 20;

/// The newest [`PRINTF_FIFO_BYTES`] of a text.
#[derive(Debug, Default)]
pub(crate) struct Fifo {
    text: VecDeque<u8>,
    /// Number of older bytes that were overwritten.
    dropped: u64,
}

impl Fifo {
    pub(crate) fn write(&mut self, text: &[u8]) {
        let kept = self.make_room(text.len());
        self.text.extend(&text[text.len() - kept..]);
    }

    /// Writes a byte `count` times.
    pub(crate) fn fill(&mut self, byte: u8, count: usize) {
        let kept = self.make_room(count);
        self.text.resize(self.text.len() + kept, byte);
    }

    /// Makes room for `more` bytes, and returns how many of them fit, which are the last ones.
    fn make_room(&mut self, more: usize) -> usize {
        let kept = more.min(PRINTF_FIFO_BYTES);
        let over = (self.text.len() + kept).saturating_sub(PRINTF_FIFO_BYTES);
        self.text.drain(..over);
        self.dropped = self.dropped.saturating_add((over + more - kept) as u64);
        kept
    }

    /// Moves all of `newer` to the end.
    pub(crate) fn append(&mut self, newer: &mut Self) {
        let newer = std::mem::take(newer);
        if self.is_empty() {
            *self = newer;
            return;
        }
        let (front, back) = newer.text.as_slices();
        self.write(front);
        self.write(back);
        self.dropped = self.dropped.saturating_add(newer.dropped);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Number of bytes that it holds.
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// The text, behind a line that says how much is missing, if any is.
    pub(crate) fn into_text(self) -> Vec<u8> {
        let mut text = match self.dropped {
            0 => Vec::new(),
            dropped => format!(
                "[printf: {dropped} bytes of older output were dropped; the buffer holds \
                 {PRINTF_FIFO_BYTES}]\n"
            )
            .into_bytes(),
        };
        text.extend(&self.text);
        text
    }
}
