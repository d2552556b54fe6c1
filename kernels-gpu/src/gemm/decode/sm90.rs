//! GEMM with few rows on Hopper: a producer warp issues TMA loads, consumer warpgroups issue
//! `wgmma`, and clusters split k or share the loads of tokens. See [`abi::gemm::decode::sm90`].
//!
//! `D[m, n] = epilogue(A[m, k] @ op(B)[k, n])`, batched; f16, bf16, e4m3 or i8; D, C, bias and
//! residual also in f32, as the launch says. The rows of A are called tokens, the columns of B
//! weights.
//!
//! # Roles
//! | warps | job |
//! |---|---|
//! | all but the last, by four: consumer warpgroups | `wgmma`: 64 weights are its rows, all tokens its columns |
//! | the last one: the producer | one lane issues the TMA loads of A and B |
//!
//! The tile is as wide as the launch says, so that for any n the blocks can be one wave. The last
//! warpgroup's 64 weights end with the tile. Those that it has in common with the warpgroup before
//! it are computed twice and stored once.
//!
//! # Pipelines
//! | barrier | arrivals | bytes | says |
//! |---|---|---|---|
//! | `landed` of a stage | 1: the block's producer | the stage's, also those that sharers multicast | A and B of a k tile have landed |
//! | `free` of a stage | a thread of each warpgroup of each sharer | 0 | nobody reads the stage any more |
//!
//! # Cluster
//! Along x: the *sharers*, blocks that need the same tokens; each loads a part of A's rows and
//! multicasts it to all of them. Along y: the blocks that split k, whose sums are added.
//!
//! # Shared memory, from a multiple of 1024
//! | offset | what | lifetime |
//! |---|---|---|
//! | 0 | stages: boxes of B, then of A, rows of 128 bytes, swizzled | mainloop |
//! | 0 | partial sums, f32 `[tile_m][tile_n + 4]` | after it |
//! | after both | barriers, 16 bytes a stage | to the end |
//!
//! # Timeline
//! - All: initialise the barriers; let the next launch begin; work out what to do at the end, where
//!   each instruction counts; wait for the writes of the preceding launches. The producer prefetches
//!   weights into L2 before it waits.
//! - Producer: for each k tile: wait until the stage is free, announce its bytes, load. If loads
//!   are shared, it waits at the end until all that it loaded has been read.
//! - Consumers: for each k tile: wait until it has landed, issue its `wgmma`s, wait for those of
//!   the k tile before, free that one's stage.
//! - All, at the end: sums to shared memory, add those of the cluster's blocks, epilogue, stores.
//!
//! # Numerics
//! Tensor cores in f32 over each block's k, then the sums of blocks in order: the bits depend on
//! `splits` only. Products of e4m3 are added up in the tensor cores for a k tile, and outside of
//! them from tile to tile. Sums of i8 are exact. TMA fills with zeros outside the operands.
//!
//! # Before you change this
//! As for the portable kernel: [`super`].

mod copy;
mod exchange;

use core::marker::PhantomData;

use abi::gemm::GemmParams;
use abi::gemm::decode::partial_pitch;
use abi::gemm::decode::sm90::{
    BOX_ALIGN, DecodeLaunch, MMA_WEIGHTS, SPAN_BYTES, WARPGROUP, barriers_at, share, stage_bytes,
};
use abi::gemm::raster::divided;
use abi::tensor_core::descriptor::Descriptor;
use cuda_std::cluster;
use cuda_std::fence::fence_mbarrier_init_release_cluster;
use cuda_std::grid::{griddepcontrol_launch_dependents, griddepcontrol_wait};
use cuda_std::shared::{SharedAddr, dynamic_base};
use cuda_std::thread::{self, WARP_THREADS};
use cuda_std::tile::{KMajor, OperandElement, OperandMajor};
use cuda_std::tma::{TensorMap, prefetch_tensormap};
use cuda_std::warp::{FULL_MASK, bar_warp_sync};
use cuda_std::wgmma::{
    MmaAsync, Registers, tie, wgmma_commit_group, wgmma_fence, wgmma_wait_group,
};

use super::combine::{Combine, Sums, Tile};
use super::ring::{Ring, RingState};
use crate::gemm::fused::Unread;
use crate::gemm::stored::Half;
use exchange::Cluster;

/// Bytes of k of one `wgmma`.
const STEP_BYTES: u32 = 32;
/// Tokens (columns) that four accumulators of a thread belong to, and weights (rows) of a warp.
const TOKENS: u32 = 8;
const WARP_WEIGHTS: u32 = 16;

