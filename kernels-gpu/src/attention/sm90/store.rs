//! From accumulators to o and lse: what the sums say, rounded, and written where it belongs.
//!
//! Each warp's rows go through a piece of shared memory of its own, so that what is written at a time are
//! whole lines; rows that are not there are simply not written.

use core::hint::cold_path;

use cuda_std::hint::opaque;
use cuda_std::ldmatrix::stmatrix_x4;
use cuda_std::math::approx::{ex2_approx_ftz, lg2_approx_ftz, rcp_approx_ftz};
use cuda_std::mem::{ld_shared_v4_u32, st_global_v4_u32_if, st_v2_f32};
use cuda_std::shared::SharedAddr;
use cuda_std::thread;
use cuda_std::tile::SPAN_BYTES;
use cuda_std::warp::{FULL_MASK, bar_warp_sync};
use spec::attention::sm90::O_BYTES;
use spec::attention::{FlashFwdParams, OutputDType};
use spec::gemm::sm90::WARPGROUP;
use spec::swizzle::Swizzle;
use spec::tensor_core::ldmatrix::tile_16x16;

use super::rows::{First, Row, RowMap};
use super::softmax::{ROWS, Softmax};
use super::ticket::Place;

/// Lanes that have a row of results from the products.
const QUAD: u32 = 4;
/// Lanes that write a row of a panel, and bytes that each of them does.
const CHUNKS: u32 = SPAN_BYTES / CHUNK_BYTES;
const CHUNK_BYTES: u32 = 16;
/// Lanes, and rows, of a warp.
const LANES: u32 = thread::WARP_THREADS;
const ROWS_OF_WARP: u32 = 16;
/// A thread's results in a panel.
const PANEL: usize = SPAN_BYTES as usize / 2 / 2;

/// Where results go.
#[derive(Clone, Copy)]
pub(super) struct Outputs {
    pub(super) o: *mut u8,
    pub(super) lse: *mut f32,
    pub(super) sink: *const f32,
}

/// What sums over keys of a thread's rows are to be multiplied by; 0 where nothing was seen.
#[derive(Clone, Copy)]
pub(super) struct Factors([f32; ROWS]);

impl Factors {
    /// As good as any, where there are no results.
    pub(super) const NONE: Self = Self([1.0; ROWS]);

    #[inline(always)]
    fn apply(&self, o: &mut [f32]) {
        let mut i = 0;
        while i < o.len() {
            o[i] *= self.0[i / 2 % ROWS];
            i += 1;
        }
        if self.0[0] == 0.0 || self.0[1] == 0.0 {
            cold_path();
            self.clear(o);
        }
    }

    /// Where nothing was seen: 0, whatever the values are.
    #[inline(always)]
    fn clear(&self, o: &mut [f32]) {
        let mut i = 0;
        while i < o.len() {
            if self.0[i / 2 % ROWS] == 0.0 {
                o[i] = 0.0;
            }
            i += 1;
        }
    }
}

/// The rows of a warpgroup, as a thread of it has them.
#[derive(Clone, Copy)]
struct Rows<R> {
    rows: R,
    /// The thread's first row.
    first: First,
    /// Where the results of the tile go.
    to: Place,
    warp: u32,
    lane: u32,
}

impl<R: RowMap> Rows<R> {
    /// So many `lanes` of a warp have the same rows, those of neighbours follow each other.
    #[inline(always)]
    fn new((rows, query_of_tile): (R, u32), place: Place, lanes: u32) -> Self {
        // What depends on the thread alone is not to be kept in registers from tile to tile.
        let thread = opaque(thread::thread_idx_x());
        let (warp, lane) = (thread % WARPGROUP / LANES, thread % LANES);
        let first = rows.first(
            place.row + query_of_tile,
            [ROWS_OF_WARP * warp, lane / lanes],
        );
        Self {
            rows,
            first,
            to: place,
            warp,
            lane,
        }
    }

    /// The row `further` from the thread's first.
    #[inline(always)]
    fn row(&self, further: u32) -> Row {
        let row = self.rows.row(self.first, further);
        Row {
            is_there: row.is_there && row.query < self.to.seqlen_q,
            ..row
        }
    }

