//! The entries.

use abi::gemm::integer::INTEGER_TILE;
use abi::gemm::{EpilogueParams, FINISH_THREADS, GemmParams};
use cuda_std::{kernel, shared_array};

use super::ending::Ending;
use super::{finish, product};
use crate::gemm::fused::Pointers;

/// See [`abi::gemm::integer::INTEGER_ENTRY`].
///
/// # Safety
/// `params` and `epilogue` describe what the pointers point to; the grid is `TileConfig::grid`.
#[kernel(max_threads = INTEGER_TILE.threads, min_blocks = 2)]
pub unsafe fn gemm_simt_i8_64x64x32(
    a: *const i8,
    b: *const i8,
    c: *const u8,
    d: *mut u8,
    bias: *const u8,
    residual: *const u8,
    row_scale: *const f32,
    column_scale: *const f32,
    alpha: *const f32,
    beta: *const f32,
    params: GemmParams,
    epilogue: EpilogueParams,
    k_major: u32,
) {
    let smem = shared_array![u32; product::SMEM_WORDS];
    let pointers = Pointers {
        c,
        bias,
        residual,
        row_scale,
        column_scale,
        alpha,
        beta,
    };
    // SAFETY: the caller's promise.
    unsafe {
        let ending = Ending::new(pointers, &params, &epilogue);
        product::gemm((a, b, k_major), d, &params, &ending, smem)
    }
}

/// See [`abi::gemm::FinishEntry`].
///
/// # Safety
/// `params` and `epilogue` describe what the pointers point to.
#[kernel(max_threads = FINISH_THREADS)]
pub unsafe fn gemm_finish_sums(
    partials: *const i32,
    c: *const u8,
    d: *mut u8,
    bias: *const u8,
    residual: *const u8,
    row_scale: *const f32,
    column_scale: *const f32,
    alpha: *const f32,
    beta: *const f32,
    params: GemmParams,
    epilogue: EpilogueParams,
    splits: u32,
) {
    let pointers = Pointers {
        c,
        bias,
        residual,
        row_scale,
        column_scale,
        alpha,
        beta,
    };
    // SAFETY: the caller's promise.
    unsafe {
        let ending = Ending::new(pointers, &params, &epilogue);
        finish::finish((partials, splits), d, &params, &ending)
    }
}
