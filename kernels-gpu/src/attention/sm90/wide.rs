//! Wide heads: head_dim up to 576 with head_dim_v up to 512, by `wgmma`, of any number of queries whose
//! packed heads are tiles of 64 rows. Keys and values may be paged, and may be one tensor, of whose rows
//! values are the first elements (MLA in its absorbed form): then each row is read once.
//!
//! # Roles
//! A block has a tile of 64 rows and a split of its keys. Both of its warpgroups compute the same scores,
//! and each has half of the columns of o, up to 256, in registers. So probabilities stay in registers, and
//! warpgroups wait for each other only where shared memory changes hands.
//!
//! # Shared memory
//! | what | lifetime |
//! |---|---|
//! | two matrices `[64][576]`: of keys, or in turn of keys and of values | one block of keys |
//! | q `[64][576]` | throughout |
//!
//! All three are in panels of 64 columns with the 128-byte swizzle.
//!
//! # Timeline
//! The copies (`cp.async`) of a matrix begin when all threads have left the one before. Where keys are
//! values too: wait for a matrix; start the next; scores; softmax; p @ v. Else there is a second wait,
//! for the values, before p @ v.
//!
//! # Numerics
//! Those of [`sm80`](crate::attention::sm80). The same bits every run.
//!
//! # Source
//! DeepSeek-AI, FlashMLA (2025), its description of the kernel: keys as values, columns of o by
//! warpgroup.

use abi::attention::decode::{DecodeScales, DecodeTile, WIDE_THREADS};
use abi::attention::{BshStrides, FlashFwdParams, FwdPacking, KeyRange, OutputDType};
use cuda_std::accumulator::{Accumulator, Fragments};
use cuda_std::cp_async::{
    cp_async_cg_l2_128b_16_src_size, cp_async_commit_group, cp_async_wait_group,
};
use cuda_std::fence::fence_proxy_async_shared_cta;
use cuda_std::hint::opaque;
use cuda_std::math::approx::{ex2_approx_ftz, lg2_approx_ftz, rcp_approx_ftz};
use cuda_std::math::fma;
use cuda_std::mem::st_v2_f32;
use cuda_std::panels::{PanelRing, Panels};
use cuda_std::shared::{SharedAddr, dynamic_base};
use cuda_std::thread::{self, sync_threads};
use cuda_std::tile::OperandElement;
use cuda_std::warp::{FULL_MASK, uniform, vote_any};
use cuda_std::wgmma::{M64, MmaAsync};
use half::bf16;

use crate::attention::score::{self, Place, is_scored};
use crate::attention::sm80::Arguments;
use crate::attention::sm80::decode::{Decode, Row};
use crate::attention::sm80::element::Half;
use crate::attention::sm80::softmax::{OnlineSoftmax, softcap};
use crate::attention::softmax::sink_log2;

/// Panels of a row of 576 elements, and of one warpgroup's columns of o.
const PANELS: u32 = 9;
const PANELS_V: u32 = 4;
/// Bytes that a thread copies at once, and their elements.
const CHUNK: u32 = 16;
const CHUNK_ELEMENTS: u32 = 8;
/// Rows that the block copies in one pass.
const ROWS_AT_ONCE: u32 = WIDE_THREADS / CHUNK_ELEMENTS;
/// Blocks of 8 keys, and of 8 columns of o.
const N: usize = DecodeTile::TILE_N as usize / 8;
const D: usize = 32;
/// The matrix of the queries in the ring.
const QUERIES: u32 = 2;

/// What a block works on: rows, keys and their mask are those of a decoding.
type Work<'a> = Decode<'a, bf16, 64, 4>;
type Ring<E> = PanelRing<E, Panels<64, PANELS>>;

/// The element types.
pub(super) trait Wide: OperandElement {
    type Half: Half;
    type Scores: MmaAsync<A = Self, B = Self, Acc = [f32; 32]>;
    type Output: MmaAsync<A = Self, B = Self, Acc = [f32; 128]>;
}

impl Wide for cuda_std::wgmma::Bf16 {
    type Half = bf16;
    type Scores = M64<64, f32, Self, Self>;
    type Output = M64<256, f32, Self, Self>;
}

impl Wide for cuda_std::wgmma::F16 {
    type Half = half::f16;
    type Scores = M64<64, f32, Self, Self>;
    type Output = M64<256, f32, Self, Self>;
}

