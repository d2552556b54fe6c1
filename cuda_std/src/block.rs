//! Reductions over a thread block, in a fixed order: the same bits every run.

use crate::thread::{self, WARP_THREADS};
use crate::warp::{self, Words};

/// The largest number of warps in a block: as many elements of scratch are enough for [`reduce`].
pub const WARPS_MAX: usize = 32;

/// Reduces the values of all threads of a one-dimensional block by `op` and returns the result in
/// every thread: a butterfly within each warp ([`warp::reduce`]), then [`combine`] across the
/// warps. `op` is commutative.
///
/// # Safety
/// As for [`combine`]: in a last warp of fewer than 32 threads, lanes read values that no thread
/// gave.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn reduce<T: Words>(value: T, scratch: *mut T, op: impl Fn(T, T) -> T) -> T {
    // SAFETY: passed on to the caller.
    unsafe { combine(warp::reduce(value, &op), scratch, op) }
}

/// Reduces one value per warp (that of its lane 0) by `op` and returns the result in every thread.
/// It starts from warp 0's value and applies `op` to those of warps 1, 2, .. in that order. It ends
/// with a block barrier, so `scratch` may be reused at once.
///
/// # Safety
/// Every thread of the block executes it; the block is one-dimensional and consists of whole warps.
/// `scratch` is the same pointer in all threads: shared memory with room for one `T` per warp,
/// which nothing else accesses meanwhile.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn combine<T: Words>(value: T, scratch: *mut T, op: impl Fn(T, T) -> T) -> T {
    let thread = thread::thread_idx_x();
    // SAFETY: passed on to the caller; a barrier separates the writes from the reads.
    unsafe {
        if thread.is_multiple_of(WARP_THREADS) {
            scratch.add((thread / WARP_THREADS) as usize).write(value);
        }
        thread::sync_threads();
        let warps = thread::block_dim_x().div_ceil(WARP_THREADS) as usize;
        let mut total = scratch.read();
        for i in 1..warps {
            total = op(total, scratch.add(i).read());
        }
        thread::sync_threads();
        total
    }
}
