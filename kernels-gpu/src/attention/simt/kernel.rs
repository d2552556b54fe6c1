//! One block's work; see the [module](super).

use abi::attention::{
    self, FlashFwdLengths, FlashFwdPages, FlashFwdParams, OutputDType, SIMT_TILE, SIMT_WIDE_TILE,
    Sequence,
};
use cuda_std::thread;
use half::{bf16, f16};

use super::elements::ElementType;
use super::mask::Mask;
use super::operand::{Matrix, Operand, PagedRows};
use super::softmax::{OnlineSoftmax, ROW_LANES, softcap};
use super::values::{Probabilities, Values};
use crate::attention::dropout::{self, is_dropped};
use crate::attention::lengths::sequence;
use crate::attention::pages::Pages;
use crate::attention::score::{self, Place};
use crate::attention::softmax::sink_log2;
use crate::attention::sparse::{Line, is_changed, is_sparse};
use crate::simt::element::CHUNK;
use crate::simt::operand::tile_elements;
use crate::simt::product::{Accumulator, chunk_spacing, outer_product};
use crate::simt::results::{Lines, Results};
use crate::simt::staged::{self, StagedProduct};

const TILE_M: usize = SIMT_TILE.tile_m as usize;
const TILE_N: usize = SIMT_TILE.tile_n as usize;
/// f32 elements of the probabilities, which come first in shared memory; the stages follow.
const PROBABILITIES: usize = Probabilities::elements(TILE_M);
/// Keys whose values make up one stage.
const TILE_V: usize = 8;

const _: () = assert!(
    SIMT_WIDE_TILE.tile_m as usize == TILE_M && SIMT_WIDE_TILE.tile_n as usize == TILE_N,
    "the tiles of all caps cover the same queries and keys"
);
const _: () = assert!(
    TILE_M == TILE_N && TILE_N == ROW_LANES as usize * CHUNK,
    "q and k stage alike, and a lane has one chunk of keys"
);

/// Rows of each thread, if a block has `threads` of them.
pub(crate) const fn rows(threads: usize) -> usize {
    TILE_M * ROW_LANES as usize / threads
}

/// Columns of o of each thread.
pub(crate) const fn columns(cap: usize) -> usize {
    cap / ROW_LANES as usize
}

/// Chunks of a stage of v that each thread moves, if a block has `threads` of them.
pub(super) const fn chunks_v(cap: usize, threads: usize) -> usize {
    cap * TILE_V / CHUNK / threads
}

/// f32 elements of static shared memory: probabilities, and the stages of q and k or of v,
/// whichever are larger.
pub(super) const fn smem_elements(cap: usize, tile_d: usize) -> usize {
    let stages_qk = staged::smem_elements(TILE_M, TILE_M, tile_d);
    let stages_v = 2 * tile_elements(cap, TILE_V);
    let stages = if stages_qk > stages_v {
        stages_qk
    } else {
        stages_v
    };
    PROBABILITIES + stages
}

/// A launch's arguments besides [`FlashFwdParams`].
pub(super) struct Arguments<'a> {
    pub(super) q: *const u8,
    pub(super) k: *const u8,
    pub(super) v: *const u8,
    pub(super) o: *mut u8,
    pub(super) lse: *mut f32,
    pub(super) sink: *const f32,
    pub(super) lengths: &'a FlashFwdLengths,
    pub(super) pages: &'a FlashFwdPages,
    /// Element type of q, k and v.
    pub(super) element: ElementType,
}

/// One block's work. `CAP` is the head_dim cap, `TILE_D` the extent of head_dim in a stage; `ROWS`,
/// `COLUMNS` and `CHUNKS_V` are what [`rows`], [`columns`] and [`chunks_v`] return.
///
/// # Safety
/// As the launch's: `params` and the lengths describe what the pointers point to, and the grid is
/// [`FlashFwdParams::grid`]. `smem` is static shared memory of [`smem_elements`].
#[inline(always)]
pub(super) unsafe fn flash_fwd<
    const CAP: usize,
    const ROWS: usize,
    const COLUMNS: usize,
    const TILE_D: usize,
    const CHUNKS_V: usize,
