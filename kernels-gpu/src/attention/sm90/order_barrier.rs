//! The order in which consumer warpgroups issue their `wgmma`s (FlashAttention-3's ping-pong).

use abi::gemm::sm90::WARPGROUP;
use cuda_std::barrier;

/// The turn to issue `wgmma`s. Each consumer has a named barrier at which it waits for its turn;
/// the consumer before it passes the turn by arriving there.
#[derive(Clone, Copy)]
pub(super) struct OrderBarrier {
    pub(super) consumer_idx: u32,
    pub(super) consumers: u32,
}

impl OrderBarrier {
    /// The first of the named barriers: 0 is `sync_threads`'s.
    const BARRIERS: u32 = 1;
    const THREADS: u32 = 2 * WARPGROUP;

    /// Gives consumer 0 the first turn: the last consumer passes it.
    #[inline(always)]
    pub(super) unsafe fn open(self) {
        if self.consumer_idx == self.consumers - 1 {
            // SAFETY: a whole warpgroup; consumer 0 waits there.
            unsafe { self.pass() };
        }
    }

    #[inline(always)]
    pub(super) unsafe fn wait(self) {
        // SAFETY: a whole warpgroup; the one before passes the turn.
        unsafe { barrier::bar_sync(Self::BARRIERS + self.consumer_idx, Self::THREADS) };
    }

    #[inline(always)]
    pub(super) unsafe fn pass(self) {
        let next = if self.consumer_idx + 1 == self.consumers {
            0
        } else {
            self.consumer_idx + 1
        };
        // SAFETY: a whole warpgroup; the next one waits there.
        unsafe { barrier::bar_arrive(Self::BARRIERS + next, Self::THREADS) };
    }

    /// Takes the turn that is left over at the end, so that no barrier is left with half of its
    /// arrivals.
    #[inline(always)]
    pub(super) unsafe fn close(self) {
        if self.consumer_idx == 0 {
            // SAFETY: a whole warpgroup; the last one passed it, at the start or after its last turn.
            unsafe { self.wait() };
        }
    }
}
