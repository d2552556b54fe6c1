//! The order in which warpgroups issue products.

use cuda_std::barrier;
use spec::gemm::sm90::WARPGROUP;

/// Whose turn it is to issue products: a named barrier each, at which the one who waits for its turn
/// and the one who passes it meet.
#[derive(Clone, Copy)]
pub(super) struct Turns {
    pub(super) consumer_idx: u32,
    pub(super) consumers: u32,
}

impl Turns {
    /// The barrier 0 is `sync_threads`'s.
    const BARRIERS: u32 = 1;
    const THREADS: u32 = 2 * WARPGROUP;

    /// The first turn is consumer 0's: the last one passes it.
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

    /// Takes the turn that is left over.
    #[inline(always)]
    pub(super) unsafe fn close(self) {
        if self.consumer_idx == 0 {
            // SAFETY: a whole warpgroup; the last one passed it, at the start or after its last turn.
            unsafe { self.wait() };
        }
    }
}
