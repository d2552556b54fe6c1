//! Hopper's asynchrony, each kernel a small task whose answer the host knows.

use abi::swizzle::Swizzle;
use abi::tensor_core::descriptor::{Descriptor, Layout};
use abi::tensor_core::fragment::wgmma_acc;
use cuda_std::cluster;
use cuda_std::fence::{fence_mbarrier_init_release_cluster, fence_proxy_async_shared_cta};
use cuda_std::mbarrier::Mbarrier;
use cuda_std::shared::SharedAddr;
use cuda_std::tma::{self, TensorMap};
use cuda_std::wgmma::{
    Bf16, M64, MmaAsync, Registers, wgmma_commit_group, wgmma_fence, wgmma_wait_group,
};
use cuda_std::{dynamic_shared, kernel, shared_array, thread};

/// Threads of a block: a warpgroup.
const THREADS: u32 = 128;
/// Bytes of a tile of 64 × 64 bf16.
const TILE_BYTES: u32 = 64 * 64 * 2;

/// A barrier for one arrival a phase, seen by everyone and by copies.
///
/// # Safety
/// All threads of the block execute it, once a place in the source.
#[inline(always)]
unsafe fn barrier_of_one() -> Mbarrier {
    // SAFETY: nobody else uses the array; others use it after the block's barrier.
    unsafe {
        let barrier = Mbarrier::at(SharedAddr::of(shared_array![u64; 1]));
        if thread::thread_idx_x() == 0 {
            barrier.init(1);
            fence_mbarrier_init_release_cluster();
        }
        thread::sync_threads();
        barrier
    }
}

/// `y = 2 * x`, 128 of them through shared memory by bulk copies.
///
/// # Safety
/// One block of 128 threads; `x` and `y` hold 128 elements and are aligned to 16 bytes.
#[kernel(arch = "sm_90a", max_threads = THREADS)]
pub unsafe fn bulk_double(x: *const f32, y: *mut f32) {
    let words = shared_array![f32; THREADS as usize];
    let thread = thread::thread_idx_x();
    // SAFETY: the barrier counts the copy's bytes; each thread has a word of its own; the store
    // reads after a proxy fence by each writer and a barrier.
    unsafe {
        let shared = SharedAddr::of(words);
        let full = barrier_of_one();
        if thread == 0 {
            full.arrive_expect_tx(4 * THREADS);
            tma::cp_async_bulk_shared_cluster_global(shared, x.cast(), 4 * THREADS, full);
        }
        full.wait_parity(0); // x landed
        let word = words.add(thread as usize);
        word.write(2.0 * word.read());
        fence_proxy_async_shared_cta();
        thread::sync_threads();
        if thread == 0 {
            tma::cp_async_bulk_global_shared_cta(y.cast(), shared, 4 * THREADS);
            tma::cp_async_bulk_commit_group();
            tma::cp_async_bulk_wait_group::<0>();
            full.inval();
        }
    }
}

