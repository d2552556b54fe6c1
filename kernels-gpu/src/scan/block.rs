//! A block's steps for each tile: draw it, load it to shared memory, look back for what comes
//! before it.

use abi::scan::{ScanParams, THREADS, VECTORS};
use cuda_std::atomic::{self, Order, Scope};
use cuda_std::thread;

use super::back::{Status, Tile, WARPS};
use super::kind::Kind;
use super::launch::{Launch, Role};
use super::tile::{Slots, Stored};
use super::totals::{of_row, totals};
use crate::reduce::partial::Partial;

/// Tiles that a block remembers; the oldest is overwritten.
const KNOWN: usize = 4;

/// Shared memory through which threads exchange numbers and tiles.
pub(super) struct Scratch<N> {
    /// For each warp, the sum of its vectors.
    sums: *mut N,
    /// For each warp, its part of what comes before a tile.
    before: *mut N,
    /// The tiles of the last iterations, and their totals, which only thread 0 writes.
    tiles: *mut Tile,
    totals: *mut N,
}

impl<N> Scratch<N> {
    #[inline(always)]
    pub(super) fn of(words: *mut u32) -> Self {
        let numbers = |i: usize| words.wrapping_add(2 * i);
        let warps = WARPS as usize;
        Self {
            sums: numbers(0).cast(),
            before: numbers(warps).cast(),
            totals: numbers(2 * warps).cast(),
            tiles: numbers(2 * warps + KNOWN).cast(),
        }
    }

    /// The tile of iteration `iteration`.
    #[inline(always)]
    pub(super) fn tile(&self, iteration: u32) -> *mut Tile {
        self.tiles.wrapping_add(iteration as usize % KNOWN)
    }

    /// The total of that tile.
    #[inline(always)]
    pub(super) fn total(&self, iteration: u32) -> *mut N {
        self.totals.wrapping_add(iteration as usize % KNOWN)
    }
}

/// Draws the number of the next tile, in thread 0: blocks that begin first have the lowest numbers.
///
/// # Safety
/// `status` is the launch's, which begins with its counter.
#[inline(always)]
unsafe fn ask(status: *mut u64) -> u64 {
    match thread::thread_idx_x() {
        // SAFETY: passed on to the caller.
        0 => unsafe { atomic::atom_add(status, 1, Order::Relaxed, Scope::Gpu) },
        _ => 0,
    }
}

/// Thread 0 writes which tile has number `number`.
///
/// # Safety
/// Nobody reads `to` now, and there is a barrier before anybody does.
#[inline(always)]
unsafe fn tell(to: *mut Tile, number: u64, params: &ScanParams) {
    if thread::thread_idx_x() == 0 {
        let row = match params.rows {
            1 => u64::from(number >= params.tiles),
            _ => number / params.tiles,
        };
        let i = number - row * params.tiles;
        // SAFETY: passed on to the caller.
        unsafe { to.write(Tile { row, i }) };
    }
}

/// A launch, from one block's point of view.
pub(super) struct Block<'a, N> {
    pub(super) launch: Launch<'a>,
    pub(super) status: *mut u64,
    pub(super) back: Status<'a>,
    pub(super) scratch: Scratch<N>,
}

impl<N: Partial> Block<'_, N> {
    /// Draws the first tile. Ends with a barrier.
    ///
    /// # Safety
    /// All threads of the block are here; nobody uses scratch.
    #[inline(always)]
    pub(super) unsafe fn begin(&self) {
        let (params, scratch) = (self.launch.params, &self.scratch);
        // SAFETY: passed on to the caller.
        unsafe {
            tell(scratch.tile(0), ask(self.status), params);
            // There is no tile before the first one: this stands for none.
            tell(scratch.tile(u32::MAX), params.rows * params.tiles, params);
        }
        thread::sync_threads();
    }

    /// The tile of iteration `iteration`, or this thread's row, and whether the block has anything
    /// to do.
    ///
    /// # Safety
    /// Thread 0 has written the tile, and there was a barrier since.
    #[inline(always)]
    pub(super) unsafe fn tile(&self, iteration: u32) -> (Tile, bool) {
        let params = self.launch.params;
        if params.tiles > 1 {
            // SAFETY: passed on to the caller.
            let tile = unsafe { self.scratch.tile(iteration).read() };
            return (tile, tile.row < params.rows);
        }
        // Recomputed, so that it takes no registers between iterations.
        let blocks = u64::from(iteration) * u64::from(thread::grid_dim_x());
        let base =
            (blocks + u64::from(thread::block_idx_x())) * u64::from(THREADS >> params.along_log2);
        let row = base + u64::from(Role::of(params).row);
        (Tile { row, i: 0 }, base < params.rows)
    }

    /// Loads a tile to slots. Returns what comes before each of the thread's vectors within the
    /// tile, and the tile's total.
    ///
    /// # Safety
    /// All threads of the block are here; the slots are theirs; nobody uses scratch.
    #[inline(always)]
    pub(super) unsafe fn take<T: Stored<V, Number = N>, const V: usize, const IS_LSE: bool>(
        &self,
        iteration: u32,
        tile: &Tile,
        own: &Slots,
        kind: Kind<IS_LSE>,
        none: impl Fn() -> N,
    ) -> ([N; VECTORS], N) {
        let params = self.launch.params;
        let address = self.launch.address::<T, V>(tile);
        // SAFETY: passed on to the caller.
        unsafe {
            address.span.load::<T, V, _>(address.from, own, kind);
            if params.tiles > 1 {
                // Not before its own elements have come, which others wait for. (The tile is read
                // again, so that it takes no registers meanwhile.)
                self.launch
                    .ask_ahead::<T, V>(&self.scratch.tile(iteration).read());
            }
            let totals = totals::<T, V, _>(own, kind);
            of_row(totals, params, kind, none, self.scratch.sums)
        }
    }

    /// Draws the next tile, and looks back for the tile of iteration `done`, if there is one.
    /// Returns what comes before each of the thread's vectors in that tile.
    ///
    /// # Safety
    /// All threads of the block are here, and it has published the tile's total.
    #[inline(always)]
    pub(super) unsafe fn look_back<const IS_LSE: bool>(
        &self,
        iteration: u32,
        done: u32,
        kind: Kind<IS_LSE>,
        none: impl Fn() -> N,
        exclusive: [N; VECTORS],
    ) -> [N; VECTORS] {
        let (params, scratch) = (self.launch.params, &self.scratch);
        // SAFETY: passed on to the caller.
        unsafe {
            let next = ask(self.status);
            let tile = scratch.tile(done).read();
            let is_there = tile.row < params.rows;
            if is_there {
                self.back.gather(&tile, kind, none(), scratch.before);
            }
            tell(scratch.tile(iteration.wrapping_add(1)), next, params);
            thread::sync_threads();
            if !is_there {
                return exclusive;
            }
            let total = scratch.total(done);
            let before = self.back.before(&tile, total, kind, scratch.before);
            kind.behind(before, exclusive)
        }
    }
}
