//! Asynchronous instructions: resolves their operands, and calls what carries them out.

use super::access_faults::{exited_peer, no_such_rank, shared_fault};
use super::block::{Block, BlockRun};
use super::fault::{Checked, Fault};
use super::mbarrier::{Place, misuse};
use super::path::{Path, State};
use super::registers::Slot;
use super::row::{LANES, Lanes, Row};
use super::warp::Warp;
use crate::memory::shared::SHARED_BASE;
use crate::memory::space::Space;
use crate::program::{Asynchronous, GroupKind, MbarrierKind, Pointer, Width};
use crate::report::FaultKind;

impl Asynchronous {
    /// Whether the wait may end before what it waits for has happened.
    pub(crate) fn has_time_limit(&self) -> bool {
        match self {
            Self::Mbarrier(op) => matches!(op.kind, MbarrierKind::Wait { blocks: true, .. }),
            _ => false,
        }
    }

    /// Whether it tests or waits for a phase of an mbarrier.
    pub(crate) fn asks(&self) -> bool {
        matches!(self, Self::Mbarrier(op) if matches!(op.kind, MbarrierKind::Wait { .. }))
    }

    /// Whether all lanes of a warp must reach it together.
    pub(crate) fn is_aligned(&self) -> bool {
        match self {
            Self::ClusterBarrier { aligned, .. } => *aligned,
            Self::SetRegisters { .. } | Self::CopyMap { .. } => true,
            _ => false,
        }
    }
}

impl Warp {
    /// Runs an asynchronous instruction. Returns true if the path waits or has been split.
    pub(crate) fn asynchronous(
        &mut self,
        block: &mut Block<'_>,
        op: &Asynchronous,
        index: usize,
        active: u32,
    ) -> Checked<bool> {
        match op {
            Asynchronous::Mbarrier(op) => return self.mbarrier(block, op, index, active),
            Asynchronous::BulkCopy(op) => self.bulk_copy(block, op, index, active)?,
            Asynchronous::LaneCopy(op) => self.lane_copy(block, op, index, active)?,
            Asynchronous::ArriveAfterCopies { at, expected } => {
                self.arrive_after_copies(block, at, *expected, index, active)?;
            }
            Asynchronous::RemoteStore(op) => self.remote_store(block, op, index, active)?,
            Asynchronous::ReplaceField(op) => self.replace_field(block, op, index, active)?,
            Asynchronous::CopyMap { to, from } => {
                if active != self.paths.live() {
                    self.uncount(active);
                    self.part(index, active, State::Converging);
                    return Ok(true);
                }
                self.copy_map(block, to, from, index, active)?;
            }
            Asynchronous::CommitGroup(kind) => {
                let mut groups = block.cluster.groups.borrow_mut();
                groups.of(*kind, block.agent(self.index)).commit(active);
            }
            Asynchronous::WaitGroup { kind, leave, read } => {
                return Ok(self.wait_group(block, *kind, *leave, *read, index, active));
            }
            Asynchronous::ProxyFence => {
                let mut order = block.cluster.order.borrow_mut();
                order.proxy_fence(block.agent(self.index));
            }
            Asynchronous::ClusterBarrier {
                wait,
                aligned,
                ordered,
            } => {
                return self.cluster_barrier(block, (*wait, *aligned, *ordered), index, active);
            }
            Asynchronous::RankOf { d, a } => {
                let constants = &block.launch.program.constants;
                let a = match a.width {
                    Width::B64 => *self.regs.row::<u64>(constants, a.slot),
                    _ => self.regs.row::<u32>(constants, a.slot).map(u64::from),
                };
                let named = a.map(|a| (a >> super::cluster::RANK_SHIFT & 0xff) as u32);
                let own = block.rank;
                let rank = named.map(|named| named.checked_sub(1).unwrap_or(own));
                self.regs.put(d.slot, &rank, active);
            }
            Asynchronous::SetRegisters { count, increase } => {
                return self.set_registers(block, *count, *increase, index, active);
            }
        }
        Ok(false)
    }

    fn wait_group(
        &mut self,
        block: &Block<'_>,
        kind: GroupKind,
        leave: Option<u32>,
        read: bool,
        index: usize,
        active: u32,
    ) -> bool {
        let agent = block.agent(self.index);
        let mut all = block.cluster.groups.borrow_mut();
        let groups = all.of(kind, agent);
        let waiting = groups.pending(active, leave, read);
        let over = active & !waiting;
        if over != 0 {
            // Lanes whose copies have ended go on, even while others of the warp wait.
            let stamp = groups.retire(over, leave, read);
            block.cluster.order.borrow_mut().acquire(agent, &stamp);
        }
        drop(all);
        if waiting != 0 {
            self.block_on(index, waiting);
            return true;
        }
        block.counters.wait(crate::profile::Waited::Copies);
        false
    }

    /// The offset in the window of shared memory, for each lane of `mask`.
    pub(super) fn shared_addresses(
        &self,
        block: &Block<'_>,
        at: &Pointer,
        index: usize,
        mask: u32,
    ) -> Checked<Row<u64>> {
        let rows = self.addresses(block, at.base, at.offset, index);
        if at.space == Space::Shared {
            return Ok(rows);
        }
        for lane in Lanes(mask) {
            let address = rows.0[lane];
            if Space::of_generic(address) != Space::Shared {
                let message = format!(
                    "0x{address:x} is an address of {} memory, where shared memory is needed",
                    Space::of_generic(address).name()
                );
                let fault = Fault::new(FaultKind::OutOfBounds, Some(lane as u32), message);
                return Err(fault.at(address));
            }
        }
        let window = Space::Shared.window();
        Ok(rows.map(|address| address.wrapping_sub(window)))
    }

