//! Portable GEMM: `D[m, n] = epilogue(op(A)[m, k] @ op(B)[k, n])`, batched.
//!
//! All in f32; each operand row-major or transposed; any extents, strides and alignments. No tensor
//! cores and nothing newer than sm_75. Operands of other types are converted to f32 before, which
//! is exact; other outputs are written by [`super::finish`].
//!
//! # Roles
//! All threads do the same. A block computes `TILE`×`TILE` results; each thread owns
//! `DOWN`×`ACROSS` of them, as chunks of 4×4 spread over the tile. A warp's 32 lanes are 8 down and
//! 4 across.
//!
//! | tile | threads | results a thread |
//! |---|---|---|
//! | 128×128 | 128 | 8×16 |
//! | 64×64 | 256 | 4×4 |
//!
//! # Shared memory
//! | what | f32 elements | lifetime |
//! |---|---|---|
//! | A, two stages | `2 * TILE_K * (TILE + 4)`, each `[TILE_K][TILE + 4]` | one k tile each |
//! | B, two stages | the same | the same |
//!
//! Fragments are read by 16-byte loads without bank conflicts. The 8 rows and the 4 columns of a
//! warp's lanes are neighbours, and lanes that need the same word get it by broadcast. The
//! transposed stores of a k-contiguous operand have two-way bank conflicts. After the last k tile
//! the results go through the same memory to D ([`super::store`]).
//!
//! # Timeline
//! For each k tile:
//! - Issue the global loads of the next k tile.
//! - For each k of the tile: read the fragments of the next k, then do `DOWN * ACROSS` fused
//!   multiply-adds, in a meander (every other row backwards).
//! - Before the multiply-adds of the last k but one: store the next k tile, which has been loaded,
//!   to its stage.
//! - Before those of the last k: one barrier, and read the next tile's first fragments, so that
//!   they arrive under the last multiply-adds.
//!
//! # Numerics
//! One f32 accumulator an element, from +0, `fma(a, b, acc)` with k ascending; then the epilogue in
//! f32, rounded once to the output. The tail of k is padded with zeros, which change no value. Bits
//! do not depend on tile, alignment or batch.
//!
//! # Sources
//! Register blocking and lane order after S. Gray's maxas notes on sgemm; measured steps in
//! docs/decisions/0013.
//!
//! # Before you change this
//! `ptxas -v -arch=sm_75` and `sm_90` must show no spills at two blocks an SM; run
//! `cargo test -p warpsmith-tests gemm` and, on a GPU, `compare_gemm` of benches.

use abi::gemm::{GemmParams, TileConfig, batch_idx};
use cuda_std::epilogue::Epilogue;
use cuda_std::thread;
use cuda_std::wgmma::{Registers, tie};

use crate::simt::element::CHUNK;
use crate::simt::operand::Operand;
use crate::simt::product::{Accumulator, Fragment, chunk_spacing, outer_product_in_meander};
use crate::simt::results::{Lines, Results};
use crate::simt::staged::StagedProduct;

use super::store::Destination;

/// Lanes of a warp down and across its results.
const LANES_DOWN: u32 = 8;
const LANES_ACROSS: u32 = 4;
/// When the next tile is staged, in k before the last: early enough that nobody waits long at the
/// barrier, late enough that the loads have come.
pub(super) const STAGE_AHEAD: usize = 1;

/// One block's work. `smem` is static shared memory of `config.smem_elements()`. `A_K` and `B_K`
/// state whether k is contiguous in A and in B. A thread moves `CHUNKS` chunks of each operand's
/// tile, and `ROWS` rows of results fit into `smem`.
///
/// # Safety
/// As the launch's: `params` describes what the pointers point to, and the grid is
/// [`TileConfig::grid`].
#[inline(always)]
pub(super) unsafe fn gemm<
    E: Epilogue,
    const A_K: bool,
    const B_K: bool,
    const TILE: usize,
    const TILE_K: usize,
    const DOWN: usize,
    const ACROSS: usize,
    const CHUNKS: usize,
    const ROWS: usize,
