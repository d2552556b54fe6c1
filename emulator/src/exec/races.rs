//! Where accesses of warps are handed to the race check.

use super::access::Intent;
use super::block::{Block, BlockRun};
use super::fault::Checked;
use super::row::{LANES, Row};
use super::warp::Warp;
use crate::check::{Actor, FlagUse, Kind, Order, Stamp, Target, Values};
use crate::footprint::Way;
use crate::memory::lanes::Planes;
use crate::memory::words::{Bytes, Word, low_bits};
use crate::program::{Inst, Scope, Strength};

/// The instruction that the accesses of a warp belong to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Site {
    /// Position of the instruction.
    pub(crate) pc: u32,
    /// Warp in the block.
    pub(crate) warp: u32,
    /// Its memory-ordering strength.
    pub(crate) strength: Strength,
    /// Its scope.
    pub(crate) scope: Scope,
    /// Whether it is the read of an atomic, which counts as the write that follows.
    pub(crate) atomic: bool,
}

impl From<Intent> for Kind {
    fn from(intent: Intent) -> Self {
        match intent {
            Intent::Read => Self::Read,
            Intent::Write => Self::Write,
        }
    }
}

impl Site {
    /// The site of an instruction that begins.
    #[inline(always)]
    pub(super) fn new(warp: u32, pc: u32, inst: &Inst) -> Self {
        Self {
            pc,
            warp,
            strength: inst.strength,
            scope: inst.scope,
            atomic: false,
        }
    }

    /// The maker of the accesses.
    fn actor(self, block: &Block<'_>) -> Actor<'static> {
        Actor::Warp {
            warp: block.agent(self.warp),
            pc: self.pc,
        }
    }

    /// Records the reads of the lanes of `mask`.
    #[inline(always)]
    pub(super) fn read(
        self,
        block: &Block<'_>,
        target: Target,
        offsets: &Row<u64>,
        mask: u32,
        bytes: usize,
    ) -> Checked<()> {
        if self.atomic {
            return Ok(());
        }
        let kind = match self.strength.is_strong() {
            true => Kind::StrongRead(self.scope),
            false => Kind::Read,
        };
        self.leave(block, target, false, offsets, mask, bytes);
        if !block.launch.checks.races {
            return Ok(());
        }
        let mut order = block.cluster.order.borrow_mut();
        let actor = self.actor(block);
        self.use_peer(block, &mut order, target, offsets, mask);
        if self.strength == Strength::NonCoherent {
            order.only_read(actor, target, offsets, mask, bytes)?;
        }
        if kind == Kind::Read {
            return order.lanes(actor, target, kind, offsets, mask, bytes);
        }
        order.lanes(actor, target, kind, offsets, mask, bytes)?;
        let warp = block.agent(self.warp);
        let usage = (self.strength, self.scope, FlagUse::Read);
        order.strong(warp, target, usage, offsets, mask);
        Ok(())
    }

    /// Adds an access to the launch's footprint.
    #[inline(always)]
    fn leave(
        self,
        block: &Block<'_>,
        target: Target,
        writes: bool,
        offsets: &Row<u64>,
        mask: u32,
        bytes: usize,
    ) {
        let way = Way {
            writes,
            strong: self.strength.is_strong(),
        };
        if let (Some(footprint), Target::Global { allocation }) = (&block.launch.footprint, target)
        {
            footprint.lanes((allocation, self.pc), way, offsets, mask, bytes as u64);
        }
    }

    /// Records a use of another block's shared memory.
    #[inline(always)]
    fn use_peer(
        self,
        block: &Block<'_>,
        order: &mut Order,
        target: Target,
        offsets: &Row<u64>,
        mask: u32,
    ) {
        if let Target::Shared { rank } = target
            && rank != block.rank
        {
            let lane = mask.trailing_zeros();
            let warp = block.agent(self.warp);
            order.use_peer(
                warp,
                rank,
                (self.pc, lane),
                offsets.0[lane as usize % LANES],
            );
        }
    }

    /// Records the writes that the lanes of `mask` are about to do.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "what an access is made of")]
    pub(super) fn write<W: Word>(
        self,
        block: &Block<'_>,
        target: Target,
        offsets: &Row<u64>,
        mask: u32,
        bytes: usize,
        planes: &Planes,
        memory: Bytes<'_, W>,
    ) -> Checked<()> {
        let kind = match self.strength.is_strong() {
            true => Kind::StrongWrite(self.scope),
            false => Kind::Write,
        };
        self.leave(block, target, true, offsets, mask, bytes);
        if !block.launch.checks.races {
            return Ok(());
        }
        let holds = |offset: u64, bytes: u32, value: u32| {
            let at = offset as usize;
            let bits = low_bits(8 * bytes as usize);
            memory.words[at / 4].load() >> (8 * (at % 4)) & bits == value
        };
        let values = Values {
            planes,
            holds: &holds,
        };
        let mut order = block.cluster.order.borrow_mut();
        let actor = self.actor(block);
        self.use_peer(block, &mut order, target, offsets, mask);
        order.note(actor, target, kind, offsets, mask, bytes, Some(&values))?;
        if self.strength.is_strong() {
            let usage = match self.atomic {
                true => FlagUse::Atomic,
                false => FlagUse::Write,
            };
            let warp = block.agent(self.warp);
            let usage = (self.strength, self.scope, usage);
            order.strong(warp, target, usage, offsets, mask);
        }
        Ok(())
    }
}

impl Warp {
    /// `membar` or `fence`.
    pub(super) fn fence(&self, block: &Block<'_>, scope: Scope) {
        if block.launch.checks.races {
            let mut order = block.cluster.order.borrow_mut();
            order.fence(block.agent(self.index), scope);
        }
    }

    /// `bar.warp.sync` of the lanes of `set`.
    pub(super) fn synchronize(&self, block: &Block<'_>, set: u32) {
        if block.launch.checks.races {
            let mut order = block.cluster.order.borrow_mut();
            order.warp_sync(block.agent(self.index), set | !self.paths.live());
        }
    }
}

impl BlockRun<'_> {
    /// A warp goes on after a barrier at `pc`, and acquires what all arrivals released.
    pub(super) fn learn(&self, (warp, pc): (u32, u32), stamp: &Stamp) {
        let mut order = self.block.cluster.order.borrow_mut();
        let agent = self.block.agent(warp);
        let since = order.steps.of(agent);
        order.acquire(agent, stamp);
        drop(order);
        self.record_release(warp, since, pc);
    }
}

impl Block<'_> {
    /// What a warp releases when it arrives at a barrier.
    pub(super) fn arrival(&self, warp: u32) -> Stamp {
        let mut order = self.cluster.order.borrow_mut();
        order.release(self.agent(warp))
    }
}
