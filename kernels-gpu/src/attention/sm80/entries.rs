//! The entries, one for each choice of element type and head_dim cap.

use cuda_std::kernel;
use half::{bf16, f16};
use spec::attention::decode;
use spec::attention::sm75::turing_tile;
use spec::attention::sm80::{Sm80Tile, THREADS};
use spec::attention::{FlashFwdLengths, FlashFwdPages, FlashFwdParams, FwdPacking};

use super::decode::flash_decode;
use super::element::TuringF16;
use super::kernel::{Arguments, flash_fwd};

macro_rules! entries {
    ($arch:tt, $tile:path; $($name:ident: $dtype:ident, $cap:literal;)*) => {$(
        #[doc = concat!("`", stringify!($dtype), "`, head_dim and head_dim_v up to ",
            stringify!($cap), "; see `spec::attention`.")]
        ///
        /// # Safety
        /// `params` and `lengths` describe what the pointers point to, as that module demands.
        #[kernel(max_threads = THREADS, min_blocks = 2, arch = $arch)]
        pub unsafe fn $name(
            q: *const u8,
            k: *const u8,
            v: *const u8,
            o: *mut u8,
            lse: *mut f32,
            sink: *const f32,
            lengths: FlashFwdLengths,
            params: FlashFwdParams,
        ) {
            const TILE: Sm80Tile = $tile($cap);
            const TILE_M: usize = TILE.tile_m as usize;
            const TILE_N: usize = TILE.tile_n as usize;
            let (lengths, pages) = (&lengths, &FlashFwdPages::NONE);
            let arguments = Arguments { q, k, v, o, lse, sink, lengths, pages };
            // SAFETY: the caller's promise.
            unsafe {
                flash_fwd::<$dtype, $cap, TILE_M, TILE_N, { TILE_M / 64 }, { TILE_N / 8 }, { $cap / 8 }>(
                    &arguments, &params,
                );
            }
        }
    )*};
}

entries! { "sm_80", Sm80Tile::of;
    flash_fwd_sm80_bf16_d64: bf16, 64;
    flash_fwd_sm80_bf16_d128: bf16, 128;
    flash_fwd_sm80_bf16_d256: bf16, 256;
    flash_fwd_sm80_f16_d64: f16, 64;
    flash_fwd_sm80_f16_d128: f16, 128;
    flash_fwd_sm80_f16_d256: f16, 256;
}

entries! { "sm_75", turing_tile;
    flash_fwd_sm75_f16_d64: TuringF16, 64;
    flash_fwd_sm75_f16_d128: TuringF16, 128;
}

macro_rules! decode_entries {
    ($($name:ident: $dtype:ident, $cap:literal, $rows:literal;)*) => {$(
        #[doc = concat!("Decoding of `", stringify!($dtype), "`, head_dim and head_dim_v up to ",
            stringify!($cap), ", ", stringify!($rows), " rows; see `spec::attention::decode`.")]
        ///
        /// # Safety
        /// `params`, `lengths`, `packing` and `pages` describe what the pointers point to, as that module
        /// demands.
        #[kernel(max_threads = decode::THREADS, min_blocks = 2, arch = "sm_80")]
        pub unsafe fn $name(
            q: *const u8,
            k: *const u8,
            v: *const u8,
            o: *mut u8,
            lse: *mut f32,
            sink: *const f32,
            lengths: FlashFwdLengths,
            params: FlashFwdParams,
            packing: FwdPacking,
            pages: FlashFwdPages,
        ) {
            let (lengths, pages) = (&lengths, &pages);
            let arguments = Arguments { q, k, v, o, lse, sink, lengths, pages };
            // SAFETY: the caller's promise.
            unsafe {
                flash_decode::<$dtype, $cap, { $rows / 16 }, { $cap / 8 }, { $cap / 16 }>(
                    &arguments, &params, &packing,
                );
            }
        }
    )*};
}

decode_entries! {
    flash_decode_bf16_d64_m16: bf16, 64, 16;
    flash_decode_bf16_d64_m32: bf16, 64, 32;
    flash_decode_bf16_d128_m16: bf16, 128, 16;
    flash_decode_bf16_d128_m32: bf16, 128, 32;
    flash_decode_f16_d64_m16: f16, 64, 16;
    flash_decode_f16_d64_m32: f16, 64, 32;
    flash_decode_f16_d128_m16: f16, 128, 16;
    flash_decode_f16_d128_m32: f16, 128, 32;
}
