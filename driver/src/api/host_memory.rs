//! Memory of the host that kernels can use: page-locked, registered and managed.
//!
//! The emulator has a copy of each range at the same address. [`share`] fills the copies before a
//! launch and reads them after it, so host and kernels do not see each other's writes while a
//! kernel runs.

use std::alloc::Layout;

use crate::c::{Address, Device, Handle, Out, bytes, bytes_mut};
use crate::call::entries;
use crate::code::{Answer, Code};
use crate::state::{Current, Driver, Range, RangeKind, current};

use super::memory::code_of;

/// Alignment of host memory, and of the emulator's copies.
pub(crate) const PAGE: u64 = 4096;
/// Alignment of copies of registered memory, which lies in the same page.
const UNIT: u64 = 256;

/// `CU_MEMHOSTALLOC_DEVICEMAP`, which unified addressing implies.
const DEVICE_MAP: u32 = 2;
/// All flags of host memory.
const FLAGS: u32 = 0xf;
/// `CU_MEM_ATTACH_GLOBAL`, `CU_MEM_ATTACH_HOST`
const ATTACH: [u32; 2] = [1, 2];

/// Whole pages, which nothing else is in.
fn layout(bytes: u64) -> Answer<Layout> {
    let pages = bytes.checked_next_multiple_of(PAGE);
    let bytes = pages.and_then(|bytes| usize::try_from(bytes).ok());
    let bytes = bytes.ok_or(Code::OUT_OF_MEMORY)?;
    Layout::from_size_align(bytes, PAGE as usize).map_err(|_| Code::OUT_OF_MEMORY)
}

/// Where the emulator's copy of a range begins, and its length.
fn copy_of(address: Address, bytes: u64) -> (Address, u64) {
    let base = address & !(UNIT - 1);
    (base, address + bytes - base)
}

/// Where the emulator's memory of a range begins.
pub(super) fn base(address: Address, range: Range) -> Address {
    match range.kind {
        RangeKind::Registered { .. } => copy_of(address, range.bytes).0,
        _ => address,
    }
}

/// Memory of the host for managed variables of a module.
#[derive(Default)]
pub(crate) struct Managed(Vec<(Address, u64)>);

impl Managed {
    /// Memory for one more variable.
    pub(super) fn add(&mut self, bytes: u64) -> Option<Address> {
        // A variable of no bytes has an address, too.
        let layout = layout(bytes.max(1)).ok()?;
        // SAFETY: the size is not zero.
        let memory = unsafe { std::alloc::alloc_zeroed(layout) };
        (!memory.is_null()).then(|| {
            self.0.push((memory as Address, bytes));
            memory as Address
        })
    }

    /// Gives the host what the module has in the variables.
    pub(super) fn fill(&self, driver: &Driver) {
        for (address, len) in &self.0 {
            // SAFETY: memory that `add` allocated, and that has no other user yet.
            if let Ok(host) = unsafe { bytes_mut(*address as *mut _, *len as usize) } {
                let _ = driver.emulator.read(*address, host);
            }
        }
    }

    /// Addresses and sizes.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (Address, u64)> + use<'_> {
        self.0.iter().copied()
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        for (address, bytes) in &self.0 {
            if let Ok(layout) = layout((*bytes).max(1)) {
                // SAFETY: `add` allocated it with this layout, and this is the only time.
                unsafe { std::alloc::dealloc(*address as *mut u8, layout) };
            }
        }
    }
}

/// Allocates zeroed memory of the host that kernels can use.
fn allocate(current: Current, bytes: usize, kind: RangeKind) -> Answer<Address> {
    if bytes == 0 {
        return Err(Code::INVALID_VALUE);
    }
    current.state().check_unsafe()?;
    let layout = layout(bytes as u64)?;
    // SAFETY: the size is not zero.
    let memory = unsafe { std::alloc::alloc_zeroed(layout) };
    if memory.is_null() {
        return Err(Code::OUT_OF_MEMORY);
    }
    let address = memory as Address;
    if let Err(error) = current.driver.emulator.alloc_at(address, bytes as u64) {
        // SAFETY: just allocated with this layout.
        unsafe { std::alloc::dealloc(memory, layout) };
        return Err(code_of(&error));
    }
    let mut state = current.state();
    state.add_range(address, bytes as u64, kind, current.context);
    Ok(address)
}

/// Frees the host's memory of a range that is in no table any longer. Registered memory is the
/// program's.
pub(super) fn release(address: Address, range: Range) {
    let is_ours = matches!(range.kind, RangeKind::Managed | RangeKind::Host { .. });
    if is_ours && let Ok(layout) = layout(range.bytes) {
        // SAFETY: `allocate` allocated it with this layout, and its range was removed, so this is
        // the only time.
        unsafe { std::alloc::dealloc(address as *mut u8, layout) };
    }
}

/// Takes a range of this kind out of the table.
fn take(
    current: Current,
    address: Address,
    error: Code,
    of: fn(RangeKind) -> bool,
) -> Answer<Range> {
    let mut state = current.state();
    match state.ranges.get(&address) {
        Some(range) if of(range.kind) => {}
        _ => return Err(error),
    }
    state.ranges.remove(&address).ok_or(error)
}

