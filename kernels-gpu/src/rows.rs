//! Rows that a warp or a block reduces: what reductions and softmax share.

use cuda_std::warp::Words;
use cuda_std::{block, thread, warp};

/// Threads of a warp.
const WARP: u64 = thread::WARP_THREADS as u64;

/// How the rows of a launch are shared out.
pub(crate) struct Rows {
    /// Rows of the launch.
    pub(crate) rows: u64,
    /// Elements of a row.
    pub(crate) len: u64,
    /// Up to so many elements a warp has a row alone.
    pub(crate) warp_max: u64,
    /// Threads of a block.
    pub(crate) threads: u64,
}

impl Rows {
    /// For every row of this block: reduces `partial(row, own, threads)` of the threads that share
    /// it, in fixed order, and calls `finish(row, own, threads, total)` in each of them.
    ///
    /// # Safety
    /// All threads of the block call it with the same `self`; `scratch` is shared memory for a `T` a
    /// warp. `merge` is commutative.
    #[inline(always)]
    pub(crate) unsafe fn each<T: Words>(
        &self,
        scratch: *mut T,
        merge: impl Fn(T, T) -> T,
        partial: impl Fn(u64, u64, u64) -> T,
        finish: impl Fn(u64, u64, u64, T),
    ) {
        let by_warp = self.len <= self.warp_max;
        let threads = if by_warp { WARP } else { self.threads };
        let groups = if by_warp { self.threads / WARP } else { 1 };
        let thread = u64::from(thread::thread_idx_x());
        let (group, own) = if by_warp {
            (thread / WARP, thread % WARP)
        } else {
            (0, thread)
        };
        let mut row = u64::from(thread::block_idx_x()) * groups + group;
        while row < self.rows {
            // SAFETY: the row is the same in all lanes of a warp, and where the block shares rows
            // in all its threads, so they meet here.
            let total = unsafe {
                let of_warp = warp::reduce(partial(row, own, threads), &merge);
                if by_warp {
                    of_warp
                } else {
                    block::combine(of_warp, scratch, &merge)
                }
            };
            finish(row, own, threads, total);
            row += u64::from(thread::grid_dim_x()) * groups;
        }
    }
}
