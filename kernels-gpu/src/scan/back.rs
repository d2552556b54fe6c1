//! What comes before a tile: by looking back at what other blocks have published.
//!
//! A published number is words of 64 bits, each 32 bits of the number under a state: who reads the
//! same state in all words has the number whole, without any fence.

use cuda_std::atomic::{ld_relaxed_gpu_u64, st_relaxed_gpu_u64};
use cuda_std::hint::opaque;
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
    /// Of a launch.
    #[inline(always)]
    pub(super) fn of<N: Number>(status: *mut u64, params: &ScanParams) -> Self {
        let words = size_of::<N>() as u64 / 4;
        let tiles = status.wrapping_add(1);
        Self {
            tiles,
            groups: tiles.wrapping_add((params.rows * params.tiles * words) as usize),
            words,
        }
    }

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
        kind: u32,
    ) -> N {
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
            let mut is_missing = lane < place;
            let mut groups = Groups::none(group, kind);
            let mut is_known = false;
            // Both are asked for at once, as often as it takes.
            loop {
                let (value, state) = match is_missing {
                    true => peek(tile(group * GROUP + lane)),
                    false => (beside, TOTAL),
                };
                if groups.is_missing {
                    groups.peek(group, kind, of_group);
                }
                (beside, is_missing) = (value, state == 0);
                if !is_known && !warp::vote_any(warp::FULL_MASK, is_missing) {
                    is_known = true;
                    let mut apart = thread::WARP_THREADS / 2;
                    while opaque(apart) > 0 {
                        let other = warp::shfl_bfly(warp::FULL_MASK, beside, apart);
                        beside = combined(beside, other, kind);
                        apart /= 2;
                    }
                    beside = warp::shfl_idx(warp::FULL_MASK, beside, 0);
                    if place == GROUP - 1 && lane == 0 {
                        publish(of_group(group), combined(beside, total, kind), TOTAL);
                    }
                }
                if is_known && !groups.is_missing {
                    break;
                }
            }
            let before = groups.total(kind);
            if place == GROUP - 1 && lane == 0 {
                let whole = combined(beside, total, kind);
                publish(
                    of_group(group),
                    combined(before, whole, kind).nan(),
                    INCLUSIVE,
                );
            }
            combined(before, beside, kind)
        }
    }
}

/// The totals of the groups before one: a lane has that of one group.
struct Groups<N> {
    value: N,
    /// The nearest group of which all before is known, as far back as its lane says.
    first: u32,
    is_missing: bool,
}

impl<N: Number> Groups<N> {
    /// Before any is known.
    #[inline(always)]
    fn none(group: u64, kind: u32) -> Self {
        Self {
            value: neutral(kind),
            first: 0,
            is_missing: group > 0,
        }
    }

    /// Looks for them.
    ///
    /// # Safety
    /// As for [`Status::before`].
    #[inline(always)]
    unsafe fn peek(&mut self, group: u64, kind: u32, of_group: impl Fn(u64) -> *mut u64) {
        let back = u64::from(thread::lane_idx()) + 1;
        // SAFETY: passed on to the caller; all lanes vote together.
        unsafe {
            let (value, state) = match back <= group {
                true => peek(of_group(group - back)),
                // Before the row's first group there is nothing.
                false => (neutral(kind), INCLUSIVE),
            };
            let inclusive = warp::vote_ballot(warp::FULL_MASK, state == INCLUSIVE);
            let missing = warp::vote_ballot(warp::FULL_MASK, state == 0);
            // The nearest inclusive one, with none missing nearer.
            self.first = inclusive.trailing_zeros();
            self.value = value;
            self.is_missing = inclusive == 0 || missing & ((1_u32 << self.first) - 1) != 0;
        }
    }

    /// All of them, one after the other.
    ///
    /// # Safety
    /// All lanes are here, and none is missing.
    #[inline(always)]
    unsafe fn total(&self, kind: u32) -> N {
        // SAFETY: all lanes shuffle together.
        unsafe {
            let mut before: N = warp::shfl_idx(warp::FULL_MASK, self.value, self.first);
            let mut next = self.first;
            while opaque(next) > 0 {
                next -= 1;
                let total = warp::shfl_idx(warp::FULL_MASK, self.value, next);
                before = combined(before, total, kind);
            }
            // Of two NaN, a product has the bits of either: which one must not depend on how many
            // groups were ready.
            before.nan()
        }
    }
}
