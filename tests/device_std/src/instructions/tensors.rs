//! Tensor copies.

use cuda_std::kernel;
use cuda_std::mbarrier::Mbarrier;
use cuda_std::shared::SharedAddr;
use cuda_std::tma::{self, CachePolicy, TensorMap};

/// Calls each kind of load of so many dimensions.
macro_rules! loads {
    ($at:ident: $($plain:ident $hint:ident $multicast:ident $both:ident $coordinates:expr
        $(, $offsets:expr)?;)*) => {$(
        tma::$plain($at.0, $at.1, $coordinates, $at.2 $(, $offsets)?);
        tma::$hint($at.0, $at.1, $coordinates, $at.2 $(, $offsets)?, $at.4);
        tma::$multicast($at.0, $at.1, $coordinates, $at.2 $(, $offsets)?, $at.3);
        tma::$both($at.0, $at.1, $coordinates, $at.2 $(, $offsets)?, $at.3, $at.4);
    )*};
}

/// # Safety
/// Not for running.
#[kernel(arch = "sm_90a")]
pub unsafe fn every_tensor_load(
    address: u32,
    map: *const TensorMap,
    c: i32,
    o: u16,
    mask: u16,
    policy: u64,
) {
    let dst = SharedAddr::from_bits(address);
    let barrier = Mbarrier::at(dst.add_bytes(4096));
    let at = (dst, map, barrier, mask, CachePolicy::from_bits(policy));
    // SAFETY: not for running.
    unsafe {
        loads! { at:
            cp_async_bulk_tensor_1d_shared_cluster_global
            cp_async_bulk_tensor_1d_shared_cluster_global_l2_cache_hint
            cp_async_bulk_tensor_1d_shared_cluster_global_multicast_cluster
            cp_async_bulk_tensor_1d_shared_cluster_global_multicast_cluster_l2_cache_hint
                [c];
            cp_async_bulk_tensor_2d_shared_cluster_global
            cp_async_bulk_tensor_2d_shared_cluster_global_l2_cache_hint
            cp_async_bulk_tensor_2d_shared_cluster_global_multicast_cluster
            cp_async_bulk_tensor_2d_shared_cluster_global_multicast_cluster_l2_cache_hint
                [c, c];
            cp_async_bulk_tensor_3d_shared_cluster_global
            cp_async_bulk_tensor_3d_shared_cluster_global_l2_cache_hint
            cp_async_bulk_tensor_3d_shared_cluster_global_multicast_cluster
            cp_async_bulk_tensor_3d_shared_cluster_global_multicast_cluster_l2_cache_hint
                [c, c, c];
            cp_async_bulk_tensor_4d_shared_cluster_global
            cp_async_bulk_tensor_4d_shared_cluster_global_l2_cache_hint
            cp_async_bulk_tensor_4d_shared_cluster_global_multicast_cluster
            cp_async_bulk_tensor_4d_shared_cluster_global_multicast_cluster_l2_cache_hint
                [c, c, c, c];
            cp_async_bulk_tensor_5d_shared_cluster_global
            cp_async_bulk_tensor_5d_shared_cluster_global_l2_cache_hint
            cp_async_bulk_tensor_5d_shared_cluster_global_multicast_cluster
            cp_async_bulk_tensor_5d_shared_cluster_global_multicast_cluster_l2_cache_hint
                [c, c, c, c, c];
            cp_async_bulk_tensor_3d_shared_cluster_global_im2col
            cp_async_bulk_tensor_3d_shared_cluster_global_im2col_l2_cache_hint
            cp_async_bulk_tensor_3d_shared_cluster_global_im2col_multicast_cluster
            cp_async_bulk_tensor_3d_shared_cluster_global_im2col_multicast_cluster_l2_cache_hint
                [c, c, c], [o];
            cp_async_bulk_tensor_4d_shared_cluster_global_im2col
            cp_async_bulk_tensor_4d_shared_cluster_global_im2col_l2_cache_hint
            cp_async_bulk_tensor_4d_shared_cluster_global_im2col_multicast_cluster
            cp_async_bulk_tensor_4d_shared_cluster_global_im2col_multicast_cluster_l2_cache_hint
                [c, c, c, c], [o, o];
            cp_async_bulk_tensor_5d_shared_cluster_global_im2col
            cp_async_bulk_tensor_5d_shared_cluster_global_im2col_l2_cache_hint
            cp_async_bulk_tensor_5d_shared_cluster_global_im2col_multicast_cluster
            cp_async_bulk_tensor_5d_shared_cluster_global_im2col_multicast_cluster_l2_cache_hint
                [c, c, c, c, c], [o, o, o];
        }
        tma::prefetch_tensormap(map);
    }
}