/// A block's work.
struct Block<'a, E: Wide> {
    work: &'a Work<'a>,
    ring: Ring<E>,
    /// Whether values are the first elements of keys.
    is_one: bool,
    /// The blocks of keys.
    first: u32,
    end: u32,
}

/// One block's work; see [`abi::attention::decode`].
///
/// # Safety
/// As the launch's.
#[inline(always)]
pub(super) unsafe fn attend<E: Wide>(
    arguments: &Arguments<'_>,
    params: &FlashFwdParams,
    packing: &FwdPacking,
    split_blocks: u32,
) {
    // SAFETY: the caller's promise.
    let work = unsafe {
        Work::new(
            arguments,
            params,
            packing,
            split_blocks,
            &DecodeScales::NONE,
        )
    };
    if !work.has_queries() {
        return;
    }
    let same =
        |a: &BshStrides, b: &BshStrides| (a.batch, a.seq, a.head) == (b.batch, b.seq, b.head);
    let blocks = work.blocks();
    // SAFETY: dynamic shared memory, the block's own, with room for what is left out.
    let base = unsafe { SharedAddr::of(dynamic_base()).aligned_to(1024) };
    let block = Block::<E> {
        work: &work,
        // SAFETY: three matrices fit behind the base.
        ring: unsafe { Ring::at(base) },
        is_one: arguments.k == arguments.v
            && same(&params.k, &params.v)
            && params.head_dim_v <= params.head_dim,
        first: blocks.first,
        end: blocks.end,
    };
    // SAFETY: the caller's promise: all threads are here.
    unsafe { block.run() }
}

