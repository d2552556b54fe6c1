//! `cp.async`: small copies by each lane, and the mbarrier arrivals that follow them.

use super::Issuer;
use crate::check::{Channel, Kind, Proxy, Stamp};
use crate::exec::block::Block;
use crate::exec::cluster::Cluster;
use crate::exec::engine::Landing;
use crate::exec::fault::{Checked, Fault};
use crate::exec::groups::FlightId;
use crate::exec::mbarrier::{MBARRIER_BYTES, Place, misuse};
use crate::exec::row::Lanes;
use crate::exec::warp::Warp;
use crate::explore::Mode;
use crate::memory::space::Space;
use crate::profile::{Copied, Touch};
use crate::program::{GroupKind, LaneCopy, Pointer};
use crate::report::FaultKind;
use crate::tensor_map::Swizzle;
use crate::trace::{CopyKind, Landed};

/// The copy of one lane.
#[derive(Clone, Copy, Debug)]
struct Part {
    lane: u32,
    from: u64,
    to: Place,
    /// Bytes that are read; the rest is filled with zeros.
    read: u32,
}

/// The copies of the lanes of one instruction that are in the same group.
#[derive(Debug)]
struct LaneCopies {
    issuer: Issuer,
    parts: Vec<Part>,
    bytes: u32,
    flight: FlightId,
    agent: u32,
}

impl Landing for LaneCopies {
    fn land(self: Box<Self>, cluster: &Cluster) -> Checked<()> {
        for part in &self.parts {
            let by_lane = |fault: Box<Fault>| fault.by(part.lane);
            let mut data = [0; 16];
            let read = &mut data[..part.read as usize];
            let mut written = 0;
            if !read.is_empty() {
                written = self
                    .issuer
                    .read_vector(cluster, part.from, read)
                    .map_err(by_lane)?;
            }
            let data = &data[..self.bytes as usize];
            self.issuer
                .write_shared(cluster, part.to, data, Swizzle::None, Kind::Write)
                .map_err(by_lane)?;
            let memory = cluster.shared[part.to.rank as usize].bytes();
            for i in 0..part.read as usize {
                if written >> i & 1 == 0 {
                    memory.unmark(part.to.offset as usize + i, 1);
                }
            }
        }
        let stamp = self.issuer.stamp(cluster);
        let mut groups = cluster.groups.borrow_mut();
        groups.has_read(self.flight, stamp.clone());
        groups.has_written(self.flight, stamp);
        Ok(())
    }

    fn copy(&self) -> Option<Landed> {
        let bytes = u64::from(self.bytes) * self.parts.len() as u64;
        Some(self.issuer.copy(CopyKind::Lanes, bytes))
    }

    fn copies_of(&self) -> Option<u32> {
        Some(self.agent)
    }
}

/// Arrivals that take place once all earlier `cp.async` of the warp have landed.
#[derive(Debug)]
struct Arrivals {
    issuer: Issuer,
    places: Vec<(u32, Place)>,
    agent: u32,
}

impl Landing for Arrivals {
    fn land(self: Box<Self>, cluster: &Cluster) -> Checked<()> {
        let stamp: Stamp = self.issuer.stamp(cluster);
        let mut table = cluster.mbarriers.borrow_mut();
        for (lane, at) in &self.places {
            let mut order = cluster.order.borrow_mut();
            order.visit_mbarrier((at.rank, at.offset), Mode::Arrive);
            drop(order);
            let arrived = table.get(*at).and_then(|barrier| {
                if barrier.arrive(1, false, false, &stamp)? {
                    cluster.record_phase(*at, barrier, self.issuer.pc);
                }
                Ok(())
            });
            arrived.map_err(|why| self.issuer.at_mbarrier(*at, &why).by(*lane))?;
        }
        Ok(())
    }

    fn comes_after(&self) -> Option<u32> {
        Some(self.agent)
    }
}