>(
    (a, b, d): (*const f32, *const f32, *mut f32),
    params: &GemmParams,
    epilogue: &E,
    smem: *mut f32,
    config: &TileConfig,
) where
    Fragment<DOWN>: Registers,
    Fragment<ACROSS>: Registers,
{
    let batch_idx = batch_idx(
        thread::block_idx_y(),
        thread::block_idx_z(),
        thread::grid_dim_y(),
    );
    if batch_idx >= u64::from(params.batch) {
        return;
    }
    let batch = batch_idx as i64;
    let a = a.wrapping_offset((batch * params.batch_stride_a) as isize);
    let b = b.wrapping_offset((batch * params.batch_stride_b) as isize);
    let d = d.wrapping_offset((batch * params.batch_stride_d) as isize);

    let Results { rows, columns } = own_results::<TILE, DOWN, ACROSS>(params, config);
    let product = StagedProduct::<_, _, TILE, TILE, TILE_K> {
        a: Operand::<_, A_K, TILE, TILE_K, CHUNKS>::new(
            a,
            params.lda,
            rows.tile_start,
            params.m,
            params.k,
        ),
        b: Operand::<_, B_K, TILE, TILE_K, CHUNKS>::new(
            b,
            params.ldb,
            columns.tile_start,
            params.n,
            params.k,
        ),
        smem,
        first: (rows.first, columns.first),
    };
    // SAFETY: the caller's promise; nothing else uses the block's shared memory now.
    let acc: Accumulator<DOWN, ACROSS> = unsafe {
        product.accumulate::<_, _, STAGE_AHEAD>(params.k, in_order, outer_product_in_meander)
    };
    let destination = Destination {
        base: d,
        ld: params.ldd,
        batch: batch_idx,
        results: Results { rows, columns },
    };
    // SAFETY: the caller's promise; blocks have different tiles, and the mainloop has finished with
    // `smem`.
    unsafe { destination.store::<E, TILE, DOWN, ACROSS, ROWS>(&acc, smem, epilogue) }
}

/// Makes LLVM load the next fragments before the multiply-adds of the current ones.
///
/// NOTE(perf): otherwise it loads them after these, and some at the beginning of the loop, where
/// they are waited for (docs/decisions/0013).
#[inline(always)]
pub(super) fn in_order<const DOWN: usize, const ACROSS: usize>(
    a: &mut Fragment<DOWN>,
    b: &mut Fragment<ACROSS>,
) where
    Fragment<DOWN>: Registers,
    Fragment<ACROSS>: Registers,
{
    tie(a);
    tie(b);
}

/// This thread's rows and columns of D.
#[inline(always)]
fn own_results<const TILE: usize, const DOWN: usize, const ACROSS: usize>(
    params: &GemmParams,
    config: &TileConfig,
) -> Results {
    let (m_tile_idx, n_tile_idx) =
        config.tile_coordinates(thread::block_idx_x(), params.m, params.n);
    let (first_row, first_column) = first_result::<TILE, ACROSS>();
    Results {
        rows: Lines {
            tile_start: m_tile_idx * TILE as u32,
            first: first_row,
            spacing: chunk_spacing(TILE, DOWN) as u32,
            extent: params.m,
        },
        columns: Lines {
            tile_start: n_tile_idx * TILE as u32,
            first: first_column,
            spacing: chunk_spacing(TILE, ACROSS) as u32,
            extent: params.n,
        },
    }
}

/// Row and column, in the tile, of this thread's first result.
///
/// Lanes 0, 1, 16, 17 are four neighbours across, and pairs of lanes are neighbours down. So the
/// lanes that one phase of a 16-byte shared load serves access few different words.
#[inline(always)]
pub(super) fn first_result<const TILE: usize, const ACROSS: usize>() -> (u32, u32) {
    let warp_idx = thread::thread_idx_x() / thread::WARP_THREADS;
    let lane_idx = thread::thread_idx_x() % thread::WARP_THREADS;
    let down = (lane_idx / 2) % LANES_DOWN;
    let across = (lane_idx / 16) * 2 + lane_idx % 2;

    let warps_across = (TILE / ACROSS) as u32 / LANES_ACROSS;
    let thread_row = (warp_idx / warps_across) * LANES_DOWN + down;
    let thread_column = (warp_idx % warps_across) * LANES_ACROSS + across;
    (thread_row * CHUNK as u32, thread_column * CHUNK as u32)
}
