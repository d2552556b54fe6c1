//! What L2 does with rows.

use cuda_std::tma::{CachePolicy, createpolicy_fractional_l2_evict_last};

/// The policy for rows that are read once, while as much is written: L2 keeps them longer than what
/// is written, although nobody reads them again. So results leave L2 soon and in the order in which
/// they were written, which memory takes 1 to 3 % faster (docs/rows.md).
#[inline(always)]
pub(crate) fn read_once() -> CachePolicy {
    createpolicy_fractional_l2_evict_last(1.0)
}
