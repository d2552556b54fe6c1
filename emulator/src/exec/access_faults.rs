//! The faults of memory accesses, with the values that explain them.

use super::access::Intent;
use super::block::Block;
use super::cluster::Cluster;
use super::fault::{Checked, Fault};
use super::row::{Lanes, Row};
use crate::memory::global::{Allocation, Chunk, Heap, at_or_below};
use crate::memory::shared::SHARED_BASE;
use crate::memory::space::Space;
use crate::report::FaultKind;

pub(in crate::exec) fn describe(found: &Allocation) -> String {
    format!(
        "the allocation has {} bytes at 0x{:x}",
        found.len, found.base
    )
}

#[cold]
pub(in crate::exec) fn no_allocation(
    block: &Block<'_>,
    addresses: &Row<u64>,
    lane: u32,
    bytes: usize,
    intent: Intent,
) -> Box<Fault> {
    let address = addresses.0[lane as usize];
    let verb = intent.verb();
    if let Some((base, len)) = block.launch.global.freed_at(address) {
        let message = format!("a {verb} of {bytes} bytes at 0x{address:x} in freed memory");
        return Fault::new(FaultKind::UseAfterFree, Some(lane), message)
            .at(address)
            .note(format!(
                "the freed allocation had {len} bytes at 0x{base:x}"
            ));
    }
    let message = format!("a {verb} of {bytes} bytes at 0x{address:x} of global memory");
    let fault = Fault::new(FaultKind::OutOfBounds, Some(lane), message).at(address);
    match at_or_below(&block.launch.memory, address) {
        Some((_, below)) => fault.note(format!(
            "the nearest allocation below has {} bytes at 0x{:x}: the access begins {} bytes \
             behind its end",
            below.len,
            below.base,
            address - (below.base + below.len)
        )),
        None => fault.note(below_all(block, address)),
    }
}

/// What an address below every allocation probably is.
fn below_all(block: &Block<'_>, address: u64) -> String {
    let space = Space::of_generic(address);
    if space != Space::Global {
        let (name, offset) = (space.name(), address - space.window());
        return format!(
            "this is the generic address of byte 0x{offset:x} of {name} memory, which an access to \
             .global does not reach"
        );
    }
    let end = block.shared().len();
    if (SHARED_BASE..end).contains(&address) {
        return format!(
            "the shared memory of the block spans 0x{SHARED_BASE:x} to 0x{end:x}: an address in \
             .shared becomes a generic one by cvta.shared"
        );
    }
    match block.launch.memory.first() {
        Some(above) if above.base - address <= above.len => format!(
            "no allocation lies below this address; the access begins {} bytes before the one of \
             {} bytes at 0x{:x}",
            above.base - address,
            above.len,
            above.base
        ),
        _ => "no allocation lies below this address".to_owned(),
    }
}

#[cold]
pub(in crate::exec) fn bad_access(
    addresses: &Row<u64>,
    mask: u32,
    bytes: usize,
    found: &Allocation,
    intent: Intent,
) -> Box<Fault> {
    let verb = intent.verb();
    let limit = found.len.saturating_sub(bytes as u64);
    let outside = |lane: &usize| {
        found.len < bytes as u64 || addresses.0[*lane].wrapping_sub(found.base) > limit
    };
    let crooked = |lane: &usize| !addresses.0[*lane].is_multiple_of(bytes as u64);
    let (kind, lane, what) = if found.is_freed() {
        (
            FaultKind::UseAfterFree,
            Lanes(mask).next(),
            "in memory freed during the launch",
        )
    } else if let Some(lane) = Lanes(mask).find(crooked) {
        (
            FaultKind::Misaligned,
            Some(lane),
            "is not a multiple of its size",
        )
    } else if let Some(lane) = Lanes(mask).find(outside) {
        (FaultKind::OutOfBounds, Some(lane), "leaves its allocation")
    } else {
        (
            FaultKind::ReadOnly,
            Lanes(mask).next(),
            "in constant memory",
        )
    };
    let lane = lane.unwrap_or(0);
    let address = addresses.0[lane];
    let message = format!("a {verb} of {bytes} bytes at 0x{address:x} {what}");
    Fault::new(kind, Some(lane as u32), message)
        .at(address)
        .note(describe(found))
}

