//! Global memory: allocations with guard gaps, and the table that finds them.

mod heap;
mod placed;

pub(crate) use heap::{Chunk, Heap};

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::host::zeroed;
use super::space::GLOBAL_BASE;
use super::words::Bytes;
use crate::error::MemoryError;

/// Alignment of every allocation in bytes.
const ALIGN: u64 = 256;
/// Bytes of guard between allocations, which belong to none.
const GUARD: u64 = 64 << 10;
/// Number of freed ranges that are remembered for reports.
const FREED: usize = 4096;

/// One allocation.
#[derive(Debug)]
pub(crate) struct Allocation {
    pub(crate) base: u64,
    pub(crate) len: u64,
    /// Whether it is constant memory, which kernels may only read.
    pub(crate) read_only: bool,
    /// If kernels take memory from it by `malloc`: its chunks.
    pub(crate) heap: Option<Heap>,
    freed: AtomicBool,
    words: Box<[AtomicU32]>,
    init: Box<[AtomicU32]>,
    /// See [`Bytes::unwritten`].
    unwritten: u32,
}

impl Allocation {
    fn new(base: u64, len: u64, read_only: bool, unwritten: u32) -> Option<Self> {
        Some(Self {
            base,
            len,
            read_only,
            heap: None,
            freed: AtomicBool::new(false),
            words: zeroed(len.div_ceil(4))?,
            init: zeroed(len.div_ceil(32))?,
            unwritten,
        })
    }

    /// The words and their shadow bits.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> Bytes<'_, AtomicU32> {
        Bytes {
            words: &self.words,
            init: &self.init,
            unwritten: self.unwritten,
        }
    }

    /// Whether the allocation has been freed (a launch may still hold it).
    pub(crate) fn is_freed(&self) -> bool {
        self.freed.load(Ordering::Relaxed)
    }
}

/// The live allocations at one moment, sorted by address.
pub(crate) type Snapshot = Arc<[Arc<Allocation>]>;

#[derive(Debug, Default)]
struct Table {
    live: BTreeMap<u64, Arc<Allocation>>,
    freed: VecDeque<(u64, u64)>,
    next: u64,
    used: u64,
    snapshot: Option<Snapshot>,
}

/// Global memory of one emulator.
#[derive(Debug)]
pub(crate) struct GlobalMemory {
    table: Mutex<Table>,
    /// Held while the lanes of an atomic instruction execute.
    atomics: Mutex<()>,
    /// The base of the heap, if there is one.
    heap: Mutex<Option<u64>>,
    capacity: u64,
}

impl GlobalMemory {
    pub(crate) fn new(capacity: u64) -> Self {
        let table = Table {
            next: GLOBAL_BASE,
            ..Table::default()
        };
        Self {
            table: Mutex::new(table),
            atomics: Mutex::new(()),
            heap: Mutex::new(None),
            capacity,
        }
    }

    /// Allocates memory that counts as unwritten.
    pub(crate) fn alloc(&self, len: u64) -> Result<u64, MemoryError> {
        self.place(len, ALIGN, |base| Allocation::new(base, len, false, 0))
    }

    /// Allocates memory of zeros; `align` is a power of two.
    pub(crate) fn alloc_variable(
        &self,
        len: u64,
        align: u64,
        read_only: bool,
    ) -> Result<u64, MemoryError> {
        self.place(len, align.max(ALIGN), |base| {
            Allocation::new(base, len, read_only, u32::MAX)
        })
    }

    fn place(
        &self,
        len: u64,
        align: u64,
        new: impl FnOnce(u64) -> Option<Allocation>,
    ) -> Result<u64, MemoryError> {
        let mut table = lock(&self.table);
        self.check_free(&table, len)?;
        let base = table.next.next_multiple_of(align);
        let Some(allocation) = new(base) else {
            return Err(MemoryError::HostMemory { requested: len });
        };
        table.next = (base + len + GUARD).next_multiple_of(ALIGN);
        table.used += len;
        table.live.insert(base, Arc::new(allocation));
        table.snapshot = None;
        Ok(base)
    }

    fn check_free(&self, table: &Table, len: u64) -> Result<(), MemoryError> {
        let free = self.capacity - table.used;
        if len > free {
            return Err(MemoryError::OutOfMemory {
                requested: len,
                free,
                capacity: self.capacity,
            });
        }
        Ok(())
    }

    pub(crate) fn free(&self, base: u64) -> Result<(), MemoryError> {
        let mut table = lock(&self.table);
        let Some(allocation) = table.live.remove(&base) else {
            return Err(MemoryError::NotAllocated { address: base });
        };
        allocation.freed.store(true, Ordering::Relaxed);
        table.used -= allocation.len;
        table.snapshot = None;
        if table.freed.len() == FREED {
            table.freed.pop_front();
        }
        table.freed.push_back((base, allocation.len));
        Ok(())
    }

    /// The live allocations. A launch works on the snapshot taken when it began.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let mut table = lock(&self.table);
        if let Some(snapshot) = &table.snapshot {
            return snapshot.clone();
        }
        let snapshot: Snapshot = table.live.values().cloned().collect();
        table.snapshot = Some(snapshot.clone());
        snapshot
    }

    /// The freed allocation that contained an address: base and length.
    pub(crate) fn freed_at(&self, address: u64) -> Option<(u64, u64)> {
        let table = lock(&self.table);
        table
            .freed
            .iter()
            .rev()
            .find(|&&(base, len)| address >= base && address - base < len)
            .copied()
    }

    /// Makes the atomic instructions of concurrent launches mutually exclusive.
    pub(crate) fn lock_atomics(&self) -> MutexGuard<'_, ()> {
        lock(&self.atomics)
    }

    /// The allocation that contains a range given by the host, and the range's offset in it.
    fn locate(&self, address: u64, bytes: u64) -> Result<(Arc<Allocation>, usize), MemoryError> {
        let table = lock(&self.table);
        let below = table
            .live
            .range(..=address)
            .next_back()
            .map(|(_, found)| found);
        let found = below.filter(|found| address - found.base <= found.len);
        match found {
            Some(found) if bytes <= found.len - (address - found.base) => {
                Ok((found.clone(), (address - found.base) as usize))
            }
            _ => Err(MemoryError::OutOfBounds {
                address,
                bytes,
                nearest: found.map(|found| (found.base, found.len)),
            }),
        }
    }

    pub(crate) fn write(&self, address: u64, data: &[u8]) -> Result<(), MemoryError> {
        let (allocation, offset) = self.locate(address, data.len() as u64)?;
        allocation.bytes().copy_in(offset, data);
        Ok(())
    }

    pub(crate) fn read(&self, address: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        let (allocation, offset) = self.locate(address, out.len() as u64)?;
        allocation.bytes().copy_out(offset, out);
        Ok(())
    }

    pub(crate) fn fill(&self, address: u64, byte: u8, len: u64) -> Result<(), MemoryError> {
        let (allocation, offset) = self.locate(address, len)?;
        let chunk = [byte; 4096];
        let mut done = 0;
        while done < len as usize {
            let take = chunk.len().min(len as usize - done);
            allocation.bytes().copy_in(offset + done, &chunk[..take]);
            done += take;
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The allocation with the highest base not above an address, and its index in the snapshot.
pub(crate) fn at_or_below(
    snapshot: &[Arc<Allocation>],
    address: u64,
) -> Option<(usize, &Allocation)> {
    let after = snapshot.partition_point(|allocation| allocation.base <= address);
    after.checked_sub(1).map(|index| (index, &*snapshot[index]))
}
