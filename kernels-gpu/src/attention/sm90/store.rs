//! The epilogue of attention: accumulators are divided by the row sum, rounded and stored to o;
//! lse.
//!
//! Each warp's rows go through its own piece of shared memory, so that stores to global memory
//! cover whole 128-byte lines. Rows outside the sequence are not written.

use core::hint::cold_path;

use abi::attention::sm90::O_BYTES;
use abi::attention::{FlashFwdParams, OutputDType};
use abi::gemm::sm90::WARPGROUP;
use abi::swizzle::Swizzle;
use abi::tensor_core::ldmatrix::tile_16x16;
use cuda_std::hint::opaque;
use cuda_std::ldmatrix::stmatrix_x4;
use cuda_std::math::approx::{ex2_approx_ftz, lg2_approx_ftz, rcp_approx_ftz};
use cuda_std::mem::{ld_shared_v4_u32, st_global_v4_u32_if, st_v2_f32};
use cuda_std::shared::SharedAddr;
use cuda_std::thread;
use cuda_std::tile::SPAN_BYTES;
use cuda_std::warp::{FULL_MASK, bar_warp_sync};

use super::rows::{First, Row, RowMap};
use super::softmax::{ROWS, Softmax};
use super::ticket::OutputTile;

/// Lanes that hold a row of the accumulators.
const QUAD: u32 = 4;
/// Lanes that store a row of a panel, and the bytes that each of them stores.
const CHUNKS: u32 = SPAN_BYTES / CHUNK_BYTES;
const CHUNK_BYTES: u32 = 16;
/// Lanes of a warp, and rows of a warp's accumulators.
const LANES: u32 = thread::WARP_THREADS;
const ROWS_OF_WARP: u32 = 16;
/// Results that a thread holds in a panel.
const PANEL: usize = SPAN_BYTES as usize / 2 / 2;

/// The output tensors, and the sinks.
#[derive(Clone, Copy)]
pub(super) struct Outputs {
    pub(super) o: *mut u8,
    pub(super) lse: *mut f32,
    pub(super) sink: *const f32,
}

/// What a thread's rows of accumulators are multiplied by: 1 / row sum, or 0 if no key was seen.
#[derive(Clone, Copy)]
pub(super) struct Factors([f32; ROWS]);

impl Factors {
    /// Never applied: stands for factors when a step does not end a tile.
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

    /// Zeros the rows that have seen no key, whatever the accumulators hold.
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

/// The rows of a warpgroup, from one thread's point of view.
#[derive(Clone, Copy)]
struct Rows<R> {
    rows: R,
    /// The thread's first row.
    first: First,
    /// The tile's place in o and lse.
    to: OutputTile,
    warp: u32,
    lane: u32,
}

impl<R: RowMap> Rows<R> {
    /// `lanes` consecutive lanes share a row; the next lanes have the next row.
    #[inline(always)]
    fn new((rows, query_of_tile): (R, u32), output_tile: OutputTile, lanes: u32) -> Self {
        // Opaque, so that what depends only on the thread is not kept in registers across tiles.
        let thread = opaque(thread::thread_idx_x());
        let (warp, lane) = (thread % WARPGROUP / LANES, thread % LANES);
        let first = rows.first(
            output_tile.row + query_of_tile,
            [ROWS_OF_WARP * warp, lane / lanes],
        );
        Self {
            rows,
            first,
            to: output_tile,
            warp,
            lane,
        }
    }

    /// The row `further` rows after the thread's first.
    #[inline(always)]
    fn row(&self, further: u32) -> Row {
        let row = self.rows.row(self.first, further);
        Row {
            is_there: row.is_there && row.query < self.to.seqlen_q,
            ..row
        }
    }