/// Runs a launch with what the host's memory holds, and gives the host what the launch leaves.
pub(super) fn share<T>(driver: &Driver, launch: impl FnOnce() -> T) -> T {
    let ranges: Vec<(Address, u64)> = {
        let state = driver.state();
        let shared = state
            .ranges
            .iter()
            .filter(|(_, r)| r.kind != RangeKind::Device);
        shared
            .map(|(address, range)| (*address, range.bytes))
            .collect()
    };
    for (address, len) in &ranges {
        // SAFETY: live memory of the host: allocated here, or registered, which promises that it
        // stays. By the API's contract the program leaves it alone while a kernel may use it.
        if let Ok(host) = unsafe { bytes(*address as *const _, *len as usize) } {
            let _ = driver.emulator.write(*address, host);
        }
    }
    let result = launch();
    for (address, len) in &ranges {
        // SAFETY: as above.
        if let Ok(host) = unsafe { bytes_mut(*address as *mut _, *len as usize) } {
            let _ = driver.emulator.read(*address, host);
        }
    }
    result
}

fn register(address: Address, len: usize, flags: u32) -> Answer {
    let current = current()?;
    if address == 0 || len == 0 {
        return Err(Code::INVALID_VALUE);
    }
    let bytes = len as u64;
    let end = address.checked_add(bytes).ok_or(Code::INVALID_VALUE)?;
    let mut state = current.state();
    let below = state.ranges.range(..end).next_back();
    if below.is_some_and(|(base, range)| base + range.bytes > address) {
        return Err(Code::HOST_MEMORY_ALREADY_REGISTERED);
    }
    let (base, copied) = copy_of(address, bytes);
    let placed = current.driver.emulator.alloc_at(base, copied);
    placed.map_err(|error| code_of(&error))?;
    state.add_range(
        address,
        bytes,
        RangeKind::Registered { flags },
        current.context,
    );
    Ok(())
}

/// The flags of a range of host memory.
fn flags_at(current: Current, address: Address) -> Answer<u32> {
    let found = current.state().range_at(address);
    match found.map(|(_, range)| range.kind) {
        Some(RangeKind::Host { flags } | RangeKind::Registered { flags }) => Ok(flags),
        _ => Err(Code::INVALID_VALUE),
    }
}

entries! {
    fn cuMemAllocHost_v2: "cuMemAllocHost" @ 3020 (place: Out<Address>, bytes: usize) {
        let kind = RangeKind::Host { flags: DEVICE_MAP };
        place.set(allocate(current()?, bytes, kind)?)
    }

    fn cuMemHostAlloc: "cuMemHostAlloc" @ 2020 (place: Out<Address>, bytes: usize, flags: u32) {
        let current = current()?;
        if flags & !FLAGS != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let kind = RangeKind::Host { flags: flags | DEVICE_MAP };
        place.set(allocate(current, bytes, kind)?)
    }

    fn cuMemAllocManaged: "cuMemAllocManaged" @ 6000 (
        place: Out<Address>, bytes: usize, flags: u32,
    ) {
        let current = current()?;
        if !ATTACH.contains(&flags) {
            return Err(Code::INVALID_VALUE);
        }
        place.set(allocate(current, bytes, RangeKind::Managed)?)
    }

    fn cuMemFreeHost: "cuMemFreeHost" @ 2000 (address: Address) {
        let current = current()?;
        if address == 0 {
            return Ok(());
        }
        current.state().check_unsafe()?;
        current.driver.in_turn(|| {
            let is_host = |kind| matches!(kind, RangeKind::Host { .. });
            let range = take(current, address, Code::INVALID_VALUE, is_host)?;
            current.driver.order().host_after_all(current.context);
            super::context::free(current.driver, address, range)
        })
    }

    fn cuMemHostRegister_v2: "cuMemHostRegister" @ 6050 (
        address: Address, bytes: usize, flags: u32,
    ) {
        register(address, bytes, flags)
    }

    fn cuMemHostUnregister: "cuMemHostUnregister" @ 4000 (address: Address) {
        let current = current()?;
        current.driver.in_turn(|| {
            let error = Code::HOST_MEMORY_NOT_REGISTERED;
            let is_registered = |kind| matches!(kind, RangeKind::Registered { .. });
            let range = take(current, address, error, is_registered)?;
            current.driver.order().host_after_all(current.context);
            super::context::free(current.driver, address, range)
        })
    }

    fn cuMemHostGetDevicePointer_v2: "cuMemHostGetDevicePointer" @ 3020 (
        place: Out<Address>, address: Address, _flags: u32,
    ) {
        flags_at(current()?, address)?;
        place.set(address)
    }

    fn cuMemHostGetFlags: "cuMemHostGetFlags" @ 2030 (flags: Out<u32>, address: Address) {
        flags.set(flags_at(current()?, address)?)
    }

    fn cuMemAdvise: "cuMemAdvise" @ 8000 (
        _address: Address, _bytes: usize, _advice: u32, _device: Device,
    ) {
        current().map(|_| ())
    }

    fn cuMemAdvise_v2: "cuMemAdvise" @ 12020 (
        _address: Address, _bytes: usize, _advice: u32, _location: u64,
    ) {
        current().map(|_| ())
    }

    fn cuMemPrefetchAsync | cuMemPrefetchAsync_ptsz: "cuMemPrefetchAsync" @ 8000 (
        _address: Address, _bytes: usize, _device: Device, stream: Handle,
    ) {
        current()?.check_stream(stream)
    }

    fn cuMemPrefetchAsync_v2 | cuMemPrefetchAsync_v2_ptsz: "cuMemPrefetchAsync" @ 12020 (
        _address: Address, _bytes: usize, _location: u64, _flags: u32, stream: Handle,
    ) {
        current()?.check_stream(stream)
    }

    fn cuStreamAttachMemAsync | cuStreamAttachMemAsync_ptsz: "cuStreamAttachMemAsync" @ 6000 (
        stream: Handle, _address: Address, _bytes: usize, _flags: u32,
    ) {
        current()?.check_stream(stream)
    }
}
