//! Tiles of sequences that differ in queries: counted, so that no index is spent on a tile without any.
//!
//! Where all sequences have as many queries, a tile's place follows from its index by division. Where
//! they do not, a warp counts once: each lane the tiles of its share of the sequences, and those of all
//! lanes before it. One number a lane is all that stays; which sequence of a lane's share a tile
//! belongs to is counted again when it is asked for.

use cuda_std::hint::opaque;
use cuda_std::thread;
use cuda_std::warp::{self, FULL_MASK, uniform};
use spec::attention::sm90::tiles_of;
use spec::attention::{FlashFwdLengths, FlashFwdParams, Positions};

use crate::attention::lengths::sequence;

const LANES: u32 = 32;

/// Where a tile is.
#[derive(Clone, Copy)]
pub(super) struct InSequence {
    /// Its sequence.
    pub(super) batch_idx: u32,
    /// Queries of the sequence.
    pub(super) queries: u32,
    /// Which of the tiles of all of the sequence's heads.
    pub(super) index: u32,
}

/// Counts tiles.
#[derive(Clone, Copy)]
pub(super) struct Count<'a> {
    pub(super) lengths: &'a FlashFwdLengths,
    pub(super) params: &'a FlashFwdParams,
    /// Queries of a tile.
    pub(super) queries: u32,
    /// Heads that tiles are counted by.
    pub(super) heads: u32,
}

impl Count<'_> {
    /// Whether sequences may differ in queries.
    #[inline(always)]
    pub(super) fn is_needed(&self) -> bool {
        !(self.lengths.cu_seqlens_q.is_null() && self.lengths.seqused_q.is_null())
    }

    /// Tiles of all sequences up to the last of this lane's share.
    ///
    /// # Safety
    /// The warp calls it, converged; the lengths are a launch's.
    #[inline(always)]
    pub(super) unsafe fn through(&self) -> u32 {
        let lane = thread::thread_idx_x() % LANES;
        let share = self.share();
        let first = lane * share;
        let end = self.params.batch.min(first.wrapping_add(share));
        let mut batch_idx = first;
        let mut through = 0;
        // SAFETY: sequences that are there; lanes meet again behind the loop.
        unsafe {
            while batch_idx < end {
                through += self.tiles(self.of(batch_idx).len);
                batch_idx += 1;
            }
            sum_through(lane, through)
        }
    }

    /// All tiles, of what [`through`](Self::through) said.
    ///
    /// # Safety
    /// The warp calls it, converged.
    #[inline(always)]
    pub(super) unsafe fn all(through: u32) -> u32 {
        // SAFETY: the caller's.
        unsafe { warp::shfl_idx(FULL_MASK, through, LANES - 1) }
    }

    /// The tile at `index`, less than [`all`](Self::all).
    ///
    /// # Safety
    /// As for [`through`](Self::through), which said `through`; all lanes have the same index.
    #[inline(always)]
    pub(super) unsafe fn find(&self, through: u32, index: u32) -> InSequence {
        // SAFETY: the caller's; lanes whose share ends before the index are the first ones, and one
        // behind them has it.
        unsafe {
            let whose = warp::vote_ballot(FULL_MASK, through <= index).count_ones();
            let before = warp::shfl_idx(FULL_MASK, through, whose.wrapping_sub(1) % LANES);
            let index = if whose == 0 { index } else { index - before };
            self.search(whose * self.share(), index)
        }
    }

    /// The tile at `index` of the tiles of the sequences from `first` on: as many sequences as the
    /// warp has lanes at a time, side by side, as each has to be fetched from memory.
    ///
    /// # Safety
    /// As for [`find`](Self::find).
    #[inline(always)]
    unsafe fn search(&self, mut first: u32, mut index: u32) -> InSequence {
        // SAFETY: the caller's; sequences that are there.
        unsafe {
            loop {
                let lane = thread::thread_idx_x() % LANES;
                let queries = if first + lane < self.params.batch {
                    self.of(first + lane).len
                } else {
                    0
                };
                let tiles = self.tiles(queries);
                let through = sum_through(lane, tiles);
                let in_lane = index.wrapping_sub(through).wrapping_add(tiles);
                let behind = warp::vote_ballot(FULL_MASK, through > index);
                // The last sequences have it, whatever changed in memory meanwhile.
                if behind != 0 || first + LANES >= self.params.batch {
                    let at = behind.trailing_zeros() % LANES;
                    return InSequence {
                        batch_idx: first + at,
                        queries: uniform(warp::shfl_idx(FULL_MASK, queries, at)),
                        index: uniform(warp::shfl_idx(FULL_MASK, in_lane, at)),
                    };
                }
                index -= warp::shfl_idx(FULL_MASK, through, LANES - 1);
                first += LANES;
            }
        }
    }

    /// Sequences of a lane.
    #[inline(always)]
    fn share(&self) -> u32 {
        // Opaque: to keep it would take a register.
        opaque(self.params.batch).div_ceil(LANES)
    }

    /// # Safety
    /// As for [`sequence`].
    #[inline(always)]
    unsafe fn of(&self, batch_idx: u32) -> Positions {
        // SAFETY: the caller's.
        unsafe { sequence(self.lengths, self.params, batch_idx).q }
    }

    /// Tiles of a sequence of so many queries.
    #[inline(always)]
    fn tiles(&self, queries: u32) -> u32 {
        tiles_of(queries, self.queries) * self.heads
    }
}

/// The sum of `mine` over the lanes up to this one, `lane`.
///
/// # Safety
/// The warp calls it, converged.
#[inline(always)]
unsafe fn sum_through(lane: u32, mine: u32) -> u32 {
    let mut through = mine;
    let mut delta = 1;
    while delta < LANES {
        // SAFETY: the caller's.
        let below = unsafe { warp::shfl_up(FULL_MASK, through, delta) };
        if lane >= delta {
            through += below;
        }
        delta *= 2;
    }
    through
}
