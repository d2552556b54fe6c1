//! From accumulators to o and lse: what the sums say, rounded, and written where it belongs.
//!
//! Lanes exchange what they hold, so that a quad writes whole sectors of 32 bytes: no shared memory
//! is needed, and rows that are not there are simply not written.

use core::hint::cold_path;

use cuda_std::hint::opaque;
use cuda_std::math::approx::{ex2_approx_ftz, lg2_approx, rcp_approx};
use cuda_std::mem::{st_v2_f32, st_v2_u32};
use cuda_std::thread;
use cuda_std::warp::{FULL_MASK, shfl_bfly};
use spec::attention::{FlashFwdParams, OutputDType};

use super::rows::{Row, RowMap};
use super::schedule::Place;
use super::softmax::{ROWS, Softmax};

/// Columns that a quad writes at a time.
const GROUP: usize = 16;

/// Where results go.
#[derive(Clone, Copy)]
pub(super) struct Outputs {
    pub(super) o: *mut u8,
    pub(super) lse: *mut f32,
    pub(super) sink: *const f32,
}

/// What to multiply a thread's rows by, and their lse.
struct RowEnds {
    factors: [f32; ROWS],
    lse: [f32; ROWS],
}

impl RowEnds {
    /// Where nothing was seen: 0, whatever the values are.
    #[inline(always)]
    fn clear(&self, o: &mut [f32]) {
        let mut i = 0;
        while i < o.len() {
            if self.factors[i / 2 % ROWS] == 0.0 {
                o[i] = 0.0;
            }
            i += 1;
        }
    }
}

impl Outputs {
    /// Stores the sums over keys of a warpgroup's rows, which are as said from a query of the tile on.
    ///
    /// # Safety
    /// The warps of the warpgroup call it, converged; the place is one of the launch.
    #[inline(always)]
    pub(super) unsafe fn store<R: RowMap>(
        &self,
        params: &FlashFwdParams,
        (rows, query_of_tile): (R, u32),
        place: &Place,
        softmax: &Softmax,
        o: &mut [f32],
        pair: impl Fn(f32, f32) -> u32,
    ) {
        // What depends on the thread alone is not to be kept in registers from tile to tile.
        let thread = opaque(thread::thread_idx_x());
        let (warp, lane) = (thread % 128 / 32, thread % 32);
        let query = place.row + query_of_tile;
        let first = rows.first(query, [16 * warp, lane / 4]);
        let row = |i: usize| {
            let row = rows.row(first, 8 * i as u32);
            Row {
                is_there: row.is_there && row.query < place.seqlen_q,
                ..row
            }
        };
        // SAFETY: the caller's: what is written are elements of rows that are there.
        unsafe {
            let heads = [0, 1].map(|i| place.head + row(i).head);
            let ends = self.ends(params, heads, softmax);
            if params.write_lse != 0 && lane % 4 == 0 {
                let lse = self.lse.add(place.lse as usize);
                let mut i = 0;
                while i < ROWS {
                    let Row {
                        query,
                        head,
                        is_there,
                    } = row(i);
                    if is_there {
                        let at = query as usize + params.lse_stride(head) as usize;
                        lse.add(at).write(ends.lse[i]);
                    }
                    i += 1;
                }
            }
            let mut i = 0;
            while i < o.len() {
                o[i] *= ends.factors[i / 2 % ROWS];
                i += 1;
            }
            if ends.factors[0] == 0.0 || ends.factors[1] == 0.0 {
                cold_path();
                ends.clear(o);
            }
            let is_f32 = params.o_dtype == OutputDType::F32.code();
            let mut i = 0;
            while i < ROWS {
                let Row {
                    query,
                    head,
                    is_there,
                } = row(i);
                let at = place.o + params.o.offset(0, query, head);
                if is_f32 {
                    if is_there {
                        let to = self.o.cast::<f32>().offset(at as isize);
                        store_f32(to, i, o, params.head_dim_v, lane % 4);
                    }
                } else {
                    let to = self.o.cast::<u16>().offset(at as isize);
                    let columns = if is_there { params.head_dim_v } else { 0 };
                    store_pairs(to, i, o, columns, lane % 4, &pair);
                }
                i += 1;
            }
        }
    }

