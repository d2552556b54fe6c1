//! The epilogue of Hopper's GEMM: from accumulators through the epilogue's functions, rounded, to a
//! swizzled box in shared memory, and from there to D by a TMA store.
//!
//! Each warp works alone on its 16 rows and has its own boxes, so there is no barrier of the block.
//! If no tensor map can describe D, threads store what they hold directly, at the cost of narrow
//! stores.

mod boxes;
mod element;

use abi::gemm::GemmParams;
use abi::gemm::sm90::{
    MMA_M, STORE_BUFFERS, STORE_BYTES, STORE_ROWS, Sm90Launch, TILE_128X128, WARPGROUP,
};
use abi::swizzle::Swizzle;
use cuda_std::accumulator::Accumulator;
use cuda_std::elect::elect_sync;
use cuda_std::epilogue::{Coord, Epilogue};
use cuda_std::fence::fence_proxy_async_shared_cta;
use cuda_std::hint::opaque;
use cuda_std::shared::SharedAddr;
use cuda_std::thread;
use cuda_std::tma::{self, TensorMap};
use cuda_std::warp::{FULL_MASK, bar_warp_sync, uniform};
use cuda_std::wgmma::{MmaAsync, tie};

use element::Fragment;
pub use element::StoreElement;
pub(super) use element::Word;

/// D, and whether TMA or the threads write it.
#[derive(Clone, Copy)]
pub struct Destination<Out> {
    map: *const TensorMap,
    /// Not 0 if there is no map of D: threads store.
    by_thread: u32,
    /// Whether D goes on behind `m`, so that threads store boxes that end there.
    goes_on: bool,
    d: *mut Out,
    ld: i64,
    batch_stride: i64,
    m: u32,
    n: u32,
}

impl<Out: StoreElement> Destination<Out> {
    /// D as `map` describes it.
    ///
    /// # Safety
    /// `map` is of the D of `params`.
    #[inline(always)]
    pub const unsafe fn of_map(map: *const TensorMap, params: &GemmParams) -> Self {
        Self {
            map,
            by_thread: 0,
            goes_on: false,
            d: core::ptr::null_mut(),
            ld: 0,
            batch_stride: 0,
            m: params.m,
            n: params.n,
        }
    }

    /// D as `map` describes it, or at `d` if `launch` says that there is no map.
    ///
    /// # Safety
    /// They are of the D of `params`.
    #[inline(always)]
    pub const unsafe fn new(
        map: *const TensorMap,
        d: *mut Out,
        params: &GemmParams,
        launch: Sm90Launch,
    ) -> Self {
        Self {
            by_thread: launch.flags & Sm90Launch::NO_MAP_OF_D,
            d,
            ld: params.ldd,
            batch_stride: params.batch_stride_d,
            // SAFETY: the caller's promise.
            ..unsafe { Self::of_map(map, params) }
        }
    }

    /// Rows of D, which end where [`Store::end_at`] says. Boxes are stored as `map` says, but for
    /// those that reach over that end.
    ///
    /// # Safety
    /// They are of the D of `params`.
    #[inline(always)]
    pub const unsafe fn of_rows(map: *const TensorMap, d: *mut Out, params: &GemmParams) -> Self {
        Self {
            goes_on: true,
            d,
            ld: params.ldd,
            // SAFETY: the caller's promise.
            ..unsafe { Self::of_map(map, params) }
        }
    }
}

/// Whether the epilogue's code is there once, in a loop over groups or boxes, or once for each
/// group.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Groups {
    /// A loop, for long epilogues. A branch table moves each group's registers to those of the
    /// loop. Only for tiles of whole groups: see [`StoreElement::GROUP`].
    Rolled,
    /// Unrolled, for short epilogues.
    Unrolled,
    /// A loop over whole boxes, for long epilogues that nothing hides: see `store/boxes.rs`. Only
    /// for tiles that are so many boxes wide.
    Boxes,
}

/// What a warp needs to store its results to D.
pub struct Store<Out, E> {
    destination: Destination<Out>,
    epilogue: E,
    code: Groups,
    /// The warp's two boxes, and the index of the one that is filled next.
    boxes: SharedAddr,
    next: u32,
}