impl Warp {
    /// `cp.async`
    pub(in crate::exec) fn lane_copy(
        &mut self,
        block: &mut Block<'_>,
        op: &LaneCopy,
        index: usize,
        active: u32,
    ) -> Checked<()> {
        let agent = block.agent(self.index);
        let from = self.addresses(block, op.from.base, op.from.offset, index);
        let to = self.shared_addresses(block, &op.to, index, active)?;
        let ignored = op.ignore.map_or(0, |ignore| self.holds(block, ignore));
        block.cluster.effect();
        let mut parts = Vec::with_capacity(active.count_ones() as usize);
        for lane in Lanes(active) {
            let by = lane as u32;
            let size = u64::from(op.bytes);
            let what = "the destination of a copy";
            let place = block.shared_place(to.0[lane], lane, size, size, what)?;
            let place = block.own_place(place, lane, what)?;
            let read = match op.source_bytes {
                _ if ignored >> lane & 1 != 0 => 0,
                Some(slot) => self.lane32(block, slot, lane),
                None => op.bytes,
            };
            if read > op.bytes {
                let message = format!("{read} bytes to read of a copy of {}", op.bytes);
                return Err(Fault::new(FaultKind::OutOfBounds, Some(by), message));
            }
            let from = self.global_source(op, from.0[lane], read, by)?;
            parts.push(Part {
                lane: by,
                from,
                to: place,
                read,
            });
        }
        let read = parts.iter().map(|part| u64::from(part.read)).sum();
        block.counters.copy(Copied::Lanes, parts.len() as u64, read);
        block
            .counters
            .global(Touch::CopyIn, &from, active & !ignored, op.bytes as usize);
        let mut rest = active;
        while rest != 0 {
            let mut groups = block.cluster.groups.borrow_mut();
            let mask = groups.of(GroupKind::CpAsync, agent).together(rest);
            rest &= !mask;
            let lane = mask.trailing_zeros() as usize;
            let channel = Channel::CpAsync { warp: agent };
            let issuer = Issuer::new(self, block, index, lane, Proxy::Generic, channel);
            let flight = groups.issue(GroupKind::CpAsync, agent, mask, false, issuer.pc);
            let own = parts.iter().filter(|part| mask >> part.lane & 1 != 0);
            block
                .cluster
                .engine
                .borrow_mut()
                .issue(Box::new(LaneCopies {
                    issuer,
                    parts: own.copied().collect(),
                    bytes: op.bytes,
                    flight,
                    agent,
                }));
        }
        Ok(())
    }

    fn global_source(&self, op: &LaneCopy, from: u64, read: u32, lane: u32) -> Checked<u64> {
        if read == 0 {
            return Ok(from);
        }
        if op.from.space == Space::Generic && Space::of_generic(from) != Space::Global {
            let message = format!(
                "0x{from:x} is an address of {} memory, where global memory is needed",
                Space::of_generic(from).name()
            );
            return Err(Fault::new(FaultKind::OutOfBounds, Some(lane), message).at(from));
        }
        if !from.is_multiple_of(u64::from(op.bytes)) {
            let message = format!(
                "a copy of {} bytes from 0x{from:x}: the address must be a multiple of its size",
                op.bytes
            );
            return Err(Fault::new(FaultKind::Misaligned, Some(lane), message).at(from));
        }
        Ok(from)
    }

    /// `cp.async.mbarrier.arrive`
    pub(in crate::exec) fn arrive_after_copies(
        &mut self,
        block: &mut Block<'_>,
        at: &Pointer,
        expected: bool,
        index: usize,
        active: u32,
    ) -> Checked<()> {
        let agent = block.agent(self.index);
        let addresses = self.shared_addresses(block, at, index, active)?;
        block.cluster.effect();
        let mut places = Vec::new();
        for lane in Lanes(active) {
            let size = MBARRIER_BYTES;
            let at = block.shared_place(addresses.0[lane], lane, size, size, "an mbarrier")?;
            let at = block.own_place(at, lane, "the mbarrier")?;
            let mut table = block.cluster.mbarriers.borrow_mut();
            let found = table.get(at).and_then(|barrier| match expected {
                true => Ok(()),
                false => barrier.add_pending(),
            });
            found.map_err(|why| {
                let message = format!("the mbarrier at 0x{:x}: {why}", at.offset);
                misuse(Some(lane as u32), message).at(at.offset)
            })?;
            places.push((lane as u32, at));
        }
        let channel = Channel::CpAsync { warp: agent };
        let first = active.trailing_zeros() as usize;
        let issuer = Issuer::new(self, block, index, first, Proxy::Generic, channel);
        block.cluster.engine.borrow_mut().issue(Box::new(Arrivals {
            issuer,
            places,
            agent,
        }));
        Ok(())
    }
}