/// Refuses accesses to memory of kernels that `malloc` did not give or `free` has taken back.
pub(in crate::exec) fn check_heap(
    addresses: &Row<u64>,
    mask: u32,
    bytes: usize,
    (found, heap): (&Allocation, &Heap),
    intent: Intent,
) -> Checked<()> {
    let place = |lane: usize| heap.place(addresses.0[lane] - found.base, bytes as u64);
    let mut places = Lanes(mask).map(|lane| (lane, place(lane)));
    let Some((lane, place)) = places.find(|(_, place)| *place != Chunk::Live) else {
        return Ok(());
    };
    let (verb, address) = (intent.verb(), addresses.0[lane]);
    let chunk = |at: u64, len: u64| format!("{len} bytes at 0x{:x}", found.base + at);
    let (kind, what, note) = match place {
        Chunk::Freed(at, len) => (
            FaultKind::UseAfterFree,
            "in memory that `free` has taken back",
            format!("`malloc` had given {}", chunk(at, len)),
        ),
        Chunk::Outside(Some((at, len))) => (
            FaultKind::OutOfBounds,
            "outside what `malloc` gave",
            format!("the nearest memory below has {}", chunk(at, len)),
        ),
        Chunk::Outside(None) | Chunk::Live => (
            FaultKind::OutOfBounds,
            "outside what `malloc` gave",
            "no such memory lies below this address".to_owned(),
        ),
    };
    let message = format!("a {verb} of {bytes} bytes at 0x{address:x} {what}");
    let fault = Fault::new(kind, Some(lane as u32), message);
    Err(fault.at(address).note(note))
}

#[cold]
pub(in crate::exec) fn uninitialized(
    space: Space,
    addresses: &Row<u64>,
    lane: u32,
    bytes: usize,
) -> Box<Fault> {
    let address = addresses.0[lane as usize];
    let message = format!(
        "a read of {bytes} bytes at 0x{address:x} of {} memory that nothing wrote",
        space.name()
    );
    Fault::new(FaultKind::Uninitialized, Some(lane), message).over(space, address, bytes as u64)
}

#[cold]
pub(in crate::exec) fn out_of_space(
    addresses: &Row<u64>,
    mask: u32,
    bytes: usize,
    start: u64,
    end: u64,
    space: Space,
    intent: Intent,
) -> Box<Fault> {
    let crooked = Lanes(mask).find(|&lane| !addresses.0[lane].is_multiple_of(bytes as u64));
    let outside = Lanes(mask).find(|&lane| {
        addresses.0[lane] < start || addresses.0[lane].saturating_add(bytes as u64) > end
    });
    let (kind, lane) = match (crooked, outside) {
        (_, Some(lane)) => (FaultKind::OutOfBounds, lane),
        (Some(lane), None) => (FaultKind::Misaligned, lane),
        (None, None) => (FaultKind::OutOfBounds, mask.trailing_zeros() as usize),
    };
    let address = addresses.0[lane];
    let (verb, name) = (intent.verb(), space.name());
    let message = format!("a {verb} of {bytes} bytes at 0x{address:x} of {name} memory");
    let lane = Some(lane as u32);
    if kind == FaultKind::Misaligned {
        let message = format!("{message} is not a multiple of its size");
        return Fault::new(kind, lane, message).at(address);
    }
    Fault::new(kind, lane, message).at(address).note(format!(
        "the {name} memory here spans 0x{start:x} to 0x{end:x}"
    ))
}

