//! Owned device memory, usable on every stream of its device and freed after its last use.
//!
//! Allocations are stream-ordered. The stream that memory was allocated on is its home. The first
//! use on another stream makes that stream wait for home, so that it runs after the allocation and
//! after all work that home was given before. A bit mask records the streams that used the memory;
//! before it is freed on home, home waits for all of them.

use crate::backend::RawStream;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::load::Module;
use crate::stream::{Slot, Stream};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An allocation. A clone is another handle to it.
#[derive(Clone)]
pub(crate) struct Storage(Arc<Allocation>);

struct Allocation {
    device: Device,
    address: u64,
    bytes: u64,
    home: Slot,
    /// Mask of the slots of the streams that used it.
    used_by: AtomicU64,
    is_owned: bool,
    /// The module whose variable it is.
    _module: Option<Module>,
}

impl Storage {
    /// `bytes` of uninitialised memory, usable on `stream` (and any other) from now on.
    pub(crate) fn alloc(stream: &Stream, bytes: u64) -> Result<Self> {
        let device = stream.device();
        // A foreign stream may be destroyed before the memory is freed, so it cannot be home.
        let home = if stream.slot() == Slot::FOREIGN {
            Slot::DEFAULT
        } else {
            stream.slot()
        };
        let storage = Self(Arc::new(Allocation {
            device: device.clone(),
            address: match bytes {
                0 => 0,
                _ => device.backend().alloc(bytes, home_stream(device, home)?)?,
            },
            bytes,
            home,
            used_by: AtomicU64::new(home.bit()),
            is_owned: bytes > 0,
            _module: None,
        }));
        storage.use_on("allocation", stream)?;
        Ok(storage)
    }

    /// Memory that other code owns and frees.
    ///
    /// # Safety
    /// `address` points to `bytes` of memory of `device` that stays allocated until all work that
    /// uses it is done.
    pub(crate) unsafe fn borrowed(device: &Device, address: u64, bytes: u64) -> Self {
        Self::foreign(device, address, bytes, None)
    }

    /// Memory of a variable of a module, which it keeps loaded.
    pub(crate) fn variable(module: &Module, address: u64, bytes: u64) -> Self {
        Self::foreign(module.device(), address, bytes, Some(module.clone()))
    }

    fn foreign(device: &Device, address: u64, bytes: u64, module: Option<Module>) -> Self {
        Self(Arc::new(Allocation {
            device: device.clone(),
            address,
            bytes,
            home: Slot::DEFAULT,
            used_by: AtomicU64::new(Slot::DEFAULT.bit()),
            is_owned: false,
            _module: module,
        }))
    }

