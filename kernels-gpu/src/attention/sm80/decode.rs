//! Decoding: attention of few queries, whose time is that of reading keys and values once.
//!
//! q `[batch, seqlen_q, heads_q, head_dim]`, k and v `[batch, seqlen_k, heads_kv, ..]`, as the
//! [module](super) has them; every option of [`abi::attention`], as far as
//! [`abi::attention::decode`] says.
//!
//! # Roles
//! A block has one tile of 16 or 32 rows (queries of packed heads) and one split of its keys. Each
//! of its four warps has 16 keys of every block of 64, copies them for itself, and has its own row
//! max, row sum and o. So in the loop over keys no warp waits for another. At the end the four are
//! merged through shared memory.
//!
//! # Shared memory
//! | what | lifetime |
//! |---|---|
//! | of each warp, three stages (six of e4m3) of k and v `[16][cap]` | one block of keys |
//! | of each warp, o `[rows][cap + 8]` in f32, in place of its stages | from the last key on |
//! | row max and row sum of each warp, `[rows][4]` pairs | from the last key on |
//!
//! # Timeline
//! q comes in registers, each lane's own elements of it, while the first two stages are copied. In
//! the loop: wait for a stage, start the copies of the one after the next in the place of the one
//! before, scores, mask, softmax, p @ v. Two blocks share an SM (four at cap 64), whose warps hide
//! each other's waits, so that 190 KiB are on their way at any time.
//!
//! Keys in pages have a page for all 16 of a warp's, as page sizes are multiples of 16. The table's
//! entry for it is loaded a step before the copies, where there is a register for it.
//!
//! # Numerics
//! Those of the [module](super), by warp; with e4m3, as [`abi::attention::decode`] has them; then `o = Σ exp2(max_w - max) o_w / Σ exp2(max_w - max)
//! sum_w`. The same bits every run.
//!
//! # Source
//! Dao and others, Flash-Decoding for long-context inference (2023): the splits.

use core::marker::PhantomData;

use abi::attention::decode::{DecodeScales, DecodeTile, blocks_of_split};
use abi::attention::sm90::divided;
use abi::attention::{BshStrides, FlashFwdParams, FwdPacking, KeyBlocks, KeyRange, Mask, Sequence};
use cuda_std::cp_async::{cp_async_commit_group, cp_async_wait_group};
use cuda_std::hint::opaque;
use cuda_std::thread;
use cuda_std::warp::{FULL_MASK, bar_warp_sync, uniform};

use super::decode_rows::Merge;
use super::kernel::Arguments;
use super::softmax::{Accumulator, OnlineSoftmax, softcap};
use super::stored::{N, Stored};
use crate::attention::lengths::sequence;
use crate::attention::pages::Pages;
use crate::attention::score::{self, Place, is_scored};

/// One block's work. Rows of keys in shared memory have `W` × 2 bytes, tiles have `M` × 16 rows, o `D` ×
/// 8 columns, a query `STEPS` × 16 elements.
///
/// # Safety
/// As the launch's: see [`abi::attention::decode`].
#[inline(always)]
pub(super) unsafe fn flash_decode<
    S: Stored,
    const W: usize,
    const M: usize,
    const D: usize,
    const STEPS: usize,
>(
    arguments: &Arguments<'_>,
    params: &FlashFwdParams,
    packing: &FwdPacking,
    split_blocks: u32,
    scales: &DecodeScales,
) {
    // SAFETY: the caller's promise.
    let block = unsafe { Decode::<S, W, M>::new(arguments, params, packing, split_blocks, scales) };
    if !block.has_queries() {
        return;
    }
    // SAFETY: the caller's promise: all threads are here.
    unsafe { block.run::<D, STEPS>() }
}

/// A row of a tile.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    /// Its query, in the sequence.
    pub(crate) query: u32,
    /// Its query head.
    pub(crate) head: u32,
    /// False if the row is idle: it has no query.
    pub(crate) is_there: bool,
}

/// What is constant throughout a block's work.
pub(crate) struct Decode<'a, S, const W: usize, const M: usize> {
    pub(crate) arguments: &'a Arguments<'a>,
    pub(super) scales: &'a DecodeScales,
    stored: PhantomData<S>,
    pub(crate) params: &'a FlashFwdParams,
    pub(crate) packing: &'a FwdPacking,
    pub(crate) sequence: Sequence,
    pub(super) pages: Pages,
    mask: Mask,
    /// First query head.
    pub(super) first_head: u32,
    /// First query, in the sequence.
    m_start: u32,
    pub(super) split: u32,
    /// See [`abi::attention::decode`].
    split_blocks: u32,
}