#[cold]
pub(in crate::exec) fn no_such_rank(
    address: u64,
    lane: u32,
    rank: u64,
    blocks: usize,
) -> Box<Fault> {
    let message = format!(
        "0x{address:x} names the shared memory of rank {rank} of a cluster of {blocks} blocks"
    );
    Fault::new(FaultKind::OutOfBounds, Some(lane), message).at(address)
}

#[cold]
pub(in crate::exec) fn exited_peer(address: u64, lane: u32, rank: u32) -> Box<Fault> {
    let message = format!(
        "0x{address:x} is in the shared memory of the block of rank {rank}, which has exited"
    );
    Fault::new(FaultKind::UseAfterFree, Some(lane), message)
        .at(address)
        .note("a block must not exit while others of its cluster use its shared memory".to_owned())
}

/// A plain access, or a copy, that touches the bytes of an mbarrier.
#[cold]
pub(in crate::exec) fn touches_mbarrier(
    verb: &str,
    bytes: u64,
    offset: u64,
    at: u64,
) -> Box<Fault> {
    let message = format!(
        "a {verb} of {bytes} bytes at 0x{offset:x} touches the mbarrier at 0x{at:x}, which only \
         mbarrier instructions may do until mbarrier.inval ends it"
    );
    Fault::new(FaultKind::MbarrierMisuse, None, message).at(offset)
}

/// An operand of an asynchronous instruction that is not a valid place in shared memory.
#[cold]
pub(in crate::exec) fn shared_fault(
    offset: u64,
    bytes: u64,
    align: u64,
    region: (u64, u64),
    what: &str,
) -> Box<Fault> {
    if !offset.is_multiple_of(align) {
        let message = format!("{what} at 0x{offset:x}: the address must be a multiple of {align}");
        return Fault::new(FaultKind::Misaligned, None, message).at(offset);
    }
    let message = format!("{what} of {bytes} bytes at 0x{offset:x} of shared memory");
    Fault::new(FaultKind::OutOfBounds, None, message)
        .at(offset)
        .note(format!(
            "the shared memory here spans 0x{:x} to 0x{:x}",
            region.0, region.1
        ))
}

/// A range of global memory that a copy must not touch.
#[cold]
pub(in crate::exec) fn range_fault(
    cluster: &Cluster,
    address: u64,
    bytes: u64,
    intent: Intent,
) -> Box<Fault> {
    let verb = intent.verb();
    let what = format!("a {verb} of {bytes} bytes at 0x{address:x}");
    let fault = |kind, message| Fault::new(kind, None, message).at(address);
    if let Some((base, len)) = cluster.global.freed_at(address) {
        let note = format!("the freed allocation had {len} bytes at 0x{base:x}");
        return fault(FaultKind::UseAfterFree, format!("{what} in freed memory")).note(note);
    }
    match at_or_below(&cluster.memory, address) {
        Some((_, found)) if address - found.base + bytes <= found.len => {
            fault(FaultKind::ReadOnly, format!("{what} in constant memory")).note(describe(found))
        }
        Some((_, found)) if address - found.base < found.len => {
            let message = format!("{what} leaves its allocation");
            fault(FaultKind::OutOfBounds, message).note(describe(found))
        }
        Some((_, below)) => {
            fault(FaultKind::OutOfBounds, format!("{what} of global memory")).note(format!(
                "the nearest allocation below has {} bytes at 0x{:x}: the access begins {} bytes \
                 behind its end",
                below.len,
                below.base,
                address - (below.base + below.len)
            ))
        }
        None => fault(FaultKind::OutOfBounds, format!("{what} of global memory"))
            .note("no allocation lies below this address".to_owned()),
    }
}

/// A range that a copy reads although some of its bytes were never written.
#[cold]
pub(in crate::exec) fn uninitialized_range(space: Space, address: u64, bytes: u64) -> Box<Fault> {
    let message = format!(
        "a read of {bytes} bytes at 0x{address:x} of {} memory, not all of which was written",
        space.name()
    );
    Fault::new(FaultKind::Uninitialized, None, message).over(space, address, bytes)
}
