//! lse and delta of queries, side by side in shared memory.

use cuda_std::cp_async::cp_async_ca_4_src_size;
use cuda_std::mem::{ld_shared_v2_f32, ld_shared_v4_f32};
use cuda_std::shared::SharedAddr;
use cuda_std::thread;

/// Bytes of lse and delta of a query.
const QUERY_BYTES: u32 = 8;

/// lse and delta in global memory.
#[derive(Clone, Copy)]
pub(super) struct Source {
    pub(super) lse: *const f32,
    pub(super) delta: *const f32,
}

/// lse and delta of queries in shared memory.
#[derive(Clone, Copy)]
pub(super) struct Moments(SharedAddr);

impl Moments {
    /// Those that lie there.
    #[inline(always)]
    pub(super) fn at(smem: SharedAddr) -> Self {
        Self(smem)
    }

    /// Those from the `first`th on.
    #[inline(always)]
    pub(super) fn from(self, first: u32) -> Self {
        Self(self.0.add_bytes(QUERY_BYTES * first))
    }

    /// Starts the copies of `count` queries, at most one a thread, of which `queries` exist; those beyond get 0.
    ///
    /// # Safety
    /// lse and delta of those from `source` on can be read, and nothing writes them; nobody uses these
    /// in shared memory before the copies have been waited for.
    #[inline(always)]
    pub(super) unsafe fn start(self, count: u32, source: &Source, queries: u32) {
        let idx = thread::thread_idx_x();
        if idx < count {
            let to = self.from(idx).0;
            let size = if idx < queries { 4 } else { 0 };
            let at = idx as usize;
            // SAFETY: the caller's promise; nothing is read of a query that does not exist.
            unsafe {
                cp_async_ca_4_src_size(to, source.lse.wrapping_add(at), size);
                cp_async_ca_4_src_size(to.add_bytes(4), source.delta.wrapping_add(at), size);
            }
        }
    }

    /// [`exponent`] and delta of the first.
    ///
    /// # Safety
    /// It has landed.
    #[inline(always)]
    pub(super) unsafe fn one(self) -> [f32; 2] {
        // SAFETY: the caller's promise.
        let [lse, delta] = unsafe { ld_shared_v2_f32(self.0) };
        [exponent(lse), delta]
    }

    /// The same of the first and the second, the first of which has an even index.
    ///
    /// # Safety
    /// They have landed.
    #[inline(always)]
    pub(super) unsafe fn two(self) -> [[f32; 2]; 2] {
        // SAFETY: the caller's promise.
        let [lse, delta, next_lse, next_delta] = unsafe { ld_shared_v4_f32(self.0) };
        [[exponent(lse), delta], [exponent(next_lse), next_delta]]
    }
}

/// `-lse * log2 e`; -inf, which makes probabilities 0, of a query that saw no key.
#[inline(always)]
fn exponent(lse: f32) -> f32 {
    if lse == f32::NEG_INFINITY {
        lse
    } else {
        lse * -core::f32::consts::LOG2_E
    }
}
