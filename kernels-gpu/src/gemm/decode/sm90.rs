//! Products with at most 64 rows on Hopper: tensor copies by a warp of their own, and clusters
//! that share k. See [`spec::gemm::decode`].
//!
//! # Roles
//! | warps | job |
//! |---|---|
//! | 0 to 7 | multiply: weights (columns of B) are the 16 rows of a tensor core's product, tokens (rows of A) its 8 columns; they share a stage along n, then along k |
//! | 8 | one lane copies A and B into the stages |
//!
//! # Pipelines
//! | barrier | arrivals | bytes | says |
//! |---|---|---|---|
//! | `landed` of a stage | 1: the producer's | the stage's | A and B of a k tile are there |
//! | `free` of a stage | 8: a lane of each consumer warp | 0 | nobody reads the stage any more |
//!
//! # Shared memory, from a multiple of 1024
//! | from | what | lives |
//! |---|---|---|
//! | 0 | stages: boxes of A, then of B, rows of 128 bytes, swizzled | main loop |
//! | 0 | sums of the warps, f32 `[warps_k][tile_m][tile_n + 4]` | after it |
//! | after the stages | barriers, 16 bytes a stage | main loop |
//!
//! # Timeline
//! Producer: for each k tile: wait until the stage is free, expect its bytes, copy.
//! Consumers: for each k tile: wait until it has landed, multiply, free the stage.
//! Then all: sums of the warps to shared memory, of the blocks through the cluster, epilogue.
//!
//! # Numerics
//! As for the portable kernel: [`super`]. Copies give zeros beyond the operands.
//!
//! # Before you change this
//! As for the portable kernel: [`super`].

use cuda_std::element::Element;
use cuda_std::epilogue::Epilogue;
use cuda_std::fence::fence_mbarrier_init_release_cluster;
use cuda_std::mbarrier::Mbarrier;
use cuda_std::shared::{SharedAddr, dynamic_base};
use cuda_std::thread::{self, WARP_THREADS};
use cuda_std::tma::{
    TensorMap, cp_async_bulk_tensor_3d_shared_cluster_global,
    cp_async_bulk_tensor_3d_shared_cluster_global_l2_cache_hint,
    createpolicy_fractional_l2_evict_first, prefetch_tensormap,
};
use cuda_std::warp::{FULL_MASK, bar_warp_sync, shfl_idx};
use spec::gemm::GemmParams;
use spec::gemm::decode::{BOX_ALIGN, DecodeArch, DecodeConfig, SPAN_BYTES};

use super::combine::{Cluster, Combine, Tile};
use super::element::MmaElement;
use super::product::{Sums, Swizzled, WarpPart, multiply};
use super::ring::{Place, Ring};

/// Threads of a block.
const THREADS: u32 = DecodeArch::Sm90.threads();
/// Warps that multiply; the one after them copies.
const CONSUMERS: u32 = THREADS / WARP_THREADS - 1;
/// Elements of a row of a box.
const SPAN: u32 = SPAN_BYTES / 2;

/// What a block copies: its place in B, and its share of k.
#[derive(Clone, Copy)]
struct Share {
    map_a: *const TensorMap,
    map_b: *const TensorMap,
    /// Products of A and of B.
    batch: [i32; 2],
    column: u32,
    k_tile_first: u32,
    k_tiles: u32,
}

/// One block's work. `WEIGHTS` and `TOKENS` are the products of a warp along n and m, `K_ROWS`
/// whether B is stored with n contiguous.
///
/// # Safety
/// As the launch's: `params` describes what the maps and pointers point to; grid, cluster and
/// shared memory are `config`'s.
#[inline(always)]
pub(super) unsafe fn decode<
    In: MmaElement,
    Out: Element,
    const WEIGHTS: usize,
    const TOKENS: usize,
    const K_ROWS: bool,
>(
    (map_a, map_b): (*const TensorMap, *const TensorMap),
    d: *mut Out,
    params: &GemmParams,
    config: &DecodeConfig,
    epilogue: &impl Epilogue,
) {
    let batch = thread::block_idx_z();
    let of_batch = |stride| if stride == 0 { 0 } else { batch as i32 };
    let (k_tile_first, k_tile_end) =
        config.k_tiles(params.k, thread::block_idx_y(), thread::grid_dim_y());
    let share = Share {
        map_a,
        map_b,
        batch: [
            of_batch(params.batch_stride_a),
            of_batch(params.batch_stride_b),
        ],
        column: thread::block_idx_x() * config.tile_n,
        k_tile_first,
        k_tiles: k_tile_end - k_tile_first,
    };
    let smem = aligned(dynamic_base());
    let ring = Ring {
        // SAFETY: the launch's dynamic shared memory.
        stages: unsafe { SharedAddr::of(smem) },
        stage_bytes: (config.tile_m + config.tile_n) * config.tile_k * 2,
        count: config.stages,
    };
    let thread_idx = thread::thread_idx_x();
    let is_producer = thread_idx / WARP_THREADS == CONSUMERS;
    if thread_idx == CONSUMERS * WARP_THREADS {
        // SAFETY: the caller's maps; nobody uses the barriers yet.
        unsafe {
            prefetch_tensormap(map_b);
            prefetch_tensormap(map_a);
            init(&ring);
        }
    }
    thread::sync_threads(); // the barriers are there

    let part = WarpPart::new::<WEIGHTS>(config);
    let mut sums = [[[0.0; 4]; TOKENS]; WEIGHTS];
    // SAFETY: whole warps; the caller's operands.
    unsafe {
        if is_producer {
            if thread_idx.is_multiple_of(WARP_THREADS) {
                produce::<K_ROWS>(&ring, &share, config);
            }
            bar_warp_sync(FULL_MASK);
        } else {
            let layout = Swizzled::<K_ROWS>::new(&part, config);
            consume::<In, WEIGHTS, TOKENS, K_ROWS>(
                &ring,
                &layout,
                &mut sums,
                config,
                share.k_tiles,
            );
        }
    }
    thread::sync_threads(); // nobody reads stages any more
    let tile = Tile {
        config,
        params,
        batch: u64::from(batch),
        column: share.column,
        threads: THREADS,
        sums: smem.cast(),
    };
    // SAFETY: sums take the place of the stages; the rest is the caller's.
    unsafe {
        if !is_producer {
            part.store(&sums, tile.sums, config);
        }
        Cluster.finish(&tile, epilogue, d);
    }
}