    /// The value of a register in one lane.
    pub(super) fn lane32(&self, block: &Block<'_>, slot: Slot, lane: usize) -> u32 {
        let constants = &block.launch.program.constants;
        self.regs.row::<u32>(constants, slot).0[lane]
    }

    /// The same for a 64-bit register.
    pub(super) fn lane64(&self, block: &Block<'_>, slot: Slot, lane: usize) -> u64 {
        let constants = &block.launch.program.constants;
        self.regs.row::<u64>(constants, slot).0[lane]
    }
}

impl Block<'_> {
    /// Index of a warp of this block in the cluster.
    pub(crate) fn agent(&self, warp: u32) -> u32 {
        let threads: u32 = self.launch.config.block.iter().product();
        self.rank * threads.div_ceil(LANES as u32) + warp
    }

    /// The place of `bytes` at a shared address, which must be aligned to `align`.
    pub(super) fn shared_place(
        &self,
        address: u64,
        lane: usize,
        bytes: u64,
        align: u64,
        what: &str,
    ) -> Checked<Place> {
        let cluster = &self.cluster;
        let by = lane as u32;
        let (rank, offset) = cluster
            .place(self.rank, address)
            .map_err(|rank| no_such_rank(address, by, rank, cluster.shared.len()))?;
        if cluster.exited[rank as usize].get() {
            return Err(exited_peer(address, by, rank));
        }
        let end = cluster.shared[rank as usize].len();
        if offset < SHARED_BASE || offset + bytes > end || !offset.is_multiple_of(align) {
            let region = (SHARED_BASE, end);
            return Err(shared_fault(offset, bytes, align, region, what).by(by));
        }
        Ok(Place { rank, offset })
    }

    /// The same, but it must be in the block's own memory.
    pub(super) fn own_place(&self, place: Place, lane: usize, what: &str) -> Checked<Place> {
        if place.rank == self.rank {
            return Ok(place);
        }
        let message = format!(
            "{what} lies in the shared memory of rank {}, but must lie in the block's own",
            place.rank
        );
        Err(misuse(Some(lane as u32), message).at(place.offset))
    }
}

impl BlockRun<'_> {
    /// Refuses the exit of a block that leaves copies in flight; `last` is the warp that exited
    /// last.
    pub(super) fn check_exit(&self, last: usize) -> Checked<()> {
        let block = &self.block;
        let agents = block.agent(0)..block.agent(self.warps.len() as u32);
        let unread = block.cluster.groups.borrow().unread(agents);
        if let Some((agent, lane, pc)) = unread {
            let message = "the block exits, and the thread did not wait until a copy out of its \
                           shared memory had read it"
                .to_owned();
            let mut fault = Fault::new(FaultKind::LeftInFlight, Some(lane), message).note(
                "cp.async.bulk.commit_group, then cp.async.bulk.wait_group.read 0, before it exits"
                    .to_owned(),
            );
            (fault.pc, fault.warp) = (pc, agent - block.agent(0));
            return Err(fault);
        }
        if let Some(fault) = block.registers.left_out() {
            return Err(fault);
        }
        let cluster = &block.cluster;
        if let Some(fault) = cluster.order.borrow().exit(block.rank) {
            return Err(fault.note(format!("warp {last} was the last to exit")));
        }
        let flying = cluster.engine.borrow().left_behind(cluster, block.rank);
        match flying.or_else(|| self.not_waited_for()) {
            Some(fault) => Err(fault.note(format!("warp {last} was the last to exit"))),
            None => Ok(()),
        }
    }

    /// The fault of a block that exits when a copy into its memory has landed by chance: nobody
    /// has waited for it.
    fn not_waited_for(&self) -> Option<Box<Fault>> {
        let table = self.block.cluster.mbarriers.borrow();
        let (mbarrier, copy) = table.unseen(self.block.rank)?;
        let message = format!(
            "the block of rank {} exits, and nobody has waited for a copy of {} bytes to 0x{:x} of \
             its shared memory, which may be in flight",
            copy.target.rank, copy.bytes, copy.target.offset
        );
        let mut fault =
            Fault::new(FaultKind::LeftInFlight, Some(copy.lane), message).note(format!(
                "wait for the mbarrier at 0x{:x} of rank {} before its last thread exits",
                mbarrier.offset, mbarrier.rank
            ));
        (fault.rank, fault.warp, fault.pc) = (copy.rank, copy.warp, copy.pc);
        fault.placed = true;
        Some(fault)
    }

    /// Why a path that waits at an asynchronous instruction waits for ever, if there is more to say
    /// than what it waits for.
    pub(crate) fn advise(&self, path: &Path, warp: u32, op: &Asynchronous) -> Option<String> {
        match op {
            Asynchronous::Mbarrier(op) => {
                self.warps[warp as usize].advise_mbarrier(&self.block, op, path)
            }
            _ => None,
        }
    }

    /// What a path waits for at an asynchronous instruction, as a report's text.
    pub(crate) fn describe_asynchronous(
        &self,
        path: &Path,
        warp: u32,
        op: &Asynchronous,
    ) -> String {
        let block = &self.block;
        let warp = &self.warps[warp as usize];
        match op {
            Asynchronous::Mbarrier(op) => warp.describe_mbarrier(block, op, path),
            Asynchronous::WaitGroup { kind, .. } => {
                let mut groups = block.cluster.groups.borrow_mut();
                let agent = block.agent(warp.index);
                groups.of(*kind, agent).describe(path.mask)
            }
            Asynchronous::ClusterBarrier { .. } => block.cluster.barrier.borrow().describe(),
            Asynchronous::SetRegisters { count, .. } => block.registers.describe(*count),
            _ => String::new(),
        }
    }
}
