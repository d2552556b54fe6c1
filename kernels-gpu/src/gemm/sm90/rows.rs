//! From accumulators to D by rows: brought to shared memory in f32, read back along the rows, and
//! through any epilogue to wherever D lies.
//!
//! Along a row neighbouring lanes have neighbouring columns, so what the epilogue reads and what is
//! stored is read and stored in whole sectors; and the loop over rows is a loop, so the epilogue's
//! code is there once for each box, not once for each register.

use cuda_std::accumulator::Accumulator;
use cuda_std::epilogue::{Epilogue, Place};
use cuda_std::mem::{ld_shared_v4_f32, st_shared_v2_f32};
use cuda_std::regs::opaque;
use cuda_std::shared::SharedAddr;
use cuda_std::thread;
use cuda_std::warp::{FULL_MASK, bar_warp_sync};
use cuda_std::wgmma::MmaAsync;
use spec::gemm::GemmParams;
use spec::gemm::sm90::{MMA_M, SPAN_BYTES, STORE_BUFFERS, STORE_BYTES, STORE_ROWS, WARPGROUP};
use spec::swizzle::Swizzle;

use super::store::{Store, StoreElement, own_boxes};

/// Columns of a box of f32.
const BOX_COLUMNS: u32 = SPAN_BYTES / 4;
/// Columns that are brought to shared memory at a time: a box each in all of a warp's buffers.
const COLUMNS: u32 = STORE_BUFFERS * BOX_COLUMNS;
/// Columns of a lane.
const LANE_COLUMNS: u32 = 4;
/// Lanes of a row, and rows of a warp, at a time.
const ROW_LANES: u32 = COLUMNS / LANE_COLUMNS;
const ROWS: u32 = 32 / ROW_LANES;
/// Results that a lane has in hand at a time: enough that they need not wait for each other.
const RESULTS: usize = 16;

/// Any epilogue, any D.
pub(crate) struct ByRows<Out, E> {
    d: *mut Out,
    ld: i64,
    batch_stride: i64,
    m: u32,
    n: u32,
    epilogue: E,
    boxes: SharedAddr,
}

impl<Out: StoreElement, E: Epilogue> ByRows<Out, E> {
    /// # Safety
    /// `d` is as `params` say; the boxes at `boxes` are free.
    #[inline(always)]
    pub(crate) unsafe fn new(
        d: *mut Out,
        params: &GemmParams,
        epilogue: E,
        boxes: SharedAddr,
    ) -> Self {
        Self {
            d,
            ld: params.ldd,
            batch_stride: params.batch_stride_d,
            m: params.m,
            n: params.n,
            epilogue,
            boxes: own_boxes(boxes),
        }
    }

    /// Brings 16 × [`COLUMNS`] to shared memory, as the accumulator's fragment holds them
    /// (`spec::tensor_core::fragment::wgmma_acc`).
    #[inline(always)]
    unsafe fn bring(&self, registers: &[f32], of_tile: u32) {
        let lane = thread::thread_idx_x() % 32;
        let mut at = 0;
        while at < COLUMNS / 2 {
            let row = lane / 4 + at / 2 % 2 * 8;
            let column = at / 4 * 8 + lane % 4 * 2;
            let first = (of_tile / 2 + at) as usize;
            let pair = [registers[first], registers[first + 1]];
            // SAFETY: inside of the boxes.
            unsafe { st_shared_v2_f32(self.boxes.add_bytes(offset_bytes(row, column)), pair) };
            at += 2;
        }
    }

    /// Brings the box `at` of all, whose registers only constants can name.
    #[inline(always)]
    unsafe fn bring_box<M: MmaAsync<Acc: AsRef<[f32]>>, const BLOCKS: usize>(
        &self,
        acc: &Accumulator<M, BLOCKS>,
        at: u32,
        columns: u32,
    ) {
        let mut this = 0;
        while this < BLOCKS as u32 * columns {
            if this == at {
                let block = (this / columns) as usize;
                // SAFETY: passed on to the caller.
                unsafe {
                    self.bring(acc.registers()[block].as_ref(), this % columns * COLUMNS);
                }
            }
            this += 1;
        }
    }

