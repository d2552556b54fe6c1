//! Pingpong: which consumer may issue its `wgmma`s.

use abi::gemm::sm90::{CONSUMERS, WARPGROUP};
use cuda_std::barrier;

/// The turn to issue `wgmma`s. Each consumer has a named barrier at which it waits for its turn;
/// the other consumer passes the turn by arriving there.
#[derive(Clone, Copy)]
pub(super) struct OrderBarrier {
    pub(super) consumer_idx: u32,
}

impl OrderBarrier {
    /// The first of the two barriers: 0 is `sync_threads`'s.
    const BARRIERS: u32 = 1;
    const THREADS: u32 = CONSUMERS * WARPGROUP;

    /// Gives consumer 0 the first turn: consumer 1 arrives at its barrier.
    #[inline(always)]
    pub(super) unsafe fn open(self) {
        if self.consumer_idx == 1 {
            // SAFETY: a whole warpgroup; consumer 0 waits there.
            unsafe { barrier::bar_arrive(Self::BARRIERS, Self::THREADS) };
        }
    }

    #[inline(always)]
    pub(super) unsafe fn wait(self) {
        // SAFETY: a whole warpgroup; the other one passes the turn.
        unsafe { barrier::bar_sync(Self::BARRIERS + self.consumer_idx, Self::THREADS) };
    }

    /// Passes the turn on, except after the very last one, which nobody waits for.
    #[inline(always)]
    pub(super) unsafe fn pass(self, is_last_round: bool) {
        if !(is_last_round && self.consumer_idx == 1) {
            let other = 1 - self.consumer_idx;
            // SAFETY: a whole warpgroup; the other one waits there.
            unsafe { barrier::bar_arrive(Self::BARRIERS + other, Self::THREADS) };
        }
    }
}
