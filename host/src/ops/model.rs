//! Error models of the kernels, from which [`reference`](crate::reference) derives its bounds.

use crate::reference::Model;

/// Largest errors of `exp` and `exp2` in the kernels, in ulp (`cuda_std::math`).
pub(super) const EXP_ULPS: f64 = 1.1;

/// Largest errors of `ln` and `log2` in the kernels, in ulp (`cuda_std::math`).
const LOG_ULPS: f64 = 1.5;

/// The model of attention over `seqlen_k` keys and a sink: sums add the keys one by one, and are
/// rescaled once per tile of `tile_n` keys.
pub(super) fn attention(seqlen_k: usize, tile_n: u32) -> Model {
    Model {
        additions: seqlen_k + 1,
        rescales: seqlen_k.div_ceil(tile_n as usize) + 1,
        exp_ulps: EXP_ULPS,
        log_ulps: LOG_ULPS,
        p_roundoff: 0.0,
    }
}

/// The model of a sum whose longest chain has `additions` additions, each of which may rescale.
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
