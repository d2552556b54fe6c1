//! Loads and stores: the address of each lane, its state space, and the checks.

use super::access_faults::{
    bad_access, check_heap, describe, exited_peer, no_allocation, no_such_rank, out_of_space,
    uninitialized,
};
use super::block::{Block, RECENT};
use super::cluster::RANK_SHIFT;
use super::fault::{Checked, Fault};
use super::kernel::vectorized;
use super::planes::{pack_planes, unpack_planes};
use super::row::{LANES, Lanes, Row};
use super::warp::Warp;
use crate::check::Target;
use crate::memory::global::{Allocation, at_or_below};
use crate::memory::lanes::{self, Pattern, Planes};
use crate::memory::space::Space;
use crate::memory::words::{Bytes, Word};
use crate::profile::Touch;
use crate::program::{Access, Base, Width};
use crate::report::FaultKind;

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    Read,
    Write,
}

impl Intent {
    pub(in crate::exec) fn verb(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// Runs a function, compiled for AVX2 and FMA if the machine has them.
macro_rules! if_fast {
    ($($call:tt)*) => {
        vectorized(#[inline(always)] || $($call)*)
    };
}

impl Warp {
    /// Runs a load for the lanes of `mask`.
    pub(crate) fn load(
        &mut self,
        block: &mut Block<'_>,
        access: &Access,
        path: usize,
        mask: u32,
    ) -> Checked<()> {
        self.polls += u32::from(access.strong);
        let addresses = self.addresses(block, access.base, access.offset, path);
        self.tolerates = true;
        let loaded = self.each_space(access.space, &addresses, mask, |warp, space, own, mask| {
            warp.transfer(block, space, own, mask, access.bytes, Intent::Read)?;
            count(block, space, Touch::Load, own, mask, access.bytes);
            Ok(())
        });
        self.tolerates = false;
        loaded?;
        if self.missing.is_some() || self.open.is_some() {
            self.unpack_access(access, mask);
        }
        if_fast!(unpack_planes(&mut self.regs, &self.planes, access, mask));
        Ok(())
    }

    /// Runs a store for the lanes of `mask`.
    pub(crate) fn store(
        &mut self,
        block: &mut Block<'_>,
        access: &Access,
        path: usize,
        mask: u32,
    ) -> Checked<()> {
        let addresses = self.addresses(block, access.base, access.offset, path);
        self.collect(block, access);
        block.cluster.effect();
        let parts = match &self.open {
            Some(_) => self.open_bytes(block, access, mask),
            None => Vec::new(),
        };
        if !parts.is_empty() {
            return self.store_parts(block, access, &addresses, mask, &parts);
        }
        self.each_space(access.space, &addresses, mask, |warp, space, own, mask| {
            warp.transfer(block, space, own, mask, access.bytes, Intent::Write)?;
            count(block, space, Touch::Store, own, mask, access.bytes);
            Ok(())
        })
    }

    /// Collects what a store stores.
    #[inline(always)]
    pub(super) fn collect(&mut self, block: &Block<'_>, access: &Access) {
        let constants = &block.launch.program.constants;
        if_fast!(pack_planes(&self.regs, constants, &mut self.planes, access));
    }

    /// The address of each lane.
    pub(crate) fn addresses(
        &self,
        block: &Block<'_>,
        base: Base,
        offset: u64,
        path: usize,
    ) -> Row<u64> {
        let constants = &block.launch.program.constants;
        match base {
            Base::Absolute => Row([offset; LANES]),
            Base::Frame => Row([self.paths.list[path].frame().local.wrapping_add(offset); LANES]),
            Base::Register(reg) if reg.width == Width::B32 => {
                let low = self.regs.row::<u32>(constants, reg.slot);
                low.map(|low| u64::from(low.wrapping_add(offset as u32)))
            }
            Base::Register(reg) => {
                let base = self.regs.row::<u64>(constants, reg.slot);
                base.map(|base| base.wrapping_add(offset))
            }
        }
    }

    /// Calls `f` once for each space that the lanes address, with their addresses in that space.
    pub(crate) fn each_space(
        &mut self,
        space: Space,
        addresses: &Row<u64>,
        mask: u32,
        mut f: impl FnMut(&mut Self, Space, &Row<u64>, u32) -> Checked<()>,
    ) -> Checked<()> {
        if space != Space::Generic {
            return f(self, space, addresses, mask);
        }
        let mut rest = mask;
        while rest != 0 {
            let first = addresses.0[rest.trailing_zeros() as usize];
            let space = Space::of_generic(first);
            let same = Lanes(rest)
                .filter(|&lane| Space::of_generic(addresses.0[lane]) == space)
                .fold(0, |mask, lane| mask | 1 << lane);
            rest &= !same;
            let window = space.window();
            let own = addresses.map(|address| address.wrapping_sub(window));
            f(self, space, &own, same)?;
        }
        Ok(())
    }

    /// Moves `bytes` of each lane of `mask` between memory and the planes.
    pub(crate) fn transfer(
        &mut self,
        block: &mut Block<'_>,
        space: Space,
        addresses: &Row<u64>,
        mask: u32,
        bytes: usize,
        intent: Intent,
    ) -> Checked<()> {
        match (space, intent) {
            (Space::Global | Space::Generic, _) => {
                let moved = |block: &Block<'_>, found, region: &Allocation, offsets: &Row<u64>| {
                    let faulty = |lane| {
                        uninitialized(Space::Global, addresses, lane, bytes).note(describe(region))
                    };
                    self.moved(
                        block,
                        found,
                        (region.bytes(), offsets, bytes),
                        intent,
                        faulty,
                    )
                };
                global(block, addresses, mask, bytes, intent, moved)
            }
            (Space::Shared, _) => each_rank(block, addresses, mask, |block, rank, own, mask| {
                guard(block, rank, own, mask, bytes, intent)?;
                let mut offsets = Row::default();
                let shared = &block.cluster.shared[rank as usize];
                let from = block.launch.program.shared_from;
                let region = (from, shared.len() - from);
                let pattern = place(own, mask, 0, shared.len(), bytes, &mut offsets);
                check_shared((pattern, &offsets), own, mask, bytes, region, intent)?;
                let target = Target::Shared { rank };
                let found = Found {
                    target,
                    pattern,
                    mask,
                };
                let faulty = |lane| {
                    let fault = uninitialized(space, own, lane, bytes);
                    fault.of_shared(rank, own.0[lane as usize], bytes as u64)
                };
                self.moved(
                    block,
                    found,
                    (shared.bytes(), &offsets, bytes),
                    intent,
                    faulty,
                )
            }),
            (Space::Local, Intent::Read) => self.read_local(block, addresses, mask, bytes),
            (Space::Local, Intent::Write) => self.write_local(block, addresses, mask, bytes),
            (Space::Param, Intent::Read) => {
                let params = &block.launch.params;
                check_plain(addresses, mask, bytes, params.len() as u64, space, intent)?;
                read_params(params, addresses, mask, bytes, &mut self.planes);
                Ok(())
            }
            (Space::Param, Intent::Write) => {
                let lane = mask.trailing_zeros();
                let message = format!("a write of {bytes} bytes to a kernel parameter");
                let fault = Fault::new(FaultKind::ReadOnly, Some(lane), message);
                Err(fault.at(addresses.0[lane as usize]))
            }
        }
    }

    /// Moves the bytes of lanes whose addresses are right. `faulty` is the fault of a lane that reads
    /// what was not written.
    #[inline(always)]
    fn moved<W: Word>(
        &mut self,
        block: &Block<'_>,
        found: Found,
        (memory, offsets, bytes): (Bytes<'_, W>, &Row<u64>, usize),
        intent: Intent,
        faulty: impl Fn(u32) -> Box<Fault>,
    ) -> Checked<()> {
        let (site, planes) = (self.site, &mut *self.planes);
        let (target, pattern, mask) = (found.target, found.pattern, found.mask);
        match intent {
            Intent::Read => {
                let load = if_fast!(lanes::load(memory, pattern, offsets, mask, bytes, planes));
                if let Err(lane) = load {
                    let mut bits = Box::<Planes>::default();
                    lanes::load_anyway(memory, offsets, mask, bytes, planes, &mut bits);
                    let missing = self.found_missing(block, lane, mask, bits, &faulty)?;
                    // What comes before the write that it needs is told apart from a race.
                    return match mask & !missing {
                        0 => Ok(()),
                        rest => site.read(block, target, offsets, rest, bytes),
                    };
                }
                site.read(block, target, offsets, mask, bytes)
            }
            Intent::Write => {
                site.write(block, target, offsets, mask, bytes, planes, memory)?;
                if_fast!(lanes::store(memory, pattern, offsets, mask, bytes, planes));
                Ok(())
            }
        }
    }
}

/// Calls `f` for each block of the cluster whose shared memory the lanes address, with its rank and
/// the offsets in its memory.
pub(super) fn each_rank(
    block: &mut Block<'_>,
    addresses: &Row<u64>,
    mask: u32,
    mut f: impl FnMut(&mut Block<'_>, u32, &Row<u64>, u32) -> Checked<()>,
) -> Checked<()> {
    let mut named = 0;
    for (lane, address) in addresses.0.iter().enumerate() {
        named |= address >> RANK_SHIFT & u64::from(mask >> lane & 1).wrapping_neg();
    }
    if named == 0 {
        let rank = block.rank;
        return f(block, rank, addresses, mask);
    }
    let own = block.rank;
    let mut rest = mask;
    while rest != 0 {
        let lane = rest.trailing_zeros();
        let address = addresses.0[lane as usize];
        let cluster = block.cluster.clone();
        let (rank, _) = cluster
            .place(own, address)
            .map_err(|rank| no_such_rank(address, lane, rank, cluster.shared.len()))?;
        if cluster.exited[rank as usize].get() {
            return Err(exited_peer(address, lane, rank));
        }
        let same = Lanes(rest)
            .filter(|&lane| cluster.place(own, addresses.0[lane]).map(|at| at.0) == Ok(rank))
            .fold(0, |mask, lane| mask | 1 << lane);
        rest &= !same;
        let offsets = addresses.map(|address| address & ((1 << RANK_SHIFT) - 1));
        f(block, rank, &offsets, same)?;
    }
    Ok(())
}

/// Counts an access that succeeded.
#[inline(always)]
pub(crate) fn count(
    block: &Block<'_>,
    space: Space,
    touch: Touch,
    addresses: &Row<u64>,
    mask: u32,
    bytes: usize,
) {
    if !block.counters.is_on() {
        return;
    }
    match space {
        Space::Global | Space::Generic => block.counters.global(touch, addresses, mask, bytes),
        Space::Shared => block.counters.shared(addresses, mask, bytes),
        Space::Local | Space::Param => {}
    }
}

/// Refuses a plain access to the bytes of an mbarrier.
#[inline]
fn guard(
    block: &Block<'_>,
    rank: u32,
    offsets: &Row<u64>,
    mask: u32,
    bytes: usize,
    intent: Intent,
) -> Checked<()> {
    let table = block.cluster.mbarriers.borrow();
    table.guard(rank, offsets, mask, bytes, intent.verb())
}

fn place(
    addresses: &Row<u64>,
    mask: u32,
    base: u64,
    len: u64,
    bytes: usize,
    offsets: &mut Row<u64>,
) -> Pattern {
    if_fast!(lanes::classify(
        addresses,
        mask,
        base,
        len,
        bytes as u64,
        offsets
    ))
}

/// The lanes that access one allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) target: Target,
    pub(crate) pattern: Pattern,
    pub(crate) mask: u32,
}

/// Finds the allocations that the lanes address, and calls `f` for each with the lanes' offsets.
pub(crate) fn global(
    block: &mut Block<'_>,
    addresses: &Row<u64>,
    mask: u32,
    bytes: usize,
    intent: Intent,
    mut f: impl FnMut(&Block<'_>, Found, &Allocation, &Row<u64>) -> Checked<()>,
) -> Checked<()> {
    let snapshot = &block.launch.memory;
    let mut offsets = Row::default();
    let mut rest = mask;
    while rest != 0 {
        let lane = rest.trailing_zeros();
        let address = addresses.0[lane as usize];
        let holds = |found: &Allocation| address.wrapping_sub(found.base) < found.len;
        let mut recent = block
            .recent
            .iter()
            .filter_map(|index| Some((*index, &**snapshot.get(*index)?)));
        let (allocation, found) = match recent.find(|(_, found)| holds(found)) {
            Some(found) => found,
            None => match at_or_below(snapshot, address).filter(|(_, found)| holds(found)) {
                Some((index, found)) => {
                    block.recent[block.turn % RECENT] = index;
                    block.turn += 1;
                    (index, found)
                }
                None => return Err(no_allocation(block, addresses, lane, bytes, intent)),
            },
        };
        let mut part = rest;
        let mut pattern = place(addresses, rest, found.base, found.len, bytes, &mut offsets);
        if pattern == Pattern::Faulty {
            part = Lanes(rest)
                .filter(|&lane| addresses.0[lane].wrapping_sub(found.base) < found.len)
                .fold(0, |mask, lane| mask | 1 << lane);
            pattern = place(addresses, part, found.base, found.len, bytes, &mut offsets);
        }
        if pattern == Pattern::Faulty
            || found.is_freed()
            || intent == Intent::Write && found.read_only
        {
            return Err(bad_access(addresses, part, bytes, found, intent));
        }
        if let Some(heap) = &found.heap {
            check_heap(addresses, part, bytes, (found, heap), intent)?;
        }
        let lanes = Found {
            target: Target::Global { allocation },
            pattern,
            mask: part,
        };
        f(block, lanes, found, &offsets)?;
        rest &= !part;
    }
    Ok(())
}

/// Bounds and alignment in shared memory, of which the part below
/// [`SHARED_BASE`](crate::memory::shared::SHARED_BASE) is the system's. Offsets of lanes that are
/// not in `mask` are those of one that is, as [`place`] leaves them.
pub(crate) fn check_shared(
    (pattern, offsets): (Pattern, &Row<u64>),
    addresses: &Row<u64>,
    mask: u32,
    bytes: usize,
    region: (u64, u64),
    intent: Intent,
) -> Checked<()> {
    let (base, len) = region;
    let below = |low, offset: &u64| low | (*offset < base);
    if pattern != Pattern::Faulty && !offsets.0.iter().fold(false, below) {
        return Ok(());
    }
    Err(out_of_space(
        addresses,
        mask,
        bytes,
        base,
        base + len,
        Space::Shared,
        intent,
    ))
}

/// Checks bounds and alignment in a space that begins at address 0.
pub(super) fn check_plain(
    addresses: &Row<u64>,
    mask: u32,
    bytes: usize,
    len: u64,
    space: Space,
    intent: Intent,
) -> Checked<()> {
    let mut low = 0;
    let mut outside = 0;
    for lane in 0..LANES {
        let active = u64::from(mask >> lane & 1).wrapping_neg();
        low |= addresses.0[lane] & active;
        let end = addresses.0[lane].saturating_add(bytes as u64);
        outside |= u64::from(end > len) & active;
    }
    if outside == 0 && low & (bytes as u64 - 1) == 0 {
        return Ok(());
    }
    Err(out_of_space(addresses, mask, bytes, 0, len, space, intent))
}

fn read_params(params: &[u8], addresses: &Row<u64>, mask: u32, bytes: usize, planes: &mut Planes) {
    let word = |at: usize| {
        let mut word = [0; 4];
        let take = bytes.min(4);
        word[..take].copy_from_slice(&params[at..at + take]);
        u32::from_le_bytes(word)
    };
    let first = addresses.0[mask.trailing_zeros() as usize];
    let uniform = Lanes(mask).all(|lane| addresses.0[lane] == first);
    for (p, plane) in planes.iter_mut().enumerate().take(bytes.div_ceil(4)) {
        if uniform {
            plane.blend(&Row([word(first as usize + 4 * p); LANES]), mask);
        } else {
            for lane in Lanes(mask) {
                plane.0[lane] = word(addresses.0[lane] as usize + 4 * p);
            }
        }
    }
}
