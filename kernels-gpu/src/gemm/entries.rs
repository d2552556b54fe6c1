//! The entries of the portable GEMM, by the table of [`SimtEntry`].

use abi::gemm::{EpilogueParams, GemmParams, SimtEntry, TileConfig};
use cuda_std::{kernel, shared_array};

use super::fused::{Fused, Pointers};
use super::simt::gemm;
use crate::simt::element::CHUNK;

macro_rules! kernels {
    ($($name:ident($down:literal, $across:literal);)*) => {$(
        /// The layout and the tile of its name; see [`abi::gemm`].
        ///
        /// # Safety
        /// `params` and `epilogue` describe what the pointers point to; the grid is
        /// `TileConfig::grid`.
        // min_blocks = 2 leaves each thread 255 registers (128 threads) or 128 registers (256
        // threads).
        #[kernel(
            max_threads = SimtEntry::read(stringify!($name)).tile.threads, min_blocks = 2
        )]
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
            const ENTRY: SimtEntry = SimtEntry::read(stringify!($name));
            const CONFIG: TileConfig = ENTRY.tile;
            const TILE: usize = CONFIG.tile_m as usize;
            const TILE_K: usize = CONFIG.tile_k as usize;
            const SMEM_ELEMENTS: usize = CONFIG.smem_elements() as usize;
            /// Rows of results that fit where operands are staged.
            const ROWS: usize = SMEM_ELEMENTS / TileConfig::smem_pitch(CONFIG.tile_n) as usize;
            const _: () = assert!(CONFIG.tile_n as usize == TILE, "tiles are square");
            const _: () = assert!(
                CONFIG.threads as usize * $down * $across == TILE * TILE,
                "the threads own the tile's results exactly"
            );
            /// Chunks of an operand's tile that a thread moves.
            const CHUNKS: usize = TILE * TILE_K / CHUNK / CONFIG.threads as usize;
            const A_K: bool = ENTRY.trans_a.is_n();
            const B_K: bool = !ENTRY.trans_b.is_n();
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
                    &CONFIG,
                )
            }
        }
    )*};
}

abi::gemm_simt!(kernels);
