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
    MMA_M, SPAN_BYTES, STORE_BUFFERS, STORE_BYTES, STORE_ROWS, Sm90Launch, WARPGROUP,
};
use spec::swizzle::Swizzle;
use spec::tensor_core::ldmatrix::tile_16x16;

/// Columns that are brought to a box at a time: few, as the epilogue's addresses take registers.
const GROUP: u32 = 16;
/// A thread's results in a group.
const RESULTS: usize = GROUP as usize / 2;

/// An element type of D.
pub trait StoreElement: Element {
    /// Columns of a box.
    const BOX_COLUMNS: u32 = SPAN_BYTES / size_of::<Self>() as u32;

    /// Writes a warp's 16 × 16 results to its box, from byte `column_bytes` of the rows on.
    ///
    /// # Safety
    /// The warp calls it, converged; the box is its own.
    unsafe fn write(to: SharedAddr, column_bytes: u32, x: &[f32; RESULTS]);

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
            unsafe fn write(to: SharedAddr, column_bytes: u32, x: &[f32; RESULTS]) {
                let lane = tile_16x16(thread::thread_idx_x() % 32);
                let x = |at: usize| $pair(x[at], x[at + 1]);
                let offset = Swizzle::B128.offset_bytes(lane.row, column_bytes + 2 * lane.column);
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
    unsafe fn write(to: SharedAddr, column_bytes: u32, x: &[f32; RESULTS]) {
        let lane = thread::thread_idx_x() % 32;
        let mut at = 0;
        while at < RESULTS as u32 {
            let row = lane / 4 + at / 2 % 2 * 8;
            let column_bytes = column_bytes + at / 4 * 32 + lane % 4 * 8;
            let offset = Swizzle::B128.offset_bytes(row, column_bytes);
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

/// Whether the code for a box is there once, or once for each box.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Boxes {
    /// For long epilogues: registers are moved up from box to box.
    Rolled,
    /// For short ones.
    Unrolled,
}

/// A warp's way to D.
pub struct Store<Out, E> {
    destination: Destination<Out>,
    epilogue: E,
    code: Boxes,
    /// Two boxes of the warp, and which is next.
    boxes: SharedAddr,
    next: u32,
}

impl<Out: StoreElement, E: Epilogue> Store<Out, E> {
    /// By the boxes of this warp among those at `boxes`, which [`Gemm::run`](super::Gemm::run) gives.
    #[inline(always)]
    pub fn new(destination: Destination<Out>, epilogue: E, code: Boxes, boxes: SharedAddr) -> Self {
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
    /// The warps of the warpgroup call it, converged; the boxes are free.
    #[inline(always)]
    pub unsafe fn tile<M, const BLOCKS: usize, const TILE_N: u32>(
        &mut self,
        mut acc: Accumulator<M, BLOCKS>,
        (row, column, batch): (u32, u32, u32),
    ) where
        M: MmaAsync<Acc: AsRef<[f32]> + AsMut<[f32]>>,
    {
        let row = row + thread::thread_idx_x() % WARPGROUP / 32 * STORE_ROWS;
        let of_block = TILE_N / Out::BOX_COLUMNS;
        let (m, n) = (self.destination.m, self.destination.n);
        let count = BLOCKS as u32 * of_block;
        let mut at = 0;
        while at < count {
            let (block, of_tile) = (at / of_block, at % of_block * Out::BOX_COLUMNS);
            let place = (row + block * MMA_M, column + of_tile, batch);
            // What is partly beyond D is clipped; a box wholly beyond is not worth one.
            let is_in_d = place.0 < m && place.1 < n;
            // SAFETY: passed on to the caller.
            unsafe {
                match self.code {
                    Boxes::Rolled => {
                        if is_in_d {
                            self.store_box(acc.registers()[0].as_ref(), place);
                        }
                        advance(&mut acc, Out::BOX_COLUMNS as usize / 2);
                    }
                    Boxes::Unrolled if is_in_d => {
                        let registers = acc.registers()[block as usize].as_ref();
                        self.store_box(&registers[of_tile as usize / 2..], place);
                    }
                    Boxes::Unrolled => {}
                }
            }
            at = match self.code {
                // LLVM, which cannot count such a loop, leaves it one.
                Boxes::Rolled => opaque(at + 1),
                Boxes::Unrolled => at + 1,
            };
        }
    }

    /// A box: 16 rows of as many columns as a swizzle spans, of which `registers` begin with the
    /// thread's part.
    #[inline(always)]
    unsafe fn store_box(&mut self, registers: &[f32], (row, column, batch): (u32, u32, u32)) {
        let to = self.boxes.add_bytes(self.next * STORE_BYTES);
        self.next = (self.next + 1) % STORE_BUFFERS;
        // SAFETY: the warp's lanes are here together. The copy that last read this box was issued
        // by the same lane, which waits for it; what the lanes write is fenced before it is read.
        unsafe {
            let leader = elect_sync(FULL_MASK);
            if leader {
                const { assert!(STORE_BUFFERS == 2) };
                tma::cp_async_bulk_wait_group_read::<1>();
            }
            bar_warp_sync(FULL_MASK);
            let by_thread =
                self.destination.by_thread != 0 && opaque(self.destination.by_thread) != 0;
            let mut within = 0;
            while within < Out::BOX_COLUMNS {
                let at = (row, column + within, batch);
                let x = self.results(&registers[within as usize / 2..], at);
                if by_thread {
                    // What is beyond D was read at its edge, which another lane is to write where C
                    // is D: not before all have read it, in this group and in the next.
                    bar_warp_sync(FULL_MASK);
                    self.destination.store(&x, at);
                    bar_warp_sync(FULL_MASK);
                } else {
                    Out::write(to, within * size_of::<Out>() as u32, &x);
                }
                within += GROUP;
            }
            if by_thread {
                return;
            }
            fence_proxy_async_shared_cta();
            bar_warp_sync(FULL_MASK);
            if leader {
                let at = [column, row, batch].map(|coordinate| coordinate as i32);
                tma::cp_async_bulk_tensor_3d_global_shared_cta(self.destination.map, at, to);
                tma::cp_async_bulk_commit_group();
            }
        }
    }

    /// What the epilogue makes of the first of `registers`, a group of columns at `at`.
    #[inline(always)]
    fn results(&self, registers: &[f32], at: (u32, u32, u32)) -> [f32; RESULTS] {
        let mut x = [0.0; RESULTS];
        let mut i = 0;
        while i < RESULTS {
            x[i] = registers[i];
            i += 1;
        }
        let (m, n) = (self.destination.m, self.destination.n);
        self.epilogue.apply_all(
            #[inline(always)]
            |i| {
                let (row, column) = position(at, i);
                Place {
                    batch: u64::from(at.2),
                    // What is beyond D is not stored, but must not be asked about.
                    row: if row < m { row } else { m - 1 },
                    column: if column < n { column } else { n - 1 },
                }
            },
            &mut x,
        );
        x
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

/// Moves all registers `by` down, over the blocks' ends.
#[inline(always)]
fn advance<M, const BLOCKS: usize>(acc: &mut Accumulator<M, BLOCKS>, by: usize)
where
    M: MmaAsync<Acc: AsRef<[f32]> + AsMut<[f32]>>,
{
    let of_block = acc.registers()[0].as_ref().len();
    let mut to = 0;
    while to + by < BLOCKS * of_block {
        let from = to + by;
        let value = acc.registers()[from / of_block].as_ref()[from % of_block];
        acc.registers_mut()[to / of_block].as_mut()[to % of_block] = value;
        to += 1;
    }
    // What stays where it was would be the same from some box on, for which LLVM peels the loop.
    tie(&mut acc.registers_mut()[BLOCKS - 1]);
}