impl<E: Wide> Block<'_, E> {
    /// The thread's row and chunk in the first pass over a panel.
    #[inline(always)]
    fn place() -> [u32; 2] {
        let thread_idx = opaque(thread::thread_idx_x());
        [thread_idx / 8, thread_idx % 8]
    }

    /// Starts the copies of a row of `head_dim` elements from `from` on, of which there are none if
    /// `is_there` is false, to the matrix `index`.
    ///
    /// # Safety
    /// The elements can be read. No thread reads or writes the row in shared memory meanwhile.
    #[inline(always)]
    unsafe fn copy_row(
        &self,
        (index, row): (u32, u32),
        from: *const u8,
        is_there: bool,
        head_dim: u32,
    ) {
        let [_, chunk] = Self::place();
        let mut to = self
            .ring
            .at_index(index, 0)
            .add_bytes(row * 128 + (chunk ^ (row % 8)) * CHUNK);
        let mut from = from.wrapping_add((chunk * CHUNK) as usize);
        let mut column = chunk * CHUNK_ELEMENTS;
        let end = opaque(PANELS) * 64;
        while column < end {
            let size = match is_there && column < head_dim {
                true => CHUNK,
                false => 0,
            };
            // SAFETY: the caller's promise; nothing is read of a chunk that does not exist.
            unsafe { cp_async_cg_l2_128b_16_src_size(to, from, size) };
            to = to.add_bytes(Ring::<E>::PANEL_BYTES);
            from = from.wrapping_add(128);
            column += 64;
        }
    }

    /// Starts the copies of the queries.
    ///
    /// # Safety
    /// The launch's; all threads call it.
    #[inline(always)]
    unsafe fn start_q(&self) {
        let work = self.work;
        let strides = &work.params.q;
        let [first, _] = Self::place();
        let mut row_idx = first;
        while row_idx < 64 {
            let row = work.row(row_idx);
            let offset =
                work.sequence.offset_q(strides, row.head) + i64::from(row.query) * strides.seq;
            let from = work.arguments.q.wrapping_offset(2 * offset as isize);
            // SAFETY: the caller's promise.
            unsafe {
                let to = (QUERIES, row_idx);
                self.copy_row(to, from, row.is_there, work.params.head_dim);
            }
            row_idx += ROWS_AT_ONCE;
        }
    }

    /// Starts the copies of the `load`th matrix, if there is one.
    ///
    /// # Safety
    /// The launch's; all threads call it, and have left the matrix before the last.
    #[inline(always)]
    unsafe fn start(&self, load: u32) {
        let work = self.work;
        let params = work.params;
        let (n_block_idx, is_value) = match self.is_one {
            true => (self.first + load, false),
            false => (self.first + load / 2, load % 2 == 1),
        };
        let (base, head_dim) = match is_value {
            true => (work.arguments.v, params.head_dim_v),
            false => (work.arguments.k, params.head_dim),
        };
        // By element: a choice of places would be between copies in local memory.
        let of = |k: i64, v: i64| if is_value { v } else { k };
        let strides = BshStrides {
            batch: of(params.k.batch, params.v.batch),
            seq: of(params.k.seq, params.v.seq),
            head: of(params.k.head, params.v.head),
        };
        if n_block_idx < self.end {
            let seen = work.seen();
            let [first, _] = Self::place();
            let mut row_idx = first;
            while row_idx < DecodeTile::TILE_N {
                let key = n_block_idx * DecodeTile::TILE_N + row_idx;
                let is_there = key >= seen.first && key < seen.end;
                // SAFETY: the caller's promise; a key that is seen is one of the sequence.
                unsafe {
                    let offset = work.offset_of_key(&strides, key, is_there);
                    let from = base.wrapping_offset(2 * offset as isize);
                    self.copy_row((load % 2, row_idx), from, is_there, head_dim);
                }
                row_idx += ROWS_AT_ONCE;
            }
        }
        cp_async_commit_group();
    }

    /// Waits for the `load`th matrix, and starts the copies of the next.
    ///
    /// # Safety
    /// The launch's; all threads call it, and have left the matrix before.
    #[inline(always)]
    unsafe fn next(&self, load: u32) {
        cp_async_wait_group::<0>();
        fence_proxy_async_shared_cta();
        // SAFETY: passed on to the caller.
        unsafe {
            sync_threads();
            self.start(load + 1);
        }
    }

    /// # Safety
    /// The launch's; all threads call it.
    #[inline(always)]
    unsafe fn run(&self) {
        let params = self.work.params;
        // SAFETY: the caller's promise. A matrix is read between the wait for it and the one for the next.
        unsafe {
            let warpgroup = uniform(thread::thread_idx_x() / 128);
            self.start_q();
            self.start(0);
            let blocks = self.work.blocks();
            let mut softmax = OnlineSoftmax::<1>::new(f32::NEG_INFINITY, 0);
            let mut o = Accumulator::<E::Output>::zero();
            let q = self.ring.rows_at(QUERIES);
            let mut load = 0;
            let mut n_block_idx = self.first;
            while n_block_idx < self.end {
                self.next(load);
                let mut s = Accumulator::<E::Scores>::unset().begin();
                s.multiply_rows(q, self.ring.rows_at(load % 2));
                let s = s.finish();
                let mut s = [blocks_of(&s.registers()[0])];
                if params.softcap_scale != 0.0 {
                    softcap(&mut s, params.softcap_scale);
                }
                let first_key = n_block_idx * DecodeTile::TILE_N + thread::thread_idx_x() % 4 * 2;
                if is_scored() {
                    self.change(&mut s[0], first_key);
                }
                if blocks.is_masked(n_block_idx) {
                    self.apply_mask(&mut s[0], first_key);
                }
                let rescale = softmax.update(&mut s, params.softmax_scale_log2);
                let [[upper, lower]] = rescale;
                if vote_any(FULL_MASK, upper != 1.0 || lower != 1.0) {
                    let sums = &mut o.registers_mut()[0];
                    for i in 0..4 * D {
                        sums[i] *= rescale[0][i / 2 % 2];
                    }
                }
                let mut pairs = [0; 16];
                for i in 0..16 {
                    let block = &s[0][i / 2];
                    pairs[i] = E::Half::pack(block[2 * (i % 2)], block[2 * (i % 2) + 1]);
                }
                if !self.is_one {
                    load += 1;
                    self.next(load);
                }
                let mut p = Fragments::<E, [u32; 16]>::of_pairs(pairs);
                p.tie();
                let values = self.ring.columns_at(load % 2);
                let mut sums = o.begin();
                let values = values.panels::<PANELS_V>(warpgroup * PANELS_V);
                sums.multiply_add_fragments(&p, values, true);
                o = sums.finish();
                p.tie();
                load += 1;
                n_block_idx += 1;
            }
            cp_async_wait_group::<0>();
            self.store(&softmax, &o.registers()[0], warpgroup);
        }
    }

    /// The thread's row `half`.
    #[inline(always)]
    fn lane_row(&self, half: usize) -> Row {
        let thread_idx = opaque(thread::thread_idx_x()) % 128;
        self.work
            .row(thread_idx / 32 * 16 + thread_idx % 32 / 4 + 8 * half as u32)
    }

    /// Sets the scores of keys that a row does not see to -inf.
    #[inline(always)]
    fn apply_mask(&self, s: &mut [[f32; 4]; N], first_key: u32) {
        for half in 0..2 {
            let row = self.lane_row(half);
            let KeyRange { first, end } = self.work.visible_keys(row.query);
            for (j, scores) in s.iter_mut().enumerate() {
                for column in 0..2 {
                    let key = first_key + (8 * j + column) as u32;
                    if key < first || key >= end {
                        scores[2 * half + column] = f32::NEG_INFINITY;
                    }
                }
            }
        }
    }

    /// Makes of scores what the call wants.
    #[inline(always)]
    fn change(&self, s: &mut [[f32; 4]; N], first_key: u32) {
        let sequence = &self.work.sequence;
        for half in 0..2 {
            let row = self.lane_row(half);
            let at = Place {
                batch: sequence.batch_idx,
                head: row.head,
                seqlen_q: sequence.q.len,
                seqlen_k: sequence.k.len,
            };
            for (j, scores) in s.iter_mut().enumerate() {
                let pair = [scores[2 * half], scores[2 * half + 1]];
                let key = first_key + 8 * j as u32;
                let pair = score::of_keys(pair, at, row.query, key);
                (scores[2 * half], scores[2 * half + 1]) = (pair[0], pair[1]);
            }
        }
    }

    /// Stores the thread's columns of o, and lse.
    ///
    /// # Safety
    /// The launch's; all threads call it.
    #[inline(always)]
    unsafe fn store(&self, softmax: &OnlineSoftmax<1>, o: &[f32; 4 * D], warpgroup: u32) {
        const LN_2: f32 = core::f32::consts::LN_2;
        let (work, params) = (self.work, self.work.params);
        // SAFETY: the caller's promise.
        let (max, sum) = unsafe { softmax.moments() };
        for half in 0..2 {
            let row = self.lane_row(half);
            // SAFETY: the caller's promise: a sink for each head, if there is one.
            let sink = unsafe { sink_log2(work.arguments.sink, row.head) };
            let largest = max[0][half].max(sink);
            // If there is no key, -inf - -inf would be NaN.
            let base = if largest == f32::NEG_INFINITY {
                0.0
            } else {
                largest
            };
            let factor = ex2_approx_ftz(max[0][half] - base);
            let sum = fma(sum[0][half], factor, ex2_approx_ftz(sink - base));
            let (mut inverse, mut lse) = (0.0, f32::NEG_INFINITY);
            if sum != 0.0 {
                inverse = rcp_approx_ftz(sum) * factor;
                lse = (largest + lg2_approx_ftz(sum)) * LN_2;
            }
            if row.is_there {
                let column = 256 * warpgroup + thread::thread_idx_x() % 4 * 2;
                // SAFETY: the caller's promise: the row exists.
                unsafe {
                    let at = work.offset_of_o(&row);
                    for j in 0..D {
                        let column = column + 8 * j as u32;
                        let pair = [o[4 * j + 2 * half], o[4 * j + 2 * half + 1]];
                        let [low, high] = pair.map(|x| x * inverse);
                        if column < params.head_dim_v {
                            let at = (at + i64::from(column)) as isize;
                            if params.o_dtype == OutputDType::F32.code() {
                                let to = work.arguments.o.cast::<f32>().wrapping_offset(at);
                                st_v2_f32(to, [low, high]);
                            } else {
                                let is_f16 = params.o_dtype == OutputDType::F16.code();
                                let to = work.arguments.o.cast::<u16>().wrapping_offset(at);
                                to.cast::<u32>().write(E::Half::pack_as(is_f16, low, high));
                            }
                        }
                    }
                    if params.write_lse != 0 && column == 0 {
                        work.store_lse(&row, lse);
                    }
                }
            }
        }
    }
}

/// Registers of scores, by blocks of 8 keys.
#[inline(always)]
fn blocks_of(registers: &[f32; 4 * N]) -> [[f32; 4]; N] {
    let mut blocks = [[0.0; 4]; N];
    for j in 0..N {
        for i in 0..4 {
            blocks[j][i] = registers[4 * j + i];
        }
    }
    blocks
}