impl<Out: StoreElement, E: Epilogue> Store<Out, E> {
    /// With this warp's boxes among those at `boxes`, which [`Gemm::run`](super::Gemm::run)
    /// provides.
    #[inline(always)]
    pub fn new(
        destination: Destination<Out>,
        epilogue: E,
        code: Groups,
        boxes: SharedAddr,
    ) -> Self {
        let warp = (thread::thread_idx_x() - WARPGROUP) / 32;
        Self {
            destination,
            epilogue,
            code,
            boxes: boxes.add_bytes(warp * STORE_BUFFERS * STORE_BYTES),
            next: 0,
        }
    }

    /// Stores a warpgroup's accumulators, whose first element is at `(row, column, batch)`.
    ///
    /// # Safety
    /// The warps of the warpgroup call it, converged; the boxes are free. If boxes overlap
    /// ([`Sm90Tile::boxes_overlap`](abi::gemm::sm90::Sm90Tile::boxes_overlap)), the epilogue does
    /// not read what D replaces.
    #[inline(always)]
    pub unsafe fn tile<M, const BLOCKS: usize, const TILE_N: u32>(
        &mut self,
        acc: Accumulator<M, BLOCKS>,
        (row, column, batch): (u32, u32, u32),
    ) where
        M: MmaAsync<Acc: AsRef<[f32]> + AsMut<[f32]>>,
    {
        if self.code == Groups::Boxes {
            // SAFETY: passed on to the caller.
            return unsafe { self.boxes_of_tile::<_, _, TILE_N>(&acc, (row, column, batch)) };
        }
        // SAFETY: passed on to the caller.
        let (row, column, batch) = unsafe { self.of_warp((row, column, batch)) };
        let columns = const {
            let columns = columns_of_box(TILE_N, size_of::<Out>() as u32);
            assert!(columns.is_multiple_of(Out::GROUP));
            columns
        };
        let code = self.code;
        let step = |x: u32| match code {
            Groups::Unrolled => x,
            // Keeps it a loop: LLVM cannot count its iterations.
            _ => opaque(x),
        };
        let (m, n) = self.extents();
        let (boxes, overlaps) = (TILE_N.div_ceil(columns), !TILE_N.is_multiple_of(columns));
        let mut block = 0;
        while block < BLOCKS as u32 {
            let mut i = 0;
            while i < boxes {
                // If the boxes do not divide the row, the last box overlaps the one before it. The
                // one that ends with the row is then stored first. So the part that it has in
                // common with the other is in D before the other one is sent and writes the same
                // values again.
                let of_tile = match (overlaps, i) {
                    (true, 0) => TILE_N - columns,
                    (true, i) => (i - 1) * columns,
                    (false, i) => i * columns,
                };
                let coord = (row + block * MMA_M, column + of_tile, batch);
                // TMA clips what is partly outside D; a box that is wholly outside is skipped.
                if coord.0 < m && coord.1 < n {
                    // SAFETY: passed on to the caller.
                    unsafe {
                        let leader = self.open_box();
                        let mut within = 0;
                        while within < columns {
                            let x = || {
                                group_of::<_, Out::Fragment, _, TILE_N>(
                                    &acc,
                                    block,
                                    of_tile + within,
                                )
                            };
                            self.store_group(x, coord, within, columns);
                            within = match columns == Out::GROUP {
                                true => columns, // the only group needs no loop
                                false => step(within + Out::GROUP),
                            };
                        }
                        if overlaps && i == boxes - 1 && leader {
                            wait_for_first_of(boxes);
                        }
                        self.send_box(coord, leader);
                    }
                }
                i = step(i + 1);
            }
            block = step(block + 1);
        }
    }

    /// Where in D this warp's rows begin, of a warpgroup's tile at `coord`. ptxas knows that the
    /// row is the same in all lanes.
    ///
    /// # Safety
    /// The warp calls it, converged.
    #[inline(always)]
    pub(super) unsafe fn of_warp(&self, (row, column, batch): (u32, u32, u32)) -> (u32, u32, u32) {
        // SAFETY: passed on to the caller.
        let warp = unsafe { uniform(thread::thread_idx_x() % WARPGROUP / 32) };
        (row + warp * STORE_ROWS, column, batch)
    }

