//! Virtual memory management: addresses are reserved, memory is made, mapped there and made
//! accessible. Kernels can use what is accessible; all else is as if it were not allocated.

use std::collections::BTreeMap;

use crate::c::{Address, Handle, In, Out};
use crate::call::entries;
use crate::code::{Answer, Code};
use crate::report;
use crate::state::{DEVICE_ADDRESSES, Driver, NO_CONTEXT, RangeKind, State, driver};

use super::memory::code_of;
use super::pool::Location;

/// Sizes and places are multiples of this.
const UNIT: u64 = 2 << 20;
/// Where reserved addresses begin: far behind those of other memory.
const FIRST: Address = DEVICE_ADDRESSES.start + (DEVICE_ADDRESSES.end - DEVICE_ADDRESSES.start) / 2;
/// `CU_MEM_ALLOCATION_TYPE_PINNED`
const PINNED: u32 = 1;
/// `CU_MEM_ACCESS_FLAGS_PROT_READ` and `..READWRITE`
const ACCESSES: [u32; 2] = [1, 3];

/// `CUmemAllocationProp`
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Properties {
    kind: u32,
    /// Kinds of handles by which other processes get the memory.
    shared: u32,
    location: Location,
    windows: usize,
    flags: u64,
}

/// `CUmemAccessDesc`
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Access {
    location: Location,
    flags: u32,
}

/// Reserved addresses, memory, and where it is mapped.
#[derive(Default)]
pub(crate) struct Mappings {
    /// Reserved addresses: their sizes.
    reserved: BTreeMap<Address, u64>,
    next: u64,
    memory: BTreeMap<Handle, Memory>,
    /// Mapped memory by its address.
    mapped: BTreeMap<Address, Handle>,
}

/// Memory that was made.
struct Memory {
    bytes: u64,
    properties: Properties,
    /// Handles that the program holds; it goes when there are none, and it is not mapped.
    users: u32,
    is_mapped: bool,
    /// What it holds while it is not mapped.
    contents: Vec<u8>,
}

impl Properties {
    fn check(self) -> Answer {
        if self.kind != PINNED || self.shared != 0 {
            report::unsupported("memory for other processes, or of the host, by cuMemCreate");
            return Err(Code::NOT_SUPPORTED);
        }
        self.location.check_device()
    }
}

impl Mappings {
    fn memory(&mut self, handle: Handle) -> Answer<&mut Memory> {
        self.memory.get_mut(&handle).ok_or(Code::INVALID_VALUE)
    }

    /// The memory that is mapped from an address on, which it fills to the end of the range.
    fn tiles(&self, address: Address, bytes: u64) -> Answer<Vec<(Address, Handle, u64)>> {
        let end = address.checked_add(bytes).ok_or(Code::INVALID_VALUE)?;
        let (mut at, mut tiles) = (address, Vec::new());
        while at < end {
            let handle = *self.mapped.get(&at).ok_or(Code::INVALID_VALUE)?;
            let bytes = self.memory[&handle].bytes;
            tiles.push((at, handle, bytes));
            at += bytes;
        }
        match at == end {
            true => Ok(tiles),
            false => Err(Code::INVALID_VALUE),
        }
    }

    /// Forgets memory that has no handle and no mapping left.
    fn tidy(&mut self) {
        self.memory
            .retain(|_, memory| memory.users > 0 || memory.is_mapped);
    }
}

fn reserve(place: Out<Address>, bytes: u64, align: u64) -> Answer {
    if bytes == 0 || !bytes.is_multiple_of(UNIT) || !(align == 0 || align.is_power_of_two()) {
        return Err(Code::INVALID_VALUE);
    }
    let mut state = driver()?.state();
    let mappings = &mut state.mappings;
    let from = (FIRST + mappings.next).checked_next_multiple_of(align.max(UNIT));
    // A unit apart, so that an access behind the end finds nothing.
    let end = from.and_then(|from| from.checked_add(bytes)?.checked_add(UNIT));
    let (Some(from), Some(end)) = (from, end.filter(|end| *end < DEVICE_ADDRESSES.end)) else {
        return Err(Code::OUT_OF_MEMORY);
    };
    mappings.next = end - FIRST;
    mappings.reserved.insert(from, bytes);
    place.set(from)
}

