//! The heap from which kernels take memory by `malloc`.
//!
//! It is one allocation of global memory, made by the first launch that needs it. Chunks live until
//! they are freed, in the launch that took them or in a later one. The addresses of a freed chunk
//! are not used again in the same launch: the race check would take the accesses of the next owner
//! for races.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::{ALIGN, Allocation, GlobalMemory, lock};
use crate::error::MemoryError;

/// Bytes that kernels may hold at once: `cudaLimitMallocHeapSize`, unless a program changes it.
pub(crate) const HEAP_BYTES: u64 = 8 << 20;
/// Bytes of addresses.
const RANGE: u64 = 64 << 20;
/// Alignment of chunks.
const CHUNK_ALIGN: u64 = 16;
/// Least bytes of guard before the first chunk and behind each, which belong to none.
const CHUNK_GUARD: u64 = 64;

/// The chunks of the heap.
#[derive(Debug, Default)]
pub(crate) struct Heap(Mutex<Chunks>);

/// Chunks: bytes by offset.
#[derive(Debug, Default)]
struct Chunks {
    live: BTreeMap<u64, u64>,
    /// Those that were freed since the last launch began.
    freed: BTreeMap<u64, u64>,
    /// The offset of the next chunk.
    next: u64,
    /// Bytes of the live chunks.
    used: u64,
}

/// Where an access to the heap is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chunk {
    /// All bytes are in a live chunk.
    Live,
    /// It is in this freed chunk.
    Freed(u64, u64),
    /// It is in no chunk, or leaves one; this is the nearest live one below.
    Outside(Option<(u64, u64)>),
}

impl Heap {
    /// Takes a chunk; `None` if it is empty or does not fit.
    fn take(&self, bytes: u64) -> Option<u64> {
        let mut chunks = lock(&self.0);
        let used = chunks.used.checked_add(bytes);
        let used = used.filter(|used| bytes > 0 && *used <= HEAP_BYTES)?;
        let at = chunks.next.max(CHUNK_GUARD);
        let next = (at + bytes + CHUNK_GUARD).next_multiple_of(CHUNK_ALIGN);
        if next > RANGE {
            return None;
        }
        (chunks.next, chunks.used) = (next, used);
        chunks.live.insert(at, bytes);
        Some(at)
    }

    /// Frees the chunk at an offset.
    ///
    /// # Errors
    /// What is there instead of the beginning of a live chunk.
    fn give_back(&self, offset: u64) -> Result<(), Chunk> {
        let mut chunks = lock(&self.0);
        let Some(bytes) = chunks.live.remove(&offset) else {
            return Err(chunks.place(offset, 1));
        };
        chunks.used -= bytes;
        chunks.freed.insert(offset, bytes);
        Ok(())
    }

    /// Where an access to `bytes` bytes at an offset is.
    pub(crate) fn place(&self, offset: u64, bytes: u64) -> Chunk {
        lock(&self.0).place(offset, bytes)
    }

    /// A launch begins: no access of this launch to a freed chunk is known.
    fn begin(&self) {
        let mut chunks = lock(&self.0);
        chunks.freed.clear();
        let end = chunks.live.last_key_value().map(|(at, bytes)| at + bytes);
        chunks.next = end.map_or(0, |end| (end + CHUNK_GUARD).next_multiple_of(CHUNK_ALIGN));
    }
}

impl Chunks {
    fn place(&self, offset: u64, bytes: u64) -> Chunk {
        let below = |chunks: &BTreeMap<u64, u64>| {
            let found = chunks.range(..=offset).next_back();
            found.map(|(at, len)| (*at, *len))
        };
        let live = below(&self.live);
        if live.is_some_and(|(at, len)| offset + bytes <= at + len) {
            return Chunk::Live;
        }
        match below(&self.freed).filter(|(at, len)| offset < at + len) {
            Some((at, len)) => Chunk::Freed(at, len),
            None => Chunk::Outside(live),
        }
    }
}

impl Allocation {
    /// `malloc` on a heap: the address of a chunk of unwritten bytes, or 0.
    pub(crate) fn malloc(&self, bytes: u64) -> u64 {
        let Some(offset) = self.heap.as_ref().and_then(|heap| heap.take(bytes)) else {
            return 0;
        };
        self.bytes().unmark_range(offset as usize, bytes as usize);
        self.base + offset
    }

    /// `free` on a heap.
    ///
    /// # Errors
    /// What is there instead of the beginning of a live chunk.
    pub(crate) fn give_back(&self, address: u64) -> Result<(), Chunk> {
        match &self.heap {
            Some(heap) if address >= self.base => heap.give_back(address - self.base),
            _ => Err(Chunk::Outside(None)),
        }
    }
}

impl GlobalMemory {
    /// Prepares the heap for a launch, and makes it before the first one.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`] or [`MemoryError::HostMemory`]
    pub(crate) fn begin_heap(&self) -> Result<(), MemoryError> {
        let mut heap = lock(&self.heap);
        if let Some(base) = *heap {
            let table = lock(&self.table);
            let found = table.live.get(&base).and_then(|found| found.heap.as_ref());
            if let Some(found) = found {
                found.begin();
                return Ok(());
            }
        }
        let base = self.place(RANGE, ALIGN, |base| {
            let mut allocation = Allocation::new(base, RANGE, false, 0)?;
            allocation.heap = Some(Heap::default());
            Some(allocation)
        })?;
        *heap = Some(base);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_apart_and_know_their_ends() {
        let heap = Heap::default();
        let (a, b) = (heap.take(5), heap.take(100));
        assert_eq!((a, b), (Some(64), Some(144)));
        assert_eq!(heap.place(60, 4), Chunk::Outside(None));
        assert_eq!(heap.place(64, 4), Chunk::Live);
        assert_eq!(heap.place(68, 4), Chunk::Outside(Some((64, 5))));
        assert_eq!(heap.place(244, 1), Chunk::Outside(Some((144, 100))));
        assert_eq!(heap.give_back(144), Ok(()));
        assert_eq!(heap.place(148, 4), Chunk::Freed(144, 100));
        assert_eq!(heap.give_back(144), Err(Chunk::Freed(144, 100)));
        assert_eq!(heap.give_back(66), Err(Chunk::Live));
        // Not used again before the next launch.
        assert_eq!(heap.take(1), Some(320));
        assert_eq!(heap.give_back(320), Ok(()));
        heap.begin();
        assert_eq!(heap.take(1), Some(144));
    }

    #[test]
    fn no_more_than_the_limit_is_live() {
        let heap = Heap::default();
        assert_eq!(heap.take(0), None);
        assert_eq!(heap.take(HEAP_BYTES + 1), None);
        assert_eq!(heap.take(u64::MAX), None);
        assert_eq!(heap.take(HEAP_BYTES), Some(64));
        assert_eq!(heap.take(1), None);
        assert_eq!(heap.give_back(64), Ok(()));
        assert!(heap.take(1).is_some());
    }
}
