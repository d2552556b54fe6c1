//! Warps with roles, and blocks that load for each other, as the fast kernels have them.

use abi::swizzle::Swizzle;
use abi::tensor_core::descriptor::{Descriptor, Layout};
use abi::tensor_core::ldmatrix::tile_16x16;
use cuda_std::cluster;
use cuda_std::elect::elect_sync;
use cuda_std::fence::{fence_mbarrier_init_release_cluster, fence_proxy_async_shared_cta};
use cuda_std::ldmatrix::{ldmatrix_x4, stmatrix_x4};
use cuda_std::mbarrier::Mbarrier;
use cuda_std::regs::{setmaxnreg_dec, setmaxnreg_inc};
use cuda_std::shared::SharedAddr;
use cuda_std::tma::{self, TensorMap};
use cuda_std::warp::FULL_MASK;
use cuda_std::wgmma::{
    Bf16, M64, MmaAsync, Registers, tie, wgmma_commit_group, wgmma_fence, wgmma_wait_group,
};
use cuda_std::{barrier, convert, dynamic_shared, kernel, shared_array, thread};

/// Bytes of a tile of 64 × 64 bf16.
const TILE_BYTES: u32 = 64 * 64 * 2;
/// A, B and D, wherever dynamic shared memory starts.
const SHARED_BYTES: u32 = 3 * TILE_BYTES + 1024;
type Mma = M64<64, f32, Bf16, Bf16>;

/// `d = 2 * bf16(a @ b^T)` for 64 × 64 × 64: warpgroup 0 loads, warpgroup 1 multiplies with A in
/// registers, and stores twice, the second time adding.
///
/// # Safety
/// One block of 256 threads; the maps are of 64 × 64 bf16, boxes of 64 × 64, 128-byte swizzle.
#[kernel(arch = "sm_90a", max_threads = 256, min_blocks = 1, dynamic_shared = SHARED_BYTES)]
pub unsafe fn producer_and_consumer(
    map_a: *const TensorMap,
    map_b: *const TensorMap,
    map_d: *const TensorMap,
) {
    // SAFETY: the barrier counts both copies; registers are 128 * (40 + 256) of 65536; each role is
    // a whole warpgroup.
    unsafe {
        let base = SharedAddr::of(dynamic_shared![u8])
            .bits()
            .next_multiple_of(1024);
        let tile = |index: u32| SharedAddr::from_bits(base + index * TILE_BYTES);
        let full = Mbarrier::at(SharedAddr::of(shared_array![u64; 1]));
        if thread::thread_idx_x() == 0 {
            full.init(1);
            fence_mbarrier_init_release_cluster();
        }
        thread::sync_threads();
        if thread::thread_idx_x() < 128 {
            setmaxnreg_dec::<40>();
            if thread::thread_idx_x() < 32 && elect_sync(FULL_MASK) {
                let policy = tma::createpolicy_fractional_l2_evict_last(1.0);
                full.arrive_expect_tx(2 * TILE_BYTES);
                let load = tma::cp_async_bulk_tensor_2d_shared_cluster_global_l2_cache_hint;
                load(tile(0), map_a, [0, 0], full, policy);
                load(tile(1), map_b, [0, 0], full, policy);
            }
        } else {
            setmaxnreg_inc::<256>();
            full.wait_parity(0); // A and B landed
            let acc = multiply(tile(0), tile(1));
            store(acc, tile(2), map_d);
        }
    }
}

