//! Merges what the warps of a decoding block have, and stores o and lse.
//!
//! Each warp puts its o in the place of its stages, and its row max and sum beside those of the
//! others. Then each thread has a row's four columns, every 32.

use abi::attention::OutputDType;
use abi::attention::decode::{DecodeTile, THREADS};
use cuda_std::math::approx::{ex2_approx_ftz, lg2_approx_ftz, rcp_approx_ftz};
use cuda_std::math::fma;
use cuda_std::mem::{ld_shared_v4_f32, st_shared_v2_f32, st_v2_u32, st_v4_f32};
use cuda_std::shared::{SharedAddr, dynamic_base};
use cuda_std::thread::{self, sync_threads};
use cuda_std::warp::{FULL_MASK, bar_warp_sync};

use super::decode::{Decode, Row, uniform_warp_idx};
use super::element::Half;
use super::softmax::{Accumulator, OnlineSoftmax};
use super::stored::Stored;
use crate::attention::softmax::sink_log2;

const WARPS: usize = (THREADS / thread::WARP_THREADS) as usize;
/// Rows at a time.
const ROWS: u32 = 16;
/// Threads of a row.
const ROW_THREADS: u32 = THREADS / ROWS;
/// Columns that a thread has next to each other.
const CHUNK: u32 = 4;
/// Bytes of a row max and a row sum.
const MOMENTS_BYTES: u32 = 8;

/// Weights of a row's warps, and its results.
struct Weights {
    /// Factors of the warps' o.
    of_warps: [f32; WARPS],
    lse: f32,
}

/// The merge of a block.
pub(super) struct Merge<'a, S, const W: usize, const M: usize> {
    decode: &'a Decode<'a, S, W, M>,
    base: SharedAddr,
}

impl<'a, S: Stored, const W: usize, const M: usize> Merge<'a, S, W, M> {
    const TILE: DecodeTile = Decode::<'_, S, W, M>::TILE;
    /// Bytes of the stages of a warp.
    const OF_WARP: u32 = Self::TILE.stages() * Self::TILE.stage_bytes();
    /// Bytes of a row of o: 8 elements longer than the row, so that lanes of different rows write
    /// to different banks.
    const ROW_BYTES: u32 = {
        let bytes = (Self::TILE.head_dim_cap + 8) * 4;
        assert!(ROWS * M as u32 * bytes <= Self::OF_WARP);
        bytes
    };

    #[inline(always)]
    pub(super) fn new(decode: &'a Decode<'a, S, W, M>) -> Self {
        // SAFETY: dynamic shared memory, the block's own.
        let base = unsafe { SharedAddr::of(dynamic_base()) };
        Self { decode, base }
    }

    /// Where a warp's o begins.
    #[inline(always)]
    fn o_of(&self, warp_idx: u32) -> SharedAddr {
        self.base.add_bytes(warp_idx * Self::OF_WARP)
    }

    /// Where the moments of a row begin.
    #[inline(always)]
    fn moments_of(&self, row: u32) -> SharedAddr {
        let of_row = row * WARPS as u32 * MOMENTS_BYTES;
        self.base.add_bytes(Self::TILE.moments_offset() + of_row)
    }

    /// Merges `softmax` and `o` of all warps, and stores the results.
    ///
    /// # Safety
    /// The launch's; all threads of the block call it together, and no copy is on its way.
    #[inline(always)]
    pub(super) unsafe fn run<const D: usize>(
        &self,
        softmax: &OnlineSoftmax<M>,
        o: &Accumulator<M, D>,
    ) {
        // SAFETY: the caller's promise. A warp writes to its own place, once its lanes have read
        // the last stage.
        unsafe {
            bar_warp_sync(FULL_MASK);
            self.post(softmax, o);
            sync_threads();
            let thread_idx = thread::thread_idx_x();
            let column = thread_idx % ROW_THREADS * CHUNK;
            for i in 0..M {
                let row_idx = thread_idx / ROW_THREADS + ROWS * i as u32;
                let row = self.decode.row(row_idx);
                if row.is_there {
                    let weights = self.weights(row_idx, row.head);
                    self.store(&row, row_idx, column, &weights);
                    if column == 0 && self.decode.params.write_lse != 0 {
                        self.decode.store_lse(&row, weights.lse);
                    }
                }
            }
        }
    }

