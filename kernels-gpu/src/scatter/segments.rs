//! Where segments begin in sorted pairs. All lanes of a warp ask the same, together.

use cuda_std::{thread, warp};
use spec::scatter::{CHUNK, PART};

use super::pairs::index;

/// Sorted pairs.
#[derive(Clone, Copy)]
pub(super) struct Sorted {
    pub(super) pairs: *const u64,
    pub(super) len: u32,
}

impl Sorted {
    /// The pair of this rank; beyond the last one, the last.
    ///
    /// # Safety
    /// There are pairs.
    #[inline(always)]
    pub(super) unsafe fn pair(&self, rank: u32) -> u64 {
        // SAFETY: passed on to the caller.
        unsafe { self.pairs.add(rank.min(self.len - 1) as usize).read() }
    }

    /// Whether there is a pair of this rank with this index.
    ///
    /// # Safety
    /// There are pairs.
    #[inline(always)]
    pub(super) unsafe fn has(&self, rank: u32, own: u32) -> bool {
        // SAFETY: passed on to the caller.
        (rank < self.len) & (index(unsafe { self.pair(rank) }) == own)
    }

    /// The rank of the first pair with this index, which the pair of rank `last` has.
    ///
    /// # Safety
    /// There are pairs; all lanes are here.
    #[inline(always)]
    pub(super) unsafe fn begin(&self, last: u32, own: u32) -> u32 {
        let lane = thread::lane_idx();
        // It is one from `low` up to `high`. First the 32 before the last are tried.
        let (mut low, mut high, mut step) = (0, last, 1);
        while low < high {
            // Ranks that lanes try, the highest first: that many in a row have the index.
            let back = (lane + 1).wrapping_mul(step);
            let is_there = back <= high - low;
            // SAFETY: a rank below `last`; all lanes are here.
            let equal = unsafe {
                let is_equal = is_there && index(self.pair(high - back)) == own;
                warp::vote_ballot(warp::FULL_MASK, is_equal)
            }
            .trailing_ones();
            let next = (equal + 1).saturating_mul(step);
            if equal < 32 && next <= high - low {
                low = high - next + 1;
            }
            high -= equal * step;
            step = (high - low).div_ceil(32).max(1);
        }
        low
    }

    /// Which of the 32 pairs from `first` on begin a part: a mask.
    ///
    /// # Safety
    /// There is a pair `first`; all lanes are here.
    #[inline(always)]
    unsafe fn parts(&self, first: u32) -> u32 {
        let lane = thread::lane_idx();
        let rank = first + lane;
        // SAFETY: passed on to the caller.
        unsafe {
            let own = index(self.pair(rank));
            let before = index(self.pair(rank.saturating_sub(1)));
            let is_new = (rank < self.len) & ((rank == 0) | (before != own));
            let new = warp::vote_ballot(warp::FULL_MASK, is_new);
            if new & 1 == 1 {
                return new;
            }
            // Those in front go on with a segment, of which a part may begin here.
            let begin = self.begin(first, index(self.pair(first)));
            let goes_on = (rank < self.len) & (new & (u32::MAX >> (31 - lane)) == 0);
            let is_part = goes_on & ((rank - begin) % PART == 0);
            new | warp::vote_ballot(warp::FULL_MASK, is_part)
        }
    }

    /// Writes where parts begin, of each `step` pairs those from `first` on, as many as the block has
    /// threads.
    ///
    /// # Safety
    /// There are pairs, and a word for each 32 of them; all threads of the block are here.
    #[inline(always)]
    pub(super) unsafe fn write_parts(&self, begins: *mut u32, first: u32, step: u32) {
        let mut first = first + thread::warp_idx() * CHUNK;
        while first < self.len {
            // SAFETY: passed on to the caller; a word is one warp's.
            unsafe {
                let parts = self.parts(first);
                if thread::lane_idx() == 0 {
                    begins.add((first / CHUNK) as usize).write(parts);
                }
            }
            first += step;
        }
    }
}
