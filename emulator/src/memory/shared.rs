//! Shared memory of one block.

use std::cell::Cell;

use super::words::Bytes;

/// Address of the block's first variable. Hardware reserves the kilobyte below.
pub(crate) const SHARED_BASE: u64 = 1024;
/// Most shared memory that a block can have, static and dynamic together, in bytes.
pub(crate) const SHARED_LIMIT: u64 = 227 * 1024;

/// Shared memory of a block. One host thread at a time runs a block, so `Cell`s suffice.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    words: Vec<Cell<u32>>,
    init: Vec<Cell<u32>>,
    len: u64,
}

impl SharedMemory {
    pub(crate) fn new(len: u64) -> Self {
        Self {
            words: vec![Cell::new(0); len.div_ceil(4) as usize],
            init: vec![Cell::new(0); len.div_ceil(32) as usize],
            len,
        }
    }

    /// Marks everything as unwritten, for the next block; the system's part is zero.
    pub(crate) fn reset(&self) {
        let (system, own) = self
            .init
            .split_at(self.init.len().min(SHARED_BASE as usize / 32));
        system.iter().for_each(|word| word.set(u32::MAX));
        own.iter().for_each(|word| word.set(0));
        let system = self.words.iter().take(SHARED_BASE as usize / 4);
        system.for_each(|word| word.set(0));
    }

    /// Size in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    #[inline(always)]
    pub(crate) fn bytes(&self) -> Bytes<'_, Cell<u32>> {
        Bytes {
            words: &self.words,
            init: &self.init,
            unwritten: 0,
        }
    }
}