fn map(address: Address, bytes: u64, offset: usize, handle: Handle) -> Answer {
    let mut state = driver()?.state();
    let mappings = &mut state.mappings;
    let memory = mappings.memory(handle)?;
    if memory.is_mapped {
        report::unsupported("memory that is mapped twice");
        return Err(Code::NOT_SUPPORTED);
    }
    if offset != 0 || memory.bytes != bytes {
        return Err(Code::INVALID_VALUE);
    }
    let end = address.checked_add(bytes).ok_or(Code::INVALID_VALUE)?;
    let around = mappings.reserved.range(..=address).next_back();
    let is_reserved = around.is_some_and(|(from, reserved)| end <= from + reserved);
    let before = mappings.mapped.range(..end).next_back();
    let is_free = before.is_none_or(|(at, other)| at + mappings.memory[other].bytes <= address);
    if !address.is_multiple_of(UNIT) || !is_reserved || !is_free {
        return Err(Code::INVALID_VALUE);
    }
    mappings.mapped.insert(address, handle);
    mappings.memory(handle)?.is_mapped = true;
    Ok(())
}

/// Makes mapped memory accessible, as one allocation of the emulator.
fn allow(driver: &Driver, address: Address, bytes: u64) -> Answer {
    let mut state = driver.state();
    let tiles = state.mappings.tiles(address, bytes)?;
    let known = |at: Address| state.range_at(at).is_some();
    match tiles.iter().filter(|(at, ..)| known(*at)).count() {
        0 => {}
        all if all == tiles.len() => return Ok(()),
        _ => {
            report::unsupported("access to memory of which a part is accessible");
            return Err(Code::NOT_SUPPORTED);
        }
    }
    let placed = driver.emulator.alloc_at(address, bytes);
    placed.map_err(|error| code_of(&error))?;
    state.add_range(address, bytes, RangeKind::Device, NO_CONTEXT);
    for (at, handle, _) in tiles {
        let contents = std::mem::take(&mut state.mappings.memory(handle)?.contents);
        let written = driver.emulator.write(at, &contents);
        written.map_err(|error| code_of(&error))?;
    }
    Ok(())
}

/// Takes memory from its addresses, and keeps what it holds.
fn unmap(driver: &Driver, address: Address, bytes: u64) -> Answer {
    let mut state = driver.state();
    let tiles = state.mappings.tiles(address, bytes)?;
    let end = address + bytes;
    let accessible = accessible(&state, address, end);
    if accessible
        .iter()
        .any(|(at, bytes)| *at < address || at + bytes > end)
    {
        report::unsupported("to unmap a part of what was made accessible at once");
        return Err(Code::NOT_SUPPORTED);
    }
    for (at, handle, bytes) in tiles {
        let memory = state.mappings.memory(handle)?;
        memory.is_mapped = false;
        if memory.users > 0
            && accessible
                .iter()
                .any(|(from, len)| (*from..from + len).contains(&at))
        {
            memory.contents.resize(bytes as usize, 0);
            let read = driver.emulator.read(at, &mut memory.contents);
            read.map_err(|error| code_of(&error))?;
        }
        state.mappings.mapped.remove(&at);
    }
    for (at, _) in accessible {
        state.ranges.remove(&at);
        let freed = driver.emulator.free(at);
        freed.map_err(|error| code_of(&error))?;
    }
    state.mappings.tidy();
    Ok(())
}

/// What is accessible between two addresses: addresses and sizes.
fn accessible(state: &State, from: Address, to: Address) -> Vec<(Address, u64)> {
    let first = state.range_at(from).map_or(from, |(at, _)| at);
    let ranges = state.ranges.range(first..to);
    ranges.map(|(at, range)| (*at, range.bytes)).collect()
}

