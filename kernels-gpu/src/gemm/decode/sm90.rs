//! Products with at most 64 rows on Hopper: tensor copies by a warp of their own, wgmma, and clusters
//! that share k, or the tokens they read. See [`spec::gemm::decode::sm90`].
//!
//! # Roles
//! | warps | job |
//! |---|---|
//! | each four but the last one | multiply 64 weights (columns of B), the rows of a wgmma, with all tokens (rows of A), its columns |
//! | the last one | one lane copies A and B into the stages |
//!
//! The tile is as wide as the launch says, so that the blocks of any n can be one wave: the last
//! warpgroup's weights end with the tile, and those that the one before it has too are computed
//! twice, and stored once.
//!
//! # Pipelines
//! | barrier | arrivals | bytes | says |
//! |---|---|---|---|
//! | `landed` of a stage | 1: the block's producer | the stage's, of all sharers | A and B of a k tile are there |
//! | `free` of a stage | a thread of each warpgroup of each sharer | 0 | nobody reads the stage any more |
//!
//! # Cluster
//! x: blocks that share tokens; each copies a part of A's rows, to all of them. y: blocks that share
//! k, and add up.
//!
//! # Shared memory, from a multiple of 1024
//! | from | what | lives |
//! |---|---|---|
//! | 0 | stages: boxes of B, then of A, rows of 128 bytes, swizzled | main loop |
//! | 0 | sums, f32 `[tile_m][tile_n + 4]` | after it |
//! | after both | barriers, 16 bytes a stage | to the end |
//!
//! # Timeline
//! All: barriers, and wait for the launch before this one; the producer brings weights into L2
//! meanwhile. Producer: for each k tile: wait until the
//! stage is free, expect its bytes, copy. Consumers: for each k tile: wait until it has landed, issue
//! its products, wait for those of the tile before, free that one's stage. Then all: sums to shared
//! memory, those of the blocks through the cluster, epilogue. A producer whose copies are shared first
//! waits until all of them have been read.
//!
//! # Numerics
//! Tensor cores in f32 along each block's k, then sums of blocks in order: the bits depend on `splits`
//! only. Copies give zeros beyond the operands.
//!
//! # Before you change this
//! As for the portable kernel: [`super`].

mod copy;

use cuda_std::cluster;
use cuda_std::element::Element;
use cuda_std::fence::fence_mbarrier_init_release_cluster;
use cuda_std::grid::{griddepcontrol_launch_dependents, griddepcontrol_wait};
use cuda_std::shared::{SharedAddr, dynamic_base};
use cuda_std::thread::{self, WARP_THREADS};
use cuda_std::tile::{KMajor, OperandMajor};
use cuda_std::tma::{TensorMap, prefetch_tensormap};
use cuda_std::warp::{FULL_MASK, bar_warp_sync};
use cuda_std::wgmma::{
    MmaAsync, Registers, tie, wgmma_commit_group, wgmma_fence, wgmma_wait_group,
};
use spec::gemm::GemmParams;
use spec::gemm::decode::partial_pitch;
use spec::gemm::decode::sm90::{
    BOX_ALIGN, DecodeLaunch, MMA_WEIGHTS, SPAN_BYTES, TILE_K, WARPGROUP, barriers_at, k_tiles,
    stage_bytes,
};
use spec::tensor_core::descriptor::Descriptor;

use super::combine::{Cluster, Combine, Tile};
use super::ring::{Place, Ring};
use crate::gemm::fused::Fused;

/// Bytes of k of one wgmma.
const STEP_BYTES: u32 = 32;
/// Tokens of a thread's four registers, and weights of a warp.
const TOKENS: u32 = 8;
const WARP_WEIGHTS: u32 = 16;

/// What a block works on.
#[derive(Clone, Copy)]
struct Block {
    map_a: *const TensorMap,
    map_b: *const TensorMap,
    ring: Ring,
    tile_n: u32,
    /// Its first weight.
    column: u32,
    /// Products of A and of B.
    batch: [i32; 2],
    k_tile_first: u32,
    k_tile_end: u32,
    /// Blocks that share tokens, this one's place among them, and the rank of the first.
    sharers: u32,
    place: u32,
    first_rank: u32,
}

