//! Portable GEMM: `D[m, n] = alpha * op(A)[m, k] @ op(B)[k, n] + beta * C[m, n]`, batched.
//!
//! f32, f16 or bf16 operands, f32 accumulators, output as the operands or f32; each operand
//! row-major or transposed; any extents, strides and alignments. No tensor cores and nothing newer
//! than sm_75.
//!
//! # Roles
//! 256 threads; each owns `RESULTS`×`RESULTS` of the `TILE`×`TILE` results (8×8 of 128×128, or 4×4
//! of 64×64), as chunks of 4×4 spread over the tile. A warp's 32 lanes are 8 down and 4 across.
//!
//! # Shared memory
//! | what | f32 elements | lifetime |
//! |---|---|---|
//! | A, two stages | `2 * TILE_K * (TILE + 4)`, each `[TILE_K][TILE + 4]` | one k tile each |
//! | B, two stages | the same | the same |
//!
//! Fragments are read by 16-byte loads without bank conflicts: the 8 rows and 4 columns of a warp
//! are neighbours, the other lanes get them by broadcast. Transposed stores of a k-contiguous
//! operand meet two to a bank.
//!
//! # Timeline
//! For each k tile: issue the global loads of the next; for each k: read the fragments of the next
//! k, then `RESULTS`² fused multiply-adds. Before the last k: convert and stage the next tile, one
//! barrier, and read its first fragments, so that they arrive under the last multiply-adds. The
//! tile after the last one is zeros that nothing reads from memory.
//!
//! # Numerics
//! One f32 accumulator an element, from +0, `fma(a, b, acc)` with k ascending; then
//! `fma(beta, c, alpha * acc)`, rounded once more to the output. The tail of k is padded with
//! zeros, which change no value. Bits do not depend on tile, alignment or batch.
//!
//! # Sources
//! Register blocking and lane order after S. Gray's maxas notes on sgemm; measured steps in
//! docs/gemm-simt.md.
//!
//! # Before you change this
//! `ptxas -v -arch=sm_75` and `sm_90` must show no spills at two blocks a multiprocessor; run
//! `cargo test -p warpsmith-tests gemm` and, on a GPU, `compare_gemm` of benches.

use cuda_std::thread;
use spec::gemm::{GemmParams, TileConfig, batch_idx};

use super::epilogue::{Epilogue, Lines};
use crate::simt::element::{CHUNK, SimtElement};
use crate::simt::operand::{Operand, tile_elements};
use crate::simt::product::{Accumulator, chunk_spacing, outer_product, read_fragment};

/// Lanes of a warp down and across its results.
const LANES_DOWN: u32 = 8;
const LANES_ACROSS: u32 = 4;

/// One block's work. `smem` is static shared memory of `config.smem_elements()`; `A_K` and `B_K`
/// say where k is contiguous.
///
/// # Safety
/// As the launch's: `params` describes what the pointers point to, and the grid is
/// [`TileConfig::grid`].
#[inline(always)]
pub(super) unsafe fn gemm<
    In: SimtElement,
    Out: SimtElement,
    const A_K: bool,
    const B_K: bool,
    const TILE: usize,
    const TILE_K: usize,
    const RESULTS: usize,
>(
    (a, b): (*const In, *const In),
    (c, d): (*const Out, *mut Out),
    params: &GemmParams,
    smem: *mut f32,
    config: &TileConfig,
) {
    let batch = batch_idx(
        thread::block_idx_y(),
        thread::block_idx_z(),
        thread::grid_dim_y(),
    );
    if batch >= u64::from(params.batch) {
        return;
    }
    let (m_tile_idx, n_tile_idx) =
        config.tile_coordinates(thread::block_idx_x(), params.m, params.n);
    let (first_row, first_column) = first_result::<TILE, RESULTS>();
    let spacing = chunk_spacing(TILE, RESULTS) as u32;
    let rows = Lines {
        tile_start: m_tile_idx * TILE as u32,
        first: first_row,
        spacing,
    };
    let columns = Lines {
        tile_start: n_tile_idx * TILE as u32,
        first: first_column,
        spacing,
    };

    let batch = batch as i64;
    let mut tiles = OperandTiles::<In, A_K, B_K, TILE, TILE_K> {
        a: Operand::new(
            a.wrapping_offset((batch * params.batch_stride_a) as isize),
            params.lda,
            rows.tile_start,
            params.m,
            params.k,
        ),
        b: Operand::new(
            b.wrapping_offset((batch * params.batch_stride_b) as isize),
            params.ldb,
            columns.tile_start,
            params.n,
            params.k,
        ),
        smem,
    };
    // SAFETY: the caller's.
    let acc = unsafe {
        accumulate::<In, A_K, B_K, TILE, TILE_K, RESULTS>(
            &mut tiles,
            params.k,
            rows.first,
            columns.first,
        )
    };
    let epilogue = Epilogue {
        c: c.wrapping_offset((batch * params.batch_stride_c) as isize),
        d: d.wrapping_offset((batch * params.batch_stride_d) as isize),
        params,
        rows,
        columns,
    };
    // SAFETY: the caller's; threads own different results.
    unsafe { epilogue.write(&acc) }
}

