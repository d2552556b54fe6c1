//! What attention does to scores: places in tensors, soft caps, ALiBi, masks.

use abi::attention::blocks::{CELL, FULL, IS_PARTIAL, PARTIAL};
use cuda_std::math::{self, approx};

/// `index` elements on, of `stride` bytes each.
#[inline(always)]
fn along(index: u32, stride: i64) -> u64 {
    u64::from(index).wrapping_mul(stride as u64)
}

/// A soft cap's tanh.
#[inline(always)]
fn capped(score: f32, cap: f32) -> f32 {
    math::tanh(score / cap)
}

/// The same by an exponential, as kernels of tensor cores compute their own soft cap.
#[inline(always)]
fn capped_approx(score: f32, inverse_cap: f32) -> f32 {
    let power = approx::ex2_approx_ftz(score * inverse_cap * (2.0 * core::f32::consts::LOG2_E));
    1.0 - 2.0 * approx::rcp_approx_ftz(1.0 + power)
}

fragments! {
    score_row(base: u64, batch: u32, of_batch: i64, head: u32, of_head: i64, query: u32, of_query: i64)
        -> u64 = base
            .wrapping_add(along(batch, of_batch))
            .wrapping_add(along(head, of_head))
            .wrapping_add(along(query, of_query));
    score_column(row: u64, key: u32, of_key: i64) -> u64 = row.wrapping_add(along(key, of_key));
    score_clamp(index: u32, len: u32) -> u32 = if index < len { index } else { len.saturating_sub(1) };
    score_even(index: u32) -> u32 = index & !1;
    score_next(index: u32) -> u32 = index.wrapping_add(1);
    score_is_there(query: u32, seqlen_q: u32, key: u32, seqlen_k: u32) -> u32 =
        u32::from((query < seqlen_q) & (key < seqlen_k));
    score_softcap(score: f32, cap: f32) -> f32 = cap * capped(score, cap);
    score_softcap_slope(score: f32, cap: f32) -> f32 = {
        let tanh = capped(score, cap);
        math::fma(-tanh, tanh, 1.0)
    };
    score_softcap_approx(score: f32, cap: f32, inverse_cap: f32) -> f32 =
        cap * capped_approx(score, inverse_cap);
    score_softcap_approx_slope(score: f32, inverse_cap: f32) -> f32 = {
        let tanh = capped_approx(score, inverse_cap);
        math::fma(-tanh, tanh, 1.0)
    };
    score_key_of_query(query: u32, seqlen_q: u32, seqlen_k: u32) -> u32 =
        query.wrapping_add(seqlen_k.wrapping_sub(seqlen_q));
    score_alibi(score: f32, slope: f32, own: u32, key: u32) -> f32 =
        math::fma(-slope, (own.wrapping_sub(key) as i32).unsigned_abs() as f32, score);
    score_position(index: u32) -> f32 = index.cast_signed() as f32;
    score_alibi_near(score: f32, slope: f32, own: f32, key: f32) -> f32 =
        math::fma(-slope, (own - key).abs(), score);
    score_keep_hidden(old: f32, new: f32) -> f32 = if old <= -1e18 { old } else { new };
    score_unless_zero(x: f32, p: f32) -> f32 = if p == 0.0 { 0.0 } else { x };
    score_and(a: u32, b: u32) -> u32 = a & b;
    blocks_shift(blocks_log2: u32, own_log2: u32) -> u32 = blocks_log2.wrapping_sub(own_log2) & 31;
    blocks_row(base: u64, batch: u32, of_batch: i64, head: u32, of_head: i64, row: u32, row_log2: u32, of_line: i64)
        -> u64 = base
            .wrapping_add(along(batch, of_batch))
            .wrapping_add(along(head, of_head))
            .wrapping_add(along(row >> (row_log2 & 31), of_line));
    blocks_word(row: u64, block: u32, shift: u32, blocks: u32) -> u64 = {
        let (own, last) = (block >> (shift & 31), blocks.wrapping_sub(1));
        row.wrapping_add(along(if own < last { own } else { last }, 4))
    };
    blocks_before(word: u32, block: u32, shift: u32) -> u32 = {
        let end = (word & !IS_PARTIAL) << (shift & 31);
        let last = end.wrapping_sub(1) as i32;
        if last < block as i32 { last as u32 } else { block }
    };
    blocks_behind(word: u32, block: u32, shift: u32, blocks: u32) -> u32 = {
        let first = word & !IS_PARTIAL;
        let is_there = (first < blocks) & (block >> (shift & 31) < blocks);
        let first = first << (shift & 31);
        let first = if first > block { first } else { block };
        if is_there { first } else { i32::MAX as u32 }
    };
    blocks_through(word: u32, before: u32, block: u32, shift: u32) -> u32 = {
        // The last of them may be visited in part.
        let end = (before & !IS_PARTIAL) << (shift & 31);
        let beyond = end.saturating_sub(block.wrapping_add(1));
        (word << (shift & 31)).wrapping_sub(beyond)
    };
    blocks_partial(word: u32) -> u32 = word / IS_PARTIAL;
    blocks_cell(base: u64, batch: u32, of_batch: i64, head: u32, of_head: i64, query: u32, pitch: i64, key: u32, columns: u32)
        -> u64 = {
            let (own, last) = (key / CELL, columns.wrapping_sub(1));
            base.wrapping_add(along(batch, of_batch))
                .wrapping_add(along(head, of_head))
                .wrapping_add(along(query / CELL, pitch))
                .wrapping_add(u64::from(if own < last { own } else { last }))
        };
    blocks_show(cell: u32, shown: u32) -> u32 =
        u32::from((cell & FULL != 0) | ((cell & PARTIAL != 0) & (shown != 0)));
    blocks_hide(score: f32, shown: u32) -> f32 = if shown != 0 { score } else { -1e18 };
    score_neg_grad(_score: f32, slope: f32) -> f32 = -slope;
    score_square_grad(score: f32, slope: f32) -> f32 = 2.0 * score * slope;
    score_mask(score: f32, shown: u32) -> f32 = if shown != 0 { score } else { f32::NEG_INFINITY };
}
