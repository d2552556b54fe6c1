//! Bulk copies of contiguous bytes between global and shared memory, and between the shared
//! memories of a cluster's blocks.
//!
//! Addresses and sizes are multiples of 16.

use super::CachePolicy;
use crate::mbarrier::{Mbarrier, RemoteMbarrier};
use crate::shared::{ClusterAddr, SharedAddr};

macro_rules! copies {
    ($($name:ident($($operand:ident: $ty:ty = $reg:ident $value:expr),*)
        = $instruction:literal, $operands:literal, $doc:literal;)*) => {$(
        #[doc = concat!("`", $instruction, "`: ", $doc)]
        ///
        /// *Scope*: one thread. *Proxy*: async; into shared memory it counts its bytes on the
        /// barrier, out of it a group is waited for. *Since*: PTX 8.0, sm_90.
        ///
        /// # Safety
        /// Addresses and size are multiples of 16, `size_bytes` are there at both, and a barrier is
        /// initialised, in the block that is written. Nobody writes what is read, nor uses what is
        /// written, before barrier or group say that it is done.
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub unsafe fn $name($($operand: $ty),*) {
            on_device!("tma::bulk", ($($operand),*), {
                // SAFETY: the caller's memory and barrier are what they should be.
                unsafe {
                    core::arch::asm!(concat!($instruction, " ", $operands, ";"),
                        $($operand = in($reg) $value,)* options(nostack));
                }
            })
        }
    )*};
}

copies! {
    cp_async_bulk_shared_cluster_global(dst: SharedAddr = reg32 dst.bits(), src: *const u8 = reg64 src,
        size_bytes: u32 = reg32 size_bytes, barrier: Mbarrier = reg32 barrier.addr().bits())
        = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes",
        "[{dst}], [{src}], {size_bytes}, [{barrier}]", "from global memory.";
    cp_async_bulk_shared_cluster_global_l2_cache_hint(dst: SharedAddr = reg32 dst.bits(),
        src: *const u8 = reg64 src, size_bytes: u32 = reg32 size_bytes,
        barrier: Mbarrier = reg32 barrier.addr().bits(), policy: CachePolicy = reg64 policy.bits())
        = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint",
        "[{dst}], [{src}], {size_bytes}, [{barrier}], {policy}",
        "from global memory, by a cache policy.";
    cp_async_bulk_shared_cluster_global_multicast_cluster(dst: SharedAddr = reg32 dst.bits(),
        src: *const u8 = reg64 src, size_bytes: u32 = reg32 size_bytes,
        barrier: Mbarrier = reg32 barrier.addr().bits(), mask: u16 = reg16 mask)
        = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster",
        "[{dst}], [{src}], {size_bytes}, [{barrier}], {mask}",
        "from global memory to the blocks of the cluster that `mask` names, at the same offset and \
         counted on the barrier at the same offset.";
    cp_async_bulk_shared_cluster_shared_cta(dst: ClusterAddr = reg32 dst.bits(),
        src: SharedAddr = reg32 src.bits(), size_bytes: u32 = reg32 size_bytes,
        barrier: RemoteMbarrier = reg32 barrier.addr().bits())
        = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes",
        "[{dst}], [{src}], {size_bytes}, [{barrier}]", "to another block of the cluster.";
    cp_async_bulk_global_shared_cta(dst: *mut u8 = reg64 dst, src: SharedAddr = reg32 src.bits(),
        size_bytes: u32 = reg32 size_bytes)
        = "cp.async.bulk.global.shared::cta.bulk_group", "[{dst}], [{src}], {size_bytes}",
        "to global memory.";
    cp_async_bulk_global_shared_cta_l2_cache_hint(dst: *mut u8 = reg64 dst,
        src: SharedAddr = reg32 src.bits(), size_bytes: u32 = reg32 size_bytes,
        policy: CachePolicy = reg64 policy.bits())
        = "cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint",
        "[{dst}], [{src}], {size_bytes}, {policy}", "to global memory, by a cache policy.";
    cp_async_bulk_prefetch_l2_global(src: *const u8 = reg64 src, size_bytes: u32 = reg32 size_bytes)
        = "cp.async.bulk.prefetch.L2.global", "[{src}], {size_bytes}",
        "brings global memory into L2.";
}