    /// What tells it from all other live ones.
    pub(crate) fn key(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    pub(crate) fn device(&self) -> &Device {
        &self.0.device
    }

    pub(crate) fn address(&self) -> u64 {
        self.0.address
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.0.bytes
    }

    /// Registers a use of this memory on `stream`. Called before the work is enqueued.
    #[inline]
    pub(crate) fn use_on(&self, operand: &'static str, stream: &Stream) -> Result<()> {
        if self.0.device != *stream.device() {
            return stream.device().check_same(operand, &self.0.device);
        }
        let bit = stream.slot().bit();
        if self.0.used_by.load(Ordering::Acquire) & bit != 0 && stream.slot() != Slot::FOREIGN {
            return Ok(());
        }
        self.first_use_on(stream)
    }

    #[cold]
    fn first_use_on(&self, stream: &Stream) -> Result<()> {
        if stream.keep(self)? {
            return Ok(()); // launches of the graph are ordered
        }
        let home = home_stream(&self.0.device, self.0.home)?;
        self.0.device.order(home, stream.raw())?;
        // Set after the wait is enqueued: whoever sees the bit enqueues work behind the wait.
        self.0
            .used_by
            .fetch_or(stream.slot().bit(), Ordering::AcqRel);
        Ok(())
    }

    /// Orders one piece of work, which `enqueue` gives to `stream`, with other streams that use this
    /// memory. It waits for their work so far, and their later work waits for it.
    pub(crate) fn in_turn(
        &self,
        stream: &Stream,
        enqueue: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        if stream.keep(self)? {
            return enqueue();
        }
        let own = stream.slot().bit();
        let used_by = self.0.join_uses_on(stream.slot(), stream.raw())?;
        enqueue()?;
        if used_by == own {
            return Ok(());
        }
        let home = home_stream(&self.0.device, self.0.home)?;
        self.0.device.order(stream.raw(), home)?;
        // All others have to wait for home again. If another thread has used the memory meanwhile,
        // its bit stays: the memory is not freed before its work is done.
        let after = own | self.0.home.bit();
        self.0
            .used_by
            .compare_exchange(used_by, after, Ordering::AcqRel, Ordering::Acquire)
            .ok();
        Ok(())
    }

    /// Waits for all uses on all streams, copies from the host and waits for the copy, so that
    /// other streams see it without an order.
    ///
    /// # Errors
    /// [`ShapeError::OutOfBounds`](crate::ShapeError::OutOfBounds) where the range is not inside.
    pub(crate) fn write(&self, offset: u64, from: &[u8]) -> Result<()> {
        self.check_range(offset, from.len())?;
        if from.is_empty() {
            return Ok(());
        }
        let home = self.0.join_uses()?;
        let backend = self.0.device.backend();
        // SAFETY: the range was checked; the host bytes live until the synchronize returns.
        unsafe { backend.copy_in(self.0.address + offset, from.as_ptr(), from.len(), home) }?;
        backend.synchronize_stream(home)
    }

    /// Waits for all uses on all streams, copies to the host and waits for the copy.
    ///
    /// # Errors
    /// [`ShapeError::OutOfBounds`](crate::ShapeError::OutOfBounds) where the range is not inside.
    pub(crate) fn read(&self, offset: u64, to: &mut [u8]) -> Result<()> {
        self.check_range(offset, to.len())?;
        if to.is_empty() {
            return Ok(());
        }
        let home = self.0.join_uses()?;
        let backend = self.0.device.backend();
        // SAFETY: the range was checked; the host bytes live until the synchronize returns.
        unsafe { backend.copy_out(to.as_mut_ptr(), self.0.address + offset, to.len(), home) }?;
        backend.synchronize_stream(home)
    }

    pub(crate) fn check_range(&self, offset: u64, bytes: usize) -> Result<()> {
        match offset.checked_add(bytes as u64) {
            Some(end) if end <= self.0.bytes => Ok(()),
            end => Err(Error::out_of_bounds(
                "end of a copy in bytes",
                end.unwrap_or(u64::MAX),
                self.0.bytes.saturating_add(1),
            )),
        }
    }
}

impl Allocation {
    /// Makes home wait for every other stream that used this memory; returns home.
    pub(crate) fn join_uses(&self) -> Result<RawStream> {
        let home = home_stream(&self.device, self.home)?;
        self.join_uses_on(self.home, home)?;
        Ok(home)
    }

    /// Makes a stream wait for every other one that used this memory; returns the mask of them all.
    fn join_uses_on(&self, slot: Slot, raw: RawStream) -> Result<u64> {
        let used_by = self.used_by.load(Ordering::Acquire);
        let others = used_by & !slot.bit();
        if others & Slot::FOREIGN.bit() != 0 {
            // A foreign stream's handle may be destroyed by now while its work still runs, so
            // there is nothing to wait for but the device.
            self.device.backend().synchronize()?;
        }
        for other in self.device.streams().of_mask(others) {
            self.device.order(other, raw)?;
        }
        Ok(used_by)
    }
}

impl PartialEq for Storage {
    /// The same allocation.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Storage {}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Storage({} bytes at {:#x})",
            self.0.bytes, self.0.address
        )
    }
}

fn home_stream(device: &Device, home: Slot) -> Result<RawStream> {
    device
        .streams()
        .raw(home)
        .ok_or(Error::Bug("an allocation's home stream does not exist"))
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if !self.is_owned {
            return;
        }
        let freed = self.join_uses().and_then(|home| {
            // SAFETY: allocated in `alloc`, freed once, and home waits for every use.
            unsafe { self.device.backend().free(self.address, home) }
        });
        if let Err(error) = freed {
            // After a kernel fault every driver call fails; the memory goes with the context.
            tracing::warn!(%error, "device memory was not freed");
        }
    }
}
