//! The entries of the portable GEMM: element types, layouts and tiles.

use cuda_std::{kernel, shared_array};
use half::{bf16, f16};
use spec::gemm::{EpilogueParams, GemmParams, SIMT_LARGE, SIMT_SMALL, TileConfig, Transpose};

use super::fused::{Fused, Pointers};
use super::simt::gemm;

/// True where k is the contiguous extent of A.
const fn k_contiguous_in_a(trans: Transpose) -> bool {
    matches!(trans, Transpose::N)
}

/// True where k is the contiguous extent of B.
const fn k_contiguous_in_b(trans: Transpose) -> bool {
    matches!(trans, Transpose::T)
}

macro_rules! entries {
    ($($name:ident: $in:ident => $out:ident, $a:ident $b:ident, $tile:ident;)*) => {$(
        entries!(@$tile $name: $in => $out, $a $b);
    )*};
    (@large $name:ident: $in:ident => $out:ident, $a:ident $b:ident) => {
        entries!(@entry $name: $in => $out, $a $b, SIMT_LARGE, 8, 2);
    };
    // Two blocks a multiprocessor would make them spill; tensor cores have their products anyway.
    (@large_16 $name:ident: $in:ident => $out:ident, $a:ident $b:ident) => {
        entries!(@entry $name: $in => $out, $a $b, SIMT_LARGE, 8, 1);
    };
    (@small $name:ident: $in:ident => $out:ident, $a:ident $b:ident) => {
        entries!(@entry $name: $in => $out, $a $b, SIMT_SMALL, 4, 2);
    };
    (@entry $name:ident: $in:ident => $out:ident, $a:ident $b:ident, $tile:ident, $results:literal,
        $blocks:literal) => {
        #[doc = concat!("`", stringify!($in), "` operands, layout `", stringify!($a), stringify!($b),
            "`, `", stringify!($out), "` output; see [`spec::gemm`].")]
        ///
        /// # Safety
        /// `params` and `epilogue` describe what the pointers point to; the grid is
        /// `TileConfig::grid`.
        // 128 registers a thread where there are two blocks.
        #[kernel(max_threads = $tile.threads, min_blocks = $blocks)]
        pub unsafe fn $name(
            a: *const $in,
            b: *const $in,
            c: *const $out,
            d: *mut $out,
            bias: *const $out,
            residual: *const $out,
            row_scale: *const f32,
            column_scale: *const f32,
            alpha: *const f32,
            beta: *const f32,
            params: GemmParams,
            epilogue: EpilogueParams,
        ) {
            const TILE: usize = $tile.tile_m as usize;
            const TILE_K: usize = $tile.tile_k as usize;
            const SMEM_ELEMENTS: usize = $tile.smem_elements() as usize;
            /// Rows of results that fit where operands are staged.
            const ROWS: usize = SMEM_ELEMENTS / TileConfig::smem_pitch($tile.tile_n) as usize;
            const _: () = assert!($tile.tile_n as usize == TILE, "tiles are square");
            const _: () = assert!(
                $tile.threads as usize * $results * $results == TILE * TILE,
                "the threads own the tile's results exactly"
            );
            const A_K: bool = k_contiguous_in_a(Transpose::$a);
            const B_K: bool = k_contiguous_in_b(Transpose::$b);
            let smem = shared_array![f32; SMEM_ELEMENTS];
            let pointers = Pointers { c, bias, residual, row_scale, column_scale, alpha, beta };
            // SAFETY: the caller's.
            unsafe {
                let epilogue = Fused::new(pointers, &params, &epilogue);
                gemm::<$in, $out, _, A_K, B_K, TILE, TILE_K, $results, ROWS>(
                    (a, b, d),
                    &params,
                    &epilogue,
                    smem,
                    &$tile,
                )
            }
        }
    };
}

entries! {
    gemm_simt_f32_nn_128x128x8: f32 => f32, N N, large;
    gemm_simt_f32_nt_128x128x8: f32 => f32, N T, large;
    gemm_simt_f32_tn_128x128x8: f32 => f32, T N, large;
    gemm_simt_f32_tt_128x128x8: f32 => f32, T T, large;
    gemm_simt_f16_nn_128x128x8: f16 => f16, N N, large_16;
    gemm_simt_f16_nt_128x128x8: f16 => f16, N T, large_16;
    gemm_simt_f16_tn_128x128x8: f16 => f16, T N, large_16;
    gemm_simt_f16_tt_128x128x8: f16 => f16, T T, large_16;
    gemm_simt_f16_f32_nn_128x128x8: f16 => f32, N N, large_16;
    gemm_simt_f16_f32_nt_128x128x8: f16 => f32, N T, large_16;
    gemm_simt_f16_f32_tn_128x128x8: f16 => f32, T N, large_16;
    gemm_simt_f16_f32_tt_128x128x8: f16 => f32, T T, large_16;
    gemm_simt_bf16_nn_128x128x8: bf16 => bf16, N N, large_16;
    gemm_simt_bf16_nt_128x128x8: bf16 => bf16, N T, large_16;
    gemm_simt_bf16_tn_128x128x8: bf16 => bf16, T N, large_16;
    gemm_simt_bf16_tt_128x128x8: bf16 => bf16, T T, large_16;
    gemm_simt_bf16_f32_nn_128x128x8: bf16 => f32, N N, large_16;
    gemm_simt_bf16_f32_nt_128x128x8: bf16 => f32, N T, large_16;
    gemm_simt_bf16_f32_tn_128x128x8: bf16 => f32, T N, large_16;
    gemm_simt_bf16_f32_tt_128x128x8: bf16 => f32, T T, large_16;
    gemm_simt_f32_nn_64x64x16: f32 => f32, N N, small;
    gemm_simt_f32_nt_64x64x16: f32 => f32, N T, small;
    gemm_simt_f32_tn_64x64x16: f32 => f32, T N, small;
    gemm_simt_f32_tt_64x64x16: f32 => f32, T T, small;
    gemm_simt_f16_nn_64x64x16: f16 => f16, N N, small;
    gemm_simt_f16_nt_64x64x16: f16 => f16, N T, small;
    gemm_simt_f16_tn_64x64x16: f16 => f16, T N, small;
    gemm_simt_f16_tt_64x64x16: f16 => f16, T T, small;
    gemm_simt_f16_f32_nn_64x64x16: f16 => f32, N N, small;
    gemm_simt_f16_f32_nt_64x64x16: f16 => f32, N T, small;
    gemm_simt_f16_f32_tn_64x64x16: f16 => f32, T N, small;
    gemm_simt_f16_f32_tt_64x64x16: f16 => f32, T T, small;
    gemm_simt_bf16_nn_64x64x16: bf16 => bf16, N N, small;
    gemm_simt_bf16_nt_64x64x16: bf16 => bf16, N T, small;
    gemm_simt_bf16_tn_64x64x16: bf16 => bf16, T N, small;
    gemm_simt_bf16_tt_64x64x16: bf16 => bf16, T T, small;
    gemm_simt_bf16_f32_nn_64x64x16: bf16 => f32, N N, small;
    gemm_simt_bf16_f32_nt_64x64x16: bf16 => f32, N T, small;
    gemm_simt_bf16_f32_tn_64x64x16: bf16 => f32, T N, small;
    gemm_simt_bf16_f32_tt_64x64x16: bf16 => f32, T T, small;
}
