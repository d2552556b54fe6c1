//! Merges two partial results into one: `o = o_a exp(lse_a - lse) + o_b exp(lse_b - lse)`,
//! `lse = ln(exp(lse_a) + exp(lse_b))`.
//!
//! o `[batch, seqlen_q, heads_q, head_dim_v]`, f32, f16 or bf16, of the merged result in any of
//! them; lse `[batch, heads_q, seqlen_q]`.
//!
//! **Roles**: each warp merges one row of o at a time, in a grid-stride loop. Its first lane writes
//! lse.
//!
//! **Numerics**: both exponentials relative to the larger lse, in f32, rounded once at the store. A
//! part without a key (lse = -inf) is not multiplied: its o may hold anything.

use abi::attention::OutputDType;
use abi::attention::merge::{MergeParams, THREADS};
use cuda_std::{kernel, math, thread};
use half::{bf16, f16};

use crate::simt::element::SimtElement;

/// Weights of the two parts of a row, and its lse.
struct Weights {
    a: f32,
    b: f32,
    lse: f32,
}

impl Weights {
    /// If one part saw no key, the row is that of the other, whatever its lse.
    #[inline(always)]
    fn new(lse_a: f32, lse_b: f32) -> Self {
        if lse_b == f32::NEG_INFINITY {
            let is_there = lse_a != f32::NEG_INFINITY;
            return Self {
                a: f32::from(is_there),
                b: 0.0,
                lse: lse_a,
            };
        }
        if lse_a == f32::NEG_INFINITY {
            return Self {
                a: 0.0,
                b: 1.0,
                lse: lse_b,
            };
        }
        let largest = lse_a.max(lse_b);
        let (a, b) = (math::exp(lse_a - largest), math::exp(lse_b - largest));
        let sum = a + b;
        Self {
            a: a / sum,
            b: b / sum,
            lse: largest + math::log(sum),
        }
    }

    /// A part whose weight is 0 adds nothing, whatever it holds.
    #[inline(always)]
    fn apply(&self, a: f32, b: f32) -> f32 {
        let a = if self.a == 0.0 { 0.0 } else { self.a * a };
        if self.b == 0.0 {
            a
        } else {
            math::fma(self.b, b, a)
        }
    }
}

/// Merges two partial results; see [`abi::attention::merge`].
///
/// # Safety
/// The pointers are to contiguous tensors of `params`; o and lse overlap no other.
#[kernel(max_threads = THREADS)]
pub unsafe fn attention_merge(
    o_a: *const u8,
    lse_a: *const f32,
    o_b: *const u8,
    lse_b: *const f32,
    o: *mut u8,
    lse: *mut f32,
    params: MergeParams,
) {
    let warps = u64::from(THREADS / thread::WARP_THREADS);
    let warp_idx = u64::from(thread::thread_idx_x() / thread::WARP_THREADS);
    let lane = thread::thread_idx_x() % thread::WARP_THREADS;
    let mut row = u64::from(thread::block_idx_x()) * warps + warp_idx;
    while row < params.rows() {
        let lse_idx = params.lse_idx(row) as usize;
        // SAFETY: the caller's promise: each row has an lse.
        let weights = unsafe {
            Weights::new(
                lse_a.wrapping_add(lse_idx).read(),
                lse_b.wrapping_add(lse_idx).read(),
            )
        };
        let tensors = (o_a, o_b, o);
        // SAFETY: the caller's promise.
        unsafe {
            if params.dtype == OutputDType::F32.code() {
                merge_row::<f32>(&weights, tensors, row, lane, &params);
            } else if params.dtype == OutputDType::F16.code() {
                merge_row::<f16>(&weights, tensors, row, lane, &params);
            } else {
                merge_row::<bf16>(&weights, tensors, row, lane, &params);
            }
        }
        if lane == 0 {
            // SAFETY: the caller's promise; no other warp has the row.
            unsafe { lse.wrapping_add(lse_idx).write(weights.lse) }
        }
        row += u64::from(thread::grid_dim_x()) * warps;
    }
}

/// # Safety
/// Row `row` of the tensors has `head_dim_v` elements, of type `E` in the inputs.
#[inline(always)]
unsafe fn merge_row<E: SimtElement>(
    weights: &Weights,
    tensors: (*const u8, *const u8, *mut u8),
    row: u64,
    lane: u32,
    params: &MergeParams,
) {
    let first = (row * u64::from(params.head_dim_v)) as usize;
    let columns = (first + lane as usize, first + params.head_dim_v as usize);
    // SAFETY: the caller's promise.
    unsafe {
        if params.o_dtype == OutputDType::F32.code() {
            merge_columns::<E, f32>(weights, tensors, columns);
        } else if params.o_dtype == OutputDType::F16.code() {
            merge_columns::<E, f16>(weights, tensors, columns);
        } else {
            merge_columns::<E, bf16>(weights, tensors, columns);
        }
    }
}

/// # Safety
/// The tensors have elements `idx` to `end`, of type `E` in the inputs and `O` in the result.
#[inline(always)]
unsafe fn merge_columns<E: SimtElement, O: SimtElement>(
    weights: &Weights,
    (o_a, o_b, o): (*const u8, *const u8, *mut u8),
    (mut idx, end): (usize, usize),
) {
    while idx < end {
        // SAFETY: the caller's promise.
        unsafe {
            let a = o_a.cast::<E>().wrapping_add(idx).read().to_f32();
            let b = o_b.cast::<E>().wrapping_add(idx).read().to_f32();
            let merged = O::from_f32(weights.apply(a, b));
            o.cast::<O>().wrapping_add(idx).write(merged);
        }
        idx += thread::WARP_THREADS as usize;
    }
}
