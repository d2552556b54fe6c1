//! Adding to sums in device memory in turns: a counter says how many have added.

use abi::attention_grad::order::AddOrder;
use cuda_std::atomic::{ld_acquire_gpu, st_release_gpu};
use cuda_std::fence::fence_proxy_async_global;
use cuda_std::shared::SharedAddr;
use cuda_std::tma::{
    cp_async_bulk_global_shared_cta, cp_async_bulk_wait_group,
    cp_reduce_async_bulk_global_shared_cta_add_f32,
};

/// Waits until all that come before have added, and what they added can be seen.
///
/// # Safety
/// The counter can be read; those before pass their turn without waiting for this thread.
#[inline(always)]
pub(super) unsafe fn wait_for_order(counter: *mut u32, add_order: AddOrder) {
    // SAFETY: passed on to the caller.
    unsafe {
        while ld_acquire_gpu(counter) != add_order.index {}
        fence_proxy_async_global();
    }
}

/// Begins to add `bytes` from shared memory. The first in turn writes, so that it needs no zeros to
/// add to.
///
/// # Safety
/// It is this thread's turn. Both places have as many bytes and are aligned to 16. The source was
/// written before a fence of the async proxy, and stays until the copy has read it.
#[inline(always)]
pub(super) unsafe fn add(to: *mut f32, from: SharedAddr, bytes: u32, add_order: AddOrder) {
    // SAFETY: passed on to the caller.
    unsafe {
        if add_order.index == 0 {
            cp_async_bulk_global_shared_cta(to.cast(), from, bytes);
        } else {
            cp_reduce_async_bulk_global_shared_cta_add_f32(to, from, bytes);
        }
    }
}

/// Waits until what this thread began to add is there, and passes the turn. The last leaves the
/// counter as it was before the launch.
///
/// # Safety
/// It is this thread's turn, and what it added is committed.
#[inline(always)]
pub(super) unsafe fn pass_order(counter: *mut u32, add_order: AddOrder) {
    let next = if add_order.is_last {
        0
    } else {
        add_order.index + 1
    };
    // SAFETY: passed on to the caller.
    unsafe {
        cp_async_bulk_wait_group::<0>();
        fence_proxy_async_global();
        st_release_gpu(counter, next);
    }
}
