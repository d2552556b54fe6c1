//! `D = A @ Bᵀ` on Hopper's tensor cores, from the parts of `cuda_std`: TMA, mbarriers, `wgmma`.
//!
//! A is `[m, k]` and B `[n, k]` in bf16, D is `[m, n]` in f32; all are row-major. Any m and n, and
//! any k above 0 that is a multiple of 8 (a tensor map wants rows of a multiple of 16 bytes).
//!
//! **Roles.** A CTA computes one tile of D, by three warpgroups:
//!
//! | warpgroup | job |
//! |---|---|
//! | 0, the producer | one thread issues the TMA loads |
//! | 1 and 2, the consumers | multiply 64 rows of the tile each, and store them |
//!
//! **Pipeline.** A ring of [`STAGES`] stages. Each holds a tile of A and one of B, 64 of k deep:
//!
//! | barrier | arrives | count | bytes |
//! |---|---|---|---|
//! | full | the producer thread, before its loads | 1 | both tiles |
//! | empty | one thread of each consumer | 2 | – |
//!
//! **Shared memory**, from the first multiple of 1024 on: A of all stages, B of all stages, barriers.
//!
//! **Timeline.**
//! - Producer: for each k tile: wait empty, announce the bytes, load.
//! - Consumer: for each k tile: wait full, issue its `wgmma`s, wait for those of the k tile before,
//!   release that stage. At the end: wait for all, store.
//!
//! **Numerics.** f32 accumulators, k from first to last: the same bits every run.
//!
//! The library's own kernel (`kernels-gpu/src/gemm/sm90/kernel.rs`) is this one, and persistent CTAs,
//! register reallocation, pingpong consumers, TMA stores, fused epilogues, clusters and stream-K.

use cuda_std::abi::tensor_core::fragment::wgmma_acc;
use cuda_std::accumulator::Accumulator;
use cuda_std::fence::fence_mbarrier_init_release_cluster;
use cuda_std::pipeline::{Pipeline, Readers, Stages};
use cuda_std::prelude::*;
use cuda_std::shared::SharedAddr;
use cuda_std::tile::{KMajor, TileRing};
use cuda_std::tma::{
    TensorMap, TensorMapParam, cp_async_bulk_tensor_2d_shared_cluster_global as tma_load,
};
use cuda_std::wgmma::{Bf16, M64};

/// Rows and columns of a tile of D.
const TILE: u32 = 128;
/// Elements of k in a stage: as many as fill the 128 bytes of a swizzled row.
const TILE_K: u32 = 64;
const STAGES: u32 = 4;
const WARPGROUP: u32 = 128;
/// Rows of a tile that a consumer has: the m of `wgmma`.
const ROWS: u32 = 64;

/// The instruction: 64 × 128 × 16, and the tiles that it reads.
type Mma = M64<128, f32, Bf16, Bf16>;
type Tiles = TileRing<Bf16, KMajor, TILE>;
type Acc = Accumulator<Mma>;
type Ring = Pipeline<Stages<STAGES>>;

const ALIGN: u32 = 1024;
const SMEM_BYTES: u32 = ALIGN + 2 * STAGES * Tiles::TILE_BYTES + Ring::BYTES;

/// The parts of shared memory.
#[derive(Clone, Copy)]
struct Shared {
    a: Tiles,
    b: Tiles,
    pipeline: Ring,
}

/// D = A @ Bᵀ.
///
/// # Safety
/// 384 threads a CTA, and a CTA for each tile: a grid of `[n / 128, m / 128]`, rounded up. `a` and `b`
/// are maps of A and B whose boxes are `[64, 128]` with a swizzle of 128 bytes; `d` points to m × n
/// elements; k > 0.
#[kernel(arch = "sm_90a", max_threads = 384, min_blocks = 1, dynamic_shared = SMEM_BYTES)]
pub unsafe fn hopper_gemm(
    a: TensorMapParam,
    b: TensorMapParam,
    d: *mut f32,
    m: u32,
    n: u32,
    k: u32,
) {
    let (row, column) = (thread::block_idx_y() * TILE, thread::block_idx_x() * TILE);
    let k_tiles = k.div_ceil(TILE_K);
    // SAFETY: the launch gives SMEM_BYTES; no thread passes the barrier before the mbarriers are
    // made; each role is whole warpgroups, which go through the same k tiles.
    unsafe {
        let shared = shared();
        if thread::thread_idx_x() == 0 {
            shared.pipeline.init(2);
            fence_mbarrier_init_release_cluster();
        }
        thread::sync_threads();
        match thread::thread_idx_x() / WARPGROUP {
            0 => {
                if thread::thread_idx_x() == 0 {
                    produce(shared, [a.as_ptr(), b.as_ptr()], [row, column], k_tiles);
                }
            }
            warpgroup => {
                let row_of_tile = (warpgroup - 1) * ROWS;
                let acc = multiply(shared, row_of_tile, k_tiles);
                store(&acc, d, [row + row_of_tile, column], [m, n]);
            }
        }
    }
}

