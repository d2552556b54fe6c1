//! P and dS of the pairs of a tile, from their scores and dP.

use cuda_std::math::{exp2, fma};
use spec::attention::backward::FlashBwdParams;

use crate::attention::simt::mask::Mask;
use crate::attention::simt::softmax::softcap;
use crate::simt::element::CHUNK;
use crate::simt::product::Accumulator;

/// What a thread's queries bring along: those of its rows, or of its columns.
#[derive(Clone, Copy)]
pub(super) struct Queries<const COUNT: usize> {
    /// lse times log2 e; +inf of a query that sees no key.
    pub(super) lse_log2: [f32; COUNT],
    pub(super) delta: [f32; COUNT],
}

impl<const COUNT: usize> Queries<COUNT> {
    /// Queries that see no key.
    pub(super) const NONE: Self = Self {
        lse_log2: [f32::INFINITY; COUNT],
        delta: [0.0; COUNT],
    };

    /// Reads those of the `idx`-th query from `place` on.
    ///
    /// # Safety
    /// Both arrays have this element.
    #[inline(always)]
    pub(super) unsafe fn read(
        &mut self,
        idx: usize,
        (lse, delta): (*const f32, *const f32),
        place: usize,
    ) {
        // SAFETY: the caller's promise.
        let (lse, delta) = unsafe {
            (
                lse.wrapping_add(place).read(),
                delta.wrapping_add(place).read(),
            )
        };
        self.lse_log2[idx] = if lse == f32::NEG_INFINITY {
            f32::INFINITY
        } else {
            lse * core::f32::consts::LOG2_E
        };
        self.delta[idx] = delta;
    }
}

/// Replaces scores by P, and dP by dS. Queries are the rows if `BY_ROWS`, else the columns. Pairs that
/// `mask` hides, and those of queries that see no key, become 0.
#[inline(always)]
pub(super) fn differentiate<const BY_ROWS: bool, const ROWS: usize, const COUNT: usize>(
    (s, dp): (&mut Accumulator<ROWS, CHUNK>, &mut Accumulator<ROWS, CHUNK>),
    queries: &Queries<COUNT>,
    params: &FlashBwdParams,
    (mask, masked, first_column): (&Mask<'_>, bool, u32),
) {
    let (cap, factor) = (params.fwd.softcap_scale, params.fwd.softmax_scale_log2);
    for row in 0..ROWS {
        for column in 0..CHUNK {
            let query = if BY_ROWS { row } else { column };
            dp[row][column] -= queries.delta[query];
        }
    }
    if cap != 0.0 {
        for row in 0..ROWS {
            for column in 0..CHUNK {
                let tanh = softcap(s[row][column], cap, 1.0);
                s[row][column] = tanh;
                dp[row][column] *= fma(-tanh, tanh, 1.0);
            }
        }
    }
    for row in 0..ROWS {
        for column in 0..CHUNK {
            let lse_log2 = queries.lse_log2[if BY_ROWS { row } else { column }];
            let p = exp2(fma(s[row][column], factor, -lse_log2));
            let hidden = masked && !mask.shows(row, first_column + column as u32);
            let is_none = hidden || lse_log2 == f32::INFINITY;
            s[row][column] = if is_none { 0.0 } else { p };
            dp[row][column] = if is_none { 0.0 } else { p * dp[row][column] };
        }
    }
}
