//! Pingpong: whose turn it is to multiply.

use cuda_std::barrier;
use spec::gemm::sm90::{CONSUMERS, WARPGROUP};

/// Whose turn it is to multiply: a named barrier each, at which the one who waits for its turn and
/// the one who passes it meet.
#[derive(Clone, Copy)]
pub(super) struct Turns {
    pub(super) consumer_idx: u32,
}

impl Turns {
    /// The barrier 0 is `sync_threads`'s.
    const BARRIERS: u32 = 1;
    const THREADS: u32 = CONSUMERS * WARPGROUP;

    /// The first turn is consumer 0's.
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

    /// After the last turn of all there is nobody to pass it to.
    #[inline(always)]
    pub(super) unsafe fn pass(self, is_last_round: bool) {
        if !(is_last_round && self.consumer_idx == 1) {
            let other = 1 - self.consumer_idx;
            // SAFETY: a whole warpgroup; the other one waits there.
            unsafe { barrier::bar_arrive(Self::BARRIERS + other, Self::THREADS) };
        }
    }
}