/// Divides the CTA's dynamic shared memory.
///
/// # Safety
/// There are [`SMEM_BYTES`] of it.
#[inline(always)]
unsafe fn shared() -> Shared {
    // SAFETY: passed on to the caller; the parts do not overlap.
    unsafe {
        let a = SharedAddr::of(dynamic_shared![u8]).aligned_to(ALIGN);
        let b = a.add_bytes(STAGES * Tiles::TILE_BYTES);
        let barriers = b.add_bytes(STAGES * Tiles::TILE_BYTES);
        Shared {
            a: Tiles::at(a),
            b: Tiles::at(b),
            pipeline: Ring::at(barriers),
        }
    }
}

/// Loads the operands of every k tile. Elements beyond the tensors come as 0.
///
/// # Safety
/// One thread calls it, after the pipeline was made.
#[inline(always)]
unsafe fn produce(
    shared: Shared,
    [a, b]: [*const TensorMap; 2],
    [row, column]: [u32; 2],
    k_tiles: u32,
) {
    let mut producer = shared.pipeline.producer();
    let mut k_tile = 0;
    while k_tile < k_tiles {
        // SAFETY: the slot is empty, and the two loads bring the bytes that it is told of.
        unsafe {
            let slot = producer.acquire(2 * Tiles::TILE_BYTES);
            let k = (k_tile * TILE_K) as i32;
            let (to_a, to_b) = (shared.a.destination(&slot), shared.b.destination(&slot));
            tma_load(to_a, a, [k, row as i32], slot.barrier());
            tma_load(to_b, b, [k, column as i32], slot.barrier());
        }
        k_tile += 1;
    }
}

/// Multiplies 64 rows of A's tile by B's, over all of k.
///
/// # Safety
/// A whole warpgroup calls it, converged; `k_tiles` > 0.
#[inline(always)]
unsafe fn multiply(shared: Shared, row_of_tile: u32, k_tiles: u32) -> Acc {
    let Shared { a, b, pipeline } = shared;
    let mut consumer = pipeline.consumer();
    // SAFETY: a stage is read after its loads have landed, and is released when the instructions
    // that read it are complete.
    unsafe {
        let mut stage = consumer.wait(); // A, B of the first k tile landed
        let mut acc = Acc::unset().begin();
        // The first product overwrites the accumulators, so that nobody has to zero them.
        acc.multiply(a.operand(&stage, row_of_tile), b.operand(&stage, 0));
        let mut k_tile = 1;
        while k_tile < k_tiles {
            let next = consumer.wait(); // A, B of k_tile landed
            acc.multiply_add(a.operand(&next, row_of_tile), b.operand(&next, 0));
            acc.wait::<1>(); // all but the instructions just issued: `stage` is read
            stage.release(Readers::OneBlock);
            stage = next;
            k_tile += 1;
        }
        let acc = acc.finish(); // only now can its registers be read
        stage.release(Readers::OneBlock);
        acc
    }
}

/// Stores a warpgroup's 64 rows, from `row` and `column` on, as far as D goes.
///
/// # Safety
/// `d` points to m × n elements.
#[inline(always)]
unsafe fn store(acc: &Acc, d: *mut f32, [row, column]: [u32; 2], [m, n]: [u32; 2]) {
    let thread = thread::thread_idx_x() % WARPGROUP;
    let [registers] = acc.registers();
    let mut i = 0;
    while i < registers.len() {
        let place = wgmma_acc(thread, i as u32);
        let (row, column) = (row + place.row, column + place.column);
        if row < m && column < n {
            // SAFETY: an element of D, and of this thread alone.
            unsafe { *d.add(row as usize * n as usize + column as usize) = registers[i] };
        }
        i += 1;
    }
}
