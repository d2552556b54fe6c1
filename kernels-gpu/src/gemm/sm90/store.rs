//! From accumulators to D: through the epilogue, rounded, brought to a swizzled box in shared memory,
//! and from there by a tensor copy.
//!
//! Each warp works alone on its 16 rows: it has boxes of its own, so no barrier is waited at. Where
//! no tensor map can describe D, threads store what they hold, at the cost of narrow stores.

use cuda_std::accumulator::Accumulator;
use cuda_std::convert::{f32x2_to_bf16x2_cvt, f32x2_to_f16x2_cvt};
use cuda_std::elect::elect_sync;
use cuda_std::element::Element;
use cuda_std::epilogue::{Epilogue, Place};
use cuda_std::fence::fence_proxy_async_shared_cta;
use cuda_std::hint::opaque;
use cuda_std::ldmatrix::stmatrix_x4;
use cuda_std::mem::st_shared_v2_f32;
use cuda_std::shared::SharedAddr;
use cuda_std::thread;
use cuda_std::tma::{self, TensorMap};
use cuda_std::warp::{FULL_MASK, bar_warp_sync};
use cuda_std::wgmma::{MmaAsync, tie};
use half::{bf16, f16};
use spec::gemm::GemmParams;
use spec::gemm::sm90::{
    MMA_M, STORE_BUFFERS, STORE_BYTES, STORE_ROWS, Sm90Launch, TILE_128X128, WARPGROUP,
};
use spec::swizzle::Swizzle;
use spec::tensor_core::ldmatrix::tile_16x16;

/// Columns that are brought to a box at a time: few, as the epilogue's addresses take registers.
const GROUP: u32 = 16;
/// A thread's results in a group.
const RESULTS: usize = GROUP as usize / 2;

/// An element type of D.
pub trait StoreElement: Element {
    /// Writes a warp's 16 × 16 results to its box, of that `swizzle`, from byte `column_bytes` of the
    /// rows on.
    ///
    /// # Safety
    /// The warp calls it, converged; the box is its own.
    unsafe fn write(to: SharedAddr, swizzle: Swizzle, column_bytes: u32, x: &[f32; RESULTS]);

    /// As [`Element::store`], by the conversion that newer GPUs have.
    ///
    /// # Safety
    /// As for it.
    unsafe fn store_cvt(to: *mut Self, x: f32);
}

macro_rules! sixteen_bits {
    ($ty:ty, $pair:path) => {
        impl StoreElement for $ty {
            #[inline(always)]
            unsafe fn write(
                to: SharedAddr,
                swizzle: Swizzle,
                column_bytes: u32,
                x: &[f32; RESULTS],
            ) {
                let lane = tile_16x16(thread::thread_idx_x() % 32);
                let x = |at: usize| $pair(x[at], x[at + 1]);
                let offset = swizzle.offset_bytes(lane.row, column_bytes + 2 * lane.column);
                // SAFETY: inside of the box.
                unsafe { stmatrix_x4(to.add_bytes(offset), [x(0), x(2), x(4), x(6)]) };
            }

            #[inline(always)]
            unsafe fn store_cvt(to: *mut Self, x: f32) {
                // SAFETY: passed on to the caller.
                unsafe { to.cast::<u16>().write($pair(x, 0.0) as u16) }
            }
        }
    };
}

sixteen_bits!(f16, f32x2_to_f16x2_cvt);
sixteen_bits!(bf16, f32x2_to_bf16x2_cvt);

impl StoreElement for f32 {
    #[inline(always)]
    unsafe fn write(to: SharedAddr, swizzle: Swizzle, column_bytes: u32, x: &[f32; RESULTS]) {
        let lane = thread::thread_idx_x() % 32;
        let mut at = 0;
        while at < RESULTS as u32 {
            let row = lane / 4 + at / 2 % 2 * 8;
            let column_bytes = column_bytes + at / 4 * 32 + lane % 4 * 8;
            let offset = swizzle.offset_bytes(row, column_bytes);
            let pair = [x[at as usize], x[at as usize + 1]];
            // SAFETY: inside of the box.
            unsafe { st_shared_v2_f32(to.add_bytes(offset), pair) };
            at += 2;
        }
    }

    #[inline(always)]
    unsafe fn store_cvt(to: *mut Self, x: f32) {
        // SAFETY: passed on to the caller.
        unsafe { to.write(x) }
    }
}

/// D, and how it is written.
#[derive(Clone, Copy)]
pub struct Destination<Out> {
    map: *const TensorMap,
    /// Not 0 where `map` describes nothing.
    by_thread: u32,
    d: *mut Out,
    ld: i64,
    batch_stride: i64,
    m: u32,
    n: u32,
}