    /// Elements from the first of o to those of the row `further` on, and whether it is there.
    #[inline(always)]
    fn place(&self, params: &FlashFwdParams, further: u32) -> (i64, bool) {
        let row = self.row(further);
        let at = self.to.o + params.o.offset(0, row.query, row.head);
        (at, row.is_there)
    }
}

impl Outputs {
    /// Stores lse of a warpgroup's rows, which are as said from a query of the tile on, and says what
    /// their sums are to be multiplied by. It is a chain of operations that wait for each other: a
    /// time when products are on their way is good for it.
    ///
    /// # Safety
    /// The warps of the warpgroup call it, converged; the place is one of the launch.
    #[inline(always)]
    pub(super) unsafe fn finish_rows<R: RowMap>(
        &self,
        params: &FlashFwdParams,
        rows: (R, u32),
        place: Place,
        softmax: &Softmax,
    ) -> Factors {
        let rows = Rows::new(rows, place, QUAD);
        // SAFETY: the caller's: what is read and written are elements of rows that are there.
        unsafe {
            let sums = softmax.sums();
            let sinks_log2 = self.sinks_log2(&rows);
            let (mut factors, mut lse) = ([0.0; ROWS], [0.0; ROWS]);
            let mut i = 0;
            while i < ROWS {
                let max = softmax.max[i] * params.softmax_scale_log2;
                (factors[i], lse[i]) = end(max, sums[i], sinks_log2[i]);
                i += 1;
            }
            if params.write_lse != 0 && rows.lane.is_multiple_of(QUAD) {
                let to = self.lse.add(place.lse as usize);
                let mut i = 0;
                while i < ROWS {
                    let row = rows.row(8 * i as u32);
                    if row.is_there {
                        let at = row.query as usize + params.lse_stride(row.head) as usize;
                        to.add(at).write(lse[i]);
                    }
                    i += 1;
                }
            }
            Factors(factors)
        }
    }

    /// The sinks of a thread's rows, in base 2; -inf where there is none.
    ///
    /// # Safety
    /// The rows' heads are the launch's.
    #[inline(always)]
    unsafe fn sinks_log2<R: RowMap>(&self, rows: &Rows<R>) -> [f32; ROWS] {
        if self.sink.is_null() {
            return [f32::NEG_INFINITY; ROWS];
        }
        [0, 1].map(|i| {
            let head = rows.to.head + rows.row(8 * i).head;
            // SAFETY: there is one for each head.
            unsafe { *self.sink.add(head as usize) * core::f32::consts::LOG2_E }
        })
    }

    /// Stores the sums over keys of a warpgroup's rows, which are as said from a query of the tile on.
    ///
    /// # Safety
    /// The warps of the warpgroup call it, converged; the place is one of the launch; `via` is the
    /// warpgroup's own.
    #[inline(always)]
    pub(super) unsafe fn store<R: RowMap>(
        &self,
        params: &FlashFwdParams,
        rows: (R, u32),
        (place, via): (Place, SharedAddr),
        factors: &Factors,
        o: &mut [f32],
        pair: impl Fn(f32, f32) -> u32,
    ) {
        factors.apply(o);
        // SAFETY: the caller's.
        unsafe {
            if params.o_dtype == OutputDType::F32.code() {
                cold_path();
                self.store_f32(params, &Rows::new(rows, place, QUAD), o);
            } else {
                self.store_pairs(params, &Rows::new(rows, place, CHUNKS), via, o, pair);
            }
        }
    }