impl<S: Stored, const W: usize, const M: usize> Decode<'_, S, W, M> {
    pub(super) const TILE: DecodeTile = DecodeTile {
        rows: 16 * M as u32,
        head_dim_cap: 2 * W as u32 / S::BYTES,
        element_bytes: S::BYTES,
    };
    pub(super) const STAGES: u32 = Self::TILE.stages();

    /// Whether a table's entry is loaded a step before it is used, so that nothing waits for it. 32
    /// rows of 128 have no register for it: ptxas would spill two on sm_90.
    const LOOKS_AHEAD: bool = M == 1 || Self::TILE.head_dim_cap < 128;

    /// A block's tile and split.
    ///
    /// # Safety
    /// The launch's: the grid has as many blocks in z as there are sequences.
    #[inline(always)]
    pub(crate) unsafe fn new<'a>(
        arguments: &'a Arguments<'a>,
        params: &'a FlashFwdParams,
        packing: &'a FwdPacking,
        split_blocks: u32,
        scales: &'a DecodeScales,
    ) -> Decode<'a, S, W, M> {
        let (tile, split) = divided(thread::block_idx_x(), packing.splits);
        let m_start = tile * packing.queries;
        // SAFETY: the caller's promise.
        let sequence = unsafe { sequence(arguments.lengths, params, thread::block_idx_z()) };
        Decode {
            arguments,
            scales,
            stored: PhantomData,
            params,
            packing,
            pages: Pages::new(arguments.pages, sequence.batch_idx),
            mask: params.mask(&sequence),
            sequence,
            first_head: thread::block_idx_y() * packing.heads,
            m_start,
            split,
            split_blocks,
        }
    }

    /// Whether the tile has any.
    #[inline(always)]
    pub(crate) fn has_queries(&self) -> bool {
        self.m_start < self.sequence.q.len
    }

    /// Elements from the first of keys or values to key `key` of the block's head; anything if it is not
    /// there.
    ///
    /// # Safety
    /// The launch's; the sequence has the key, if it is there.
    #[inline(always)]
    pub(crate) unsafe fn offset_of_key(
        &self,
        strides: &BshStrides,
        key: u32,
        is_there: bool,
    ) -> i64 {
        let head_kv_idx = self.params.head_kv_idx(self.first_head);
        if !self.pages.are_there() {
            return self.sequence.offset_k(strides, head_kv_idx) + i64::from(key) * strides.seq;
        }
        if !is_there {
            return 0;
        }
        // SAFETY: the caller's promise.
        let at = unsafe { self.pages.find(key) };
        at.offset(strides) + strides.offset(0, 0, head_kv_idx)
    }

    /// Elements from the first of o to those of a row, in the block's split.
    #[inline(always)]
    pub(crate) fn offset_of_o(&self, row: &Row) -> i64 {
        let strides = &self.params.o;
        let of_split = u64::from(self.split) * self.packing.o_split;
        self.sequence.offset_q(strides, row.head)
            + i64::from(row.query) * strides.seq
            + of_split as i64
    }

    /// Stores a row's lse.
    ///
    /// # Safety
    /// The launch's; the row exists.
    #[inline(always)]
    pub(crate) unsafe fn store_lse(&self, row: &Row, lse: f32) {
        let of_split = u64::from(self.split) * self.packing.lse_split;
        let at = self.params.lse_offset(&self.sequence, row.head) + u64::from(row.query) + of_split;
        // SAFETY: the caller's promise.
        unsafe { self.arguments.lse.wrapping_add(at as usize).write(lse) }
    }

    /// The keys that a query sees.
    #[inline(always)]
    pub(crate) fn visible_keys(&self, query: u32) -> KeyRange {
        self.mask.visible_keys(query)
    }

    /// The tile's row `row`.
    #[inline(always)]
    pub(crate) fn row(&self, row: u32) -> Row {
        let (query, head) = self.packing.row(row);
        Row {
            query: self.m_start + query,
            head: self.first_head + head,
            is_there: query < self.packing.queries && self.m_start + query < self.sequence.q.len,
        }
    }

    /// Keys that some query of the tile sees. Recomputed at each use, as the loop over keys needs the
    /// registers.
    #[inline(always)]
    pub(crate) fn seen(&self) -> KeyRange {
        let m_start = opaque(self.m_start);
        self.mask
            .keys_of_tile(m_start, m_start + self.packing.queries)
    }

    /// The lane's row `half` of 16 rows `i`, of which it has scores. Recomputed at each use, as the
    /// loop over keys needs the registers.
    #[inline(always)]
    fn lane_row(&self, i: usize, half: usize) -> Row {
        let first = opaque(thread::thread_idx_x()) % thread::WARP_THREADS / 4;
        self.row(first + (16 * i + 8 * half) as u32)
    }

    /// Sets the scores of keys that a row does not see to -inf; `first_key` is the warp's first.
    #[inline(always)]
    fn apply_mask(&self, s: &mut Accumulator<M, N>, first_key: u32) {
        let first_key = first_key + opaque(thread::thread_idx_x()) % 4 * 2;
        for i in 0..M {
            for half in 0..2 {
                let row = self.lane_row(i, half);
                let KeyRange { first, end } = self.mask.visible_keys(row.query);
                for j in 0..N {
                    for column in 0..2 {
                        let key = first_key + (8 * j + column) as u32;
                        if key < first || key >= end {
                            s[i][j][2 * half + column] = f32::NEG_INFINITY;
                        }
                    }
                }
            }
        }
    }

    /// Makes of scores what the call wants; `first_key` is the warp's first.
    #[inline(always)]
    fn change(&self, s: &mut Accumulator<M, N>, first_key: u32) {
        let first_key = first_key + opaque(thread::thread_idx_x()) % 4 * 2;
        for i in 0..M {
            for half in 0..2 {
                let row = self.lane_row(i, half);
                let at = Place {
                    batch: self.sequence.batch_idx,
                    head: row.head,
                    seqlen_q: self.sequence.q.len,
                    seqlen_k: self.sequence.k.len,
                };
                for j in 0..N {
                    let key = first_key + 8 * j as u32;
                    let pair = [s[i][j][2 * half], s[i][j][2 * half + 1]];
                    let [first, second] = score::of_keys(pair, at, row.query, key);
                    (s[i][j][2 * half], s[i][j][2 * half + 1]) = (first, second);
                }
            }
        }
    }

    /// # Safety
    /// The launch's; all threads of the block call it together.
    #[inline(always)]
    unsafe fn run<const D: usize, const STEPS: usize>(&self) {
        let mut softmax = OnlineSoftmax::<M>::new(f32::NEG_INFINITY, 0);
        let mut o: Accumulator<M, D> = [[[0.0; 4]; D]; M];
        // SAFETY: the caller's promise.
        unsafe {
            self.keys::<D, STEPS>(&mut softmax, &mut o);
            Merge::new(self).run::<D>(&softmax, &o);
        }
    }

    /// The query of the lane's row `half` of 16 rows `i`, and its elements: 0 if the row is idle.
    #[inline(always)]
    pub(super) fn row_of_q(&self, i: usize, half: usize) -> (*const u8, u32) {
        let strides = &self.params.q;
        let row = self.lane_row(i, half);
        let offset = self.sequence.offset_q(strides, row.head) + i64::from(row.query) * strides.seq;
        let from = self.arguments.q.wrapping_offset(2 * offset as isize);
        match row.is_there {
            true => (from, self.params.head_dim),
            false => (from, 0),
        }
    }

    /// Factors of the keys and of the values.
    ///
    /// # Safety
    /// The launch's.
    #[inline(always)]
    pub(super) unsafe fn factors(&self) -> [f32; 2] {
        let head_kv_idx = self.params.head_kv_idx(self.first_head);
        let [of_k, of_v] = self.scales.offsets(self.sequence.batch_idx, head_kv_idx);
        let read = |from: *const f32, offset: i64| match from.is_null() {
            true => 1.0,
            // SAFETY: the caller's promise: one for each sequence and key head.
            false => unsafe { from.wrapping_offset(offset as isize).read() },
        };
        [read(self.scales.k, of_k), read(self.scales.v, of_v)]
    }

    /// The blocks of keys that this split visits; those that need no mask are those of the tile.
    #[inline(always)]
    pub(crate) fn blocks(&self) -> KeyBlocks {
        let end_query = self.m_start + self.packing.queries;
        let all = self
            .mask
            .key_blocks(self.m_start, end_query, DecodeTile::TILE_N);
        let (origin, each) = match self.split_blocks {
            0 => {
                let splits = self.packing.splits;
                (all.first, divided(all.len() + splits - 1, splits).0)
            }
            least => (0, blocks_of_split(least, self.sequence.k.len)),
        };
        let end = |split: u32| {
            let end = origin + split * each;
            if end < all.end { end } else { all.end }
        };
        let first = end(self.split);
        KeyBlocks {
            first: if first > all.first { first } else { all.first },
            end: end(self.split + 1),
            ..all
        }
    }

    /// Adds the warp's keys of this split to `softmax` and `o`.
    ///
    /// # Safety
    /// The launch's; all lanes of the warp call it together.
    #[inline(always)]
    unsafe fn keys<const D: usize, const STEPS: usize>(
        &self,
        softmax: &mut OnlineSoftmax<M>,
        o: &mut Accumulator<M, D>,
    ) {
        let blocks = self.blocks();
        let stages = self.stages();
        // SAFETY: the caller's promise; the blocks lie within the keys. A stage is filled when all
        // lanes have left it behind.
        unsafe {
            let mut ahead = blocks.first;
            // Not unrolled where there are many stages.
            let end = match S::BYTES {
                2 => Self::STAGES - 1,
                _ => opaque(Self::STAGES - 1),
            };
            let mut slot = 0;
            while slot < end {
                if ahead < blocks.end {
                    stages.start(ahead, stages.entry(ahead), slot);
                }
                cp_async_commit_group();
                ahead += 1;
                slot += 1;
            }
            let (q, exponents) = S::queries::<W, M, STEPS>(self);
            let mut of_keys = 1.0;
            if S::FACTOR != 0.0 {
                [of_keys, _] = self.factors();
                of_keys *= S::FACTOR;
            }
            let mut entry = stages.entry(ahead);
            let mut slot = 0;
            let mut n_block_idx = blocks.first;
            while n_block_idx < blocks.end {
                match S::BYTES {
                    2 => cp_async_wait_group::<1>(),
                    _ => cp_async_wait_group::<4>(),
                }
                bar_warp_sync(FULL_MASK);
                if !Self::LOOKS_AHEAD {
                    entry = stages.entry(ahead);
                }
                if ahead < blocks.end {
                    let free = if slot == 0 {
                        Self::STAGES - 1
                    } else {
                        slot - 1
                    };
                    stages.start(ahead, entry, free);
                }
                cp_async_commit_group();
                if Self::LOOKS_AHEAD {
                    entry = stages.entry(ahead + 1);
                }
                let (smem_k, smem_v) = stages.at(slot);
                let mut s = S::scores::<W, M, STEPS>(&q, smem_k);
                if S::FACTOR != 0.0 {
                    multiply(&mut s, exponents, of_keys);
                }
                if self.params.softcap_scale != 0.0 {
                    softcap(&mut s, self.params.softcap_scale);
                }
                if is_scored() {
                    let first_key = n_block_idx * DecodeTile::TILE_N + stages.first_key;
                    self.change(&mut s, first_key);
                }
                if blocks.is_masked(n_block_idx) {
                    let first_key = n_block_idx * DecodeTile::TILE_N + stages.first_key;
                    self.apply_mask(&mut s, first_key);
                }
                let rescale = softmax.update(&mut s, self.params.softmax_scale_log2);
                for i in 0..M {
                    for j in 0..D {
                        for element in 0..4 {
                            o[i][j][element] *= rescale[i][element / 2];
                        }
                    }
                }
                S::accumulate::<W, M, D>(o, &s, smem_v);
                slot = if slot == Self::STAGES - 1 {
                    0
                } else {
                    slot + 1
                };
                ahead += 1;
                n_block_idx += 1;
            }
        }
    }
}

/// The warp's index, which the compiler then knows to be the same in all lanes.
#[inline(always)]
pub(super) fn uniform_warp_idx() -> u32 {
    // SAFETY: all lanes of a warp have the same.
    unsafe { uniform(thread::thread_idx_x() / thread::WARP_THREADS) }
}

/// Multiplies scores by the powers of two of their rows, a byte of `exponents` each, and by the factor of
/// the keys.
#[inline(always)]
fn multiply<const M: usize>(s: &mut Accumulator<M, N>, exponents: u32, of_keys: f32) {
    for i in 0..M {
        for half in 0..2 {
            let byte = (opaque(exponents) >> (8 * (2 * i + half))) & 0xff;
            let factor = f32::from_bits(byte << 23) * of_keys;
            for j in 0..N {
                for column in 0..2 {
                    s[i][j][2 * half + column] *= factor;
                }
            }
        }
    }
}