    /// # Safety
    /// The warp calls it, converged; the heads, of the rows, are the launch's.
    #[inline(always)]
    unsafe fn ends(
        &self,
        params: &FlashFwdParams,
        heads: [u32; ROWS],
        softmax: &Softmax,
    ) -> RowEnds {
        // SAFETY: passed on to the caller.
        let sums = unsafe { softmax.sums() };
        let mut sinks_log2 = [f32::NEG_INFINITY; ROWS];
        if !self.sink.is_null() {
            // SAFETY: there is one for each head.
            sinks_log2 = heads
                .map(|head| unsafe { *self.sink.add(head as usize) } * core::f32::consts::LOG2_E);
        }
        let mut ends = RowEnds {
            factors: [0.0; ROWS],
            lse: [f32::NEG_INFINITY; ROWS],
        };
        let mut row = 0;
        while row < ROWS {
            let sink_log2 = sinks_log2[row];
            let own = softmax.max[row] * params.softmax_scale_log2;
            let max = own.max(sink_log2);
            if max > f32::NEG_INFINITY {
                let own = ex2_approx_ftz(own - max);
                let sum = sums[row] * own + ex2_approx_ftz(sink_log2 - max);
                ends.factors[row] = if softmax.max[row] == f32::NEG_INFINITY {
                    0.0
                } else {
                    own * rcp_approx(sum)
                };
                ends.lse[row] = (max + lg2_approx(sum)) * core::f32::consts::LN_2;
            } else if sums[row].is_nan() {
                // It is above nothing, and stays.
                ends.factors[row] = f32::NAN;
                ends.lse[row] = f32::NAN;
            }
            row += 1;
        }
        ends
    }
}

/// A thread's elements of its row `row`, as they are.
///
/// # Safety
/// `to` is a row of `columns`, a multiple of 8, and aligned to 16 bytes.
#[inline(always)]
unsafe fn store_f32(to: *mut f32, row: usize, o: &[f32], columns: u32, lane: u32) {
    let first = lane * 2;
    let mut i = 0;
    while i < o.len() / 4 {
        let column = 8 * i as u32 + first;
        if column < columns {
            let pair = [o[4 * i + 2 * row], o[4 * i + 2 * row + 1]];
            // SAFETY: the caller's.
            unsafe { st_v2_f32(to.add(column as usize), pair) };
        }
        i += 1;
    }
}

/// The elements of row `row` of a quad, two in 4 bytes. A lane has two of every eight; neighbours
/// exchange some, so that each writes four of every 16, and all four write 32 bytes.
///
/// # Safety
/// The warp calls it, converged; `to` is a row of `columns`, a multiple of 8, and aligned to 16 bytes.
#[inline(always)]
unsafe fn store_pairs(
    to: *mut u16,
    row: usize,
    o: &[f32],
    columns: u32,
    lane: u32,
    pair: &impl Fn(f32, f32) -> u32,
) {
    let is_upper = lane & 1 != 0;
    let first = 8 * (lane % 2) + 4 * (lane / 2);
    // SAFETY: the caller's: the thread's columns, where they are there.
    let to = to.wrapping_add(first as usize);
    let mut group = 0;
    while group < o.len() / (GROUP / 2) {
        let at = 8 * group + 2 * row;
        let (x, y) = (pair(o[at], o[at + 1]), pair(o[at + 4], o[at + 5]));
        // SAFETY: the caller's: columns that are there.
        unsafe {
            let got = shfl_bfly(FULL_MASK, if is_upper { x } else { y }, 1);
            let words = if is_upper { [got, y] } else { [x, got] };
            if (GROUP * group) as u32 + first < columns {
                st_v2_u32(to.wrapping_add(GROUP * group).cast(), words);
            }
        }
        group += 1;
    }
}