impl<Out: StoreElement> Destination<Out> {
    /// What `map` describes.
    ///
    /// # Safety
    /// `map` is of the D of `params`.
    #[inline(always)]
    pub const unsafe fn of_map(map: *const TensorMap, params: &GemmParams) -> Self {
        Self {
            map,
            by_thread: 0,
            d: core::ptr::null_mut(),
            ld: 0,
            batch_stride: 0,
            m: params.m,
            n: params.n,
        }
    }

    /// What `map` describes, or what `d` points to where `launch` says that there is no map.
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
            // SAFETY: the caller's.
            ..unsafe { Self::of_map(map, params) }
        }
    }
}

/// Whether the code for a group is there once, or once for each group.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Groups {
    /// For long epilogues: a branch to where a group's registers are moved to those of the code.
    Rolled,
    /// For short ones.
    Unrolled,
}

/// A warp's way to D.
pub struct Store<Out, E> {
    destination: Destination<Out>,
    epilogue: E,
    code: Groups,
    /// Two boxes of the warp, and which is next.
    boxes: SharedAddr,
    next: u32,
}

impl<Out: StoreElement, E: Epilogue> Store<Out, E> {
    /// By the boxes of this warp among those at `boxes`, which [`Gemm::run`](super::Gemm::run) gives.
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
    /// The warps of the warpgroup call it, converged; the boxes are free. Where they overlap
    /// ([`Sm90Tile::boxes_overlap`](spec::gemm::sm90::Sm90Tile::boxes_overlap)), the epilogue does not
    /// read what D replaces.
    #[inline(always)]
    pub unsafe fn tile<M, const BLOCKS: usize, const TILE_N: u32>(
        &mut self,
        acc: Accumulator<M, BLOCKS>,
        (row, column, batch): (u32, u32, u32),
    ) where
        M: MmaAsync<Acc: AsRef<[f32]> + AsMut<[f32]>>,
    {
        let row = row + thread::thread_idx_x() % WARPGROUP / 32 * STORE_ROWS;
        let columns = const { columns_of_box(TILE_N, size_of::<Out>() as u32) };
        let code = self.code;
        let step = |x: u32| match code {
            // LLVM, which cannot count such a loop, leaves it one.
            Groups::Rolled => opaque(x),
            Groups::Unrolled => x,
        };
        let (m, n) = (self.destination.m, self.destination.n);
        let (boxes, overlaps) = (TILE_N.div_ceil(columns), !TILE_N.is_multiple_of(columns));
        let mut block = 0;
        while block < BLOCKS as u32 {
            let mut i = 0;
            while i < boxes {
                // A box that begins in another, as they do not divide the row, comes first: what it
                // brings to both is there by the time that the other, the last, brings it again.
                let of_tile = match (overlaps, i) {
                    (true, 0) => TILE_N - columns,
                    (true, i) => (i - 1) * columns,
                    (false, i) => i * columns,
                };
                let place = (row + block * MMA_M, column + of_tile, batch);
                // What is partly beyond D is clipped; a box wholly beyond is not worth one.
                if place.0 < m && place.1 < n {
                    // SAFETY: passed on to the caller.
                    unsafe {
                        let leader = self.open_box();
                        let mut within = 0;
                        while within < columns {
                            let x = || group_of::<_, _, TILE_N>(&acc, block, of_tile + within);
                            self.store_group(x, place, within, columns);
                            within = step(within + GROUP);
                        }
                        if overlaps && i == boxes - 1 && leader {
                            wait_for_first_of(boxes);
                        }
                        self.send_box(place, leader);
                    }
                }
                i = step(i + 1);
            }
            block = step(block + 1);
        }
    }

    /// Waits until the next box is free. Whether this lane sends boxes.
    #[inline(always)]
    unsafe fn open_box(&self) -> bool {
        // SAFETY: the warp's lanes are here together. The copy that last read this box was issued
        // by the same lane, which waits for it.
        unsafe {
            let leader = elect_sync(FULL_MASK);
            if leader {
                const { assert!(STORE_BUFFERS == 2) };
                tma::cp_async_bulk_wait_group_read::<1>();
            }
            bar_warp_sync(FULL_MASK);
            leader
        }
    }

    fn is_by_thread(&self) -> bool {
        self.destination.by_thread != 0 && opaque(self.destination.by_thread) != 0
    }

    /// The group `within` columns behind the begin of the open box, which is at `(row, column,
    /// batch)`: 16 rows of as many `columns` as a swizzle spans.
    #[inline(always)]
    unsafe fn store_group(
        &self,
        registers: impl FnOnce() -> [f32; RESULTS],
        (row, column, batch): (u32, u32, u32),
        within: u32,
        columns: u32,
    ) {
        let at = (row, column + within, batch);
        let x = self.results(registers, at);
        // SAFETY: the warp's lanes are here together, and the box is free.
        unsafe {
            if self.is_by_thread() {
                // What is beyond D was read at its edge, which another lane is to write where C
                // is D: not before all have read it, in this group and in the next.
                bar_warp_sync(FULL_MASK);
                self.destination.store(&x, at);
                bar_warp_sync(FULL_MASK);
            } else {
                let to = self.boxes.add_bytes(self.next * STORE_BYTES);
                let swizzle = Swizzle::of_span(columns * size_of::<Out>() as u32);
                Out::write(to, swizzle, within * size_of::<Out>() as u32, &x);
            }
        }
    }

