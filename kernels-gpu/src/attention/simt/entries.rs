//! The entries of portable attention, by the table of [`SimtEntry`].

use abi::attention::{FlashFwdLengths, FlashFwdPages, FlashFwdParams, SimtEntry, TileConfig};
use cuda_std::{kernel, shared_array};

use super::elements::ElementType;
use super::kernel::{Arguments, chunks_v, columns, flash_fwd, rows, smem_elements};

macro_rules! kernels {
    ($($name:ident($min_blocks:literal);)*) => {$(
        /// head_dim and head_dim_v up to the cap in its name; see [`abi::attention`].
        ///
        /// # Safety
        /// `params`, `lengths` and `pages` describe what the pointers point to, `dtype` is the code of the
        /// inputs' type; the grid is its `grid`.
        #[kernel(
            max_threads = SimtEntry::read(stringify!($name)).tile().threads,
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
            const ENTRY: SimtEntry = SimtEntry::read(stringify!($name));
            const CAP: usize = ENTRY.head_dim_cap as usize;
            const TILE: TileConfig = ENTRY.tile();
            const THREADS: usize = TILE.threads as usize;
            const TILE_D: usize = TILE.tile_k as usize;
            const ROWS: usize = rows(THREADS);
            const COLUMNS: usize = columns(CAP);
            const CHUNKS_V: usize = chunks_v(CAP, THREADS);
            let smem = shared_array![f32; smem_elements(CAP, TILE_D)];
            let element = ElementType(dtype);
            let (lengths, pages) = (&lengths, &pages);
            let arguments = Arguments { q, k, v, o, lse, sink, lengths, pages, element };
            // SAFETY: the caller's promise.
            unsafe {
                flash_fwd::<CAP, ROWS, COLUMNS, TILE_D, CHUNKS_V>(&arguments, &params, smem);
            }
        }
    )*};
}

abi::flash_fwd_simt!(kernels);