/// Row and column, in the tile, of this thread's first result.
#[inline(always)]
fn first_result<const TILE: usize, const RESULTS: usize>() -> (u32, u32) {
    /// Lanes 0, 1 and 16, 17 (and so on) read neighbouring columns, pairs of lanes neighbouring
    /// rows: half-warps then ask for few different 16-byte words.
    const fn lane_position(lane_idx: u32) -> (u32, u32) {
        let down = (lane_idx / 2) % LANES_DOWN;
        let across = (lane_idx / 16) * 2 + lane_idx % 2;
        (down, across)
    }
    let thread_idx = thread::thread_idx_x();
    let (warp_idx, lane_idx) = (
        thread_idx / thread::WARP_THREADS,
        thread_idx % thread::WARP_THREADS,
    );
    let threads_across = (TILE / RESULTS) as u32;
    let warps_across = threads_across / LANES_ACROSS;
    let (down, across) = lane_position(lane_idx);
    let thread_row = (warp_idx / warps_across) * LANES_DOWN + down;
    let thread_column = (warp_idx % warps_across) * LANES_ACROSS + across;
    (thread_row * CHUNK as u32, thread_column * CHUNK as u32)
}

/// Both operands on their way into shared memory, which holds two stages of each.
struct OperandTiles<In, const A_K: bool, const B_K: bool, const TILE: usize, const TILE_K: usize> {
    a: Operand<In, A_K, TILE, TILE_K, 1>,
    b: Operand<In, B_K, TILE, TILE_K, 1>,
    smem: *mut f32,
}

impl<In: SimtElement, const A_K: bool, const B_K: bool, const TILE: usize, const TILE_K: usize>
    OperandTiles<In, A_K, B_K, TILE, TILE_K>
{
    /// f32 elements of a stage of both operands.
    const STAGE: usize = 2 * tile_elements(TILE, TILE_K);

    /// A's staged tile; B's follows it.
    #[inline(always)]
    fn smem_a(&self, stage_idx: usize) -> *mut f32 {
        self.smem.wrapping_add(stage_idx * Self::STAGE)
    }

    #[inline(always)]
    fn smem_b(&self, stage_idx: usize) -> *mut f32 {
        self.smem_a(stage_idx)
            .wrapping_add(tile_elements(TILE, TILE_K))
    }

    /// # Safety
    /// All elements of the operands can be read.
    #[inline(always)]
    unsafe fn fetch(&mut self) -> ([In::Chunk; 1], [In::Chunk; 1]) {
        // SAFETY: the caller's.
        unsafe { (self.a.fetch(), self.b.fetch()) }
    }

    /// # Safety
    /// No thread reads the stage before the next barrier.
    #[inline(always)]
    unsafe fn stage(&self, (a, b): ([In::Chunk; 1], [In::Chunk; 1]), stage_idx: usize) {
        // SAFETY: the caller's; `smem` holds two stages of both tiles.
        unsafe {
            Operand::<In, A_K, TILE, TILE_K, 1>::stage(a, self.smem_a(stage_idx));
            Operand::<In, B_K, TILE, TILE_K, 1>::stage(b, self.smem_b(stage_idx));
        }
    }
}

/// The products of all k tiles.
///
/// # Safety
/// All elements of the operands can be read.
#[inline(always)]
unsafe fn accumulate<
    In: SimtElement,
    const A_K: bool,
    const B_K: bool,
    const TILE: usize,
    const TILE_K: usize,
    const RESULTS: usize,
>(
    tiles: &mut OperandTiles<In, A_K, B_K, TILE, TILE_K>,
    k: u32,
    row: u32,
    column: u32,
) -> Accumulator<RESULTS, RESULTS> {
    let mut acc = [[0.0; RESULTS]; RESULTS];
    let mut stage_idx = 0;
    // SAFETY: the caller's; nothing was staged before.
    unsafe {
        let first = tiles.fetch();
        tiles.stage(first, stage_idx);
    }
    thread::sync_threads(); // tile 0 is staged

    let mut smem_a = tiles
        .smem_a(stage_idx)
        .wrapping_add(row as usize)
        .cast_const();
    let mut smem_b = tiles
        .smem_b(stage_idx)
        .wrapping_add(column as usize)
        .cast_const();
    // SAFETY: tile 0 is staged, with at least one row.
    let (mut frag_a, mut frag_b) = unsafe {
        (
            read_fragment::<TILE, RESULTS>(smem_a, 0),
            read_fragment::<TILE, RESULTS>(smem_b, 0),
        )
    };
    for _ in 0..k.div_ceil(TILE_K as u32) {
        // SAFETY: the caller's.
        let next = unsafe { tiles.fetch() };
        for k_idx in 0..TILE_K {
            if k_idx == TILE_K - 1 {
                stage_idx = 1 - stage_idx;
                // SAFETY: that stage's last fragments were read before the last barrier.
                unsafe { tiles.stage(next, stage_idx) };
                thread::sync_threads(); // the next tile is staged
                smem_a = tiles
                    .smem_a(stage_idx)
                    .wrapping_add(row as usize)
                    .cast_const();
                smem_b = tiles
                    .smem_b(stage_idx)
                    .wrapping_add(column as usize)
                    .cast_const();
            }
            let next_k_idx = (k_idx + 1) % TILE_K;
            // SAFETY: the row is in the staged tile: this one's, or the next one's first.
            let (next_a, next_b) = unsafe {
                (
                    read_fragment::<TILE, RESULTS>(smem_a, next_k_idx),
                    read_fragment::<TILE, RESULTS>(smem_b, next_k_idx),
                )
            };
            outer_product(&mut acc, &frag_a, &frag_b);
            (frag_a, frag_b) = (next_a, next_b);
        }
    }
    acc
}