    /// Takes the rows from there to D.
    #[inline(always)]
    unsafe fn take(&self, (row, column, batch): (u32, u32, u32)) {
        let lane = thread::thread_idx_x() % 32;
        let of_box = lane % ROW_LANES * LANE_COLUMNS;
        let mut first = lane / ROW_LANES;
        while first < STORE_ROWS {
            let mut x = [0.0; RESULTS];
            let mut i = 0;
            while i < RESULTS {
                let from = offset_bytes(first + row_of(i), of_box);
                // SAFETY: inside of the boxes.
                let four = unsafe { ld_shared_v4_f32(self.boxes.add_bytes(from)) };
                let mut of_four = 0;
                while of_four < four.len() {
                    x[i + of_four] = four[of_four];
                    of_four += 1;
                }
                i += four.len();
            }
            let at = (row + first, column + of_box, batch);
            self.apply(&mut x, at);
            let mut i = 0;
            while i < RESULTS {
                let four = [x[i], x[i + 1], x[i + 2], x[i + 3]];
                // SAFETY: what is not in D is left out.
                unsafe { self.put(four, (at.0 + row_of(i), at.1, batch)) };
                i += four.len();
            }
            first += ROWS * (RESULTS as u32 / LANE_COLUMNS);
        }
    }

    #[inline(always)]
    fn apply(&self, x: &mut [f32; RESULTS], (row, column, batch): (u32, u32, u32)) {
        let (m, n) = (self.m, self.n);
        self.epilogue.apply_all(
            #[inline(always)]
            |i| {
                let row = row + row_of(i);
                let column = column + i as u32 % LANE_COLUMNS;
                Place {
                    batch: u64::from(batch),
                    // What is beyond D is not stored, but must not be asked about.
                    row: if row < m { row } else { m - 1 },
                    column: if column < n { column } else { n - 1 },
                }
            },
            x,
        );
    }

    /// Four neighbours, as far as they are in D.
    #[inline(always)]
    unsafe fn put(&self, x: [f32; 4], (row, column, batch): (u32, u32, u32)) {
        if row >= self.m {
            return;
        }
        let offset =
            i64::from(batch) * self.batch_stride + i64::from(row) * self.ld + i64::from(column);
        // SAFETY: elements of D.
        unsafe {
            let to = self.d.offset(offset as isize);
            if column + LANE_COLUMNS <= self.n && Out::is_vector_aligned(to) {
                Out::store4_cvt(to, x);
            } else {
                let mut i = 0;
                while i < x.len() {
                    if column + (i as u32) < self.n {
                        Out::store(to.add(i), x[i]);
                    }
                    i += 1;
                }
            }
        }
    }
}

/// Row of a lane's `i`th result, from its first on.
#[inline(always)]
const fn row_of(i: usize) -> u32 {
    i as u32 / LANE_COLUMNS * ROWS
}

/// Where a result is in the boxes.
#[inline(always)]
fn offset_bytes(row: u32, column: u32) -> u32 {
    let (of_box, within) = (column / BOX_COLUMNS, column % BOX_COLUMNS);
    of_box * STORE_BYTES + Swizzle::B128.offset_bytes(row, 4 * within)
}

impl<Out: StoreElement, E: Epilogue> Store for ByRows<Out, E> {
    #[inline(always)]
    unsafe fn tile<M: MmaAsync<Acc: AsRef<[f32]>>, const BLOCKS: usize, const TILE_N: u32>(
        &mut self,
        acc: &Accumulator<M, BLOCKS>,
        (row, column, batch): (u32, u32, u32),
    ) {
        let warp_row = thread::thread_idx_x() % WARPGROUP / 32 * STORE_ROWS;
        let columns = TILE_N / COLUMNS;
        // A loop that stays one: the epilogue's code is there once.
        let boxes = opaque(BLOCKS as u32 * columns);
        let mut at = 0;
        while at < boxes {
            let (block, of_tile) = (at / columns, at % columns * COLUMNS);
            let (row, column) = (row + block * MMA_M + warp_row, column + of_tile);
            // SAFETY: the warp's lanes are here together, and the boxes are its own.
            unsafe {
                bar_warp_sync(FULL_MASK); // the rows before have been taken
                self.bring_box(acc, at, columns);
                bar_warp_sync(FULL_MASK); // these have been brought
                if row < self.m && column < self.n {
                    self.take((row, column, batch));
                }
            }
            at += 1;
        }
    }

    #[inline(always)]
    fn finish(self) {}
}
