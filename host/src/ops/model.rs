//! What the kernels promise, in the terms of [`reference`](crate::reference): the models by which
//! its error bounds are derived.

use crate::reference::Model;

/// Largest errors of `exp` and `exp2` in the kernels, in ulp (`cuda_std::math`).
const EXP_ULPS: f64 = 1.1;

/// Largest errors of `ln` and `log2` in the kernels, in ulp (`cuda_std::math`).
const LOG_ULPS: f64 = 1.5;

/// Of attention over `seqlen_k` keys and a sink: sums go through the keys one by one, rescaled once a
/// tile.
pub(super) fn attention(seqlen_k: usize, tile_n: u32) -> Model {
    Model {
        additions: seqlen_k + 1,
        rescales: seqlen_k.div_ceil(tile_n as usize) + 1,
        exp_ulps: EXP_ULPS,
        log_ulps: LOG_ULPS,
        p_roundoff: 0.0,
    }
}

/// Of a sum whose longest chain has that many additions, any of which may rescale.
pub(super) fn sum(additions: u64) -> Model {
    let additions = usize::try_from(additions).unwrap_or(usize::MAX);
    Model {
        additions,
        rescales: additions,
        exp_ulps: EXP_ULPS,
        log_ulps: LOG_ULPS,
        p_roundoff: 0.0,
    }
}
