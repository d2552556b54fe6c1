//! The order of tiles when sequences have different lengths: tiles are counted, so that no tile
//! index is spent on a tile without queries, or without keys.
//!
//! If all sequences have the same lengths, a tile's coordinates follow from its index by division.
//! Otherwise a warp counts once: each lane counts the tiles of its share of the sequences, and a
//! prefix sum over the lanes follows. Each lane keeps one number. Which sequence of a lane's share a
//! tile belongs to is counted again for every tile.

use abi::attention::{FlashFwdLengths, FlashFwdParams, Sequence};
use cuda_std::hint::opaque;
use cuda_std::thread;
use cuda_std::warp::{self, FULL_MASK, uniform};

use crate::attention::lengths::sequence;

const LANES: u32 = 32;

/// A tile, as its sequence and its index in it.
#[derive(Clone, Copy)]
pub(crate) struct InSequence {
    /// Its sequence.
    pub(crate) batch_idx: u32,
    /// Number of queries of the sequence.
    pub(crate) queries: u32,
    /// Index among the tiles of the sequence.
    pub(crate) index: u32,
}

/// What tiles are counted by.
#[derive(Clone, Copy)]
pub(crate) struct Count<'a, Tiles> {
    pub(crate) lengths: &'a FlashFwdLengths,
    pub(crate) params: &'a FlashFwdParams,
    /// Number of tiles of a sequence.
    pub(crate) tiles: Tiles,
}

impl<Tiles: Fn(&Sequence) -> u32> Count<'_, Tiles> {
    /// Number of tiles of all sequences up to the last of this lane's share.
    ///
    /// # Safety
    /// The warp calls it, converged; the lengths are those of a launch.
    #[inline(always)]
    pub(crate) unsafe fn through(&self) -> u32 {
        let lane = thread::thread_idx_x() % LANES;
        let share = self.share();
        let first = lane * share;
        let end = self.params.batch.min(first.wrapping_add(share));
        let mut batch_idx = first;
        let mut through = 0;
        // SAFETY: sequences of the batch; lanes reconverge after the loop.
        unsafe {
            while batch_idx < end {
                through += (self.tiles)(&self.of(batch_idx));
                batch_idx += 1;
            }
            sum_through(lane, through)
        }
    }

    /// Number of all tiles; `through` is what [`through`](Self::through) returned.
    ///
    /// # Safety
    /// The warp calls it, converged.
    #[inline(always)]
    pub(crate) unsafe fn all(&self, through: u32) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { warp::shfl_idx(FULL_MASK, through, LANES - 1) }
    }

    /// The tile at `index`, which is less than [`all`](Self::all).
    ///
    /// # Safety
    /// As for [`through`](Self::through), which returned `through`; all lanes have the same index.
    #[inline(always)]
    pub(crate) unsafe fn find(&self, through: u32, index: u32) -> InSequence {
        // SAFETY: the caller's promise. The lanes whose share ends at or before the index are the
        // first ones; the lane after them has it.
        unsafe {
            let whose = warp::vote_ballot(FULL_MASK, through <= index).count_ones();
            let before = warp::shfl_idx(FULL_MASK, through, whose.wrapping_sub(1) % LANES);
            let index = if whose == 0 { index } else { index - before };
            self.search(whose * self.share(), index)
        }
    }

    /// The tile at `index` among the tiles of the sequences from `first` on. The lanes look at one
    /// sequence each, because each length has to be loaded from memory.
    ///
    /// # Safety
    /// As for [`find`](Self::find).
    #[inline(always)]
    unsafe fn search(&self, mut first: u32, mut index: u32) -> InSequence {
        // SAFETY: the caller's promise; sequences of the batch.
        unsafe {
            loop {
                let lane = thread::thread_idx_x() % LANES;
                let (mut queries, mut tiles) = (0, 0);
                if first + lane < self.params.batch {
                    let sequence = self.of(first + lane);
                    (queries, tiles) = (sequence.q.len, (self.tiles)(&sequence));
                }
                let through = sum_through(lane, tiles);
                let in_lane = index.wrapping_sub(through).wrapping_add(tiles);
                let behind = warp::vote_ballot(FULL_MASK, through > index);
                // The last sequences have it in any case, even if lengths changed in memory
                // meanwhile.
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

    /// Number of sequences of a lane's share.
    #[inline(always)]
    fn share(&self) -> u32 {
        // Opaque, so that it is recomputed: keeping it would take a register.
        opaque(self.params.batch).div_ceil(LANES)
    }

    /// Number of tiles of all sequences before `batch_idx`.
    ///
    /// # Safety
    /// As for [`through`](Self::through); all lanes have the same sequence.
    #[inline(always)]
    pub(crate) unsafe fn before(&self, batch_idx: u32) -> u32 {
        let lane = thread::thread_idx_x() % LANES;
        let mut at = lane;
        let mut tiles = 0;
        // SAFETY: sequences of the batch; lanes reconverge after the loop.
        unsafe {
            while at < batch_idx {
                tiles += (self.tiles)(&self.of(at));
                at += LANES;
            }
            warp::shfl_idx(FULL_MASK, sum_through(lane, tiles), LANES - 1)
        }
    }

    /// # Safety
    /// As for [`sequence`].
    #[inline(always)]
    pub(crate) unsafe fn of(&self, batch_idx: u32) -> Sequence {
        // SAFETY: the caller's promise.
        unsafe { sequence(self.lengths, self.params, batch_idx) }
    }
}

/// Inclusive prefix sum of `mine` over the lanes.
///
/// # Safety
/// The warp calls it, converged.
#[inline(always)]
unsafe fn sum_through(lane: u32, mine: u32) -> u32 {
    let mut through = mine;
    let mut delta = 1;
    while delta < LANES {
        // SAFETY: the caller's promise.
        let below = unsafe { warp::shfl_up(FULL_MASK, through, delta) };
        if lane >= delta {
            through += below;
        }
        delta *= 2;
    }
    through
}