    /// As they are: a thread has two of every eight columns of two rows.
    ///
    /// # Safety
    /// As for [`store`](Self::store); o is of f32, its rows aligned to 16 bytes.
    #[inline(always)]
    unsafe fn store_f32<R: RowMap>(&self, params: &FlashFwdParams, rows: &Rows<R>, o: &[f32]) {
        let first = rows.lane % QUAD * 2;
        let mut row = 0;
        while row < ROWS {
            let (at, is_there) = rows.place(params, 8 * row as u32);
            let columns = if is_there { params.head_dim_v } else { 0 };
            let to = self.o.cast::<f32>().wrapping_offset(at as isize);
            let mut i = 0;
            while i < o.len() / 4 {
                let column = 8 * i as u32 + first;
                if column < columns {
                    let pair = [o[4 * i + 2 * row], o[4 * i + 2 * row + 1]];
                    // SAFETY: columns that are there, of a row that is.
                    unsafe { st_v2_f32(to.wrapping_add(column as usize), pair) };
                }
                i += 1;
            }
            row += 1;
        }
    }

    /// Rounded: panel by panel through the warp's piece of shared memory, as eight lanes that write 128
    /// bytes of a row are faster than quads that write 32 of eight.
    ///
    /// # Safety
    /// As for [`store`](Self::store); o is of 2 bytes an element, its rows aligned to 16 bytes.
    #[inline(always)]
    unsafe fn store_pairs<R: RowMap>(
        &self,
        params: &FlashFwdParams,
        rows: &Rows<R>,
        via: SharedAddr,
        o: &[f32],
        pair: impl Fn(f32, f32) -> u32,
    ) {
        let (row, chunk) = (rows.lane / CHUNKS, rows.lane % CHUNKS);
        let written = tile_16x16(rows.lane);
        let via = via.add_bytes(rows.warp * (O_BYTES / 4));
        let mut panel = 0;
        while panel < o.len() / PANEL {
            let mut i = 0;
            while i < PANEL / 8 {
                let at = PANEL * panel + 8 * i;
                let x = |further: usize| pair(o[at + further], o[at + further + 1]);
                let byte = 2 * (16 * i as u32 + written.column);
                let to = via.add_bytes(Swizzle::B128.offset_bytes(written.row, byte));
                // SAFETY: of the warp's own, whose readers have met.
                unsafe { stmatrix_x4(to, [x(0), x(2), x(4), x(6)]) };
                i += 1;
            }
            let column = (panel as u32 * SPAN_BYTES + chunk * CHUNK_BYTES) / 2;
            // SAFETY: all lanes are here, before and after they read what others wrote; elements of rows
            // that are there.
            unsafe {
                bar_warp_sync(FULL_MASK);
                let mut i = 0;
                while i < ROWS_OF_WARP / (LANES / CHUNKS) {
                    let further = LANES / CHUNKS * i;
                    let from = Swizzle::B128.offset_bytes(row + further, chunk * CHUNK_BYTES);
                    let words = ld_shared_v4_u32(via.add_bytes(from));
                    let (at, is_there) = rows.place(params, further);
                    let to = self.o.cast::<u16>().wrapping_offset(at as isize);
                    let is_there = is_there && column < params.head_dim_v;
                    st_global_v4_u32_if(to.wrapping_add(column as usize).cast(), words, is_there);
                    i += 1;
                }
                bar_warp_sync(FULL_MASK);
            }
            panel += 1;
        }
    }
}

/// What a row's sum is to be multiplied by, and its lse, where probabilities are relative to `max`, in
/// base 2. Without a branch: the rows' chains of operations run side by side.
#[inline(always)]
fn end(max: f32, sum: f32, sink_log2: f32) -> (f32, f32) {
    let greatest = max.max(sink_log2);
    // -inf - -inf would be NaN where nothing has been seen.
    let of = if greatest > f32::NEG_INFINITY {
        greatest
    } else {
        0.0
    };
    let own = ex2_approx_ftz(max - of);
    // At least 1, where anything was seen: no operation meets a subnormal.
    let sum = sum * own + ex2_approx_ftz(sink_log2 - of);
    let factor = own * rcp_approx_ftz(sum);
    let lse = (of + lg2_approx_ftz(sum)) * core::f32::consts::LN_2;
    // A sum that is NaN where nothing is above -inf stays, but beside a sink.
    let is_empty = max == f32::NEG_INFINITY && !(sum.is_nan() && sink_log2 == f32::NEG_INFINITY);
    (if is_empty { 0.0 } else { factor }, lse)
}
