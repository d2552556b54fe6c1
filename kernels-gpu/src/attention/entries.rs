//! The entries of portable attention: element types and head_dim caps.

use cuda_std::{kernel, shared_array};
use half::{bf16, f16};
use spec::attention::{SimtFwdParams, TileConfig, simt_tile};

use super::flash_fwd::{Tensors, chunks_v, columns, flash_fwd, rows, smem_elements};

macro_rules! entries {
    ($($name:ident: $dtype:ident, $cap:literal, min_blocks = $min_blocks:literal;)*) => {$(
        #[doc = concat!("`", stringify!($dtype), "`, head_dim and head_dim_v up to ",
            stringify!($cap), "; see [`spec::attention`].")]
        ///
        /// # Safety
        /// `params` describes what the pointers point to; the grid is its `simt_grid`.
        #[kernel(
            max_threads = spec::attention::simt_tile($cap).threads,
            min_blocks = $min_blocks
        )]
        pub unsafe fn $name(
            q: *const $dtype,
            k: *const $dtype,
            v: *const $dtype,
            o: *mut $dtype,
            lse: *mut f32,
            params: SimtFwdParams,
        ) {
            const TILE: TileConfig = simt_tile($cap);
            const THREADS: usize = TILE.threads as usize;
            const TILE_D: usize = TILE.tile_k as usize;
            const ROWS: usize = rows(THREADS);
            const COLUMNS: usize = columns($cap);
            const CHUNKS_V: usize = chunks_v($cap, THREADS);
            let smem = shared_array![f32; smem_elements($cap, TILE_D)];
            let tensors = Tensors { q, k, v, o, lse };
            // SAFETY: the caller's.
            unsafe {
                flash_fwd::<$dtype, $cap, ROWS, COLUMNS, TILE_D, CHUNKS_V>(&tensors, &params, smem);
            }
        }
    )*};
}

// Blocks a multiprocessor: what the registers of o and of the scores leave room for.
entries! {
    flash_fwd_simt_f32_d64: f32, 64, min_blocks = 2;
    flash_fwd_simt_f32_d128: f32, 128, min_blocks = 2;
    flash_fwd_simt_f32_d256: f32, 256, min_blocks = 1;
    flash_fwd_simt_f16_d64: f16, 64, min_blocks = 2;
    flash_fwd_simt_f16_d128: f16, 128, min_blocks = 2;
    flash_fwd_simt_f16_d256: f16, 256, min_blocks = 1;
    flash_fwd_simt_bf16_d64: bf16, 64, min_blocks = 2;
    flash_fwd_simt_bf16_d128: bf16, 128, min_blocks = 2;
    flash_fwd_simt_bf16_d256: bf16, 256, min_blocks = 1;
}
