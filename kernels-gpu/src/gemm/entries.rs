//! The entries of the portable GEMM, one for each layout and tile.

use cuda_std::{kernel, shared_array};
use spec::gemm::{EpilogueParams, GemmParams, SIMT_LARGE, SIMT_SMALL, TileConfig, Transpose};

use super::fused::{Fused, Pointers};
use super::simt::gemm;
use crate::simt::element::CHUNK;

/// Whether k is the contiguous extent of A.
const fn k_contiguous_in_a(trans: Transpose) -> bool {
    matches!(trans, Transpose::N)
}

/// Whether k is the contiguous extent of B.
const fn k_contiguous_in_b(trans: Transpose) -> bool {
    matches!(trans, Transpose::T)
}

macro_rules! entries {
    ($tile:ident, $down:literal by $across:literal; $($name:ident: $a:ident $b:ident;)*) => {$(
        #[doc = concat!("Layout `", stringify!($a), stringify!($b), "`; see [`spec::gemm`].")]
        ///
        /// # Safety
        /// `params` and `epilogue` describe what the pointers point to; the grid is
        /// `TileConfig::grid`.
        // min_blocks = 2 leaves each thread 255 registers (128 threads) or 128 registers (256
        // threads).
        #[kernel(max_threads = $tile.threads, min_blocks = 2)]
        pub unsafe fn $name(
            a: *const f32,
            b: *const f32,
            c: *const f32,
            d: *mut f32,
            bias: *const f32,
            residual: *const f32,
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
                $tile.threads as usize * $down * $across == TILE * TILE,
                "the threads own the tile's results exactly"
            );
            /// Chunks of an operand's tile that a thread moves.
            const CHUNKS: usize = TILE * TILE_K / CHUNK / $tile.threads as usize;
            const A_K: bool = k_contiguous_in_a(Transpose::$a);
            const B_K: bool = k_contiguous_in_b(Transpose::$b);
            let smem = shared_array![f32; SMEM_ELEMENTS];
            let pointers = Pointers { c, bias, residual, row_scale, column_scale, alpha, beta };
            // SAFETY: the caller's promise.
            unsafe {
                let epilogue = Fused::new(pointers, &params, &epilogue);
                gemm::<_, A_K, B_K, TILE, TILE_K, $down, $across, CHUNKS, ROWS>(
                    (a, b, d),
                    &params,
                    &epilogue,
                    smem,
                    &$tile,
                )
            }
        }
    )*};
}

entries! { SIMT_LARGE, 8 by 16;
    gemm_simt_f32_nn_128x128x8: N N;
    gemm_simt_f32_nt_128x128x8: N T;
    gemm_simt_f32_tn_128x128x8: T N;
    gemm_simt_f32_tt_128x128x8: T T;
}

entries! { SIMT_SMALL, 4 by 4;
    gemm_simt_f32_nn_64x64x16: N N;
    gemm_simt_f32_nt_64x64x16: N T;
    gemm_simt_f32_tn_64x64x16: T N;
    gemm_simt_f32_tt_64x64x16: T T;
}