>(
    arguments: &Arguments<'_>,
    params: &FlashFwdParams,
    smem: *mut f32,
) {
    let (head_idx, batch_idx) = params.head_and_batch(
        thread::block_idx_y(),
        thread::block_idx_z(),
        thread::grid_dim_y(),
    );
    if batch_idx >= params.batch {
        return;
    }
    // SAFETY: the caller's promise.
    let sequence = unsafe { sequence(arguments.lengths, params, batch_idx) };
    // The last queries see the most keys: they start first, so that no long block is left at the
    // end.
    let m_tiles = params.seqlen_q.div_ceil(TILE_M as u32);
    let m_start = (m_tiles - 1 - thread::block_idx_x()) * TILE_M as u32;
    if m_start >= sequence.q.len {
        return;
    }
    let block = Block::<CAP, ROWS, COLUMNS, TILE_D, CHUNKS_V>::new(
        arguments, params, smem, sequence, head_idx, m_start,
    );
    let mut o = [[0.0; COLUMNS]; ROWS];
    // SAFETY: the caller's promise; the tiles are within the keys.
    unsafe {
        let mut softmax =
            OnlineSoftmax::<ROWS>::new(sink_log2(arguments.sink, head_idx), thread::thread_idx_x());
        let tiles = block
            .mask
            .key_blocks(m_start, m_start + TILE_M as u32, TILE_N as u32);
        let mut n_tile_idx = tiles.first;
        while n_tile_idx < tiles.end {
            let mut partial = 0;
            if is_sparse() {
                (n_tile_idx, partial) = block.line().behind(n_tile_idx);
                if n_tile_idx >= tiles.end {
                    break;
                }
            }
            let masked = tiles.is_masked(n_tile_idx);
            block.tile((n_tile_idx, partial), masked, &mut softmax, &mut o);
            n_tile_idx += 1;
        }
        block.epilogue(&softmax, &mut o);
    }
}

/// What is constant throughout a block's work.
struct Block<
    'a,
    const CAP: usize,
    const ROWS: usize,
    const COLUMNS: usize,
    const TILE_D: usize,
    const CHUNKS_V: usize,
> {
    arguments: &'a Arguments<'a>,
    params: &'a FlashFwdParams,
    smem: *mut f32,
    sequence: Sequence,
    mask: attention::Mask,
    head_idx: u32,
    /// This thread's queries.
    rows: Lines,
    /// This thread's first key of a tile, and its first column of v and o.
    first_column: u32,
}

impl<
    'a,
    const CAP: usize,
    const ROWS: usize,
    const COLUMNS: usize,
    const TILE_D: usize,
    const CHUNKS_V: usize,
