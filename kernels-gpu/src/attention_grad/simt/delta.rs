//! delta: the sum of `o * d_o` along head_dim_v, for each query and head.

use abi::attention::Sequence;
use abi::attention_grad::{AttentionGradParams, DELTA_TILE};
use cuda_std::hint::opaque;
use cuda_std::math::fma;
use cuda_std::thread;
use cuda_std::warp::{FULL_MASK, shfl_bfly};

use crate::attention::simt::elements::ElementType;
use crate::attention::simt::operand::Matrix;
use crate::attention::simt::softmax::ROW_LANES;
use crate::simt::element::CHUNK;

/// Queries that a block's threads work on at once.
const QUERIES: u32 = DELTA_TILE.threads / ROW_LANES;

const _: () = assert!(
    DELTA_TILE.tile_k as usize == CHUNK && DELTA_TILE.tile_m.is_multiple_of(QUERIES),
    "a lane reads chunks, and a block's queries are whole passes"
);

/// One block's work.
///
/// # Safety
/// As the launch's: parameters and sequence describe what the pointers point to, and the grid is
/// that of the entry.
#[inline(always)]
pub(super) unsafe fn delta(
    (o, d_o): (*const u8, *const u8),
    delta: *mut f32,
    (sequence, head_idx): (Sequence, u32),
    params: &AttentionGradParams,
) {
    let element = ElementType(params.fwd.o_dtype);
    let lane_in_row = thread::thread_idx_x() % ROW_LANES;
    let first = params.fwd.lse_offset(&sequence, head_idx) as usize;
    let matrix = |base, strides: &abi::attention::BshStrides| {
        Matrix {
            base,
            ld: strides.seq,
            element,
        }
        .offset(sequence.offset_q(strides, head_idx))
    };
    let (o, d_o) = (matrix(o, &params.fwd.o), matrix(d_o, &params.d_o));
    let aligned = is_aligned(&o) && is_aligned(&d_o);
    let mut pass = 0;
    while pass < opaque(DELTA_TILE.tile_m / QUERIES) {
        let in_tile = pass * QUERIES + thread::thread_idx_x() / ROW_LANES;
        let query_idx = thread::block_idx_x() * DELTA_TILE.tile_m + in_tile;
        let exists = query_idx < sequence.q.len;
        let mut sum = 0.0;
        if exists {
            let row = |matrix: &Matrix| matrix.offset(i64::from(query_idx) * matrix.ld);
            // SAFETY: the caller's promise: the query's vectors are there.
            sum = unsafe { part((row(&o), row(&d_o)), lane_in_row, aligned, params) };
        }
        let mut distance = ROW_LANES / 2;
        while distance > 0 {
            // SAFETY: all lanes of the warp are here.
            sum += unsafe { shfl_bfly(FULL_MASK, sum, distance) };
            distance /= 2;
        }
        if exists && lane_in_row == 0 {
            // SAFETY: the caller's promise: delta has an element for each query and head.
            unsafe { delta.wrapping_add(first + query_idx as usize).write(sum) }
        }
        pass += 1;
    }
}

/// A lane's part of a query's sum: every 16th chunk.
///
/// # Safety
/// Both vectors can be read, in chunks if `aligned`.
#[inline(always)]
unsafe fn part(
    (o, d_o): (Matrix, Matrix),
    lane_in_row: u32,
    aligned: bool,
    params: &AttentionGradParams,
) -> f32 {
    let extent = params.fwd.head_dim_v;
    let mut sum = 0.0;
    let mut column = lane_in_row * CHUNK as u32;
    while column < extent {
        let chunk = |vector: &Matrix| {
            let from = vector.offset(i64::from(column)).base;
            let inside = extent - column;
            let chunk = if aligned && inside >= CHUNK as u32 {
                // SAFETY: the caller's promise; the chunk is inside.
                unsafe { vector.element.load_chunk(from) }
            } else {
                // SAFETY: the caller's promise; only elements inside are read.
                unsafe { vector.element.load_first(from, inside) }
            };
            vector.element.widen(chunk)
        };
        let (o, d_o) = (chunk(&o), chunk(&d_o));
        for idx in 0..CHUNK {
            sum = fma(o[idx], d_o[idx], sum);
        }
        column += ROW_LANES * CHUNK as u32;
    }
    sum
}

/// Whether chunks of every position are aligned.
#[inline(always)]
fn is_aligned(matrix: &Matrix) -> bool {
    let chunk_bytes = CHUNK * matrix.element.size_bytes();
    matrix.base.addr() & (chunk_bytes - 1) == 0 && matrix.ld % CHUNK as i64 == 0
}
