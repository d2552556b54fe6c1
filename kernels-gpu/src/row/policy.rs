//! What L2 does with rows.

use abi::rows::{RowParams, flags};
use cuda_std::tma::{
    CachePolicy, createpolicy_fractional_l2_evict_last, createpolicy_fractional_l2_evict_normal,
};

/// The policy by which rows are read.
///
/// Where tensors are far larger than L2 ([`flags::STREAMS`]), rows are evicted last, although
/// nobody reads them again. Written data then leaves L2 soon and in the order in which it was
/// written. Memory takes 1 to 5 % less time for it (docs/decisions/0040-l2-evict-last.md).
#[inline(always)]
pub(crate) fn of_rows(params: &RowParams) -> CachePolicy {
    // Both, and a choice between them: with each in a branch of its own, loads stand in pieces of
    // code that cannot be mixed.
    let (last, normal) = (
        createpolicy_fractional_l2_evict_last(1.0),
        createpolicy_fractional_l2_evict_normal(1.0),
    );
    if params.flags & flags::STREAMS != 0 {
        last
    } else {
        normal
    }
}

/// The policy by which what every row needs is read, where it is read again for each: evicted last.
///
/// Read like rows, it leaves L2 with them. A bias so, layer norm of 2,048 elements in 128 MiB took
/// 85.5 µs, and 68.8 by this policy (docs/decisions/0040-l2-evict-last.md).
#[inline(always)]
pub(crate) fn of_weights() -> CachePolicy {
    createpolicy_fractional_l2_evict_last(1.0)
}