    /// Puts a warp's results into shared memory.
    ///
    /// # Safety
    /// All lanes of the warp call it together; nobody reads its place.
    #[inline(always)]
    unsafe fn post<const D: usize>(&self, softmax: &OnlineSoftmax<M>, o: &Accumulator<M, D>) {
        let warp_idx = uniform_warp_idx();
        let lane = thread::thread_idx_x() % thread::WARP_THREADS;
        // SAFETY: the caller's promise.
        unsafe {
            let (max, sum) = softmax.moments();
            for i in 0..M {
                for half in 0..2 {
                    let row = lane / 4 + (16 * i + 8 * half) as u32;
                    if lane.is_multiple_of(4) {
                        let to = self.moments_of(row).add_bytes(warp_idx * MOMENTS_BYTES);
                        st_shared_v2_f32(to, [max[i][half], sum[i][half]]);
                    }
                    let to = self.o_of(warp_idx).add_bytes(row * Self::ROW_BYTES);
                    S::post(to, &o[i], half);
                }
            }
        }
    }

    /// Weights of the warps in a row of query head `head`.
    ///
    /// # Safety
    /// The launch's; all warps have [posted](Self::post).
    #[inline(always)]
    unsafe fn weights(&self, row: u32, head: u32) -> Weights {
        const LN_2: f32 = core::f32::consts::LN_2;
        let mut moments = [[0.0; 2]; WARPS];
        // SAFETY: the caller's promise: a sink for each head, if there is one.
        let sink = unsafe {
            for pair in 0..WARPS / 2 {
                let from = self.moments_of(row).add_bytes(16 * pair as u32);
                let [max, sum, next_max, next_sum] = ld_shared_v4_f32(from);
                moments[2 * pair] = [max, sum];
                moments[2 * pair + 1] = [next_max, next_sum];
            }
            sink_log2(self.decode.arguments.sink, head)
        };
        let mut max = sink;
        for i in 0..WARPS {
            max = max.max(moments[i][0]);
        }
        // If no warp has a key, -inf - -inf would be NaN.
        let base = if max == f32::NEG_INFINITY { 0.0 } else { max };
        let mut sum = ex2_approx_ftz(sink - base);
        let mut of_warps = [0.0; WARPS];
        for i in 0..WARPS {
            of_warps[i] = ex2_approx_ftz(moments[i][0] - base);
            sum = fma(moments[i][1], of_warps[i], sum);
        }
        // Not subnormal: the power of the row's largest score is in it.
        let (mut inverse, mut lse) = (0.0, f32::NEG_INFINITY);
        if sum != 0.0 {
            inverse = rcp_approx_ftz(sum);
            if S::FACTOR != 0.0 {
                // SAFETY: passed on to the caller.
                let [_, of_values] = unsafe { self.decode.factors() };
                inverse *= of_values * S::FACTOR;
            }
            lse = (max + lg2_approx_ftz(sum)) * LN_2;
        }
        for i in 0..WARPS {
            of_warps[i] *= inverse;
        }
        Weights { of_warps, lse }
    }

    /// Stores the thread's columns of a row, from `first` on.
    ///
    /// # Safety
    /// As for [`weights`](Self::weights); the row exists.
    #[inline(always)]
    unsafe fn store(&self, row: &Row, row_idx: u32, first: u32, weights: &Weights) {
        let params = self.decode.params;
        let at = self.decode.offset_of_o(row);
        let mut column = first;
        while column < Self::TILE.head_dim_cap {
            if column < params.head_dim_v {
                // SAFETY: the caller's promise.
                unsafe {
                    let merged = self.merged(row_idx, column, weights);
                    let at = (at + i64::from(column)) as isize;
                    if params.o_dtype == OutputDType::F32.code() {
                        let to = self.decode.arguments.o.cast::<f32>().wrapping_offset(at);
                        st_v4_f32(to, merged);
                    } else {
                        let is_f16 = params.o_dtype == OutputDType::F16.code();
                        let to = self.decode.arguments.o.cast::<u16>().wrapping_offset(at);
                        let [a, b, c, d] = merged;
                        let words = [
                            S::Product::pack_as(is_f16, a, b),
                            S::Product::pack_as(is_f16, c, d),
                        ];
                        st_v2_u32(to.cast(), words);
                    }
                }
            }
            column += ROW_THREADS * CHUNK;
        }
    }

    /// Four columns of a row, merged.
    ///
    /// # Safety
    /// As for [`weights`](Self::weights).
    #[inline(always)]
    unsafe fn merged(&self, row_idx: u32, column: u32, weights: &Weights) -> [f32; 4] {
        let mut merged = [0.0; CHUNK as usize];
        for warp_idx in 0..WARPS {
            let from = self
                .o_of(warp_idx as u32)
                .add_bytes(row_idx * Self::ROW_BYTES + column * 4);
            // SAFETY: the caller's promise.
            let part = unsafe { ld_shared_v4_f32(from) };
            for i in 0..CHUNK as usize {
                merged[i] = fma(part[i], weights.of_warps[warp_idx], merged[i]);
            }
        }
        merged
    }
}