entries! {
    fn cuMemGetAllocationGranularity: "cuMemGetAllocationGranularity" @ 10020 (
        place: Out<usize>, properties: In<Properties>, _option: u32,
    ) {
        driver()?;
        properties.get()?.check()?;
        place.set(UNIT as usize)
    }

    fn cuMemAddressReserve: "cuMemAddressReserve" @ 10020 (
        place: Out<Address>, bytes: usize, align: usize, _wish: Address, _flags: u64,
    ) {
        reserve(place, bytes as u64, align as u64)
    }

    fn cuMemAddressFree: "cuMemAddressFree" @ 10020 (address: Address, bytes: usize) {
        let mut state = driver()?.state();
        let end = address.saturating_add(bytes as u64);
        let mappings = &mut state.mappings;
        let is_used = mappings.mapped.range(address..end).next().is_some();
        if is_used || mappings.reserved.get(&address) != Some(&(bytes as u64)) {
            return Err(Code::INVALID_VALUE);
        }
        mappings.reserved.remove(&address);
        Ok(())
    }

    fn cuMemCreate: "cuMemCreate" @ 10020 (
        place: Out<Handle>, bytes: usize, properties: In<Properties>, _flags: u64,
    ) {
        let properties = properties.get()?;
        properties.check()?;
        if bytes == 0 || !(bytes as u64).is_multiple_of(UNIT) {
            return Err(Code::INVALID_VALUE);
        }
        let mut state = driver()?.state();
        let handle = state.new_handle();
        let memory = Memory {
            bytes: bytes as u64,
            properties,
            users: 1,
            is_mapped: false,
            contents: Vec::new(),
        };
        state.mappings.memory.insert(handle, memory);
        place.set(handle)
    }

    fn cuMemRelease: "cuMemRelease" @ 10020 (handle: Handle) {
        let mut state = driver()?.state();
        let memory = state.mappings.memory(handle)?;
        memory.users = memory.users.checked_sub(1).ok_or(Code::INVALID_VALUE)?;
        state.mappings.tidy();
        Ok(())
    }

    fn cuMemMap: "cuMemMap" @ 10020 (
        address: Address, bytes: usize, offset: usize, handle: Handle, _flags: u64,
    ) {
        map(address, bytes as u64, offset, handle)
    }

    fn cuMemUnmap: "cuMemUnmap" @ 10020 (address: Address, bytes: usize) {
        let driver = driver()?;
        driver.in_turn(|| {
            driver.order().host_after_everything();
            unmap(driver, address, bytes as u64)
        })
    }

    fn cuMemSetAccess: "cuMemSetAccess" @ 10020 (
        address: Address, bytes: usize, accesses: In<Access>, count: usize,
    ) {
        let driver = driver()?;
        for access in accesses.list(count)? {
            access.location.check_device()?;
            if !ACCESSES.contains(&access.flags) {
                report::unsupported("memory without access, by cuMemSetAccess");
                return Err(Code::NOT_SUPPORTED);
            }
        }
        driver.in_turn(|| allow(driver, address, bytes as u64))
    }

    fn cuMemGetAccess: "cuMemGetAccess" @ 10020 (
        flags: Out<u64>, location: In<Location>, address: Address,
    ) {
        let state = driver()?.state();
        location.get()?.check_device()?;
        let is_accessible = state.range_at(address).is_some();
        flags.set(if is_accessible { ACCESSES[1].into() } else { 0 })
    }

    fn cuMemRetainAllocationHandle: "cuMemRetainAllocationHandle" @ 11000 (
        place: Out<Handle>, address: Address,
    ) {
        let mut state = driver()?.state();
        let mappings = &mut state.mappings;
        let found = mappings.mapped.range(..=address).next_back();
        let (at, handle) = found.map(|(at, handle)| (*at, *handle)).ok_or(Code::INVALID_VALUE)?;
        let memory = mappings.memory(handle)?;
        if address - at >= memory.bytes {
            return Err(Code::INVALID_VALUE);
        }
        memory.users += 1;
        place.set(handle)
    }

    fn cuMemGetAllocationPropertiesFromHandle: "cuMemGetAllocationPropertiesFromHandle" @ 10020 (
        place: Out<Properties>, handle: Handle,
    ) {
        let properties = driver()?.state().mappings.memory(handle)?.properties;
        place.set(properties)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_have_the_sizes_of_the_header() {
        assert_eq!(size_of::<Properties>(), 32);
        assert_eq!(size_of::<Access>(), 12);
    }
}
