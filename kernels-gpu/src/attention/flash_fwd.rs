//! Portable attention, forward: `o = softmax(softmax_scale * q @ k^T + mask) @ v`, `lse` on demand.
//!
//! q `[batch, seqlen_q, heads_q, head_dim]`, k and v `[batch, seqlen_k, heads_kv, ..]`, o as q with
//! head_dim_v; f32, f16 or bf16, f32 inside. Any head_dim and head_dim_v up to the entry's cap, any
//! strides and alignments. No tensor cores and nothing newer than sm_75.
//!
//! # Roles
//! 128 threads, or 256 at cap 256; a block computes 64 queries of one head. Sixteen lanes share a
//! row; a thread owns 8 (or 4) rows, of them 4 keys of each 64×64 tile of scores, and `CAP / 16`
//! columns of o.
//!
//! # Shared memory
//! | what | f32 elements | lifetime |
//! |---|---|---|
//! | probabilities, `[16][64]` chunks of 4 rows | 4,096 | softmax to the end of the tile |
//! | q and k, two stages of both `[TILE_D][64 + 4]` | 2,176, or 4,352 at cap 256 | one product |
//! | in their place v, two stages `[8][CAP + 4]` | 1,088, 2,112, or 4,160 at cap 256 | one product |
//!
//! # Timeline
//! For each tile of 64 keys: barrier; scores = q @ k^T through two stages; scale and mask; row
//! maximum by shuffles, probabilities, shrink o; probabilities to shared memory; barrier;
//! o += p @ v through two stages. Tiles that every row sees in full come first and know no mask.
//!
//! # Numerics
//! Scores: one f32 accumulator, `fma` with head_dim ascending; times `softmax_scale * log2 e`,
//! rounded. Probabilities: [`cuda_std::math::exp2`] of the score minus the row's maximum so far, in
//! f32. o: one f32 accumulator, `fma` with keys ascending, times 1 / sum. A row that sees no key:
//! o = 0, lse = -inf. Keys a row does not see, and positions beyond the sequences, are never
//! multiplied: a NaN there stays there. The same bits every run.
//!
//! # Sources
//! Online softmax after Milakov and Gimelshein, arXiv:1805.02867, and FlashAttention,
//! arXiv:2205.14135.
//!
//! # Before you change this
//! `ptxas -v` must show no spills from sm_75 on; run `cargo test -p warpsmith-tests attention`.

use cuda_std::thread;
use spec::attention::{BshStrides, SIMT_TILE, SIMT_WIDE_TILE, SimtFwdParams};

use super::mask::Mask;
use super::softmax::{OnlineSoftmax, ROW_LANES};
use super::values::{Probabilities, Values};
use crate::simt::element::{CHUNK, SimtElement};
use crate::simt::operand::{Operand, tile_elements};
use crate::simt::product::{Accumulator, chunk_spacing};
use crate::simt::results::{Lines, Results};
use crate::simt::staged::{self, StagedProduct};

const TILE_M: usize = SIMT_TILE.tile_m as usize;
const TILE_N: usize = SIMT_TILE.tile_n as usize;
/// f32 elements of the probabilities, the first part of shared memory; the stages follow.
const PROBABILITIES: usize = Probabilities::elements(TILE_M);
/// Keys whose values are staged at once.
const TILE_V: usize = 8;

const _: () = assert!(
    SIMT_WIDE_TILE.tile_m as usize == TILE_M && SIMT_WIDE_TILE.tile_n as usize == TILE_N,
    "the tiles of all caps cover the same queries and keys"
);
const _: () = assert!(
    TILE_M == TILE_N && TILE_N == ROW_LANES as usize * CHUNK,
    "q and k stage alike, and a lane has one chunk of keys"
);

/// Rows of each of `threads` threads.
pub(super) const fn rows(threads: usize) -> usize {
    TILE_M * ROW_LANES as usize / threads
}

/// Columns of o that a thread has.
pub(super) const fn columns(cap: usize) -> usize {
    cap / ROW_LANES as usize
}

/// Chunks of v that each of `threads` threads stages at once.
pub(super) const fn chunks_v(cap: usize, threads: usize) -> usize {
    cap * TILE_V / CHUNK / threads
}

/// f32 elements of static shared memory: probabilities, and the larger of what q and k or v need.
pub(super) const fn smem_elements(cap: usize, tile_d: usize) -> usize {
    let stages_qk = staged::smem_elements(TILE_M, TILE_N, tile_d);
    let stages_v = 2 * tile_elements(cap, TILE_V);
    let stages = if stages_qk > stages_v {
        stages_qk
    } else {
        stages_v
    };
    PROBABILITIES + stages
}

/// The tensors of a launch.
pub(super) struct Tensors<E> {
    pub(super) q: *const E,
    pub(super) k: *const E,
    pub(super) v: *const E,
    pub(super) o: *mut E,
    pub(super) lse: *mut f32,
}