/// `d = a @ b^T` for 64 × 64 × 64, by tensor copies and wgmma. With `b_is_k_by_n`, B is stored
/// 64 × 64 with n contiguous: `d = a @ b`.
///
/// # Safety
/// One block of 128 threads with 17408 bytes of dynamic shared memory; the maps are of 64 × 64
/// bf16, boxes of 64 × 64, 128-byte swizzle; `d` holds 64 × 64.
#[inline(always)]
unsafe fn tile_product<const TRANS_B: bool>(
    map_a: *const TensorMap,
    map_b: *const TensorMap,
    d: *mut f32,
) {
    type Mma = M64<64, f32, Bf16, Bf16>;
    let thread = thread::thread_idx_x();
    let k_major = Layout::k_major(Swizzle::B128);
    let b_layout = if TRANS_B {
        Layout::mn_major(Swizzle::B128, 64)
    } else {
        k_major
    };
    // SAFETY: the barrier counts the copies' bytes; tiles are aligned to the swizzle's pattern, and
    // read after they have landed; the wait gives the accumulator back.
    unsafe {
        let base = SharedAddr::of(dynamic_shared![u8])
            .bits()
            .next_multiple_of(1024);
        let (tile_a, tile_b) = (
            SharedAddr::from_bits(base),
            SharedAddr::from_bits(base + TILE_BYTES),
        );
        let full = barrier_of_one();
        if thread == 0 {
            tma::prefetch_tensormap(map_a);
            full.arrive_expect_tx(2 * TILE_BYTES);
            tma::cp_async_bulk_tensor_2d_shared_cluster_global(tile_a, map_a, [0, 0], full);
            tma::cp_async_bulk_tensor_2d_shared_cluster_global(tile_b, map_b, [0, 0], full);
        }
        full.wait_parity(0); // both tiles landed
        let a = Descriptor::new(tile_a.bits(), k_major);
        let b = Descriptor::new(tile_b.bits(), b_layout);
        let mut acc = <Mma as MmaAsync>::Acc::unset();
        wgmma_fence();
        Mma::ss::<false, false, TRANS_B>(&mut acc, a.bits(), b.bits());
        for step in 1..64 / Mma::K {
            let a = a.advanced(step * k_major.k_step_bytes(2));
            let b = b.advanced(step * b_layout.k_step_bytes(2));
            Mma::ss::<true, false, TRANS_B>(&mut acc, a.bits(), b.bits());
        }
        wgmma_commit_group();
        wgmma_wait_group::<0>(&mut acc);
        for (element, value) in acc.into_iter().enumerate() {
            let place = wgmma_acc(thread, element as u32);
            d.add((place.row * 64 + place.column) as usize).write(value);
        }
    }
}

/// [`tile_product`] of B stored with k contiguous.
///
/// # Safety
/// As for it.
#[kernel(arch = "sm_90a", max_threads = THREADS, min_blocks = 1, dynamic_shared = 2 * TILE_BYTES + 1024)]
pub unsafe fn tile_product_nt(map_a: *const TensorMap, map_b: *const TensorMap, d: *mut f32) {
    // SAFETY: passed on to the caller.
    unsafe { tile_product::<false>(map_a, map_b, d) }
}

/// [`tile_product`] of B stored with n contiguous.
///
/// # Safety
/// As for it.
#[kernel(arch = "sm_90a", max_threads = THREADS, min_blocks = 1, dynamic_shared = 2 * TILE_BYTES + 1024)]
pub unsafe fn tile_product_nn(map_a: *const TensorMap, map_b: *const TensorMap, d: *mut f32) {
    // SAFETY: passed on to the caller.
    unsafe { tile_product::<true>(map_a, map_b, d) }
}

/// Each block of a cluster of two tells the other its rank, through the other's shared memory.
///
/// # Safety
/// Clusters of two blocks of one warp; `out` holds 4 words for each block.
#[kernel(arch = "sm_90a", max_threads = 32, cluster = (2, 1, 1))]
pub unsafe fn cluster_answers(out: *mut u32) {
    let words = shared_array![u32; 1];
    // SAFETY: one word of the other block is written by one thread and read after the cluster's
    // barrier; no block exits before the other has written to it.
    unsafe {
        let (rank, here) = (cluster::cluster_ctarank(), SharedAddr::of(words));
        let there = cluster::mapa_shared_cluster(here, rank ^ 1);
        cluster::barrier_cluster_arrive_relaxed_aligned();
        cluster::barrier_cluster_wait_acquire_aligned();
        if thread::thread_idx_x() == 0 {
            cluster::st_shared_cluster_u32(there, 100 + rank);
        }
        cluster::barrier_cluster_arrive_release_aligned();
        cluster::barrier_cluster_wait_acquire_aligned();
        if thread::thread_idx_x() == 0 {
            let answers = [
                words.read(),
                cluster::getctarank_shared_cluster(there),
                cluster::cluster_nctarank(),
                cluster::clusterid_x(),
            ];
            out.cast::<[u32; 4]>()
                .add(thread::block_idx_x() as usize)
                .write(answers);
        }
    }
}
