//! A ring of stages in shared memory, each with two mbarriers.

use cuda_std::mbarrier::Mbarrier;
use cuda_std::shared::SharedAddr;

const BARRIER_BYTES: u32 = 8;

/// The stages and their barriers.
#[derive(Clone, Copy)]
pub(super) struct Ring {
    pub(super) stages: SharedAddr,
    pub(super) stage_bytes: u32,
    pub(super) count: u32,
    pub(super) barriers: SharedAddr,
}

impl Ring {
    #[inline(always)]
    pub(super) fn stage(&self, stage_idx: u32) -> SharedAddr {
        self.stages.add_bytes(stage_idx * self.stage_bytes)
    }

    /// The full barrier of a stage, which says that it has landed: one arrival, and the stage's
    /// bytes.
    #[inline(always)]
    pub(super) fn landed(&self, stage_idx: u32) -> Mbarrier {
        self.barrier(2 * stage_idx)
    }

    /// The empty barrier of a stage, which says that nobody reads it any more: one arrival of each
    /// reader.
    #[inline(always)]
    pub(super) fn free(&self, stage_idx: u32) -> Mbarrier {
        self.barrier(2 * stage_idx + 1)
    }

    #[inline(always)]
    fn barrier(&self, barrier_idx: u32) -> Mbarrier {
        Mbarrier::at(self.barriers.add_bytes(barrier_idx * BARRIER_BYTES))
    }
}

/// A place in a ring: which stage, and the parity of its phase.
#[derive(Clone, Copy, Default)]
pub(super) struct RingState {
    pub(super) stage_idx: u32,
    pub(super) parity: u32,
}

impl RingState {
    /// Advances to the next of `count` stages.
    #[inline(always)]
    pub(super) fn advance(&mut self, count: u32) {
        self.stage_idx += 1;
        if self.stage_idx == count {
            self.stage_idx = 0;
            self.parity ^= 1;
        }
    }
}