/// One block's work. `CAP` is the head_dim cap, `ROWS`, `COLUMNS` and `CHUNKS_V` what [`rows`],
/// [`columns`] and [`chunks_v`] give, `TILE_D` the tile's depth of head_dim.
///
/// # Safety
/// As the launch's: `params` describes what the pointers point to, and the grid is
/// [`SimtFwdParams::simt_grid`]. `smem` is static shared memory of [`smem_elements`].
#[inline(always)]
pub(super) unsafe fn flash_fwd<
    E: SimtElement,
    const CAP: usize,
    const ROWS: usize,
    const COLUMNS: usize,
    const TILE_D: usize,
    const CHUNKS_V: usize,
>(
    tensors: &Tensors<E>,
    params: &SimtFwdParams,
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
    let block = Block::<E, CAP, ROWS, COLUMNS, TILE_D, CHUNKS_V>::new(
        tensors, params, smem, head_idx, batch_idx,
    );
    let mut softmax = OnlineSoftmax::new();
    let mut o = [[0.0; COLUMNS]; ROWS];

    let last_row = block.m_start + TILE_M as u32 - 1;
    let last_row = last_row.min(params.seqlen_q - 1);
    let n_tile_end = params.visible_keys(last_row).div_ceil(TILE_N as u32);
    let n_tile_masked = params.visible_keys(block.m_start) / TILE_N as u32;
    // SAFETY: the caller's; the tiles are within the keys.
    unsafe {
        for n_tile_idx in 0..n_tile_end {
            block.tile(
                n_tile_idx,
                n_tile_idx >= n_tile_masked,
                &mut softmax,
                &mut o,
            );
        }
        block.epilogue(&softmax, &mut o);
    }
}

/// What a block knows throughout.
struct Block<
    'a,
    E,
    const CAP: usize,
    const ROWS: usize,
    const COLUMNS: usize,
    const TILE_D: usize,
    const CHUNKS_V: usize,
> {
    tensors: &'a Tensors<E>,
    params: &'a SimtFwdParams,
    head_idx: u32,
    batch_idx: u32,
    smem: *mut f32,
    /// First query.
    m_start: u32,
    /// This thread's queries.
    rows: Lines,
    /// This thread's first key of a tile, and first column of v and o.
    first_column: u32,
}

impl<
    'a,
    E: SimtElement,
    const CAP: usize,
    const ROWS: usize,
    const COLUMNS: usize,
    const TILE_D: usize,
    const CHUNKS_V: usize,
