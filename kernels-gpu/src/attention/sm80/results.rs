//! Stores o and lse from registers to global memory.

use abi::attention::{FlashFwdParams, OutputDType, Sequence};
use cuda_std::mem::{st_v2_f32, st_v2_u32};
use cuda_std::thread;
use cuda_std::warp::{FULL_MASK, shfl_bfly};

use super::element::Half;
use super::kernel::{TileCoord, first_row};
use super::softmax::{Accumulator, Rows};

/// Where a thread's results go.
pub(super) struct Results {
    /// o at row 0 of the sequence and head, column 0.
    pub(super) o: *mut u8,
    /// Elements between rows.
    pub(super) ld: i64,
    /// [`OutputDType::code`].
    pub(super) dtype: u32,
    /// The thread's first row.
    pub(super) first_row: u32,
    /// Number of rows of the sequence.
    pub(super) rows: u32,
    /// The thread's first column, even.
    pub(super) first_column: u32,
    /// Number of columns of o, a multiple of 8.
    pub(super) columns: u32,
}

/// A thread's pair of neighbouring results, scaled.
#[inline(always)]
fn scaled<const M: usize, const D: usize>(
    o: &Accumulator<M, D>,
    factors: &Rows<M>,
    i: usize,
    j: usize,
    half: usize,
) -> [f32; 2] {
    let factor = factors[i][half];
    [o[i][j][2 * half] * factor, o[i][j][2 * half + 1] * factor]
}

impl Results {
    /// Numbers of column blocks `D` for which lanes exchange results before they store. Not for 128
    /// columns: there all registers are taken, and on sm_90 ptxas would spill three in the loop
    /// over keys.
    const EXCHANGES: [usize; 2] = [64 / 8, 256 / 8];

    /// For a thread of the block at `coord`, if a warp has `warp_rows` rows.
    #[inline(always)]
    pub(super) fn new(
        o: *mut u8,
        params: &FlashFwdParams,
        sequence: &Sequence,
        coord: &TileCoord,
        warp_rows: u32,
    ) -> Self {
        let is_f32 = params.o_dtype == OutputDType::F32.code();
        let size_bytes = if is_f32 { 4 } else { 2 };
        let offset = sequence.offset_q(&params.o, coord.head_idx) * size_bytes;
        Self {
            o: o.wrapping_offset(offset as isize),
            ld: params.o.seq,
            dtype: params.o_dtype,
            first_row: coord.m_start + first_row(warp_rows),
            rows: sequence.q.len,
            first_column: thread::thread_idx_x() % 4 * 2,
            columns: params.head_dim_v,
        }
    }

    /// The thread's row `half` of 16-row block `i`, which may lie beyond the sequence.
    #[inline(always)]
    const fn row(&self, i: usize, half: usize) -> u32 {
        self.first_row + 16 * i as u32 + 8 * half as u32
    }

    /// Stores o, times `factors`.
    ///
    /// # Safety
    /// The warp calls it, converged. Rows and columns of o that exist can be written, 8 bytes at
    /// once; they are this block's.
    #[inline(always)]
    pub(super) unsafe fn write_o<E: Half, const M: usize, const D: usize>(
        &self,
        o: &Accumulator<M, D>,
        factors: &Rows<M>,
    ) {
        if self.dtype == OutputDType::F32.code() {
            // SAFETY: the caller's promise.
            self.for_each_row::<M>(|i, half, row, columns| unsafe {
                let to = self.o.cast::<f32>().wrapping_offset(row as isize);
                self.write_floats::<D>(to, columns, |j| scaled(o, factors, i, j, half));
            });
        } else {
            // SAFETY: the caller's promise.
            self.for_each_row::<M>(|i, half, row, columns| unsafe {
                let to = self.o.cast::<u16>().wrapping_offset(row as isize);
                let pair = |j| scaled(o, factors, i, j, half);
                if Self::EXCHANGES.contains(&D) {
                    self.write_sectors::<E, D>(to, columns, pair);
                } else if columns > 0 {
                    self.write_halves::<E, D>(to, columns, pair);
                }
            });
        }
    }