/// One block's work on `TILE_M` rows of A, by the instruction `M`; B lies as `W` says.
///
/// # Safety
/// As the launch's: `params` describes what the maps and pointers point to; grid, cluster and
/// shared memory are those of a valid tiling. `epilogue` is called once, by all threads, and nothing
/// reads or writes global memory before.
#[inline(always)]
pub(super) unsafe fn decode<M, W, Out, const TILE_M: u32>(
    maps: [*const TensorMap; 2],
    d: *mut Out,
    params: &GemmParams,
    launch: DecodeLaunch,
    epilogue: impl FnOnce() -> Fused<Out>,
) where
    M: MmaAsync<Acc: AsRef<[f32]>>,
    W: OperandMajor,
    Out: Element,
{
    let smem = aligned(dynamic_base());
    // SAFETY: the launch's dynamic shared memory.
    let base = unsafe { SharedAddr::of(smem) };
    let block = Block::new::<TILE_M>(maps, params, launch, base);
    let thread_idx = thread::thread_idx_x();
    let threads = thread::block_dim_x();
    let producer = threads - WARP_THREADS;
    let mut acc = M::Acc::zero();
    // SAFETY: all threads of the cluster come here; whole warps and warpgroups have one role.
    unsafe {
        block.prepare(thread_idx == producer, producer / WARPGROUP);
        if thread_idx == producer {
            block.prefetch::<W>();
        }
        griddepcontrol_launch_dependents();
        griddepcontrol_wait(); // what the launches before wrote is there
        if thread_idx >= producer {
            if thread_idx == producer {
                block.produce::<W, TILE_M>();
            }
            bar_warp_sync(FULL_MASK);
        } else {
            block.consume::<M, W>(&mut acc);
        }
    }
    thread::sync_threads(); // nobody reads this block's stages any more
    let tile = Tile {
        params,
        batch: u64::from(thread::block_idx_z()),
        rows: params.m.min(TILE_M),
        columns: block.tile_n,
        column: block.column,
        parts: 1,
        part_rows: TILE_M,
        threads,
        sums: smem.cast(),
    };
    let combine = Cluster {
        first_rank: block.place,
        ranks_apart: block.sharers,
    };
    // SAFETY: sums take the place of the stages; the rest is the caller's.
    unsafe {
        if thread_idx < producer {
            store(acc.as_ref(), &tile, block.warpgroup_weight());
        }
        combine.finish(&tile, &epilogue(), d);
    }
}

/// The first multiple of [`BOX_ALIGN`] in shared memory from `base` on.
#[inline(always)]
fn aligned(base: *mut u8) -> *mut u8 {
    // SAFETY: the launch's dynamic shared memory.
    let address = unsafe { SharedAddr::of(base) }.bits();
    base.wrapping_add((address.wrapping_neg() % BOX_ALIGN) as usize)
}

impl Block {
    #[inline(always)]
    fn new<const TILE_M: u32>(
        [map_a, map_b]: [*const TensorMap; 2],
        params: &GemmParams,
        launch: DecodeLaunch,
        base: SharedAddr,
    ) -> Self {
        let (split_idx, splits) = (thread::block_idx_y(), thread::grid_dim_y());
        let (k_tile_first, k_tile_end) = k_tiles(params.k, split_idx, splits);
        let batch = thread::block_idx_z() as i32;
        let of_batch = |stride| if stride == 0 { 0 } else { batch };
        let sharers = cluster::cluster_nctaid_x();
        let DecodeLaunch { tile_n, stages } = launch;
        Self {
            map_a,
            map_b,
            ring: Ring {
                stages: base,
                stage_bytes: stage_bytes(TILE_M, tile_n),
                count: stages,
                barriers: base.add_bytes(barriers_at(TILE_M, tile_n, stages)),
            },
            tile_n,
            column: thread::block_idx_x() * tile_n,
            batch: [
                of_batch(params.batch_stride_a),
                of_batch(params.batch_stride_b),
            ],
            k_tile_first,
            k_tile_end,
            sharers,
            place: cluster::cluster_ctaid_x(),
            first_rank: split_idx * sharers,
        }
    }

    /// Makes the barriers, for all who arrive at them to see.
    ///
    /// # Safety
    /// All threads of the cluster call it, once; one of each block does the work.
    #[inline(always)]
    unsafe fn prepare(&self, does_it: bool, warpgroups: u32) {
        // SAFETY: nobody uses the barriers before the threads have met.
        unsafe {
            if does_it {
                prefetch_tensormap(self.map_b);
                prefetch_tensormap(self.map_a);
                let mut stage_idx = 0;
                while stage_idx < self.ring.count {
                    self.ring.landed(stage_idx).init(1);
                    self.ring.free(stage_idx).init(warpgroups * self.sharers);
                    stage_idx += 1;
                }
                fence_mbarrier_init_release_cluster();
            }
            if self.sharers > 1 {
                cluster::barrier_cluster_arrive_release();
                cluster::barrier_cluster_wait_acquire(); // all blocks' barriers are there
            } else {
                thread::sync_threads(); // the barriers are there
            }
        }
    }

