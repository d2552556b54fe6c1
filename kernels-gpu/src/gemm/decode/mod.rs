//! GEMM with at most 64 rows (128 on Hopper), bound by the memory bandwidth at which B is read: see
//! [`abi::gemm::decode`]. This one is for sm_80 and newer; `sm90.rs` is Hopper's.
//!
//! `D[m, n] = epilogue(A[m, k] @ op(B)[k, n])`, batched; f16 or bf16; D, C, bias and residual
//! also in f32, as the launch says. The rows of A are called tokens, the columns of B weights.
//!
//! # Roles
//! 256 threads, all alike. Each copies its chunks of a later stage and computes its warp's part of
//! the oldest stage, which has landed. The operands are swapped: weights are the 16 rows of an
//! `mma`, tokens its 8 columns. Warps split a stage along n first, then along k. Blocks split k
//! (`grid.y`).
//!
//! # Pipeline
//! `stages - 1` stages are in flight. Each thread's copies of a stage are one `cp.async` group. A
//! wait for the oldest group and then a barrier make the stage visible to all; the same barrier
//! frees the stage before it.
//!
//! # Shared memory
//! | offset | what | lifetime |
//! |---|---|---|
//! | 0 | stages: A `[tile_m][tile_k]`, then B as stored, rows padded by 16 bytes | mainloop |
//! | 0 | partial sums of the warps, f32 `[warps_k][tile_m][tile_n + 4]` | after it |
//!
//! # Timeline
//! For each k tile: wait, barrier, start the copies `stages - 1` ahead, `ldmatrix` and `mma`. Then
//! the sums of the warps are added through shared memory, those of the blocks through global memory
//! by the block that is last, which applies the epilogue and stores.
//!
//! # Numerics
//! Tensor cores in f32 over each warp's k; then the sums of warps in order, then those of blocks in
//! order. The bits depend on config and `splits` only. Beyond k, zeros are multiplied; what lies
//! outside m, n and k reaches no result. Of rows that begin anywhere, whole vectors are read.
//!
//! # Before you change this
//! The emulator's tests in `tests/tests/gemm_kernels/` count bank conflicts and bytes.
//! docs/decisions/0010 and 0011 list trials.

mod combine;
mod element;
mod entries;
mod product;
mod ring;
mod sm90;
mod stage;
mod tickets;

use abi::gemm::decode::{DECODE_THREADS, DecodeConfig};
use abi::gemm::{GemmParams, Transpose};
use cuda_std::cp_async::{cp_async_commit_group, cp_async_wait_all, cp_async_wait_group};
use cuda_std::shared::{SharedAddr, dynamic_base};
use cuda_std::thread;

use crate::gemm::fused::Unread;
use crate::gemm::stored::Stored;
use combine::{Combine, Tile};
use element::MmaElement;
use product::{Padded, Shifted, WarpTile, multiply};
use stage::{Shape, Source, shift};

pub use entries::*;

/// One block's work. A warp computes `WEIGHTS` × 16 columns of B by `TOKENS` × 8 rows of A. `AHEAD`
/// is `stages - 1`. `K_ROWS` means that B is stored with n contiguous, so that its rows are those
/// of k. `ANYWHERE` means that rows begin at any element.
///
/// # Safety
/// As the launch's: `params` describes what the pointers point to; grid and shared memory are
/// `config`'s.
#[inline(always)]
unsafe fn decode<
    In: MmaElement,
    const WEIGHTS: usize,
    const TOKENS: usize,
    const AHEAD: u32,
    const K_ROWS: bool,
    const ANYWHERE: bool,
