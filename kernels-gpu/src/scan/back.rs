//! What comes before a tile: by looking back at what other blocks have published.
//!
//! A published number is words of 64 bits, each 32 bits of the number under a state: who reads the
//! same state in all words has the number whole, without any fence.

use cuda_std::atomic::{ld_relaxed_gpu_u64, st_relaxed_gpu_u64};
use cuda_std::{thread, warp};
use spec::scan::{GROUP, ScanParams};

use super::tile::{combined, neutral};
use crate::reduce::number::Number;

/// The total of a tile, or of a group alone.
const TOTAL: u32 = 1;
/// Of a group: the total of it and all before it in the row.
const INCLUSIVE: u32 = 2;

/// Numbers that blocks publish.
#[derive(Clone, Copy)]
pub(super) struct Status {
    /// Behind the counter: of all tiles, then of all groups.
    pub(super) tiles: *mut u64,
    pub(super) groups: *mut u64,
    /// Words of a number.
    pub(super) words: u64,
}

/// # Safety
/// The number's words at `at` are this thread's to write.
#[inline(always)]
unsafe fn publish<N: Number>(at: *mut u64, value: N, state: u32) {
    let mut at = at;
    value.map_words(|word| {
        // SAFETY: passed on to the caller.
        unsafe { st_relaxed_gpu_u64(at, u64::from(state) << 32 | u64::from(word)) };
        at = at.wrapping_add(1);
        word
    });
}

/// The number at `at` and its state; 0 where it is not there yet.
///
/// # Safety
/// A number's words are there, or 0.
#[inline(always)]
unsafe fn peek<N: Number>(at: *const u64) -> (N, u32) {
    let mut at = at;
    let (mut state, mut is_same) = (u32::MAX, true);
    let value = N::ZERO.map_words(|_| {
        // SAFETY: passed on to the caller.
        let word = unsafe { ld_relaxed_gpu_u64(at) };
        at = at.wrapping_add(1);
        let of_word = (word >> 32) as u32;
        is_same &= state == u32::MAX || state == of_word;
        state = of_word;
        word as u32
    });
    (value, if is_same { state } else { 0 })
}

impl Status {
    /// What comes before tile `i` of `row`, whose own total is `total`. Publishes that total, and, of
    /// the last tile of a group, the group's.
    ///
    /// # Safety
    /// The lanes of one warp are here, of a block that took the tile by the counter.
    #[inline(always)]
    pub(super) unsafe fn before<N: Number>(
        &self,
        row: u64,
        i: u64,
        total: N,
        params: &ScanParams,
    ) -> N {
        let kind = params.kind;
        let lane = u64::from(thread::lane_idx());
        let (group, place) = (i / GROUP, i % GROUP);
        let tile = |i: u64| {
            self.tiles
                .wrapping_add(((row * params.tiles + i) * self.words) as usize)
        };
        let of_group = |g: u64| {
            self.groups
                .wrapping_add(((row * params.groups + g) * self.words) as usize)
        };
        // SAFETY: this tile's number, its group's where it is the last, and those of tiles and groups
        // before, which blocks that have begun will publish.
        unsafe {
            if lane == 0 {
                publish(tile(i), total, TOTAL);
            }
            let mut beside = neutral(kind);
            if lane < place {
                loop {
                    let (value, state) = peek(tile(group * GROUP + lane));
                    if state != 0 {
                        beside = value;
                        break;
                    }
                }
            }
            warp::bar_warp_sync(warp::FULL_MASK);
            let beside = warp::reduce(beside, |a, b| combined(a, b, kind));
            let beside = warp::shfl_idx(warp::FULL_MASK, beside, 0);
            let whole = combined(beside, total, kind);
            let is_last = place == GROUP - 1;
            if is_last && lane == 0 {
                publish(of_group(group), whole, TOTAL);
            }
            let groups_before = self.groups_before(group, kind, of_group);
            if is_last && lane == 0 {
                let inclusive = combined(groups_before, whole, kind).nan();
                publish(of_group(group), inclusive, INCLUSIVE);
            }
            combined(groups_before, beside, kind)
        }
    }

    /// The totals of all groups before `group`, one after the other.
    ///
    /// # Safety
    /// As for [`Status::before`].
    #[inline(always)]
    unsafe fn groups_before<N: Number>(
        &self,
        group: u64,
        kind: u32,
        of_group: impl Fn(u64) -> *mut u64,
    ) -> N {
        let lane = thread::lane_idx();
        if group == 0 {
            return neutral(kind);
        }
        let back = u64::from(lane) + 1;
        // SAFETY: as above; all lanes vote and shuffle together.
        unsafe {
            let (value, first) = loop {
                let (value, state) = match back <= group {
                    true => peek(of_group(group - back)),
                    // Before the row's first group there is nothing.
                    false => (neutral(kind), INCLUSIVE),
                };
                let inclusive = warp::vote_ballot(warp::FULL_MASK, state == INCLUSIVE);
                let missing = warp::vote_ballot(warp::FULL_MASK, state == 0);
                // The nearest inclusive one, with none missing nearer.
                let first = inclusive.trailing_zeros();
                if inclusive != 0 && missing & ((1_u32 << first) - 1) == 0 {
                    break (value, first);
                }
            };
            let mut before: N = warp::shfl_idx(warp::FULL_MASK, value, first);
            let mut next = first;
            while next > 0 {
                next -= 1;
                let total = warp::shfl_idx(warp::FULL_MASK, value, next);
                before = combined(before, total, kind);
            }
            // Of two NaN, a product has the bits of either: which one must not depend on how many
            // groups were ready.
            before.nan()
        }
    }
}