    /// Calls `visit` for each row with its indices among the thread's, its offset, and its number
    /// of columns: 0 if the row does not exist.
    #[inline(always)]
    fn for_each_row<const M: usize>(&self, mut visit: impl FnMut(usize, usize, i64, u32)) {
        for i in 0..M {
            for half in 0..2 {
                let row = self.row(i, half);
                let columns = if row < self.rows { self.columns } else { 0 };
                visit(i, half, i64::from(row) * self.ld, columns);
            }
        }
    }

    /// Stores a row of `columns` in f32.
    ///
    /// # Safety
    /// As for [`write_o`](Self::write_o).
    #[inline(always)]
    unsafe fn write_floats<const D: usize>(
        &self,
        row: *mut f32,
        columns: u32,
        pair: impl Fn(usize) -> [f32; 2],
    ) {
        for j in 0..D {
            let column = 8 * j as u32 + self.first_column;
            if column < columns {
                // SAFETY: the caller's promise.
                unsafe { st_v2_f32(row.wrapping_add(column as usize), pair(j)) };
            }
        }
    }

    /// Stores a row of `columns` in 16 bits, as the lanes hold it: 16 bytes at a time, half a
    /// sector.
    ///
    /// # Safety
    /// As for [`write_o`](Self::write_o).
    #[inline(always)]
    unsafe fn write_halves<E: Half, const D: usize>(
        &self,
        row: *mut u16,
        columns: u32,
        pair: impl Fn(usize) -> [f32; 2],
    ) {
        let is_f16 = self.dtype == OutputDType::F16.code();
        let row = row.wrapping_add(self.first_column as usize);
        for j in 0..D {
            if 8 * (j as u32) < columns {
                let [low, high] = pair(j);
                let to = row.wrapping_add(8 * j).cast::<u32>();
                // SAFETY: the caller's promise.
                unsafe { to.write(E::pack_as(is_f16, low, high)) };
            }
        }
    }

    /// Stores a row of `columns` in 16 bits. A lane holds two of every eight columns. Neighbours
    /// exchange some, so that each stores four of every 16, and four lanes together whole sectors
    /// of 32 bytes.
    ///
    /// # Safety
    /// As for [`write_o`](Self::write_o).
    #[inline(always)]
    unsafe fn write_sectors<E: Half, const D: usize>(
        &self,
        row: *mut u16,
        columns: u32,
        pair: impl Fn(usize) -> [f32; 2],
    ) {
        let is_f16 = self.dtype == OutputDType::F16.code();
        let lane = self.first_column / 2;
        let is_upper = lane & 1 != 0;
        let first = 8 * (lane % 2) + 4 * (lane / 2);
        let row = row.wrapping_add(first as usize);
        let left = columns.saturating_sub(first);
        let packed = |j: usize| {
            let [low, high] = pair(j);
            E::pack_as(is_f16, low, high)
        };
        for j in 0..D / 2 {
            let (x, y) = (packed(2 * j), packed(2 * j + 1));
            // SAFETY: the caller's promise.
            unsafe {
                let got = shfl_bfly(FULL_MASK, if is_upper { x } else { y }, 1);
                let words = if is_upper { [got, y] } else { [x, got] };
                if 16 * (j as u32) < left {
                    st_v2_u32(row.wrapping_add(16 * j).cast(), words);
                }
            }
        }
    }

    /// Stores lse, at `lse` plus the row. The first of a row's four lanes does it.
    ///
    /// # Safety
    /// There is room for each row of the sequence.
    #[inline(always)]
    pub(super) unsafe fn write_lse<const M: usize>(&self, lse: *mut f32, values: &Rows<M>) {
        if self.first_column != 0 {
            return;
        }
        for i in 0..M {
            for half in 0..2 {
                let row = self.row(i, half);
                if row < self.rows {
                    // SAFETY: the caller's promise.
                    unsafe { lse.wrapping_add(row as usize).write(values[i][half]) }
                }
            }
        }
    }
}