> Block<'a, CAP, ROWS, COLUMNS, TILE_D, CHUNKS_V>
{
    #[inline(always)]
    fn new(
        arguments: &'a Arguments<'a>,
        params: &'a FlashFwdParams,
        smem: *mut f32,
        sequence: Sequence,
        head_idx: u32,
        m_start: u32,
    ) -> Self {
        let row_group = thread::thread_idx_x() / ROW_LANES;
        Self {
            arguments,
            params,
            smem,
            sequence,
            mask: params.mask(&sequence),
            head_idx,
            rows: Lines {
                tile_start: m_start,
                first: row_group * CHUNK as u32,
                spacing: chunk_spacing(TILE_M, ROWS) as u32,
                extent: sequence.q.len,
            },
            first_column: (thread::thread_idx_x() % ROW_LANES) * CHUNK as u32,
        }
    }

    /// Shared memory for the stages of q and k, or of v.
    #[inline(always)]
    fn stages(&self) -> *mut f32 {
        self.smem.wrapping_add(PROBABILITIES)
    }

    /// Adds one tile of keys to `softmax` and `o`.
    ///
    /// # Safety
    /// The launch's; all threads of the block call it together. Unless `masked`, every row sees the
    /// whole tile.
    #[inline(always)]
    unsafe fn tile(
        &self,
        (n_tile_idx, partial): (u32, u32),
        masked: bool,
        softmax: &mut OnlineSoftmax<ROWS>,
        o: &mut Accumulator<ROWS, COLUMNS>,
    ) {
        let n_start = n_tile_idx * TILE_N as u32;
        let mask = Mask::of_tile(&self.mask, &self.rows, n_start, TILE_N as u32);
        thread::sync_threads(); // the values of the tile before are no longer read
        // SAFETY: the caller's promise; the barrier above.
        let mut s = unsafe { self.scores(n_start, partial) };
        if masked {
            mask.apply(&mut s, self.first_column);
        }
        // SAFETY: the caller's promise: all lanes are here.
        let rescale = unsafe { softmax.update(&mut s) };
        if is_dropped() {
            self.drop(&mut s, n_start);
        }
        for row in 0..ROWS {
            for column in 0..COLUMNS {
                o[row][column] *= rescale[row];
            }
        }
        let probabilities = Probabilities { smem: self.smem };
        // SAFETY: those of the tile before were read before the barrier above.
        unsafe { probabilities.write(&s) };
        thread::sync_threads(); // the stages of q and k are no longer read
        // SAFETY: the caller's promise; the barrier above.
        unsafe {
            self.values(n_start)
                .accumulate(o, probabilities, &mask, masked);
        }
    }

    /// This thread's scores of a tile, in base 2.
    ///
    /// # Safety
    /// The launch's; no thread has touched the stages since the last barrier.
    #[inline(always)]
    unsafe fn scores(&self, n_start: u32, partial: u32) -> Accumulator<ROWS, CHUNK> {
        let Self {
            arguments,
            params,
            sequence,
            rows,
            ..
        } = self;
        let q = Matrix {
            base: arguments.q,
            ld: params.q.seq,
            element: arguments.element,
        };
        let first = i64::from(rows.tile_start) * q.ld;
        let q = q.offset(sequence.offset_q(&params.q, self.head_idx) + first);
        let k = self.keys(arguments.k, &params.k, n_start);
        let product = StagedProduct::<_, _, TILE_M, TILE_M, TILE_D> {
            a: Operand::<true, TILE_M, TILE_D, 1>::new(
                q,
                rows.extent - rows.tile_start,
                params.head_dim,
            ),
            // SAFETY: the caller's promise; the sequence has the keys from `n_start` on.
            b: unsafe {
                Operand::<true, TILE_M, TILE_D, 1>::in_pages(
                    k,
                    self.paged_rows(&params.k, n_start),
                    sequence.k.len - n_start,
                    params.head_dim,
                )
            },
            smem: self.stages(),
            first: (rows.first, self.first_column),
        };
        // SAFETY: the caller's promise.
        let mut s = unsafe {
            product.accumulate::<ROWS, CHUNK, 0>(params.head_dim, |_, _| (), outer_product)
        };
        if is_changed(partial) {
            self.change(&mut s, n_start);
        }
        let scale = params.softmax_scale_log2;
        if params.softcap_scale == 0.0 {
            for row in 0..ROWS {
                for column in 0..CHUNK {
                    s[row][column] *= scale;
                }
            }
        } else {
            for row in 0..ROWS {
                for column in 0..CHUNK {
                    s[row][column] = softcap(s[row][column], params.softcap_scale, scale);
                }
            }
        }
        s
    }

    /// The line of key tiles of the block's queries.
    #[inline(always)]
    fn line(&self) -> Line<false> {
        Line {
            batch: self.sequence.batch_idx,
            head: self.head_idx,
            row: self.rows.tile_start,
            extent: TILE_N as u32,
        }
    }

    #[inline(always)]
    fn place(&self) -> Place {
        Place {
            batch: self.sequence.batch_idx,
            head: self.head_idx,
            seqlen_q: self.sequence.q.len,
            seqlen_k: self.sequence.k.len,
        }
    }

    /// Zeros the probabilities of a tile that are dropped.
    #[inline(always)]
    fn drop(&self, p: &mut Accumulator<ROWS, CHUNK>, n_start: u32) {
        for row in 0..ROWS {
            for column in 0..CHUNK {
                let key = n_start + self.first_column + column as u32;
                if dropout::keeps(self.place(), self.rows.at(row), key) == 0 {
                    p[row][column] = 0.0;
                }
            }
        }
    }

    /// Makes of a tile's scores what the call wants.
    #[inline(always)]
    fn change(&self, s: &mut Accumulator<ROWS, CHUNK>, n_start: u32) {
        let at = self.place();
        for row in 0..ROWS {
            for column in (0..CHUNK).step_by(2) {
                let key = n_start + self.first_column + column as u32;
                let pair = [s[row][column], s[row][column + 1]];
                let [first, second] = score::of_keys(pair, at, self.rows.at(row), key);
                (s[row][column], s[row][column + 1]) = (first, second);
            }
        }
    }

    /// The keys or values, from `n_start` on, of this block's head; where they are paged, page 0 of
    /// it.
    #[inline(always)]
    fn keys(&self, base: *const u8, strides: &attention::BshStrides, n_start: u32) -> Matrix {
        let head_kv_idx = self.params.head_kv_idx(self.head_idx);
        let matrix = Matrix {
            base,
            ld: strides.seq,
            element: self.arguments.element,
        };
        matrix.offset(if self.arguments.pages.table.is_null() {
            let first = i64::from(n_start) * strides.seq;
            self.sequence.offset_k(strides, head_kv_idx) + first
        } else {
            strides.offset(0, 0, head_kv_idx)
        })
    }

    /// The same keys or values as rows of pages.
    #[inline(always)]
    fn paged_rows(&self, strides: &attention::BshStrides, n_start: u32) -> PagedRows {
        PagedRows {
            pages: Pages::new(self.arguments.pages, self.sequence.batch_idx),
            strides: *strides,
            first: n_start,
        }
    }

    /// The values of the keys from `n_start` on.
    ///
    /// # Safety
    /// The launch's.
    #[inline(always)]
    unsafe fn values(&self, n_start: u32) -> Values<CAP, TILE_V, CHUNKS_V> {
        let keys = (self.sequence.k.len - n_start).min(TILE_N as u32);
        let v = self.keys(self.arguments.v, &self.params.v, n_start);
        Values {
            // SAFETY: the caller's promise; the sequence has the keys from `n_start` on.
            operand: unsafe {
                Operand::in_pages(
                    v,
                    self.paged_rows(&self.params.v, n_start),
                    self.params.head_dim_v,
                    keys,
                )
            },
            smem: self.stages(),
            first_column: self.first_column,
            keys,
        }
    }

    /// Normalizes and writes this thread's part of o, and of lse if the launch wants it.
    ///
    /// # Safety
    /// The launch's; all threads of the block call it together.
    #[inline(always)]
    unsafe fn epilogue(&self, softmax: &OnlineSoftmax<ROWS>, o: &mut Accumulator<ROWS, COLUMNS>) {
        let params = self.params;
        // SAFETY: the caller's promise: all lanes are here.
        let mut normalizer = unsafe { softmax.finalize() };
        dropout::scale(normalizer.inverse_sum.as_flattened_mut());
        for row in 0..ROWS {
            for column in 0..COLUMNS {
                o[row][column] *= normalizer.inverse_sum[row][0];
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.write_o(o) };
        if params.write_lse == 0 || self.first_column != 0 {
            return;
        }
        let first = params.lse_offset(&self.sequence, self.head_idx) as usize;
        for row in 0..ROWS {
            let query_idx = self.rows.at(row);
            if query_idx < self.rows.extent {
                let to = self.arguments.lse.wrapping_add(first + query_idx as usize);
                // SAFETY: the caller's promise: lse has an element for each query and head.
                unsafe { to.write(normalizer.lse[row][0]) }
            }
        }
    }

    /// Writes this thread's part of o.
    ///
    /// # Safety
    /// The launch's.
    #[inline(always)]
    unsafe fn write_o(&self, o: &Accumulator<ROWS, COLUMNS>) {
        let params = self.params;
        let results = Results {
            rows: self.rows,
            columns: Lines {
                tile_start: 0,
                first: self.first_column,
                spacing: chunk_spacing(CAP, COLUMNS) as u32,
                extent: params.head_dim_v,
            },
        };
        let offset = self.sequence.offset_q(&params.o, self.head_idx) as isize;
        let (base, ld) = (self.arguments.o, params.o.seq);
        // SAFETY: the caller's promise; threads own different rows and columns.
        unsafe {
            if params.o_dtype == OutputDType::F32.code() {
                results.write(o, base.cast::<f32>().wrapping_offset(offset), ld);
            } else if params.o_dtype == OutputDType::F16.code() {
                results.write(o, base.cast::<f16>().wrapping_offset(offset), ld);
            } else {
                results.write(o, base.cast::<bf16>().wrapping_offset(offset), ld);
            }
        }
    }
}