    /// Sends the open box to D, at `(row, column, batch)`.
    #[inline(always)]
    unsafe fn send_box(&mut self, (row, column, batch): (u32, u32, u32), leader: bool) {
        if self.is_by_thread() {
            return;
        }
        let from = self.boxes.add_bytes(self.next * STORE_BYTES);
        self.next = (self.next + 1) % STORE_BUFFERS;
        // SAFETY: the warp's lanes are here together; what they wrote is fenced before it is read.
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

    /// What the epilogue makes of `registers`, a group of columns at `at`.
    #[inline(always)]
    fn results(
        &self,
        registers: impl FnOnce() -> [f32; RESULTS],
        at: (u32, u32, u32),
    ) -> [f32; RESULTS] {
        let (m, n) = (self.destination.m, self.destination.n);
        self.epilogue.apply_pairs::<RESULTS, { RESULTS / 2 }>(
            #[inline(always)]
            |i| {
                let (row, column) = position(at, i);
                Place {
                    batch: u64::from(at.2),
                    // What is beyond D is not stored, but must not be asked about.
                    row: row.min(m.wrapping_sub(1)),
                    column: column.min(n.wrapping_sub(1)),
                }
            },
            registers,
        )
    }

    /// Waits until all boxes have been read, so that their memory may go.
    #[inline(always)]
    pub fn finish(self) {
        tma::cp_async_bulk_wait_group_read::<0>();
    }
}

impl<Out: StoreElement> Destination<Out> {
    /// A thread's results of a group, as far as they are in D.
    #[inline(always)]
    unsafe fn store(&self, x: &[f32; RESULTS], at: (u32, u32, u32)) {
        let mut i = 0;
        while i < RESULTS {
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
    }
}

/// Waits, before the last of so many boxes is sent, until the first one is in D.
#[inline(always)]
fn wait_for_first_of(boxes: u32) {
    match boxes {
        2 => tma::cp_async_bulk_wait_group::<0>(),
        3 => tma::cp_async_bulk_wait_group::<1>(),
        _ => tma::cp_async_bulk_wait_group::<2>(),
    }
}

/// Columns of the boxes of a tile of `tile_n`, of elements of `size_bytes`.
const fn columns_of_box(tile_n: u32, size_bytes: u32) -> u32 {
    let mut tile = TILE_128X128;
    tile.tile_n = tile_n;
    tile.store_span_bytes(size_bytes) / size_bytes
}

/// Row and column of a thread's `i`th result of a group at `(row, column, _)`: the accumulator's
/// fragment (`spec::tensor_core::fragment::wgmma_acc`) of the warp's 16 rows.
#[inline(always)]
fn position((row, column, _): (u32, u32, u32), i: usize) -> (u32, u32) {
    let (lane, i) = (thread::thread_idx_x() % 32, i as u32);
    (
        row + lane / 4 + i / 2 % 2 * 8,
        column + i / 4 * 8 + lane % 4 * 2 + i % 2,
    )
}

/// A thread's results of the group that begins at column `of_tile` of a block of rows. Where the
/// group is not known, a table of branches leads to where its registers, constants all, are moved.
///
/// # Safety
/// The group is one of the tile's.
#[inline(always)]
unsafe fn group_of<M, const BLOCKS: usize, const TILE_N: u32>(
    acc: &Accumulator<M, BLOCKS>,
    block: u32,
    of_tile: u32,
) -> [f32; RESULTS]
where
    M: MmaAsync<Acc: AsRef<[f32]> + AsMut<[f32]>>,
{
    let of_block = (TILE_N / GROUP) as usize;
    let mut x = [0.0; RESULTS];
    macro_rules! of {
        ($($group:literal)*) => {
            match block * (TILE_N / GROUP) + of_tile / GROUP {
                $($group if $group < BLOCKS * of_block => {
                    let registers = acc.registers()[$group / of_block].as_ref();
                    let mut i = 0;
                    while i < RESULTS {
                        x[i] = registers[$group % of_block * RESULTS + i];
                        i += 1;
                    }
                    // Else LLVM makes all of them one, with an index that it does not know.
                    tie(&mut x);
                })*
                // SAFETY: the caller's.
                _ => unsafe { core::hint::unreachable_unchecked() },
            }
        };
    }
    const { assert!(BLOCKS as u32 * (TILE_N / GROUP) <= 24) };
    of!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23);
    x
}
