//! Runs of bytes.

use cuda_std::kernel;
use cuda_std::mbarrier::Mbarrier;
use cuda_std::shared::SharedAddr;
use cuda_std::tma::{self, CachePolicy};

/// # Safety
/// Not for running.
#[kernel(arch = "sm_90a")]
pub unsafe fn every_bulk_copy(
    address: u32,
    global: *mut u8,
    size_bytes: u32,
    mask: u16,
    policy: u64,
) {
    let shared = SharedAddr::from_bits(address);
    let barrier = Mbarrier::at(shared.add_bytes(4096));
    let policy = CachePolicy::from_bits(policy);
    let other = barrier.of_rank(1);
    let there = other.addr();
    // SAFETY: not for running.
    unsafe {
        tma::cp_async_bulk_shared_cluster_global(shared, global, size_bytes, barrier);
        tma::cp_async_bulk_shared_cluster_global_l2_cache_hint(
            shared, global, size_bytes, barrier, policy,
        );
        tma::cp_async_bulk_shared_cluster_global_multicast_cluster(
            shared, global, size_bytes, barrier, mask,
        );
        tma::cp_async_bulk_shared_cluster_shared_cta(there, shared, size_bytes, other);
        tma::cp_async_bulk_global_shared_cta(global, shared, size_bytes);
        tma::cp_async_bulk_global_shared_cta_l2_cache_hint(global, shared, size_bytes, policy);
        tma::cp_async_bulk_prefetch_l2_global(global, size_bytes);
        tma::cp_reduce_async_bulk_global_shared_cta_add_f32(global, shared, size_bytes);
        tma::cp_reduce_async_bulk_global_shared_cta_add_f64(global, shared, size_bytes);
        tma::cp_reduce_async_bulk_global_shared_cta_add_noftz_f16(global, shared, size_bytes);
        tma::cp_reduce_async_bulk_global_shared_cta_add_noftz_bf16(global, shared, size_bytes);
        tma::cp_reduce_async_bulk_global_shared_cta_add_u32(global, shared, size_bytes);
        tma::cp_reduce_async_bulk_global_shared_cta_add_s32(global, shared, size_bytes);
        tma::cp_reduce_async_bulk_global_shared_cta_add_u64(global, shared, size_bytes);
        tma::cp_reduce_async_bulk_global_shared_cta_min_f16(global, shared, size_bytes);
        tma::cp_reduce_async_bulk_global_shared_cta_min_bf16(global, shared, size_bytes);
        tma::cp_reduce_async_bulk_global_shared_cta_min_u32(global, shared, size_bytes);
        tma::cp_reduce_async_bulk_global_shared_cta_min_s32(global, shared, size_bytes);
        tma::cp_reduce_async_bulk_global_shared_cta_min_u64(global, shared, size_bytes);
        tma::cp_reduce_async_bulk_global_shared_cta_min_s64(global, shared, size_bytes);
        tma::cp_reduce_async_bulk_global_shared_cta_max_f16(global, shared, size_bytes);
        tma::cp_reduce_async_bulk_global_shared_cta_max_bf16(global, shared, size_bytes);
        tma::cp_reduce_async_bulk_global_shared_cta_max_u32(global, shared, size_bytes);
        tma::cp_reduce_async_bulk_global_shared_cta_max_s32(global, shared, size_bytes);
        tma::cp_reduce_async_bulk_global_shared_cta_max_u64(global, shared, size_bytes);
        tma::cp_reduce_async_bulk_global_shared_cta_max_s64(global, shared, size_bytes);
        tma::cp_reduce_async_bulk_global_shared_cta_inc_u32(global, shared, size_bytes);
        tma::cp_reduce_async_bulk_global_shared_cta_dec_u32(global, shared, size_bytes);
        tma::cp_reduce_async_bulk_global_shared_cta_and_b32(global, shared, size_bytes);
        tma::cp_reduce_async_bulk_global_shared_cta_and_b64(global, shared, size_bytes);
        tma::cp_reduce_async_bulk_global_shared_cta_or_b32(global, shared, size_bytes);
        tma::cp_reduce_async_bulk_global_shared_cta_or_b64(global, shared, size_bytes);
        tma::cp_reduce_async_bulk_global_shared_cta_xor_b32(global, shared, size_bytes);
        tma::cp_reduce_async_bulk_global_shared_cta_xor_b64(global, shared, size_bytes);
        tma::cp_reduce_async_bulk_shared_cluster_shared_cta_add_u32(
            there, shared, size_bytes, other,
        );
        tma::cp_reduce_async_bulk_shared_cluster_shared_cta_add_s32(
            there, shared, size_bytes, other,
        );
        tma::cp_reduce_async_bulk_shared_cluster_shared_cta_add_u64(
            there, shared, size_bytes, other,
        );
        tma::cp_reduce_async_bulk_shared_cluster_shared_cta_min_u32(
            there, shared, size_bytes, other,
        );
        tma::cp_reduce_async_bulk_shared_cluster_shared_cta_min_s32(
            there, shared, size_bytes, other,
        );
        tma::cp_reduce_async_bulk_shared_cluster_shared_cta_max_u32(
            there, shared, size_bytes, other,
        );
        tma::cp_reduce_async_bulk_shared_cluster_shared_cta_max_s32(
            there, shared, size_bytes, other,
        );
        tma::cp_reduce_async_bulk_shared_cluster_shared_cta_inc_u32(
            there, shared, size_bytes, other,
        );
        tma::cp_reduce_async_bulk_shared_cluster_shared_cta_dec_u32(
            there, shared, size_bytes, other,
        );
        tma::cp_reduce_async_bulk_shared_cluster_shared_cta_and_b32(
            there, shared, size_bytes, other,
        );
        tma::cp_reduce_async_bulk_shared_cluster_shared_cta_or_b32(
            there, shared, size_bytes, other,
        );
        tma::cp_reduce_async_bulk_shared_cluster_shared_cta_xor_b32(
            there, shared, size_bytes, other,
        );
    }
}
