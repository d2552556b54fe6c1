//! P and dS of a thread's pairs, from their scores and dP.

use abi::attention_grad::AttentionGradParams;
use cuda_std::hint::opaque;
use cuda_std::math::{exp2, fma};

use super::band::Band;
use super::thread_tile::{TILE, ThreadTile};
use crate::attention::dropout;
use crate::attention::score::{self, Place};
use crate::attention::simt::softmax::softcap;
use crate::simt::element::CHUNK;
use crate::simt::product::Accumulator;

/// Replaces scores by P, and dP by dS. Queries are the rows, or the columns if `owns_keys`. Pairs
/// that the band hides, if `masked`, and those of queries that see no key, become 0. The tile's first
/// row and column are `first_row` and `first_column` of their sequence.
///
/// # Safety
/// The tile's lse and delta are in shared memory. All threads of the block have different pairs.
#[inline(always)]
pub(super) unsafe fn differentiate(
    (s, dp): (
        &mut Accumulator<CHUNK, CHUNK>,
        &mut Accumulator<CHUNK, CHUNK>,
    ),
    thread_tile: &ThreadTile,
    (band, masked, owns_keys): (&Band, bool, bool),
    (place, [first_row, first_column]): (Place, [u32; 2]),
    params: &AttentionGradParams,
) {
    let (cap, factor) = (params.fwd.softcap_scale, params.fwd.softmax_scale_log2);
    // One pair at a time, in the corner of arrays that turn: the code of 16 would be most of the
    // kernel.
    let mut row = 0;
    while row < opaque(CHUNK as u32) {
        let mut column = 0;
        while column < opaque(CHUNK as u32) {
            let (row_idx, column_idx) = (
                thread_tile.first_row + row,
                thread_tile.first_column + column,
            );
            let query = thread_tile.query(if owns_keys { column_idx } else { row_idx });
            // SAFETY: the caller's promise.
            let (lse_log2, delta) = unsafe { (query.read(), query.wrapping_add(TILE).read()) };
            let mut score = s[0][0];
            let at = (first_row + row_idx, first_column + column_idx);
            let (query_idx, key_idx) = if owns_keys { (at.1, at.0) } else { at };
            let keeps = dropout::keeps(place, query_idx, key_idx);
            let [of_p, _] = dropout::kept([dp[0][0], 0.0], keeps);
            let mut ds = of_p - delta;
            if cap != 0.0 {
                score = softcap(score, cap, 1.0);
                ds *= fma(-score, score, 1.0);
            }
            let (score, slope) = score::with_slope(score, place, query_idx, key_idx);
            let p = exp2(fma(score, factor, -lse_log2));
            let hidden = masked && !band.shows(row_idx, column_idx);
            let is_none = hidden || lse_log2 == f32::INFINITY;
            let (p, product) = if is_none { (0.0, 0.0) } else { (p, p * ds) };
            // SAFETY: one thread has a pair, and each pair is in one tile of one block of queries.
            let product = unsafe {
                let at = (query_idx, key_idx);
                score::gradient(product, (p, slope), place, at, !owns_keys)
            };
            let [p, _] = dropout::kept([p, 0.0], keeps);
            shift_in(&mut s[0], p);
            shift_in(&mut dp[0], product);
            column += 1;
        }
        *s = [s[1], s[2], s[3], s[0]];
        *dp = [dp[1], dp[2], dp[3], dp[0]];
        row += 1;
    }
}

/// Moves all elements one to the front, and `last` behind them.
#[inline(always)]
pub(super) fn shift_in<const COUNT: usize>(x: &mut [f32; COUNT], last: f32) {
    for idx in 1..COUNT {
        x[idx - 1] = x[idx];
    }
    x[COUNT - 1] = last;
}