    /// The first weight of the thread's warpgroup.
    #[inline(always)]
    fn warpgroup_weight(&self) -> u32 {
        (thread::thread_idx_x() / WARPGROUP * MMA_WEIGHTS).min(self.tile_n - MMA_WEIGHTS)
    }

    /// A consumer warpgroup's work.
    ///
    /// # Safety
    /// A whole warpgroup.
    #[inline(always)]
    unsafe fn consume<M: MmaAsync, W: OperandMajor>(&self, acc: &mut M::Acc) {
        // With either extent contiguous, 64 weights are as many bytes: 64 rows, or a box.
        let weights = self.warpgroup_weight() * SPAN_BYTES;
        let tokens = self.tile_n * SPAN_BYTES;
        let mut place = Place::default();
        let mut before = place.stage_idx;
        let mut k_tile = self.k_tile_first;
        tie(acc);
        while k_tile < self.k_tile_end {
            let stage = self.ring.stage(place.stage_idx);
            // SAFETY: the stage has landed after the wait, and is freed after its products.
            unsafe {
                self.ring.landed(place.stage_idx).wait_parity(place.parity);
                let [weights, tokens] = [weights, tokens].map(|at| stage.add_bytes(at));
                multiply_add::<M, W>(acc, weights, tokens);
                wgmma_wait_group::<1>(acc); // the products of the tile before
                if k_tile > self.k_tile_first {
                    self.free(before);
                }
            }
            before = place.stage_idx;
            place.advance(self.ring.count);
            k_tile += 1;
        }
        // SAFETY: a whole warpgroup, whose last stage is `before`, where it had any.
        unsafe {
            wgmma_wait_group::<0>(acc);
            if k_tile > self.k_tile_first {
                self.free(before);
            }
        }
    }

    /// Says to all that copy into a stage that the warpgroup has read it.
    ///
    /// # Safety
    /// A whole warpgroup, whose products of the stage are complete.
    #[inline(always)]
    unsafe fn free(&self, stage_idx: u32) {
        let thread_idx = thread::thread_idx_x() % WARPGROUP;
        let free = self.ring.free(stage_idx);
        // SAFETY: the caller's; the blocks of a cluster end together.
        unsafe {
            if self.sharers == 1 {
                if thread_idx == 0 {
                    free.arrive();
                }
            } else if thread_idx < self.sharers {
                free.of_rank(self.first_rank + thread_idx).arrive();
            }
        }
    }
}

/// Issues the products of a k tile, as a group.
///
/// # Safety
/// A whole warpgroup; the tile has landed.
#[inline(always)]
unsafe fn multiply_add<M: MmaAsync, W: OperandMajor>(
    acc: &mut M::Acc,
    weights: SharedAddr,
    tokens: SharedAddr,
) {
    let (layout_w, layout_t) = (W::layout(TILE_K), KMajor::layout(TILE_K));
    let weights = Descriptor::new(weights.bits(), layout_w);
    let tokens = Descriptor::new(tokens.bits(), layout_t);
    // SAFETY: passed on to the caller.
    unsafe {
        wgmma_fence();
        let mut step = 0;
        while step < SPAN_BYTES / STEP_BYTES {
            let w = weights.advanced(step * layout_w.k_step_bytes(2));
            let t = tokens.advanced(step * layout_t.k_step_bytes(2));
            W::multiply::<M, KMajor, true>(acc, w, t);
            step += 1;
        }
        wgmma_commit_group();
    }
}

/// Stores the sums of a warpgroup whose first weight is `weight`, but for those that the warpgroup
/// before it stores.
///
/// # Safety
/// `tile.sums` is free.
#[inline(always)]
unsafe fn store(acc: &[f32], tile: &Tile<'_>, weight: u32) {
    let thread_idx = thread::thread_idx_x();
    let (warp_idx, lane_idx) = (
        thread_idx % WARPGROUP / WARP_THREADS,
        thread_idx % WARP_THREADS,
    );
    let own = thread_idx / WARPGROUP * MMA_WEIGHTS;
    let first = weight + warp_idx * WARP_WEIGHTS + lane_idx / 4;
    let token = lane_idx % 4 * 2;
    let pitch = partial_pitch(tile.columns);
    for i in 0..acc.len() {
        // Registers 0 and 1 are of neighbouring tokens, 2 and 3 of the weight 8 further on.
        let column = first + i as u32 / 2 % 2 * 8;
        let row = token + i as u32 / 4 * TOKENS + i as u32 % 2;
        if column >= own {
            let place = tile.sums.wrapping_add((row * pitch + column) as usize);
            // SAFETY: inside of the sums; this thread's alone.
            unsafe { place.write(acc[i]) };
        }
    }
}
