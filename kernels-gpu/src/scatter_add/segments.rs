//! Where segments begin in sorted pairs. All lanes of a warp ask the same, together.

use abi::scatter_add::{CHUNK, PART};
use cuda_std::atomic::{Order, Scope, atom_add};
use cuda_std::warp;

use super::pairs::index;
use crate::rank::{lane_idx, warp_idx};

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

    /// The pair of this rank, or what follows the last one.
    ///
    /// # Safety
    /// The last pair is at most [`PAD`](abi::scatter_add::PAD) before it.
    #[inline(always)]
    pub(super) unsafe fn next(&self, rank: u32) -> u64 {
        // SAFETY: passed on to the caller.
        unsafe { self.pairs.add(rank as usize).read() }
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
    unsafe fn begin(&self, last: u32, own: u32) -> u32 {
        let back = lane_idx() + 1;
        // SAFETY: ranks up to `last`; all lanes are here.
        unsafe {
            // Most segments are short: it may be one of the 32 before.
            let is_equal = index(self.next(last.saturating_sub(back))) == own;
            let equal = warp::vote_ballot(warp::FULL_MASK, is_equal).trailing_ones();
            let (mut low, mut high) = (0, last.saturating_sub(equal));
            while low < high && equal == 32 {
                let middle = (low + high) / 2;
                if index(self.next(middle)) == own {
                    high = middle;
                } else {
                    low = middle + 1;
                }
            }
            high
        }
    }

    /// Which of the 32 pairs from `first` on begin a part, and which a segment: masks.
    ///
    /// # Safety
    /// There is a pair `first`; all lanes are here.
    #[inline(always)]
    unsafe fn parts(&self, first: u32) -> (u32, u32) {
        let lane = lane_idx();
        let rank = first + lane;
        // SAFETY: passed on to the caller.
        unsafe {
            let own = index(self.pair(rank));
            let before = index(self.pair(rank.saturating_sub(1)));
            let is_new = (rank < self.len) & ((rank == 0) | (before != own));
            let new = warp::vote_ballot(warp::FULL_MASK, is_new);
            if new & 1 == 1 {
                return (new, new);
            }
            // Those in front go on with a segment, of which a part may begin here.
            let begin = self.begin(first, index(self.pair(first)));
            let goes_on = (rank < self.len) & (new & (u32::MAX >> (31 - lane)) == 0);
            let is_part = goes_on & (rank - begin).is_multiple_of(PART);
            (new | warp::vote_ballot(warp::FULL_MASK, is_part), new)
        }
    }

    /// Writes where parts begin, of each `step` pairs those from `first` on, as many as the block
    /// has threads; and which segments have several parts.
    ///
    /// # Safety
    /// There are pairs, a word for each 32 of them, and room for all long segments, of which there
    /// are none yet; all threads of the block are here.
    #[inline(always)]
    pub(super) unsafe fn write_parts(
        &self,
        begins: *mut u32,
        longs: *mut u32,
        extent: u32,
        (first, step): (u32, u32),
    ) {
        let mut first = first + warp_idx() * CHUNK;
        while first < self.len {
            let rank = first + lane_idx();
            // SAFETY: passed on to the caller; a word is one warp's, and a place in the list one
            // thread's.
            unsafe {
                let (parts, new) = self.parts(first);
                let own = index(self.pair(rank));
                let is_long = (new >> lane_idx() & 1 == 1) & (own < extent);
                if is_long && self.has(rank + PART, own) {
                    let slot = atom_add(longs, 1, Order::Relaxed, Scope::Gpu);
                    longs.add(1 + slot as usize).write(rank);
                }
                if lane_idx() == 0 {
                    begins.add((first / CHUNK) as usize).write(parts);
                }
            }
            first += step;
        }
    }
}