/// The product of two tiles, A through registers.
///
/// # Safety
/// A warpgroup; the tiles are there.
#[inline(always)]
unsafe fn multiply(tile_a: SharedAddr, tile_b: SharedAddr) -> <Mma as MmaAsync>::Acc {
    let place = tile_16x16(thread::thread_idx_x() % 32);
    let row = thread::thread_idx_x() % 128 / 32 * 16 + place.row;
    let layout = Layout::k_major(Swizzle::B128);
    let b = Descriptor::new(tile_b.bits(), layout);
    // SAFETY: the registers of A and D are left alone until the wait.
    unsafe {
        let mut fragments = [[0; 4]; 4];
        for (step, fragment) in fragments.iter_mut().enumerate() {
            let column_bytes = 2 * (16 * step as u32 + place.column);
            let offset = Swizzle::B128.offset_bytes(row, column_bytes);
            *fragment = ldmatrix_x4(tile_a.add_bytes(offset));
            tie(fragment);
        }
        let mut acc = <Mma as MmaAsync>::Acc::unset();
        wgmma_fence();
        Mma::rs::<false, false>(&mut acc, fragments[0], b.bits());
        for step in 1..4 {
            let b = b.advanced(step * layout.k_step_bytes(2));
            Mma::rs::<true, false>(&mut acc, fragments[step as usize], b.bits());
        }
        wgmma_commit_group();
        wgmma_wait_group::<0>(&mut acc);
        for fragment in &mut fragments {
            tie(fragment);
        }
        acc
    }
}

/// Rounds to bf16, and brings it to the tensor through shared memory, twice.
///
/// # Safety
/// A warpgroup, the second one; the tile is free.
#[inline(always)]
unsafe fn store(acc: <Mma as MmaAsync>::Acc, tile: SharedAddr, map: *const TensorMap) {
    let place = tile_16x16(thread::thread_idx_x() % 32);
    let row = thread::thread_idx_x() % 128 / 32 * 16 + place.row;
    // SAFETY: each writer fences before the barrier, one thread stores after it and waits.
    unsafe {
        for columns in 0..4 {
            let pair = |at: usize| {
                let at = 8 * columns + 2 * at;
                convert::f32x2_to_bf16x2_cvt(acc[at], acc[at + 1])
            };
            let column_bytes = 2 * (16 * columns as u32 + place.column);
            let offset = Swizzle::B128.offset_bytes(row, column_bytes);
            stmatrix_x4(tile.add_bytes(offset), [pair(0), pair(1), pair(2), pair(3)]);
        }
        fence_proxy_async_shared_cta();
        barrier::bar_sync(1, 128);
        if thread::thread_idx_x() == 128 {
            tma::cp_async_bulk_tensor_2d_global_shared_cta(map, [0, 0], tile);
            tma::cp_async_bulk_commit_group();
            tma::cp_async_bulk_wait_group::<0>();
            tma::cp_reduce_async_bulk_tensor_2d_global_shared_cta::<tma::Add>(map, [0, 0], tile);
            tma::cp_async_bulk_commit_group();
            tma::cp_async_bulk_wait_group_read::<0>();
        }
    }
}

/// Each block of a cluster of two loads half of `x` for both: `out` gets `x` from each block.
///
/// # Safety
/// One cluster of two blocks of 128 threads; `x` holds 128 elements, aligned to 16 bytes, `out` 256.
#[kernel(arch = "sm_90a", max_threads = 128, cluster = (2, 1, 1))]
pub unsafe fn multicast_halves(x: *const f32, out: *mut f32) {
    let words = shared_array![f32; 128];
    let barriers = shared_array![u64; 2];
    let thread = thread::thread_idx_x();
    // SAFETY: both blocks' barriers are initialised before either copies; each counts both halves;
    // no block exits before the other has read what it got.
    unsafe {
        let full = Mbarrier::at(SharedAddr::of(barriers));
        let done = Mbarrier::at(SharedAddr::of(barriers.add(1)));
        let rank = cluster::cluster_ctarank();
        if thread == 0 {
            full.init(1);
            done.init(2);
            fence_mbarrier_init_release_cluster();
            full.arrive_expect_tx(512);
        }
        cluster::barrier_cluster_arrive_release_aligned();
        cluster::barrier_cluster_wait_acquire_aligned();
        if thread == 0 {
            let half = SharedAddr::of(words).add_bytes(256 * rank);
            let from = x.add(64 * rank as usize).cast();
            tma::cp_async_bulk_shared_cluster_global_multicast_cluster(half, from, 256, full, 0b11);
        }
        full.wait_parity(0); // both halves landed
        let at = 128 * rank as usize + thread as usize;
        out.add(at).write(words.add(thread as usize).read());
        thread::sync_threads();
        if thread < 2 {
            done.of_rank(thread).arrive_release_cluster();
        }
        while !done.try_wait_parity_acquire_cluster(0) {}
    }
}