> Block<'a, E, CAP, ROWS, COLUMNS, TILE_D, CHUNKS_V>
{
    #[inline(always)]
    fn new(
        tensors: &'a Tensors<E>,
        params: &'a SimtFwdParams,
        smem: *mut f32,
        head_idx: u32,
        batch_idx: u32,
    ) -> Self {
        let m_tiles = params.seqlen_q.div_ceil(TILE_M as u32);
        // The last queries see the most keys: they start first, so that no long block is left over.
        let m_start = (m_tiles - 1 - thread::block_idx_x()) * TILE_M as u32;
        let row_group = thread::thread_idx_x() / ROW_LANES;
        Self {
            tensors,
            head_idx,
            batch_idx,
            params,
            smem,
            m_start,
            rows: Lines {
                tile_start: m_start,
                first: row_group * CHUNK as u32,
                spacing: chunk_spacing(TILE_M, ROWS) as u32,
                extent: params.seqlen_q,
            },
            first_column: (thread::thread_idx_x() % ROW_LANES) * CHUNK as u32,
        }
    }

    /// Elements from a tensor's first to those of this batch and of head `head_idx`.
    #[inline(always)]
    fn offset(&self, strides: &BshStrides, head_idx: u32) -> isize {
        let batch = i64::from(self.batch_idx) * strides.batch;
        (batch + i64::from(head_idx) * strides.head) as isize
    }

    /// The head of the keys and values of this block's queries.
    #[inline(always)]
    fn head_kv_idx(&self) -> u32 {
        self.head_idx / (self.params.heads_q / self.params.heads_kv)
    }

    /// Shared memory of the stages of q and k, or of v.
    #[inline(always)]
    fn stages(&self) -> *mut f32 {
        self.smem.wrapping_add(PROBABILITIES)
    }

    /// Takes one tile of keys into `softmax` and `o`.
    ///
    /// # Safety
    /// The launch's; all threads of the block call it together. Unless `masked`, every row sees
    /// the whole tile.
    #[inline(always)]
    unsafe fn tile(
        &self,
        n_tile_idx: u32,
        masked: bool,
        softmax: &mut OnlineSoftmax<ROWS>,
        o: &mut Accumulator<ROWS, COLUMNS>,
    ) {
        let n_start = n_tile_idx * TILE_N as u32;
        let mask = Mask::of_tile(self.params, &self.rows, n_start);
        thread::sync_threads(); // the last tile's values are no longer read
        // SAFETY: the caller's; the barrier above.
        let mut s = unsafe { self.scores(n_start) };
        if masked {
            mask.apply(&mut s, self.first_column);
        }
        // SAFETY: the caller's: all lanes are here.
        let rescale = unsafe { softmax.update(&mut s) };
        for row in 0..ROWS {
            for column in 0..COLUMNS {
                o[row][column] *= rescale[row];
            }
        }
        let probabilities = Probabilities { smem: self.smem };
        // SAFETY: the last tile's were read before the barrier above.
        unsafe { probabilities.write(&s) };
        thread::sync_threads(); // the stages of q and k are no longer read
        // SAFETY: the caller's; the barrier above.
        unsafe {
            let values = self.values(n_start);
            if masked {
                values.accumulate::<true, ROWS, COLUMNS>(o, probabilities, &mask);
            } else {
                values.accumulate::<false, ROWS, COLUMNS>(o, probabilities, &mask);
            }
        }
    }

    /// This thread's scores of a tile, in base 2.
    ///
    /// # Safety
    /// The launch's; no thread has touched the stages since the last barrier.
    #[inline(always)]
    unsafe fn scores(&self, n_start: u32) -> Accumulator<ROWS, CHUNK> {
        let Self {
            tensors, params, ..
        } = self;
        let q = self.offset(&params.q, self.head_idx);
        let k = self.offset(&params.k, self.head_kv_idx());
        let product = StagedProduct::<E, true, true, TILE_M, TILE_N, TILE_D, 1, 1> {
            a: Operand::new(
                tensors.q.wrapping_offset(q),
                params.q.seq,
                self.m_start,
                params.seqlen_q,
                params.head_dim,
            ),
            b: Operand::new(
                tensors.k.wrapping_offset(k),
                params.k.seq,
                n_start,
                params.seqlen_k,
                params.head_dim,
            ),
            smem: self.stages(),
            first: (self.rows.first, self.first_column),
        };
        // SAFETY: the caller's.
        let mut s = unsafe { product.accumulate::<ROWS, CHUNK>(params.head_dim) };
        for row in 0..ROWS {
            for column in 0..CHUNK {
                s[row][column] *= params.softmax_scale_log2;
            }
        }
        s
    }

    /// The values of the keys from `n_start` on.
    #[inline(always)]
    fn values(&self, n_start: u32) -> Values<E, CAP, TILE_V, CHUNKS_V> {
        let Self {
            tensors, params, ..
        } = self;
        let v = self.offset(&params.v, self.head_kv_idx());
        let keys = (params.seqlen_k - n_start).min(TILE_N as u32);
        let first = i64::from(n_start) * params.v.seq;
        Values {
            operand: Operand::new(
                tensors.v.wrapping_offset(v + first as isize),
                params.v.seq,
                0,
                params.head_dim_v,
                keys,
            ),
            smem: self.stages(),
            first_column: self.first_column,
            keys,
        }
    }

    /// Normalizes and writes this thread's part of o, and of lse where asked for.
    ///
    /// # Safety
    /// The launch's; all threads of the block call it together.
    #[inline(always)]
    unsafe fn epilogue(&self, softmax: &OnlineSoftmax<ROWS>, o: &mut Accumulator<ROWS, COLUMNS>) {
        let params = self.params;
        // SAFETY: the caller's: all lanes are here.
        let normalizer = unsafe { softmax.finalize() };
        for row in 0..ROWS {
            for column in 0..COLUMNS {
                o[row][column] *= normalizer.inverse_sum[row];
            }
        }
        let results = Results {
            rows: self.rows,
            columns: Lines {
                tile_start: 0,
                first: self.first_column,
                spacing: chunk_spacing(CAP, COLUMNS) as u32,
                extent: params.head_dim_v,
            },
        };
        // SAFETY: the caller's; threads own different rows and columns.
        unsafe {
            let offset = self.offset(&params.o, self.head_idx);
            let base = self.tensors.o.wrapping_offset(offset);
            results.write(o, base, params.o.seq);
        }
        if params.write_lse == 0 || self.first_column != 0 {
            return;
        }
        let batch = u64::from(self.batch_idx) * u64::from(params.heads_q);
        let first = (batch + u64::from(self.head_idx)) * u64::from(params.seqlen_q);
        for row in 0..ROWS {
            let query_idx = self.rows.at(row);
            if query_idx < params.seqlen_q {
                let place = self
                    .tensors
                    .lse
                    .wrapping_add(first as usize + query_idx as usize);
                // SAFETY: the caller's: lse is `[batch, heads_q, seqlen_q]`.
                unsafe { place.write(normalizer.lse[row]) }
            }
        }
    }
}
