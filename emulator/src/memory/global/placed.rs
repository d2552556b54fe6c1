//! Allocations at addresses that the caller chooses, as a driver needs them: memory that host and
//! kernels share has one address for both.

use std::sync::Arc;

use super::{Allocation, GlobalMemory, lock};
use crate::emulator::Emulator;
use crate::error::{LoadError, MemoryError};
use crate::module::Module;

impl Emulator {
    /// Places later allocations at `address` or above: in a range that the host does not use, say,
    /// so that an address tells whose memory it is.
    pub fn place_from(&self, address: u64) {
        let mut table = lock(&self.memory().table);
        table.next = table.next.max(address);
        if table.live.is_empty() {
            table.next = address;
        }
    }

    /// As [`load`](Self::load), but asks `place` for the address of each managed variable
    /// (`.attribute(.managed)`), with its size in bytes. Host and kernels then have one address for
    /// it; [`Module::managed`] names them.
    ///
    /// # Errors
    /// As [`load`](Self::load); [`MemoryError::HostMemory`] where `place` gives no address.
    pub fn load_managed(
        &self,
        ptx: &str,
        mut place: impl FnMut(u64) -> Option<u64>,
    ) -> Result<Module, LoadError> {
        Module::load(self.shared_memory(), ptx, Some(&mut place))
    }

    /// Allocates `bytes` of global memory at `address`, which counts as written and holds zeros.
    /// [`free`](Self::free) frees it.
    ///
    /// # Errors
    /// [`MemoryError::Occupied`] if part of the range is allocated, [`MemoryError::OutOfMemory`],
    /// [`MemoryError::HostMemory`]
    pub fn alloc_at(&self, address: u64, bytes: u64) -> Result<(), MemoryError> {
        self.memory().alloc_at(address, bytes)
    }
}

impl GlobalMemory {
    pub(crate) fn alloc_at(&self, base: u64, len: u64) -> Result<(), MemoryError> {
        let occupied = MemoryError::Occupied {
            address: base,
            bytes: len,
        };
        let end = base.checked_add(len).ok_or(occupied.clone())?;
        let mut table = lock(&self.table);
        let below = table.live.range(..end).next_back();
        if below.is_some_and(|(_, other)| other.base + other.len > base || other.base == base) {
            return Err(occupied);
        }
        self.check_free(&table, len)?;
        let allocation = Allocation::new(base, len, false, u32::MAX)
            .ok_or(MemoryError::HostMemory { requested: len })?;
        table.used += len;
        table.live.insert(base, Arc::new(allocation));
        table.snapshot = None;
        Ok(())
    }
}
