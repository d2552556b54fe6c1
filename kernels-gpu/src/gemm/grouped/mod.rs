//! Portable grouped GEMM: `D[i, :] = alpha * A[i, :] @ B[g]` for the rows `i` of group `g`, in f32;
//! see [`abi::gemm::GroupedParams`].
//!
//! # Roles
//! A block computes 64×64 results of one group. Blocks count tiles of rows through all groups, so
//! each first finds its own from `ends` ([`groups`]). Tiles begin where their group begins: no tile
//! has rows of two groups. The rows behind the last group are tiles without k; blocks beyond these
//! have nothing to do.
//!
//! # Shared memory
//! The stages of A and B as in [`super::simt`], and 19 words to find the tile by.
//!
//! # Numerics
//! One f32 accumulator an element, from +0, `fma(a, b, acc)` with k ascending, then one product with
//! alpha. Rows of no group are +0.

mod groups;
mod operand;

use abi::gemm::{GROUPED_TILE, GroupedParams, TileConfig, raster};
use cuda_std::epilogue::Scale;
use cuda_std::{kernel, shared_array, thread};

use super::simt::{STAGE_AHEAD, first_result, in_order};
use super::store::Destination;
use crate::simt::product::{Accumulator, chunk_spacing, outer_product_in_meander};
use crate::simt::results::{Lines, Results};
use crate::simt::staged::StagedProduct;
use groups::{RowTile, SCRATCH};
use operand::{Layout, Operand};

const TILE: usize = GROUPED_TILE.tile_m as usize;
const TILE_K: usize = GROUPED_TILE.tile_k as usize;
const SMEM_ELEMENTS: usize = GROUPED_TILE.smem_elements() as usize;
/// Results of a thread, down and across.
const SIDE: usize = 4;
/// Rows of results that fit where operands are staged.
const ROWS: usize = SMEM_ELEMENTS / TileConfig::smem_pitch(GROUPED_TILE.tile_n) as usize;
/// Rows of tiles in a band, whose blocks run down it column by column and share columns of B.
const BAND: u32 = 8;

const _: () = assert!(GROUPED_TILE.tile_n as usize == TILE, "tiles are square");
const _: () = assert!(
    GROUPED_TILE.threads as usize * SIDE * SIDE == TILE * TILE,
    "the threads own the tile's results exactly"
);

/// Grouped GEMM; see [`abi::gemm::GroupedParams`].
///
/// # Safety
/// `params` describes what the pointers point to; the grid is `grouped_grid`.
#[kernel(max_threads = GROUPED_TILE.threads, min_blocks = 2)]
pub unsafe fn gemm_grouped_simt_f32_64x64x16(
    a: *const f32,
    b: *const f32,
    ends: *const i32,
    d: *mut f32,
    params: GroupedParams,
) {
    let smem = shared_array![f32; SMEM_ELEMENTS];
    let scratch = shared_array![u32; SCRATCH];
    let n_tiles = params.n.div_ceil(TILE as u32);
    let (row_tile, n_tile) =
        raster::grouped(thread::block_idx_x(), params.row_tiles, n_tiles, BAND);
    // SAFETY: `ends` has an element for each group, and all threads of the block are here.
    let tile = unsafe { RowTile::find(row_tile, ends, params.m, params.groups, scratch) };
    let Some(RowTile { group, first, rows }) = tile else {
        return;
    };
    // Rows of no group: no products, and 0 whatever alpha is.
    let (k, alpha) = match group < params.groups {
        true => (params.k, params.alpha),
        false => (0, 1.0),
    };
    let lines = |by_k: u32, ld: i64| Layout {
        by_k: by_k != 0,
        ld,
    };
    let (of_a, of_b) = (
        lines(params.a_by_k, params.lda),
        lines(params.b_by_k, params.ldb),
    );
    let group_offset = i64::from(group) * params.group_stride_b;
    let column = n_tile * TILE as u32;
    let (first_row, first_column) = first_result::<TILE, SIDE>();
    let product = StagedProduct::<_, _, TILE, TILE, TILE_K> {
        a: Operand::<TILE, TILE_K>::new(a, of_a, first, rows, k),
        b: Operand::<TILE, TILE_K>::new(
            b.wrapping_offset(group_offset as isize),
            of_b,
            column,
            params.n - column,
            k,
        ),
        smem,
        first: (first_row, first_column),
    };
    // SAFETY: the caller's promise: rows of A within m and columns of B within n can be read;
    // nothing else uses `smem`.
    let acc: Accumulator<SIDE, SIDE> =
        unsafe { product.accumulate::<_, _, STAGE_AHEAD>(k, in_order, outer_product_in_meander) };
    let spacing = chunk_spacing(TILE, SIDE) as u32;
    let destination = Destination {
        base: d.wrapping_offset((i64::from(first) * params.ldd) as isize),
        ld: params.ldd,
        batch: 0,
        results: Results {
            rows: Lines {
                tile_start: 0,
                first: first_row,
                spacing,
                extent: rows,
            },
            columns: Lines {
                tile_start: column,
                first: first_column,
                spacing,
                extent: params.n,
            },
        },
    };
    // SAFETY: the caller's promise; blocks have different tiles, and the mainloop has finished with
    // `smem`.
    unsafe { destination.store::<_, TILE, SIDE, SIDE, ROWS>(&acc, smem, &Scale(alpha)) }
}
