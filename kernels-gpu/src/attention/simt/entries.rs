//! The entries of portable attention, one for each head_dim cap.

use cuda_std::{kernel, shared_array};
use spec::attention::{FlashFwdLengths, FlashFwdPages, FlashFwdParams, TileConfig, simt_tile};

use super::elements::ElementType;
use super::kernel::{Arguments, chunks_v, columns, flash_fwd, rows, smem_elements};

macro_rules! entries {
    ($($name:ident: $cap:literal, min_blocks = $min_blocks:literal;)*) => {$(
        #[doc = concat!("head_dim and head_dim_v up to ", stringify!($cap), "; see
            [`spec::attention`].")]
        ///
        /// # Safety
        /// `params`, `lengths` and `pages` describe what the pointers point to, `dtype` is the code of the
        /// inputs' type; the grid is its `grid`.
        #[kernel(
            max_threads = spec::attention::simt_tile($cap).threads,
            min_blocks = $min_blocks
        )]
        pub unsafe fn $name(
            q: *const u8,
            k: *const u8,
            v: *const u8,
            o: *mut u8,
            lse: *mut f32,
            sink: *const f32,
            lengths: FlashFwdLengths,
            params: FlashFwdParams,
            dtype: u32,
            pages: FlashFwdPages,
        ) {
            const TILE: TileConfig = simt_tile($cap);
            const THREADS: usize = TILE.threads as usize;
            const TILE_D: usize = TILE.tile_k as usize;
            const ROWS: usize = rows(THREADS);
            const COLUMNS: usize = columns($cap);
            const CHUNKS_V: usize = chunks_v($cap, THREADS);
            let smem = shared_array![f32; smem_elements($cap, TILE_D)];
            let element = ElementType(dtype);
            let (lengths, pages) = (&lengths, &pages);
            let arguments = Arguments { q, k, v, o, lse, sink, lengths, pages, element };
            // SAFETY: the caller's promise.
            unsafe {
                flash_fwd::<$cap, ROWS, COLUMNS, TILE_D, CHUNKS_V>(&arguments, &params, smem);
            }
        }
    )*};
}

// Blocks an SM: limited by the registers for o and scores.
entries! {
    flash_fwd_simt_d64: 64, min_blocks = 2;
    flash_fwd_simt_d128: 128, min_blocks = 2;
    flash_fwd_simt_d256: 256, min_blocks = 1;
}
