//! What the threads of a block do together, in fixed orders.

use crate::thread::{self, WARP_THREADS};
use crate::warp::{self, Words};

/// Most warps of a block, and so the elements of scratch that [`reduce`] needs.
pub const WARPS_MAX: usize = 32;

/// `op` over the values of all threads of a one-dimensional block, the result in every thread:
/// butterflies in the warps ([`warp::reduce`]), then [`combine`]. `op` is commutative.
///
/// # Safety
/// As for [`combine`].
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn reduce<T: Words>(value: T, scratch: *mut T, op: impl Fn(T, T) -> T) -> T {
    // SAFETY: passed on to the caller.
    unsafe { combine(warp::reduce(value, &op), scratch, op) }
}

/// `op` over one value a warp (that of its lane 0), the result in every thread: warp 0's with each
/// other's in turn. Ends with a barrier, so `scratch` may be used again at once.
///
/// # Safety
/// Every thread of the one-dimensional block executes it, with whole warps. `scratch` is the same
/// for all, shared memory for a `T` for each warp, which nobody else uses meanwhile.
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn combine<T: Words>(value: T, scratch: *mut T, op: impl Fn(T, T) -> T) -> T {
    let thread = thread::thread_idx_x();
    // SAFETY: passed on to the caller; writes and reads are a barrier apart.
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