/// Calls both kinds of store of so many dimensions.
macro_rules! stores {
    ($at:ident: $($plain:ident $hint:ident $coordinates:expr;)*) => {$(
        tma::$plain($at.1, $coordinates, $at.0);
        tma::$hint($at.1, $coordinates, $at.0, $at.2);
    )*};
}

/// # Safety
/// Not for running.
#[kernel(arch = "sm_90a")]
pub unsafe fn every_tensor_store(address: u32, map: *const TensorMap, c: i32, policy: u64) {
    let src = SharedAddr::from_bits(address);
    let at = (src, map, CachePolicy::from_bits(policy));
    // SAFETY: not for running.
    unsafe {
        stores! { at:
            cp_async_bulk_tensor_1d_global_shared_cta
            cp_async_bulk_tensor_1d_global_shared_cta_l2_cache_hint
                [c];
            cp_async_bulk_tensor_2d_global_shared_cta
            cp_async_bulk_tensor_2d_global_shared_cta_l2_cache_hint
                [c, c];
            cp_async_bulk_tensor_3d_global_shared_cta
            cp_async_bulk_tensor_3d_global_shared_cta_l2_cache_hint
                [c, c, c];
            cp_async_bulk_tensor_4d_global_shared_cta
            cp_async_bulk_tensor_4d_global_shared_cta_l2_cache_hint
                [c, c, c, c];
            cp_async_bulk_tensor_5d_global_shared_cta
            cp_async_bulk_tensor_5d_global_shared_cta_l2_cache_hint
                [c, c, c, c, c];
            cp_async_bulk_tensor_3d_global_shared_cta_im2col_no_offs
            cp_async_bulk_tensor_3d_global_shared_cta_im2col_no_offs_l2_cache_hint
                [c, c, c];
            cp_async_bulk_tensor_4d_global_shared_cta_im2col_no_offs
            cp_async_bulk_tensor_4d_global_shared_cta_im2col_no_offs_l2_cache_hint
                [c, c, c, c];
            cp_async_bulk_tensor_5d_global_shared_cta_im2col_no_offs
            cp_async_bulk_tensor_5d_global_shared_cta_im2col_no_offs_l2_cache_hint
                [c, c, c, c, c];
        }
        tma::cp_async_bulk_commit_group();
        tma::cp_async_bulk_wait_group::<1>();
        tma::cp_async_bulk_wait_group_read::<0>();
        tma::cp_async_bulk_prefetch_tensor_1d_l2_global(map, [c]);
        tma::cp_async_bulk_prefetch_tensor_2d_l2_global(map, [c, c]);
        tma::cp_async_bulk_prefetch_tensor_3d_l2_global(map, [c, c, c]);
        tma::cp_async_bulk_prefetch_tensor_4d_l2_global(map, [c, c, c, c]);
        tma::cp_async_bulk_prefetch_tensor_5d_l2_global(map, [c, c, c, c, c]);
        tma::cp_reduce_async_bulk_tensor_1d_global_shared_cta::<tma::Add>(map, [c], src);
        tma::cp_reduce_async_bulk_tensor_2d_global_shared_cta::<tma::Add>(map, [c, c], src);
        tma::cp_reduce_async_bulk_tensor_3d_global_shared_cta::<tma::Add>(map, [c, c, c], src);
        tma::cp_reduce_async_bulk_tensor_4d_global_shared_cta::<tma::Add>(map, [c, c, c, c], src);
        tma::cp_reduce_async_bulk_tensor_5d_global_shared_cta::<tma::Add>(
            map,
            [c, c, c, c, c],
            src,
        );
        tma::cp_reduce_async_bulk_tensor_2d_global_shared_cta::<tma::Min>(map, [c, c], src);
        tma::cp_reduce_async_bulk_tensor_2d_global_shared_cta::<tma::Max>(map, [c, c], src);
        tma::cp_reduce_async_bulk_tensor_2d_global_shared_cta::<tma::Inc>(map, [c, c], src);
        tma::cp_reduce_async_bulk_tensor_2d_global_shared_cta::<tma::Dec>(map, [c, c], src);
        tma::cp_reduce_async_bulk_tensor_2d_global_shared_cta::<tma::And>(map, [c, c], src);
        tma::cp_reduce_async_bulk_tensor_2d_global_shared_cta::<tma::Or>(map, [c, c], src);
        tma::cp_reduce_async_bulk_tensor_2d_global_shared_cta::<tma::Xor>(map, [c, c], src);
    }
}
