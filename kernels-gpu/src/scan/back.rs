//! The look-back: what comes before a tile, from the totals that other blocks have published.
//!
//! A published number consists of 64-bit words, each of which has 32 bits of the number below a 1.
//! Whoever reads that 1 in all words has the whole number, without any fence.

use abi::scan::{GROUP, ScanParams, THREADS};
use cuda_std::atomic::{ld_relaxed_gpu_u64, st_relaxed_gpu_u64};
use cuda_std::hint::opaque;
use cuda_std::{thread, warp};

use super::kind::{Kind, by_kind};
use crate::reduce::partial::Partial;

/// Warps of a block.
pub(super) const WARPS: u32 = THREADS / thread::WARP_THREADS;

/// A tile of a row.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    pub(super) row: u64,
    /// Its index in the row.
    pub(super) i: u64,
}

impl Tile {
    /// Whether it is the last tile of a whole group.
    #[inline(always)]
    fn is_last(&self) -> bool {
        self.i % GROUP == GROUP - 1
    }
}

/// The numbers that blocks publish.
#[derive(Clone, Copy)]
pub(super) struct Status<'a> {
    /// After the counter: the totals of all tiles; then, for each whole group, the total of the row
    /// up to the group's end.
    tiles: *mut u64,
    groups: *mut u64,
    /// 64-bit words of a number.
    words: u64,
    params: &'a ScanParams,
}

/// # Safety
/// The number's words at `at` are this thread's to write.
#[inline(always)]
unsafe fn publish<N: Partial>(at: *mut u64, value: N) {
    let mut at = at;
    value.map_words(|word| {
        // SAFETY: passed on to the caller.
        unsafe { st_relaxed_gpu_u64(at, 1 << 32 | u64::from(word)) };
        at = at.wrapping_add(1);
        word
    });
}

/// The number at `at`, and whether it has been published.
///
/// # Safety
/// The words there are a published number's, or 0.
#[inline(always)]
unsafe fn peek<N: Partial>(at: *const u64) -> (N, bool) {
    let (mut at, mut is_there) = (at, true);
    let value = N::ZERO.map_words(|_| {
        // SAFETY: passed on to the caller.
        let word = unsafe { ld_relaxed_gpu_u64(at) };
        at = at.wrapping_add(1);
        is_there &= word >> 32 != 0;
        word as u32
    });
    (value, is_there)
}

impl<'a> Status<'a> {
    /// Those of a launch.
    #[inline(always)]
    pub(super) fn of<N: Partial>(status: *mut u64, params: &'a ScanParams) -> Self {
        let words = size_of::<N>() as u64 / 4;
        let tiles = status.wrapping_add(1);
        Self {
            tiles,
            groups: tiles.wrapping_add((params.rows * params.tiles * words) as usize),
            words,
            params,
        }
    }

    #[inline(always)]
    fn of_tile(&self, row: u64, i: u64) -> *mut u64 {
        let number = row * self.params.tiles + i;
        self.tiles.wrapping_add((number * self.words) as usize)
    }

    #[inline(always)]
    fn of_group(&self, row: u64, group: u64) -> *mut u64 {
        let number = row * self.params.groups + group;
        self.groups.wrapping_add((number * self.words) as usize)
    }

    /// # Safety
    /// One thread of the block that took the tile publishes its total, once.
    #[inline(always)]
    pub(super) unsafe fn publish<N: Partial>(&self, tile: &Tile, total: N) {
        // SAFETY: the caller's number.
        unsafe { publish(self.of_tile(tile.row, tile.i), total) };
    }

    /// Writes into `slots`, one for each warp, what comes before a tile. The first warp writes the
    /// total of the tiles before it in its group. The next warps each write the total of one of the
    /// groups before, combined by a tree. The last warp writes the total of everything before those
    /// groups.
    ///
    /// # Safety
    /// All threads of the block are here; it has taken the tile by the counter and published its
    /// total.
    #[inline(always)]
    pub(super) unsafe fn gather<N: Partial, const IS_LSE: bool>(
        &self,
        tile: &Tile,
        kind: Kind<IS_LSE>,
        none: N,
        slots: *mut N,
    ) {
        let warp = u64::from(thread::thread_idx_x() / thread::WARP_THREADS);
        let lane = u64::from(thread::lane_idx());
        let (group, in_group) = (tile.i / GROUP, tile.i % GROUP);
        let is_of_all = warp == u64::from(WARPS) - 1;
        let count = match warp {
            0 => in_group,
            _ if is_of_all => 1,
            _ => GROUP,
        };
        let mut is_missing = warp <= group && lane < count;
        let of = group.wrapping_sub(warp);
        let at = match is_of_all {
            true => self.of_group(tile.row, of),
            false => self.of_tile(tile.row, of.wrapping_mul(GROUP).wrapping_add(lane)),
        };
        let mut value = none;
        // SAFETY: numbers of earlier tiles and groups, whose blocks have begun; all lanes of the
        // warp vote and shuffle together.
        unsafe {
            loop {
                if is_missing {
                    let (published, is_there) = peek(at);
                    (value, is_missing) = (published, !is_there);
                }
                if !warp::vote_any(warp::FULL_MASK, is_missing) {
                    break;
                }
            }
            let mut apart = thread::WARP_THREADS / 2;
            while opaque(apart) > 0 {
                let other = warp::shfl_bfly(warp::FULL_MASK, value, apart);
                value = kind.combined(value, other);
                apart /= 2;
            }
            if lane == 0 {
                slots.add(warp as usize).write(value);
            }
        }
    }

    /// What comes before the tile. If it is its group's last, thread 0, which has written the
    /// tile's total to `total`, publishes the total up to the group's end.
    ///
    /// # Safety
    /// After [`Status::gather`] and a barrier.
    #[inline(always)]
    pub(super) unsafe fn before<N: Partial, const IS_LSE: bool>(
        &self,
        tile: &Tile,
        total: *const N,
        kind: Kind<IS_LSE>,
        slots: *const N,
    ) -> N {
        // SAFETY: all warps have written their slots; one thread publishes.
        unsafe {
            let (groups, beside) = by_kind!(kind, Partial::product, |op| {
                let mut warp = WARPS as usize - 1;
                let mut groups = slots.add(warp).read();
                while warp > opaque(1) as usize {
                    warp -= 1;
                    groups = op(groups, slots.add(warp).read());
                }
                (groups, slots.read())
            });
            let before = kind.combined(groups, beside);
            if tile.is_last() && thread::thread_idx_x() == 0 {
                let whole = kind.combined(beside, total.read());
                let at = self.of_group(tile.row, tile.i / GROUP);
                publish(at, kind.combined(groups, whole));
            }
            before
        }
    }
}