>(
    (a, b): (*const In, *const In),
    d: *mut u8,
    params: &GemmParams,
    config: &DecodeConfig,
    epilogue: Unread<'_>,
    combine: impl Combine,
) {
    let trans_b = if K_ROWS { Transpose::N } else { Transpose::T };
    let pitch_b_bytes = config.pitch_b_bytes(trans_b);
    let column = thread::block_idx_x() * config.tile_n;
    let batch = u64::from(thread::block_idx_z());
    let (k_tile_first, k_tile_end) =
        config.k_tiles(params.k, thread::block_idx_y(), thread::grid_dim_y());
    let k_tiles = k_tile_end - k_tile_first;
    let k = k_tile_first * config.tile_k;

    let (mut source_a, mut source_b) =
        sources::<In, K_ROWS, ANYWHERE>((a, b), params, config, (batch, column, k));
    let smem = dynamic_base();
    // SAFETY: the launch's dynamic shared memory.
    let stages = unsafe { SharedAddr::of(smem) };
    let stage_bytes = config.stage_bytes(trans_b);
    let mut copy = |stage: SharedAddr| {
        // SAFETY: the caller's operands; all readers of the stage have passed a barrier since.
        unsafe {
            source_b.copy(stage.add_bytes(config.padded_a_bytes()));
            source_a.copy(stage);
        }
    };

    let mut ahead = 0;
    while ahead < AHEAD {
        if ahead < k_tiles {
            copy(stages.add_bytes(ahead * stage_bytes));
        }
        cp_async_commit_group();
        ahead += 1;
    }

    let warp_tile = WarpTile::new::<WEIGHTS>(config);
    let padded = Padded::<K_ROWS>::new(&warp_tile, config, pitch_b_bytes);
    let shifted = Shifted::new(&warp_tile, config, |row| {
        let offset = |stride: i64, ld: i64| (batch as i64 * stride + i64::from(row) * ld) as isize;
        let row_a = a.wrapping_offset(offset(params.batch_stride_a, params.lda));
        let row_b = b.wrapping_offset(offset(params.batch_stride_b, params.ldb));
        [shift(row_a), shift(row_b)]
    });
    let mut sums = [[[0.0; 4]; TOKENS]; WEIGHTS];
    let end = stages.add_bytes((AHEAD + 1) * stage_bytes);
    let mut landed = stages;
    let mut free = stages.add_bytes(AHEAD * stage_bytes);
    let mut k_tile_idx = 0;
    while k_tile_idx < k_tiles {
        wait_for_oldest::<AHEAD>();
        thread::sync_threads(); // this k tile has landed; nobody reads the one before it
        if k_tile_idx + AHEAD < k_tiles {
            copy(free);
        }
        cp_async_commit_group();
        // SAFETY: whole warps; the stage has landed.
        unsafe {
            if ANYWHERE {
                multiply::<In, WEIGHTS, TOKENS>(&mut sums, landed, &shifted, config);
            } else {
                multiply::<In, WEIGHTS, TOKENS>(&mut sums, landed, &padded, config);
            }
        }
        free = landed;
        landed = landed.add_bytes(stage_bytes);
        if landed == end {
            landed = stages;
        }
        k_tile_idx += 1;
    }
    cp_async_wait_all();
    thread::sync_threads(); // nobody reads the stages any more
    let tile = tile(params, config, (batch, column), smem.cast());
    // SAFETY: the sums take the place of the stages; the rest is the caller's promise.
    unsafe {
        warp_tile.store(&sums, tile.sums, config);
        let d = (d, Stored::<In>::new(epilogue.epilogue));
        let job = tile.job(combine.block(), d, &epilogue);
        combine.finish(&tile, job, &epilogue);
    }
}

/// The block's tile, in matrix `batch` and from `column` on.
#[inline(always)]
fn tile<'a>(
    params: &'a GemmParams,
    config: &DecodeConfig,
    (batch, column): (u64, u32),
    sums: *mut f32,
) -> Tile<'a> {
    Tile {
        params,
        batch,
        row: 0,
        rows: params.m.min(config.tile_m),
        columns: config.tile_n,
        column,
        splits: config.warps_k(),
        split_rows: config.tile_m,
        threads: DECODE_THREADS,
        sums,
    }
}

/// The parts of A and B that the block copies, from its first k on.
#[inline(always)]
fn sources<In, const K_ROWS: bool, const ANYWHERE: bool>(
    (a, b): (*const In, *const In),
    params: &GemmParams,
    config: &DecodeConfig,
    (batch, column, k): (u64, u32, u32),
) -> (Source<In, ANYWHERE>, Source<In, ANYWHERE>) {
    let batch = batch as i64;
    let k_left = params.k.saturating_sub(k);
    let n_left = params.n - column;
    let a_offset = batch * params.batch_stride_a + i64::from(k);
    let shape_a = Shape {
        rows: config.tile_m,
        columns: config.tile_k,
        pitch_bytes: config.pitch_a_bytes(),
        along_columns: true,
    };
    let trans_b = if K_ROWS { Transpose::N } else { Transpose::T };
    let (row, first, left) = if K_ROWS {
        (k, column, (k_left, n_left))
    } else {
        (column, k, (n_left, k_left))
    };
    let b_offset = batch * params.batch_stride_b + i64::from(row) * params.ldb + i64::from(first);
    let shape_b = Shape {
        rows: config.rows_b(trans_b),
        columns: config.columns_b(trans_b),
        pitch_bytes: config.pitch_b_bytes(trans_b),
        along_columns: !K_ROWS,
    };
    let a = a.wrapping_offset(a_offset as isize);
    let b = b.wrapping_offset(b_offset as isize);
    (
        Source::new(a, params.lda, (params.m, k_left), shape_a),
        Source::new(b, params.ldb, left, shape_b),
    )
}

/// Waits until the oldest of the thread's `AHEAD` groups has landed.
#[inline(always)]
fn wait_for_oldest<const AHEAD: u32>() {
    match AHEAD {
        1 => cp_async_wait_group::<0>(),
        2 => cp_async_wait_group::<1>(),
        3 => cp_async_wait_group::<2>(),
        4 => cp_async_wait_group::<3>(),
        5 => cp_async_wait_group::<4>(),
        6 => cp_async_wait_group::<5>(),
        _ => cp_async_wait_group::<6>(),
    }
}
