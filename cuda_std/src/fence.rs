//! Memory fences: between a thread's own accesses, and between proxies.
//!
//! A *proxy* is a path by which memory is accessed. Ordinary loads and stores use the *generic*
//! proxy. Bulk and tensor copies (TMA) and wgmma's reads of shared memory use the *async* proxy.
//! Accesses of the same memory through different proxies are not ordered by a barrier alone:
//!
//! - **Generic write, then async read** (a TMA store or wgmma of data that threads wrote). Each
//!   writing thread executes a proxy fence. Then a barrier orders it before the thread that issues
//!   the async operation.
//! - **Async write, then generic read** (a TMA load): no fence is needed. The completion that the
//!   reader waits for, on an mbarrier or a bulk group, includes one.

macro_rules! fences {
    ($($name:ident = $instruction:literal, $since:literal, $doc:literal;)*) => {$(
        #[doc = concat!("`", $instruction, "`: ", $doc)]
        ///
        #[doc = concat!("*Scope*: thread. *Since*: ", $since, ".")]
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub fn $name() {
            on_device!("fence", (), {
                // SAFETY: orders memory accesses and has no precondition.
                unsafe { core::arch::asm!(concat!($instruction, ";"), options(nostack)) }
            })
        }
    )*};
}

fences! {
    fence_acq_rel_cta = "fence.acq_rel.cta", "PTX 6.0, sm_70",
        "what came before is seen by the block before what comes after.";
    fence_acq_rel_cluster = "fence.acq_rel.cluster", "PTX 7.8, sm_90",
        "the same for the cluster.";
    fence_acq_rel_gpu = "fence.acq_rel.gpu", "PTX 6.0, sm_70",
        "the same for the device.";
    fence_acq_rel_sys = "fence.acq_rel.sys", "PTX 6.0, sm_70",
        "the same for devices and host.";
    fence_sc_cta = "fence.sc.cta", "PTX 6.0, sm_70",
        "one order of all such fences, for the block.";
    fence_sc_cluster = "fence.sc.cluster", "PTX 7.8, sm_90",
        "one order of all such fences, for the cluster.";
    fence_sc_gpu = "fence.sc.gpu", "PTX 6.0, sm_70",
        "one order of all such fences, for the device.";
    fence_sc_sys = "fence.sc.sys", "PTX 6.0, sm_70",
        "one order of all such fences, for devices and host.";
    fence_proxy_async = "fence.proxy.async", "PTX 8.0, sm_90",
        "orders the thread's accesses of generic and async proxy to any memory.";
    fence_proxy_async_global = "fence.proxy.async.global", "PTX 8.0, sm_90",
        "the same for global memory only.";
    fence_proxy_async_shared_cta = "fence.proxy.async.shared::cta", "PTX 8.0, sm_90",
        "the same for the block's shared memory only: after writing what a tensor store or wgmma \
         reads.";
    fence_proxy_async_shared_cluster = "fence.proxy.async.shared::cluster", "PTX 8.0, sm_90",
        "the same for the cluster's shared memory.";
    fence_proxy_alias = "fence.proxy.alias", "PTX 7.5, sm_70",
        "orders accesses to one memory through different virtual addresses.";
    fence_proxy_tensormap_generic_release_gpu = "fence.proxy.tensormap::generic.release.gpu",
        "PTX 8.3, sm_90",
        "a tensor map that this thread wrote may be acquired by another.";
    fence_mbarrier_init_release_cluster = "fence.mbarrier_init.release.cluster",
        "PTX 8.0, sm_90",
        "the thread's `mbarrier.init`s are seen by the cluster, once it has met at a barrier.";
}

/// `fence.proxy.tensormap::generic.acquire.gpu [map], 128`: the thread's later tensor copies use
/// the contents of the tensor map at `map` that another thread released by
/// [`fence_proxy_tensormap_generic_release_gpu`].
///
/// *Scope*: thread. *Since*: PTX 8.3, sm_90.
///
/// # Safety
/// `map` points to a tensor map in global memory (or to a generic address of one).
///
/// # Panics
/// On the host.
#[inline(always)]
pub unsafe fn fence_proxy_tensormap_generic_acquire_gpu(map: *const crate::tma::TensorMap) {
    on_device!("fence::fence_proxy_tensormap_generic_acquire_gpu", (map), {
        // SAFETY: the caller's map is one.
        unsafe {
            core::arch::asm!("fence.proxy.tensormap::generic.acquire.gpu [{}], 128;",
                in(reg64) map, options(nostack));
        }
    })
}