/// What one block works on.
#[derive(Clone, Copy)]
struct Block {
    map_a: *const TensorMap,
    map_b: *const TensorMap,
    ring: Ring,
    tile_n: u32,
    /// Elements of k in a stage.
    tile_k: u32,
    /// The block's first token and its first weight.
    row: u32,
    column: u32,
    /// Index in the batch of A and of B; 0 for an operand that is broadcast.
    batch: [i32; 2],
    k_tile_first: u32,
    k_tile_end: u32,
    /// Number of sharers, this block's index among them, and the rank in the cluster of the first.
    sharers: u32,
    cta_rank: u32,
    first_rank: u32,
}

/// One block's work on `TILE_M` rows of A, by the instruction `M`; B's major order is `W`. D
/// is of `T`, or of f32, unless `S` are sums of integers. With `PROMOTES`, products of each k tile
/// are added to sums outside of the tensor cores.
///
/// # Safety
/// As the launch's: `params` describes what the maps and pointers point to; grid, cluster and
/// shared memory are those of a valid tiling.
#[inline(always)]
pub(super) unsafe fn decode<M, W, S, T, const TILE_M: u32, const PROMOTES: bool>(
    maps: [*const TensorMap; 2],
    d: *mut u8,
    params: &GemmParams,
    launch: DecodeLaunch,
    epilogue: Unread<'_>,
) where
    M: MmaAsync<Acc: AsRef<[f32]> + AsMut<[f32]>>,
    W: OperandMajor,
    S: Sums,
    T: Half,
{
    let smem = aligned(dynamic_base());
    // SAFETY: the launch's dynamic shared memory.
    let base = unsafe { SharedAddr::of(smem) };
    let (block, batch) = Block::new::<M, TILE_M>(maps, params, launch, base);
    let thread_idx = thread::thread_idx_x();
    let threads = thread::block_dim_x();
    let producer = threads - WARP_THREADS;
    let tile = Tile {
        params,
        batch,
        row: block.row,
        rows: (params.m - block.row).min(TILE_M),
        columns: block.tile_n,
        column: block.column,
        splits: 1,
        split_rows: TILE_M,
        threads,
        sums: smem.cast(),
    };
    let combine = Cluster {
        first_rank: block.cta_rank,
        ranks_apart: block.sharers,
        sums: PhantomData::<S>,
    };
    let mut acc = M::Acc::zero();
    // SAFETY: all threads of the cluster come here; whole warps and warpgroups have one role. The
    // sums take the place of the stages. The rest is the caller's promise.
    unsafe {
        block.prepare(thread_idx == producer, producer / WARPGROUP);
        if thread_idx == producer {
            block.prefetch::<W>();
        }
        griddepcontrol_launch_dependents();
        let d = (d, S::stored::<T>(epilogue.epilogue));
        let job = tile.job(combine.block(), d, &epilogue).known();
        griddepcontrol_wait(); // wait until the preceding launches' writes are visible
        if thread_idx >= producer {
            if thread_idx == producer {
                block.produce::<W, TILE_M>();
            }
            bar_warp_sync(FULL_MASK);
        } else {
            block.consume::<M, W, PROMOTES>(&mut acc);
        }
        thread::sync_threads(); // nobody reads this block's stages any more
        if thread_idx < producer {
            store(acc.as_ref(), &tile, block.warpgroup_weight());
        }
        combine.finish(&tile, job, &epilogue);
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
    /// The block's work, and the index of its matrix in the batch.
    #[inline(always)]
    fn new<M: MmaAsync, const TILE_M: u32>(
        [map_a, map_b]: [*const TensorMap; 2],
        params: &GemmParams,
        launch: DecodeLaunch,
        base: SharedAddr,
    ) -> (Self, u64) {
        let tile_k = <M::A as OperandElement>::TILE_K;
        let (split_idx, splits) = (thread::block_idx_y(), thread::grid_dim_y());
        let (k_tile_first, k_tile_end) = share(params.k.div_ceil(tile_k), split_idx, splits);
        let (batch, row_tile) = divided(thread::block_idx_z(), params.m.div_ceil(TILE_M));
        let of_batch = |stride| if stride == 0 { 0 } else { batch as i32 };
        let sharers = cluster::cluster_nctaid_x();
        let DecodeLaunch { tile_n, stages } = launch;
        let block = Self {
            map_a,
            map_b,
            ring: Ring {
                stages: base,
                stage_bytes: stage_bytes(TILE_M, tile_n),
                count: stages,
                barriers: base.add_bytes(barriers_at(TILE_M, tile_n, stages)),
            },
            tile_n,
            tile_k,
            row: row_tile * TILE_M,
            column: thread::block_idx_x() * tile_n,
            batch: [
                of_batch(params.batch_stride_a),
                of_batch(params.batch_stride_b),
            ],
            k_tile_first,
            k_tile_end,
            sharers,
            cta_rank: cluster::cluster_ctaid_x(),
            first_rank: split_idx * sharers,
        };
        (block, u64::from(batch))
    }

    /// Initialises the barriers and makes them visible to all who arrive at them.
    ///
    /// # Safety
    /// All threads of the cluster call it, once; `does_it` is true for one of each block, which
    /// does the work.
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
                cluster::barrier_cluster_wait_acquire(); // all blocks' barriers are initialised
            } else {
                thread::sync_threads(); // the barriers are initialised
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
    unsafe fn consume<M, W, const PROMOTES: bool>(&self, acc: &mut M::Acc)
    where
        M: MmaAsync<Acc: AsRef<[f32]> + AsMut<[f32]>>,
        W: OperandMajor,
    {
        // In either major order, 64 weights take as many bytes: 64 rows, or one box.
        let weights = self.warpgroup_weight() * SPAN_BYTES;
        let tokens = self.tile_n * SPAN_BYTES;
        let mut state = RingState::default();
        let mut before = state.stage_idx;
        let mut k_tile = self.k_tile_first;
        tie(acc);
        while k_tile < self.k_tile_end {
            let stage = self.ring.stage(state.stage_idx);
            // SAFETY: the stage has landed after the wait, and is freed after its `wgmma`s.
            unsafe {
                self.ring.landed(state.stage_idx).wait_parity(state.parity);
                let [weights, tokens] = [weights, tokens].map(|at| stage.add_bytes(at));
                if PROMOTES {
                    let mut products = M::Acc::zero();
                    tie(&mut products);
                    multiply_add::<M, W>(&mut products, weights, tokens);
                    wgmma_wait_group::<0>(&mut products);
                    self.free(state.stage_idx);
                    let (sums, products) = (acc.as_mut(), products.as_ref());
                    for i in 0..sums.len() {
                        sums[i] += products[i];
                    }
                } else {
                    multiply_add::<M, W>(acc, weights, tokens);
                    wgmma_wait_group::<1>(acc); // the `wgmma`s of the k tile before are complete
                    if k_tile > self.k_tile_first {
                        self.free(before);
                    }
                }
            }
            before = state.stage_idx;
            state.advance(self.ring.count);
            k_tile += 1;
        }
        if PROMOTES {
            return;
        }
        // SAFETY: a whole warpgroup, whose last stage is `before`, if it had any.
        unsafe {
            wgmma_wait_group::<0>(acc);
            if k_tile > self.k_tile_first {
                self.free(before);
            }
        }
    }

    /// Tells all producers that load into a stage that this warpgroup has read it.
    ///
    /// # Safety
    /// A whole warpgroup, whose `wgmma`s of the stage are complete.
    #[inline(always)]
    unsafe fn free(&self, stage_idx: u32) {
        let thread_idx = thread::thread_idx_x() % WARPGROUP;
        let free = self.ring.free(stage_idx);
        // SAFETY: the caller's promise; the sharers' barriers exist until the cluster's blocks end
        // together.
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

/// Issues the `wgmma`s of a k tile as one commit group.
///
/// # Safety
/// A whole warpgroup; the tile has landed.
#[inline(always)]
unsafe fn multiply_add<M: MmaAsync, W: OperandMajor>(
    acc: &mut M::Acc,
    weights: SharedAddr,
    tokens: SharedAddr,
) {
    let tile_k = <M::A as OperandElement>::TILE_K;
    let size_bytes = <M::A as OperandElement>::SIZE_BYTES;
    let (layout_w, layout_t) = (W::layout(tile_k), KMajor::layout(tile_k));
    let weights = Descriptor::new(weights.bits(), layout_w);
    let tokens = Descriptor::new(tokens.bits(), layout_t);
    // SAFETY: passed on to the caller.
    unsafe {
        wgmma_fence();
        let mut step = 0;
        while step < SPAN_BYTES / STEP_BYTES {
            let w = weights.advanced(step * layout_w.k_step_bytes(size_bytes));
            let t = tokens.advanced(step * layout_t.k_step_bytes(size_bytes));
            W::multiply::<M, KMajor, true>(acc, w, t);
            step += 1;
        }
        wgmma_commit_group();
    }
}

/// Stores the sums of a warpgroup whose first weight is `weight`, except those that the warpgroup
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
    let pitch = partial_pitch(tile.columns);
    let token = lane_idx % 4 * 2;
    // Registers 0 and 1 are neighbouring tokens; 2 and 3 are those of the weight 8 further on.
    for half in 0..2 {
        let column = first + half as u32 * 8;
        let mut to = tile.sums.wrapping_add((token * pitch + column) as usize);
        if column >= own {
            for group in 0..acc.len() / 4 {
                let i = 4 * group + 2 * half;
                // SAFETY: inside the sums; this thread's alone.
                unsafe {
                    to.write(acc[i]);
                    to.wrapping_add(pitch as usize).write(acc[i + 1]);
                }
                to = to.wrapping_add((TOKENS * pitch) as usize);
            }
        }
    }
}
