//! Memory of the device: allocation, and what is known of it.

use warpsmith_emulator::{Footprint, MemoryError};

use crate::c::{Address, Handle, Out};
use crate::call::entries;
use crate::code::{Answer, Code};
use crate::order::{Lane, all_of};
use crate::state::{Current, NO_CONTEXT, Range, RangeKind, current, current_of};
use crate::work::in_order;

use super::context;

/// Alignment of rows in memory of `cuMemAllocPitch`.
const PITCH_ALIGN: usize = 512;

pub(super) fn code_of(error: &MemoryError) -> Code {
    match error {
        MemoryError::OutOfMemory { .. } | MemoryError::HostMemory { .. } => Code::OUT_OF_MEMORY,
        _ => Code::INVALID_VALUE,
    }
}

/// Allocates memory of the device.
pub(super) fn allocate(current: Current, bytes: usize) -> Answer<Address> {
    if bytes == 0 {
        return Err(Code::INVALID_VALUE);
    }
    let bytes = bytes as u64;
    let allocated = current.driver.emulator.alloc(bytes);
    let address = allocated.map_err(|error| code_of(&error))?;
    current
        .state()
        .add_range(address, bytes, RangeKind::Device, current.context);
    Ok(address)
}

/// Allocates memory of the device for work that comes after that of a stream.
pub(super) fn allocate_on(current: Current, bytes: usize, stream: Handle) -> Answer<Address> {
    let address = allocate(current, bytes)?;
    let lane = Lane::new(current.context, stream);
    in_order(
        current.driver,
        lane,
        || "cuMemAllocAsync".to_owned(),
        || Ok(all_written(address, bytes as u64)),
    )?;
    Ok(address)
}

/// Frees memory after the work of a stream.
fn release_on(current: Current, address: Address, stream: Handle) -> Answer {
    if address == 0 {
        return Ok(());
    }
    let lane = Lane::new(current.context, stream);
    in_order(
        current.driver,
        lane,
        || "cuMemFreeAsync".to_owned(),
        || {
            let range = free(current, address)?;
            Ok(all_written(address, range.bytes))
        },
    )
}

/// Allocating and freeing memory forbids all other accesses at the time, as a write does.
fn all_written(address: Address, bytes: u64) -> Footprint {
    Footprint {
        writes: all_of(address, bytes),
        ..Footprint::default()
    }
}

/// Frees what [`allocate`] or `cuMemAllocManaged` gave, after all work.
fn release(current: Current, address: Address) -> Answer {
    if address == 0 {
        return Ok(());
    }
    current.driver.in_turn(|| {
        current.driver.order().host_after_all(current.context);
        free(current, address).map(|_| ())
    })
}

fn free(current: Current, address: Address) -> Answer<Range> {
    let mut state = current.state();
    let range = match state.ranges.get(&address) {
        Some(range)
            if matches!(range.kind, RangeKind::Device | RangeKind::Managed)
                && range.context != NO_CONTEXT =>
        {
            *range
        }
        _ => return Err(Code::INVALID_VALUE),
    };
    state.ranges.remove(&address);
    drop(state);
    context::free(current.driver, address, range)?;
    Ok(range)
}

/// Bytes of the device that are allocated.
pub(super) fn used(current: Current) -> u64 {
    let state = current.state();
    let ranges = state.ranges.values();
    ranges
        .filter(|range| range.kind == RangeKind::Device)
        .map(|range| range.bytes)
        .sum()
}

entries! {
    fn cuMemAlloc_v2: "cuMemAlloc" @ 3020 (place: Out<Address>, bytes: usize) {
        let current = current()?;
        current.state().check_unsafe()?;
        place.set(allocate(current, bytes)?)
    }

    fn cuMemAllocPitch_v2: "cuMemAllocPitch" @ 3020 (
        place: Out<Address>, pitch: Out<usize>, width_bytes: usize, height: usize, element: u32,
    ) {
        let current = current()?;
        if !matches!(element, 4 | 8 | 16) || width_bytes == 0 || height == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let row = width_bytes.checked_next_multiple_of(PITCH_ALIGN).ok_or(Code::OUT_OF_MEMORY)?;
        let bytes = row.checked_mul(height).ok_or(Code::OUT_OF_MEMORY)?;
        current.state().check_unsafe()?;
        pitch.set(row)?;
        place.set(allocate(current, bytes)?)
    }

    fn cuMemFree_v2: "cuMemFree" @ 3020 (address: Address) {
        let current = current()?;
        current.state().check_unsafe()?;
        release(current, address)
    }

    fn cuMemAllocAsync | cuMemAllocAsync_ptsz: "cuMemAllocAsync" @ 11020 (
        place: Out<Address>, bytes: usize, stream: Handle,
    ) {
        let current = current_of(stream)?;
        current.check_stream(stream)?;
        current.state().check_not_captured(stream)?;
        place.set(allocate_on(current, bytes, stream)?)
    }

    fn cuMemFreeAsync | cuMemFreeAsync_ptsz: "cuMemFreeAsync" @ 11020 (
        address: Address, stream: Handle,
    ) {
        let current = current_of(stream)?;
        current.check_stream(stream)?;
        current.state().check_not_captured(stream)?;
        release_on(current, address, stream)
    }

    fn cuMemGetInfo_v2: "cuMemGetInfo" @ 3020 (free: Out<usize>, total: Out<usize>) {
        let current = current()?;
        let all = current.driver.memory_bytes;
        free.set(all.saturating_sub(used(current)) as usize)?;
        total.set(all as usize)
    }

    fn cuMemGetAddressRange_v2: "cuMemGetAddressRange" @ 3020 (
        base: Out<Address>, bytes: Out<usize>, address: Address,
    ) {
        let current = current()?;
        let found = current.state().range_at(address);
        let (start, range) = found.ok_or(Code::NOT_FOUND)?;
        base.set_if_wanted(start);
        bytes.set_if_wanted(range.bytes as usize);
        Ok(())
    }
}
