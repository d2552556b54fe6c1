//! Tiles of groups of rows, whose number and lengths only the device knows: [`abi::gemm::ragged`].
//!
//! Every block makes a table of the groups, by a thread each: the row tiles before each group, and
//! the group's first row. A tile's group is found there by bisection.

use abi::gemm::GemmParams;
use abi::gemm::ragged::{COLUMN, FEW_ROWS, RaggedLaunch, SCRATCH};
use abi::gemm::sm90::{Sm90Tile, THREADS};
use cuda_std::epilogue::Epilogue;
use cuda_std::fence::fence_proxy_async_shared_cta;
use cuda_std::grid::griddepcontrol_wait;
use cuda_std::mem::st_shared_v4_u32;
use cuda_std::shared::SharedAddr;
use cuda_std::thread;
use cuda_std::warp::{FULL_MASK, shfl_up};

use super::load::Boxes;
use super::store::{Store, StoreElement};
use super::tile_coords::TileCoords;

/// The groups of a launch, in shared memory.
#[derive(Clone, Copy)]
pub struct Ragged {
    /// Row tiles before each group; behind the last one, before the rows behind it, and in all.
    tiles: *mut u32,
    /// First row of each group; behind the last one, of the rows behind it, and their end.
    rows: *mut u32,
    launch: RaggedLaunch,
    groups: u32,
    count: u32,
}

impl Ragged {
    #[inline(always)]
    fn read(column: *mut u32, group: u32) -> u32 {
        // SAFETY: an element of the table, complete since `new`.
        unsafe { column.add(group as usize).read() }
    }
}

impl TileCoords for Ragged {
    type Launch = (RaggedLaunch, *const i32);

    const ARE_KNOWN: bool = false;

    #[inline(always)]
    unsafe fn new(
        &(launch, ends): &Self::Launch,
        params: &GemmParams,
        ring: (SharedAddr, u32),
        shared: *mut u32,
        tile_m: u32,
    ) -> Self {
        let (m, groups) = (params.m, params.batch);
        let thread = thread::thread_idx_x();
        if launch.box_rows < tile_m {
            // SAFETY: nothing is there yet; the barriers below come before the first load.
            unsafe { clear(ring) };
        }
        griddepcontrol_wait(); // `ends` is there
        // SAFETY: all threads are here; each writes what is behind its own group, and the first one
        // what is before all. The barriers separate that from what follows.
        unsafe {
            let (tiles, rows) = (shared.add(SCRATCH), shared.add(SCRATCH + COLUMN));
            let end = match thread < groups {
                true => ends.add(thread as usize).read().max(0) as u32,
                false => 0,
            };
            let (begin, end) = scan(end.min(m), shared, u32::max);
            let own = (end - begin).div_ceil(tile_m);
            let (_, before) = scan(own, shared, |a, b| a + b);
            if thread == 0 {
                tiles.write(0);
                rows.write(0);
            }
            // Threads without a group have none of the rows: what they see is behind all groups.
            if thread < groups {
                let behind = thread as usize + 1;
                tiles.add(behind).write(before);
                rows.add(behind).write(end);
            }
            if thread == THREADS - 1 {
                let behind = groups as usize + 1;
                tiles.add(behind).write(before + (m - end).div_ceil(tile_m));
                rows.add(behind).write(m);
            }
            thread::sync_threads();
            Self {
                tiles,
                rows,
                launch,
                groups,
                count: Self::read(tiles, groups + 1) * launch.columns(),
            }
        }
    }

    #[inline(always)]
    fn count(&self) -> u32 {
        self.count
    }

    #[inline(always)]
    fn cut(_: &Self::Launch) -> (u32, u32) {
        (0, 0)
    }

