//! Finds a block's tile of rows among the groups, of which only device memory knows the ends.
//!
//! Each thread has neighbouring groups, as many as it takes to cover all. Ends that do not grow are
//! empty groups, so the rows of a group lie between running maxima: the block scans the threads'
//! maxima, then their numbers of tiles. The one thread that has the tile writes it to shared memory.

use abi::gemm::GROUPED_TILE;
use cuda_std::hint::opaque;
use cuda_std::{thread, warp};

const WARPS: usize = (GROUPED_TILE.threads / thread::WARP_THREADS) as usize;
/// Words of shared memory: a scan of maxima, one of sums, and the tile.
pub(super) const SCRATCH: usize = 2 * WARPS + 3;

/// Rows of one group.
pub(super) struct RowTile {
    /// The group, or the number of groups for rows of none.
    pub(super) group: u32,
    /// The first row.
    pub(super) first: u32,
    /// Rows of the group from there on, of which a tile has the first.
    pub(super) rows: u32,
}

impl RowTile {
    /// Tile `tile_idx` of the rows of all groups, followed by those of no group; `None` beyond them.
    ///
    /// # Safety
    /// `ends` has `groups` elements. All threads of the block call it with the same arguments;
    /// `scratch` is shared memory of [`SCRATCH`] words that nothing else uses.
    #[inline(always)]
    pub(super) unsafe fn find(
        tile_idx: u32,
        ends: *const i32,
        m: u32,
        groups: u32,
        scratch: *mut u32,
    ) -> Option<Self> {
        let each = groups.div_ceil(GROUPED_TILE.threads);
        let start = (thread::thread_idx_x() * each).min(groups);
        let end = start + each.min(groups - start);
        // SAFETY: the caller's promise; `group` is below `groups`.
        let end_of =
            |group: u32| unsafe { ends.wrapping_add(group as usize).read().max(0) as u32 }.min(m);
        // Loops to an opaque end exist once in the code: nobody gains by more than one step at a time.
        let (mut last, mut group) = (0, start);
        while group < opaque(end) {
            last = last.max(end_of(group));
            group += 1;
        }
        // SAFETY: the caller's promise, for the scan and the next one; the barriers of the second lie
        // between the writes of the tile and whatever came before.
        let (before, all_rows) = unsafe { exclusive(last, scratch, u32::max) };
        let (mut row, mut tiles) = (before, 0);
        group = start;
        while group < opaque(end) {
            let next = row.max(end_of(group));
            tiles += (next - row).div_ceil(GROUPED_TILE.tile_m);
            row = next;
            group += 1;
        }
        // SAFETY: as above, another part of `scratch`.
        let (mut tile, all_tiles) =
            unsafe { exclusive(tiles, scratch.wrapping_add(WARPS), |x, y| x + y) };
        if tile_idx >= all_tiles {
            let rows_before = u64::from(tile_idx - all_tiles) * u64::from(GROUPED_TILE.tile_m);
            let first = u64::from(all_rows) + rows_before;
            return (first < u64::from(m)).then(|| Self {
                group: groups,
                first: first as u32,
                rows: m - first as u32,
            });
        }
        let found = scratch.wrapping_add(2 * WARPS);
        if tile <= tile_idx && tile_idx - tile < tiles {
            row = before;
            group = start;
            while group < opaque(end) {
                let next = row.max(end_of(group));
                let count = (next - row).div_ceil(GROUPED_TILE.tile_m);
                if tile_idx - tile < count {
                    let first = row + (tile_idx - tile) * GROUPED_TILE.tile_m;
                    // SAFETY: one thread of the block has the tile, one of its groups does, and
                    // everyone reads after the barrier.
                    unsafe {
                        found.write(group);
                        found.wrapping_add(1).write(first);
                        found.wrapping_add(2).write(next - first);
                    }
                    break;
                }
                tile += count;
                row = next;
                group += 1;
            }
        }
        thread::sync_threads(); // the tile is there
        // SAFETY: written before the barrier.
        Some(unsafe {
            Self {
                group: found.read(),
                first: found.wrapping_add(1).read(),
                rows: found.wrapping_add(2).read(),
            }
        })
    }
}

/// What `op` makes of the values of all threads before this one, and of all threads; 0 of none.
///
/// # Safety
/// All threads of the block call it; `scratch` is shared memory of [`WARPS`] words that nothing else
/// uses. 0 is the neutral element of `op`.
#[inline(always)]
unsafe fn exclusive(value: u32, scratch: *mut u32, op: impl Fn(u32, u32) -> u32) -> (u32, u32) {
    let lane = thread::lane_idx();
    let mut inclusive = value;
    let mut step = 1;
    while step < opaque(thread::WARP_THREADS) {
        // SAFETY: all lanes are here.
        let below = unsafe { warp::shfl_up(warp::FULL_MASK, inclusive, step) };
        if lane >= step {
            inclusive = op(inclusive, below);
        }
        step *= 2;
    }
    // SAFETY: as above.
    let mut before = unsafe { warp::shfl_up(warp::FULL_MASK, inclusive, 1) };
    if lane == 0 {
        before = 0;
    }
    let own = thread::thread_idx_x() / thread::WARP_THREADS;
    if lane == thread::WARP_THREADS - 1 {
        // SAFETY: this warp's word, which is read after the barrier.
        unsafe { scratch.wrapping_add(own as usize).write(inclusive) };
    }
    thread::sync_threads(); // each warp's value is there
    let (mut all, mut idx) = (0, 0);
    while idx < opaque(WARPS as u32) {
        if idx == own {
            before = op(all, before);
        }
        // SAFETY: written before the barrier.
        all = op(all, unsafe { scratch.wrapping_add(idx as usize).read() });
        idx += 1;
    }
    (before, all)
}