/// The first multiple of [`BOX_ALIGN`] in shared memory from `base` on.
#[inline(always)]
fn aligned(base: *mut u8) -> *mut u8 {
    // SAFETY: the launch's dynamic shared memory.
    let address = unsafe { SharedAddr::of(base) }.bits();
    base.wrapping_add((address.wrapping_neg() % BOX_ALIGN) as usize)
}

/// Makes the barriers.
///
/// # Safety
/// Their memory is theirs, and nobody uses it yet.
#[inline(always)]
unsafe fn init(ring: &Ring) {
    let mut stage_idx = 0;
    while stage_idx < ring.count {
        // SAFETY: the caller's.
        unsafe {
            ring.landed(stage_idx).init(1);
            ring.free(stage_idx).init(CONSUMERS);
        }
        stage_idx += 1;
    }
    fence_mbarrier_init_release_cluster();
}

/// The producer's work.
///
/// # Safety
/// One thread; the caller's operands.
#[inline(always)]
unsafe fn produce<const K_ROWS: bool>(ring: &Ring, share: &Share, config: &DecodeConfig) {
    // Weights are read once.
    let policy = createpolicy_fractional_l2_evict_first(1.0);
    let box_a_bytes = config.tile_m * SPAN_BYTES;
    let mut place = Place::default();
    let mut k_tile_idx = 0;
    while k_tile_idx < share.k_tiles {
        let (stage, landed) = (ring.stage(place.stage_idx), ring.landed(place.stage_idx));
        let k = ((share.k_tile_first + k_tile_idx) * config.tile_k) as i32;
        let column = share.column as i32;
        // SAFETY: the stage is free after the wait, and the barrier counts all of its bytes.
        unsafe {
            ring.free(place.stage_idx).wait_parity(place.parity ^ 1);
            landed.arrive_expect_tx(ring.stage_bytes);
            let boxes_b = stage.add_bytes(config.swizzled_a_bytes());
            let (boxes, box_b_bytes) = if K_ROWS {
                (config.tile_n / SPAN, config.tile_k * SPAN_BYTES)
            } else {
                (config.tile_k / SPAN, config.tile_n * SPAN_BYTES)
            };
            let mut i = 0;
            while i < boxes {
                let along = (i * SPAN) as i32;
                let at = if K_ROWS {
                    [column + along, k, share.batch[1]]
                } else {
                    [k + along, column, share.batch[1]]
                };
                cp_async_bulk_tensor_3d_shared_cluster_global_l2_cache_hint(
                    boxes_b.add_bytes(i * box_b_bytes),
                    share.map_b,
                    at,
                    landed,
                    policy,
                );
                i += 1;
            }
            let mut i = 0;
            while i < config.tile_k / SPAN {
                cp_async_bulk_tensor_3d_shared_cluster_global(
                    stage.add_bytes(i * box_a_bytes),
                    share.map_a,
                    [k + (i * SPAN) as i32, 0, share.batch[0]],
                    landed,
                );
                i += 1;
            }
        }
        place.advance(ring.count);
        k_tile_idx += 1;
    }
}

/// A consumer warp's work.
///
/// # Safety
/// A whole warp.
#[inline(always)]
unsafe fn consume<In: MmaElement, const WEIGHTS: usize, const TOKENS: usize, const K_ROWS: bool>(
    ring: &Ring,
    layout: &Swizzled<K_ROWS>,
    sums: &mut Sums<WEIGHTS, TOKENS>,
    config: &DecodeConfig,
    k_tiles: u32,
) {
    let lane_idx = thread::thread_idx_x() % WARP_THREADS;
    let mut place = Place::default();
    let mut k_tile_idx = 0;
    while k_tile_idx < k_tiles {
        let stage = ring.stage(place.stage_idx);
        // SAFETY: the stage has landed after the wait, and is not touched after the arrival.
        unsafe {
            ring.landed(place.stage_idx).wait_parity(place.parity);
            let last = multiply::<In, _, WEIGHTS, TOKENS>(sums, stage, layout, config);
            // All lanes have read. Lane 0 gets 0, but only once its last fragments are there: ptxas
            // issues an arrival that needs nothing of them before they have come.
            let none = shfl_idx(FULL_MASK, last, 0) ^ last;
            if lane_idx == 0 {
                Mbarrier::at(ring.free(place.stage_idx).addr().add_bytes(none)).arrive();
            }
        }
        place.advance(ring.count);
        k_tile_idx += 1;
    }
}