    /// Rows and columns of D.
    #[inline(always)]
    pub(super) fn extents(&self) -> (u32, u32) {
        (self.destination.m, self.destination.n)
    }

    /// The box that is filled next.
    #[inline(always)]
    pub(super) fn free_box(&self) -> SharedAddr {
        self.boxes.add_bytes(self.next * STORE_BYTES)
    }

    /// Waits until the next box is free. Returns whether this lane issues the warp's TMA stores.
    #[inline(always)]
    pub(super) unsafe fn open_box(&self) -> bool {
        const { assert!(STORE_BUFFERS == 2) };
        // SAFETY: the warp is converged. The store that last read this box was issued by the same
        // lane, which waits for it; the others have nothing to wait for, and need no branch.
        unsafe {
            let leader = elect_sync(FULL_MASK);
            tma::cp_async_bulk_wait_group_read::<1>();
            bar_warp_sync(FULL_MASK);
            leader
        }
    }

    /// No row of D from `end` on is stored: where D [goes on](Destination::of_rows).
    #[inline(always)]
    pub fn end_at(&mut self, end: u32) {
        self.destination.m = end;
    }

    /// Whether threads store the box that begins in `row`.
    #[inline(always)]
    fn is_by_thread(&self, row: u32) -> bool {
        let d = &self.destination;
        d.by_thread != 0 && opaque(d.by_thread) != 0 || d.goes_on && row + STORE_ROWS > d.m
    }

    /// Fills one group of the open box: the 16 rows from column `within` on. The box begins at
    /// `(row, column, batch)` of D and is `columns` wide, as many as the swizzle spans.
    #[inline(always)]
    unsafe fn store_group(
        &self,
        registers: impl FnOnce() -> Out::Fragment,
        (row, column, batch): (u32, u32, u32),
        within: u32,
        columns: u32,
    ) {
        let at = (row, column + within, batch);
        let x = self.results(registers, at);
        // SAFETY: the warp's lanes are here together, and the box is free.
        unsafe {
            if self.is_by_thread(row) {
                self.destination.store(&x, at);
            } else {
                let swizzle = Swizzle::of_span(columns * size_of::<Out>() as u32);
                let column_bytes = within * size_of::<Out>() as u32;
                Out::write(self.free_box(), swizzle, column_bytes, Out::round(&x));
            }
        }
    }

    /// Issues the TMA store of the open box to D at `(row, column, batch)`.
    #[inline(always)]
    pub(super) unsafe fn send_box(&mut self, (row, column, batch): (u32, u32, u32), leader: bool) {
        if self.is_by_thread(row) {
            return;
        }
        let from = self.free_box();
        self.next = (self.next + 1) % STORE_BUFFERS;
        // SAFETY: the warp is converged; the lanes' writes are fenced before TMA reads them.
        unsafe {
            fence_proxy_async_shared_cta();
            bar_warp_sync(FULL_MASK);
            if leader {
                let at = [column, row, batch].map(|coordinate| coordinate as i32);
                tma::cp_async_bulk_tensor_3d_global_shared_cta(self.destination.map, at, from);
                tma::cp_async_bulk_commit_group();
            }
        }
    }

    /// Applies the epilogue to `registers`, the results of the columns at `at`.
    #[inline(always)]
    pub(super) fn results<F: Fragment>(
        &self,
        registers: impl FnOnce() -> F,
        at: (u32, u32, u32),
    ) -> F {
        let (m, n) = self.extents();
        Fragment::apply(
            &self.epilogue,
            #[inline(always)]
            |i| {
                let (row, column) = position(at, i);
                Coord {
                    batch: u64::from(at.2),
                    // Results outside D are not stored, but the epilogue must not read there.
                    row: row.min(m.wrapping_sub(1)),
                    column: column.min(n.wrapping_sub(1)),
                }
            },
            registers,
        )
    }

    /// Waits until TMA has read all boxes, so that the block's shared memory may go.
    #[inline(always)]
    pub fn finish(self) {
        tma::cp_async_bulk_wait_group_read::<0>();
    }
}