    /// Offset in o, in elements, of the row `further` rows on, and whether the row exists.
    #[inline(always)]
    fn offset(&self, params: &FlashFwdParams, further: u32) -> (i64, bool) {
        let row = self.row(further);
        let at = self.to.o + params.o.offset(0, row.query, row.head);
        (at, row.is_there)
    }
}

impl Outputs {
    /// Stores the lse of a warpgroup's rows (the row map, and the query of the tile that they begin
    /// at) and returns what their accumulators are to be multiplied by. This is a chain of
    /// dependent operations, so it is best called while `wgmma`s run.
    ///
    /// # Safety
    /// The warps of the warpgroup call it, converged; the place is one of the launch.
    #[inline(always)]
    pub(super) unsafe fn finish_rows<R: RowMap>(
        &self,
        params: &FlashFwdParams,
        rows: (R, u32),
        output_tile: OutputTile,
        softmax: &Softmax,
    ) -> Factors {
        let rows = Rows::new(rows, output_tile, QUAD);
        // SAFETY: the caller's promise: only elements of rows that exist are read and written.
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
                let to = self.lse.add(output_tile.lse as usize);
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

    /// The sinks' logits of a thread's rows, in base 2; -inf if there are no sinks.
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

    /// Stores a warpgroup's accumulators, of rows as in [`finish_rows`](Self::finish_rows).
    ///
    /// # Safety
    /// The warps of the warpgroup call it, converged; the place is one of the launch; `via` is
    /// shared memory of this warpgroup alone.
    #[inline(always)]
    pub(super) unsafe fn store<R: RowMap>(
        &self,
        params: &FlashFwdParams,
        rows: (R, u32),
        (output_tile, via): (OutputTile, SharedAddr),
        factors: &Factors,
        o: &mut [f32],
        pair: impl Fn(f32, f32) -> u32,
    ) {
        factors.apply(o);
        // SAFETY: the caller's promise.
        unsafe {
            if params.o_dtype == OutputDType::F32.code() {
                cold_path();
                self.store_f32(params, &Rows::new(rows, output_tile, QUAD), o);
            } else {
                self.store_pairs(params, &Rows::new(rows, output_tile, CHUNKS), via, o, pair);
            }
        }
    }

    /// Stores f32 directly: a thread has two of every eight columns of two rows.
    ///
    /// # Safety
    /// As for [`store`](Self::store); o is of f32, its rows aligned to 16 bytes.
    #[inline(always)]
    unsafe fn store_f32<R: RowMap>(&self, params: &FlashFwdParams, rows: &Rows<R>, o: &[f32]) {
        let first = rows.lane % QUAD * 2;
        let mut row = 0;
        while row < ROWS {
            let (at, is_there) = rows.offset(params, 8 * row as u32);
            let columns = if is_there { params.head_dim_v } else { 0 };
            let to = self.o.cast::<f32>().wrapping_offset(at as isize);
            let mut i = 0;
            while i < o.len() / 4 {
                let column = 8 * i as u32 + first;
                if column < columns {
                    let pair = [o[4 * i + 2 * row], o[4 * i + 2 * row + 1]];
                    // SAFETY: columns below head_dim_v, of a row that exists.
                    unsafe { st_v2_f32(to.wrapping_add(column as usize), pair) };
                }
                i += 1;
            }
            row += 1;
        }
    }

    /// Stores 16-bit results, panel by panel through the warp's piece of shared memory. Eight lanes
    /// that store 128 bytes of one row are faster than quads that store 32 bytes of each of eight
    /// rows.
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
                // SAFETY: the warp's own memory; its readers have passed the barrier below.
                unsafe { stmatrix_x4(to, [x(0), x(2), x(4), x(6)]) };
                i += 1;
            }
            let column = (panel as u32 * SPAN_BYTES + chunk * CHUNK_BYTES) / 2;
            // SAFETY: all lanes pass a barrier before and after they read what others wrote; only
            // elements of rows that exist are written.
            unsafe {
                bar_warp_sync(FULL_MASK);
                let mut i = 0;
                while i < ROWS_OF_WARP / (LANES / CHUNKS) {
                    let further = LANES / CHUNKS * i;
                    let from = Swizzle::B128.offset_bytes(row + further, chunk * CHUNK_BYTES);
                    let words = ld_shared_v4_u32(via.add_bytes(from));
                    let (at, is_there) = rows.offset(params, further);
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

/// The factor of a row's accumulators, and its lse, from the row max in base 2 and the row sum.
/// Branch-free, so that the rows' dependency chains overlap.
#[inline(always)]
fn end(max: f32, sum: f32, sink_log2: f32) -> (f32, f32) {
    let greatest = max.max(sink_log2);
    // If no key was seen: -inf - -inf would be NaN.
    let of = if greatest > f32::NEG_INFINITY {
        greatest
    } else {
        0.0
    };
    let own = ex2_approx_ftz(max - of);
    // At least 1 if anything was seen, so no operand is subnormal.
    let sum = sum * own + ex2_approx_ftz(sink_log2 - of);
    let factor = own * rcp_approx_ftz(sum);
    let lse = (of + lg2_approx_ftz(sum)) * core::f32::consts::LN_2;
    // Scores that are NaN are not above -inf either, but their sum is NaN.
    let is_empty = max == f32::NEG_INFINITY && !sum.is_nan();
    (if is_empty { 0.0 } else { factor }, lse)
}
