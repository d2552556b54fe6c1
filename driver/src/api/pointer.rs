//! What is known of a pointer.

use std::ffi::c_void;

use crate::c::{Address, Data, In, InOut, Out};
use crate::call::entries;
use crate::code::{Answer, Code};
use crate::state::{DEVICE_ADDRESSES, Range, RangeKind, current};

/// `CU_MEMORYTYPE_HOST`, `CU_MEMORYTYPE_DEVICE`
const HOST: u32 = 1;
const DEVICE: u32 = 2;

/// Attributes by their numbers in the API.
const CONTEXT: u32 = 1;
const MEMORY_TYPE: u32 = 2;
const DEVICE_POINTER: u32 = 3;
const HOST_POINTER: u32 = 4;
const SYNC_MEMOPS: u32 = 6;
const BUFFER_ID: u32 = 7;
const IS_MANAGED: u32 = 8;
const DEVICE_ORDINAL: u32 = 9;
const IS_IPC_CAPABLE: u32 = 10;
const RANGE_START: u32 = 11;
const RANGE_SIZE: u32 = 12;
const MAPPED: u32 = 13;
const HANDLE_TYPES: u32 = 14;
const IS_RDMA_CAPABLE: u32 = 15;
const ACCESS_FLAGS: u32 = 16;
const POOL: u32 = 17;

/// `CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE`
const READ_WRITE: u64 = 3;
/// `CU_DEVICE_INVALID`
const NO_DEVICE: u64 = -2_i32 as u32 as u64;

/// The value of an attribute, and its size in bytes.
fn attribute(
    number: u32,
    address: Address,
    found: Option<(Address, Range)>,
) -> Answer<(u64, usize)> {
    let range = found.map(|(_, range)| range);
    let is_device = match range {
        Some(range) => matches!(range.kind, RangeKind::Device | RangeKind::Managed),
        // A variable of a module.
        None => DEVICE_ADDRESSES.contains(&address),
    };
    let is_known = range.is_some() || is_device;
    let or_zero = |value: u64| if is_known { value } else { 0 };
    let is_host = range.is_some_and(|range| range.kind != RangeKind::Device);
    Ok(match number {
        CONTEXT => (range.map_or(0, |range| range.context as u64), 8),
        MEMORY_TYPE => (or_zero(if is_device { DEVICE } else { HOST }.into()), 4),
        DEVICE_POINTER => (or_zero(address), 8),
        HOST_POINTER => (if is_host { address } else { 0 }, 8),
        SYNC_MEMOPS | IS_IPC_CAPABLE | IS_RDMA_CAPABLE => (0, 4),
        BUFFER_ID => (range.map_or(0, |range| range.id), 8),
        IS_MANAGED => (
            range.is_some_and(|r| r.kind == RangeKind::Managed).into(),
            4,
        ),
        DEVICE_ORDINAL => (if is_known { 0 } else { NO_DEVICE }, 4),
        RANGE_START => (found.map_or(0, |(base, _)| base), 8),
        RANGE_SIZE => (range.map_or(0, |range| range.bytes), 8),
        MAPPED => (or_zero(1), 4),
        HANDLE_TYPES | POOL => (0, 8),
        ACCESS_FLAGS => (or_zero(READ_WRITE), 4),
        _ => return Err(Code::INVALID_VALUE),
    })
}

/// Writes a value of 4 or 8 bytes.
fn write(place: *mut c_void, (value, bytes): (u64, usize)) -> Answer {
    // SAFETY: null, or by the attribute's contract a place of so many bytes.
    unsafe {
        match bytes {
            4 => InOut::new(place.cast()).set_at(0, value as u32),
            _ => InOut::new(place.cast()).set_at(0, value),
        }
    }
}

/// An attribute of managed memory: no advice is kept, and memory prefers no place.
fn advice(place: Out<i32>, bytes: usize, address: Address) -> Answer {
    let current = current()?;
    let found = current.state().range_at(address);
    if bytes != 4 || found.is_none_or(|(_, range)| range.kind != RangeKind::Managed) {
        return Err(Code::INVALID_VALUE);
    }
    place.set(0)
}

entries! {
    fn cuPointerGetAttribute: "cuPointerGetAttribute" @ 4000 (
        place: *mut c_void, number: u32, address: Address,
    ) {
        let current = current()?;
        let found = current.state().range_at(address);
        if found.is_none() && !DEVICE_ADDRESSES.contains(&address) {
            return Err(Code::INVALID_VALUE);
        }
        write(place, attribute(number, address, found)?)
    }

    fn cuPointerGetAttributes: "cuPointerGetAttributes" @ 7000 (
        count: u32, numbers: In<u32>, places: In<*mut c_void>, address: Address,
    ) {
        let current = current()?;
        let found = current.state().range_at(address);
        for at in 0..count as usize {
            write(places.at(at)?, attribute(numbers.at(at)?, address, found)?)?;
        }
        Ok(())
    }

    fn cuPointerSetAttribute: "cuPointerSetAttribute" @ 6000 (
        _value: Data, number: u32, address: Address,
    ) {
        let current = current()?;
        let is_known = current.state().range_at(address).is_some();
        match number == SYNC_MEMOPS && is_known {
            // Copies are synchronous anyway.
            true => Ok(()),
            false => Err(Code::INVALID_VALUE),
        }
    }

    fn cuMemRangeGetAttribute: "cuMemRangeGetAttribute" @ 8000 (
        place: Out<i32>, bytes: usize, _number: u32, address: Address, _count: usize,
    ) {
        advice(place, bytes, address)
    }

    fn cuMemRangeGetAttributes: "cuMemRangeGetAttributes" @ 8000 (
        places: In<Out<i32>>, bytes: In<usize>, _numbers: In<u32>, count: usize, address: Address,
        _len: usize,
    ) {
        let (places, bytes) = (places.list(count)?, bytes.list(count)?);
        places.into_iter().zip(bytes).try_for_each(|(place, bytes)| advice(place, bytes, address))
    }
}