impl<Out: StoreElement> Destination<Out> {
    /// Stores a thread's results, of what begins at `at`, that lie inside D.
    ///
    /// # Safety
    /// The warp calls it, converged, with results of the same columns.
    #[inline(always)]
    unsafe fn store(&self, x: &impl Fragment, at: (u32, u32, u32)) {
        let x = x.as_ref();
        // Results outside D read C at D's edge. Where C is D, another lane will overwrite that
        // element: all lanes must have read it first, in these columns and in the next.
        // SAFETY: passed on to the caller.
        unsafe { bar_warp_sync(FULL_MASK) };
        let mut i = 0;
        while i < x.len() {
            let (row, column) = position(at, i);
            if row < self.m && column < self.n {
                let offset = i64::from(at.2) * self.batch_stride
                    + i64::from(row) * self.ld
                    + i64::from(column);
                // SAFETY: an element of D.
                unsafe { Out::store_cvt(self.d.offset(offset as isize), x[i]) };
            }
            i += 1;
        }
        // SAFETY: passed on to the caller.
        unsafe { bar_warp_sync(FULL_MASK) };
    }
}

/// Waits, before the last of `boxes` boxes is sent, until the first one has been written to D.
#[inline(always)]
fn wait_for_first_of(boxes: u32) {
    match boxes {
        2 => tma::cp_async_bulk_wait_group::<0>(),
        3 => tma::cp_async_bulk_wait_group::<1>(),
        _ => tma::cp_async_bulk_wait_group::<2>(),
    }
}

/// Columns of a box, for a tile `tile_n` wide and elements of `size_bytes`.
const fn columns_of_box(tile_n: u32, size_bytes: u32) -> u32 {
    let mut tile = TILE_128X128;
    tile.tile_n = tile_n;
    tile.store_span_bytes(size_bytes) / size_bytes
}

/// Row and column of a thread's `i`th result of the group at `(row, column, _)`: the `wgmma`
/// accumulator fragment (`abi::tensor_core::fragment::wgmma_acc`) of the warp's 16 rows.
#[inline(always)]
fn position((row, column, _): (u32, u32, u32), i: usize) -> (u32, u32) {
    let (lane, i) = (thread::thread_idx_x() % 32, i as u32);
    (
        row + lane / 4 + i / 2 % 2 * 8,
        column + i / 4 * 8 + lane % 4 * 2 + i % 2,
    )
}

/// A thread's results of the group that begins at column `of_tile` of a block of rows. If the group
/// is not known at compile time, a branch table selects the code that moves its registers, as
/// register indices must be constants.
///
/// # Safety
/// The group is one of the tile's.
#[inline(always)]
pub(super) unsafe fn group_of<M, F: Fragment, const BLOCKS: usize, const TILE_N: u32>(
    acc: &Accumulator<M, BLOCKS>,
    block: u32,
    of_tile: u32,
) -> F
where
    M: MmaAsync<Acc: AsRef<[f32]> + AsMut<[f32]>>,
{
    let of_block = (TILE_N / F::COLUMNS) as usize;
    let mut x = F::zero();
    let results = x.as_mut();
    if const { !TILE_N.is_multiple_of(F::COLUMNS) } {
        // The last box begins in the middle of a group. Such tiles have unrolled code, in which the
        // column is a constant; of every two columns a thread has one result.
        let registers = acc.registers()[block as usize].as_ref();
        let mut i = 0;
        while i < results.len() {
            results[i] = registers[of_tile as usize / 2 + i];
            i += 1;
        }
        return x;
    }
    macro_rules! of {
        ($($group:literal)*) => {
            match block * (TILE_N / F::COLUMNS) + of_tile / F::COLUMNS {
                $($group if $group < BLOCKS * of_block => {
                    let registers = acc.registers()[$group / of_block].as_ref();
                    let mut i = 0;
                    while i < results.len() {
                        results[i] = registers[$group % of_block * results.len() + i];
                        i += 1;
                    }
                    // Otherwise LLVM merges the arms into one with a dynamic register index.
                    tie(&mut x);
                })*
                // SAFETY: the caller's promise.
                _ => unsafe { core::hint::unreachable_unchecked() },
            }
        };
    }
    const { assert!(BLOCKS as u32 * (TILE_N / F::COLUMNS) <= 24) };
    of!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23);
    x
}
