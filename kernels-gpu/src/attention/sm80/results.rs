//! The way of o and lse from registers to global memory.

use cuda_std::mem::st_v2_f32;
use cuda_std::thread;
use spec::attention::{FlashFwdParams, OutputDType, Sequence};

use super::element::Half;
use super::kernel::{Place, first_row};
use super::softmax::{Accumulator, Rows};

/// Where a thread's results go.
pub(super) struct Results {
    /// Row 0 of the sequence and head, column 0.
    pub(super) o: *mut u8,
    /// Elements between rows.
    pub(super) ld: i64,
    /// [`OutputDType::code`].
    pub(super) dtype: u32,
    /// The thread's first row.
    pub(super) first_row: u32,
    /// Rows that there are.
    pub(super) rows: u32,
    /// The thread's first column, even.
    pub(super) first_column: u32,
    /// Columns that there are, a multiple of 8.
    pub(super) columns: u32,
}

impl Results {
    /// Of a thread of a block at `place`, of `warp_rows` a warp.
    #[inline(always)]
    pub(super) fn new(
        o: *mut u8,
        params: &FlashFwdParams,
        sequence: &Sequence,
        place: &Place,
        warp_rows: u32,
    ) -> Self {
        let is_f32 = params.o_dtype == OutputDType::F32.code();
        let size_bytes = if is_f32 { 4 } else { 2 };
        let offset = sequence.offset_q(&params.o, place.head_idx) * size_bytes;
        Self {
            o: o.wrapping_offset(offset as isize),
            ld: params.o.seq,
            dtype: params.o_dtype,
            first_row: place.m_start + first_row(warp_rows),
            rows: sequence.q.len,
            first_column: thread::thread_idx_x() % 4 * 2,
            columns: params.head_dim_v,
        }
    }

    /// Calls `visit` with each row that there is, and where it is among the thread's.
    #[inline(always)]
    fn for_each_row<const M: usize>(&self, mut visit: impl FnMut(u32, usize, usize)) {
        for i in 0..M {
            for half in 0..2 {
                let row = self.first_row + 16 * i as u32 + 8 * half as u32;
                if row < self.rows {
                    visit(row, i, half);
                }
            }
        }
    }

    /// Writes o, times `factors`.
    ///
    /// # Safety
    /// Rows and columns that are there can be written, two columns at once; they are this thread's.
    #[inline(always)]
    pub(super) unsafe fn write_o<E: Half, const M: usize, const D: usize>(
        &self,
        o: &Accumulator<M, D>,
        factors: &Rows<M>,
    ) {
        let is_f32 = self.dtype == OutputDType::F32.code();
        let is_f16 = self.dtype == OutputDType::F16.code();
        let size_bytes = if is_f32 { 4 } else { 2 };
        self.for_each_row::<M>(|row, i, half| {
            let first = i64::from(row) * self.ld + i64::from(self.first_column);
            let first = self.o.wrapping_offset((first * size_bytes) as isize);
            for j in 0..D {
                if 8 * (j as u32) < self.columns {
                    let factor = factors[i][half];
                    let pair = [o[i][j][2 * half] * factor, o[i][j][2 * half + 1] * factor];
                    let place = first.wrapping_add(8 * j * size_bytes as usize);
                    let halves = E::pack_as(is_f16, pair[0], pair[1]);
                    // SAFETY: the caller's.
                    unsafe {
                        if is_f32 {
                            st_v2_f32(place.cast(), pair);
                        } else {
                            place.cast::<u32>().write(halves);
                        }
                    }
                }
            }
        });
    }

    /// Writes lse, whose first is that of row 0. The first of the four lanes of a row does.
    ///
    /// # Safety
    /// There is one of each row.
    #[inline(always)]
    pub(super) unsafe fn write_lse<const M: usize>(&self, lse: *mut f32, values: &Rows<M>) {
        if self.first_column != 0 {
            return;
        }
        self.for_each_row::<M>(|row, i, half| {
            // SAFETY: the caller's.
            unsafe { lse.wrapping_add(row as usize).write(values[i][half]) }
        });
    }
}
