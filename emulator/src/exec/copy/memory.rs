//! Reads and writes of ranges of memory by copies.

use super::Issuer;
use crate::check::{Actor, Kind, Target};
use crate::exec::access::Intent;
use crate::exec::access_faults::{range_fault, touches_mbarrier, uninitialized_range};
use crate::exec::cluster::Cluster;
use crate::exec::fault::{Checked, Fault};
use crate::exec::mbarrier::Place;
use crate::footprint::Way;
use crate::memory::global::{Allocation, at_or_below};
use crate::memory::space::Space;
use crate::memory::words::low_bits;
use crate::report::FaultKind;
use crate::tensor_map::Swizzle;

/// Bytes that a swizzle keeps together.
const CHUNK: usize = 16;

impl Issuer {
    /// Reads global memory.
    pub(super) fn read_global(
        &self,
        cluster: &Cluster,
        address: u64,
        out: &mut [u8],
        kind: Kind,
    ) -> Checked<()> {
        let (found, offset) = self.global(cluster, address, out.len() as u64, kind)?;
        let memory = found.bytes();
        if cluster.checks.unwritten && !memory.range_written(offset, out.len()) {
            self.unwritten(cluster, || {
                uninitialized_range(Space::Global, address, out.len() as u64)
            })?;
        }
        memory.copy_out(offset, out);
        Ok(())
    }

    /// Reads an aligned vector of global memory for a lane, and says which bytes are written, from bit 0
    /// on. A vector that has none of them is noted.
    pub(super) fn read_vector(
        &self,
        cluster: &Cluster,
        address: u64,
        out: &mut [u8],
    ) -> Checked<u32> {
        let bytes = out.len();
        let (found, offset) = self.global(cluster, address, bytes as u64, Kind::Read)?;
        let memory = found.bytes();
        memory.copy_out(offset, out);
        if !cluster.checks.unwritten {
            return Ok(low_bits(bytes));
        }
        let written = memory.written(offset, bytes);
        if written == 0 {
            let fault = || uninitialized_range(Space::Global, address, bytes as u64);
            self.unwritten(cluster, fault)?;
        }
        Ok(written)
    }

    /// Notes a read of bytes that nothing wrote.
    #[cold]
    fn unwritten(&self, cluster: &Cluster, fault: impl FnOnce() -> Box<Fault>) -> Checked<()> {
        let finding = (FaultKind::Uninitialized, self.pc);
        cluster
            .findings
            .note(finding, false, || self.blame(fault()))
    }

    /// Writes global memory.
    pub(super) fn write_global(
        &self,
        cluster: &Cluster,
        address: u64,
        data: &[u8],
        kind: Kind,
    ) -> Checked<()> {
        let (found, offset) = self.global(cluster, address, data.len() as u64, kind)?;
        found.bytes().copy_in(offset, data);
        Ok(())
    }

    /// The allocation that contains a range of global memory, and the range's offset in it.
    fn global<'a>(
        &self,
        cluster: &'a Cluster,
        address: u64,
        bytes: u64,
        kind: Kind,
    ) -> Checked<(&'a Allocation, usize)> {
        let intent = intent(kind);
        let found = at_or_below(&cluster.memory, address).filter(|(_, found)| {
            let offset = address - found.base;
            offset < found.len && bytes <= found.len - offset
        });
        let wrong = match found {
            Some((_, found)) => found.is_freed() || intent == Intent::Write && found.read_only,
            None => true,
        };
        let (Some((allocation, found)), false) = (found, wrong) else {
            return Err(self.blame(range_fault(cluster, address, bytes, intent)));
        };
        let offset = address - found.base;
        if let Some(footprint) = &cluster.footprint {
            let way = Way {
                writes: intent == Intent::Write,
                strong: !matches!(kind, Kind::Read | Kind::Write),
            };
            footprint.range((allocation, self.pc), way, offset..offset + bytes);
        }
        let mut order = cluster.order.borrow_mut();
        if order.is_on() && kind != Kind::STRONG_READ {
            let actor = Actor::Operation(&self.operation);
            let target = Target::Global { allocation };
            order
                .range(actor, target, kind, self.proxy, offset, bytes)
                .map_err(|fault| self.blame(fault))?;
        }
        Ok((found, offset as usize))
    }

    /// Writes shared memory, each 16-byte chunk to its swizzled address.
    pub(super) fn write_shared(
        &self,
        cluster: &Cluster,
        at: Place,
        data: &[u8],
        swizzle: Swizzle,
        kind: Kind,
    ) -> Checked<()> {
        self.shared(cluster, at, data.len() as u64, kind)?;
        let memory = cluster.shared[at.rank as usize].bytes();
        if swizzle == Swizzle::None {
            memory.copy_in(at.offset as usize, data);
            return Ok(());
        }
        for (i, chunk) in data.chunks(CHUNK).enumerate() {
            let to = swizzled(swizzle, at.offset + (CHUNK * i) as u64);
            memory.copy_in(to as usize, chunk);
        }
        Ok(())
    }

    /// Reads shared memory, each 16-byte chunk from its swizzled address.
    pub(super) fn read_shared(
        &self,
        cluster: &Cluster,
        at: Place,
        bytes: usize,
        swizzle: Swizzle,
        kind: Kind,
    ) -> Checked<Vec<u8>> {
        self.shared(cluster, at, bytes as u64, kind)?;
        let memory = cluster.shared[at.rank as usize].bytes();
        let mut data = vec![0; bytes];
        for (i, chunk) in data.chunks_mut(CHUNK).enumerate() {
            let from = swizzled(swizzle, at.offset + (CHUNK * i) as u64);
            if cluster.checks.unwritten && !memory.range_written(from as usize, chunk.len()) {
                let len = chunk.len() as u64;
                self.unwritten(cluster, || {
                    uninitialized_range(Space::Shared, from, len).of_shared(at.rank, from, len)
                })?;
            }
            memory.copy_out(from as usize, chunk);
        }
        Ok(data)
    }

    /// Checks that apply to every range of shared memory that a copy touches; bounds were checked
    /// at issue.
    fn shared(&self, cluster: &Cluster, at: Place, bytes: u64, kind: Kind) -> Checked<()> {
        let intent = intent(kind);
        let table = cluster.mbarriers.borrow();
        if let Some(found) = table.within(at.rank, at.offset, bytes) {
            let fault = touches_mbarrier(intent.verb(), bytes, at.offset, found);
            return Err(self.blame(fault));
        }
        let mut order = cluster.order.borrow_mut();
        if order.is_on() && kind != Kind::STRONG_READ {
            let actor = Actor::Operation(&self.operation);
            let target = Target::Shared { rank: at.rank };
            order
                .range(actor, target, kind, self.proxy, at.offset, bytes)
                .map_err(|fault| self.blame(fault))?;
        }
        Ok(())
    }
}

/// What a kind of access does. The read of a reduction (`StrongRead`) counts as the write after it.
fn intent(kind: Kind) -> Intent {
    match kind {
        Kind::Read | Kind::StrongRead(_) => Intent::Read,
        Kind::Write | Kind::StrongWrite(_) => Intent::Write,
    }
}

/// The swizzled address of the byte that would be at `address` without swizzle.
pub(super) fn swizzled(swizzle: Swizzle, address: u64) -> u64 {
    let chunks = swizzle.span().map_or(0, |span| span / CHUNK as u64 - 1);
    address ^ (address >> 7 & chunks) << 4
}