    #[inline(always)]
    fn at(&self, tile: &Sm90Tile, index: u32) -> (u32, u32, u32) {
        let (row_tile, _) = self.launch.of_row.div_rem(index);
        // The last group that does not begin behind the tile: those before it without rows begin
        // there too.
        let (mut group, mut step) = (0, 1 << self.launch.steps);
        while step > 0 {
            let next = group + step;
            if next <= self.groups && Self::read(self.tiles, next) <= row_tile {
                group = next;
            }
            step /= 2;
        }
        let first = Self::read(self.tiles, group);
        let of_group = Self::read(self.tiles, group + 1) - first;
        let index = index - first * self.launch.columns();
        let (row, column) = self.launch.within(index, of_group);
        let row = Self::read(self.rows, group) + row * tile.tile_m;
        (row, column * tile.tile_n, group)
    }

    /// The rows behind all groups read outside A and B, where TMA finds zeros.
    #[inline(always)]
    fn of_operands(&self, (row, column, group): (u32, u32, u32)) -> (u32, u32, u32) {
        let row = match group == self.groups {
            true => Self::read(self.rows, group + 1),
            false => row,
        };
        (row, column, group)
    }

    #[inline(always)]
    fn boxes(&self, (row, _, group): (u32, u32, u32), tile_m: u32) -> Boxes {
        let rows = self.launch.box_rows;
        let of_group = Self::read(self.rows, group + 1) - row;
        let count = match rows < tile_m {
            true => of_group.min(tile_m).div_ceil(FEW_ROWS),
            false => 1,
        };
        Boxes { count, rows }
    }

    #[inline(always)]
    fn of_results<Out: StoreElement, E: Epilogue>(
        &self,
        (row, column, group): (u32, u32, u32),
        store: &mut Store<Out, E>,
    ) -> (u32, u32, u32) {
        store.end_at(Self::read(self.rows, group + 1));
        (row, column, 0)
    }
}

/// Fills so many bytes of shared memory with zeros: rows of tiles that no load may ever reach.
///
/// # Safety
/// All threads of the block call it, before a barrier; the bytes, a multiple of 16, are there,
/// aligned to
/// 16, and not in use.
#[inline(always)]
unsafe fn clear((at, bytes): (SharedAddr, u32)) {
    let mut offset = 16 * thread::thread_idx_x();
    while offset < bytes {
        // SAFETY: passed on to the caller.
        unsafe { st_shared_v4_u32(at.add_bytes(offset), [0; 4]) };
        offset += 16 * THREADS;
    }
    fence_proxy_async_shared_cta(); // TMA writes there, and `wgmma` reads
}

/// What `op` makes of the values of the threads below, and of those with the thread's own. `op` is
/// associative, and 0 changes nothing.
///
/// NOTE(perf): the portable kernel's scan (`grouped/groups.rs`), which gives the total too, would
/// do; with it ptxas spills registers of this kernel.
///
/// # Safety
/// All threads of the block call it; nothing else uses the [`SCRATCH`] elements at `scratch`.
#[inline(always)]
unsafe fn scan(value: u32, scratch: *mut u32, op: impl Fn(u32, u32) -> u32) -> (u32, u32) {
    const { assert!(THREADS.div_ceil(thread::WARP_THREADS) <= SCRATCH as u32) };
    let (warp, lane) = (
        thread::thread_idx_x() / thread::WARP_THREADS,
        thread::thread_idx_x() % thread::WARP_THREADS,
    );
    // SAFETY: passed on to the caller; warps are whole, and barriers separate writes from reads.
    unsafe {
        let mut with = value;
        let mut delta = 1;
        while delta < thread::WARP_THREADS {
            let below = shfl_up(FULL_MASK, with, delta);
            with = op(with, if lane < delta { 0 } else { below });
            delta *= 2;
        }
        let below = shfl_up(FULL_MASK, with, 1);
        let mut before = if lane == 0 { 0 } else { below };
        if lane == thread::WARP_THREADS - 1 {
            scratch.add(warp as usize).write(with);
        }
        thread::sync_threads();
        for other in 0..warp as usize {
            before = op(before, scratch.add(other).read());
        }
        thread::sync_threads();
        (before, op(before, value))
    }
}
