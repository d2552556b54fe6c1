//! Where the accesses of warps meet the checks for races.

use super::access::Intent;
use super::block::{Block, BlockRun};
use super::fault::Checked;
use super::row::{LANES, Row};
use super::warp::Warp;
use crate::check::{Actor, Kind, Stamp, Target, Values};
use crate::memory::lanes::Planes;
use crate::memory::words::{Bytes, Word, low_bits};

/// What the accesses of a warp are part of.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Site {
    /// Position of the instruction.
    pub(crate) pc: u32,
    /// Warp in the block.
    pub(crate) warp: u32,
    /// Volatile, relaxed or stronger.
    pub(crate) strong: bool,
    /// The read of an atomic, which counts as the write that follows.
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
    /// An instruction that a warp begins.
    #[inline(always)]
    pub(super) fn new(warp: u32, pc: u32) -> Self {
        Self {
            pc,
            warp,
            strong: false,
            atomic: false,
        }
    }

    /// Who accesses.
    fn actor(self, block: &Block<'_>) -> Actor<'static> {
        Actor::Warp {
            warp: in_cluster(block, self.warp),
            pc: self.pc,
        }
    }

    /// Notes what the lanes of `mask` read.
    #[inline(always)]
    pub(super) fn read(
        self,
        block: &Block<'_>,
        target: Target,
        offsets: &Row<u64>,
        mask: u32,
        bytes: usize,
    ) -> Checked<()> {
        if !block.launch.checks.races || self.atomic {
            return Ok(());
        }
        let kind = match self.strong {
            true => Kind::StrongRead,
            false => Kind::Read,
        };
        let mut order = block.cluster.order.borrow_mut();
        order.lanes(self.actor(block), target, kind, offsets, mask, bytes)
    }

    /// Notes what they are about to write.
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
        if !block.launch.checks.races {
            return Ok(());
        }
        let kind = match self.strong || self.atomic {
            true => Kind::StrongWrite,
            false => Kind::Write,
        };
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
        order.note(actor, target, kind, offsets, mask, bytes, Some(&values))
    }
}

impl Warp {
    /// `bar.warp.sync` of the lanes of `set`.
    pub(super) fn synchronize(&self, block: &Block<'_>, set: u32) {
        if block.launch.checks.races {
            let mut order = block.cluster.order.borrow_mut();
            order.warp_sync(in_cluster(block, self.index), set | !self.paths.live());
        }
    }
}

/// Index in the cluster of a warp of a block.
fn in_cluster(block: &Block<'_>, warp: u32) -> u32 {
    let threads: u32 = block.launch.config.block.iter().product();
    block.rank * threads.div_ceil(LANES as u32) + warp
}

impl BlockRun<'_> {
    /// A warp goes on behind a barrier, and knows what all knew that arrived.
    pub(super) fn learn(&self, warp: u32, stamp: &Stamp) {
        let mut order = self.block.cluster.order.borrow_mut();
        order.acquire(in_cluster(&self.block, warp), stamp);
    }
}

impl Block<'_> {
    /// What a warp hands over when it arrives at a barrier.
    pub(super) fn arrival(&self, warp: u32) -> Stamp {
        match self.launch.checks.races {
            true => {
                let mut order = self.cluster.order.borrow_mut();
                order.release(in_cluster(self, warp))
            }
            false => Stamp::default(),
        }
    }
}
