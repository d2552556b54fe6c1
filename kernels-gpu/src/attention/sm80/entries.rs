//! The entries, by the tables of [`Sm80Entry`], [`Sm75Entry`] and [`DecodeEntry`].

use abi::attention::decode::{self, DecodeEntry, DecodeScales, DecodeTile};
use abi::attention::sm75::Sm75Entry;
use abi::attention::sm80::{Sm80Entry, Sm80Tile, THREADS};
use abi::attention::{FlashFwdLengths, FlashFwdPages, FlashFwdParams, FwdPacking};
use cuda_std::kernel;
use half::{bf16, f16};

use super::decode::flash_decode;
use super::element::TuringF16;
use super::kernel::{Arguments, flash_fwd};
use super::stored::{ByInstruction, ByIntegers, Narrow};

macro_rules! kernels {
    ($arch:tt, $entry:ident; $($name:ident($dtype:ident);)*) => {$(
        #[doc = concat!("`", stringify!($dtype), "`, head_dim and head_dim_v up to the cap in its
            name; see `abi::attention`.")]
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
            const ENTRY: $entry = $entry::read(stringify!($name));
            const TILE: Sm80Tile = ENTRY.tile();
            const CAP: usize = ENTRY.head_dim_cap as usize;
            const TILE_M: usize = TILE.tile_m as usize;
            const TILE_N: usize = TILE.tile_n as usize;
            let (lengths, pages) = (&lengths, &FlashFwdPages::NONE);
            let arguments = Arguments { q, k, v, o, lse, sink, lengths, pages };
            // SAFETY: the caller's promise.
            unsafe {
                flash_fwd::<$dtype, CAP, TILE_M, TILE_N, { TILE_M / 64 }, { TILE_N / 8 }, { CAP / 8 }>(
                    &arguments, &params,
                );
            }
        }
    )*};
}

macro_rules! sm80 {
    ($($entries:tt)*) => {
        kernels!("sm_80", Sm80Entry; $($entries)*);
    };
}

macro_rules! sm75 {
    ($($entries:tt)*) => {
        kernels!("sm_75", Sm75Entry; $($entries)*);
    };
}

abi::flash_fwd_sm80!(sm80);
abi::flash_fwd_sm75!(sm75);

macro_rules! decode {
    ($arch:tt, $name:ident, $stored:ty $(, $scales:ident)?) => {
        #[doc = concat!("Decoding of keys in `", stringify!($stored), "`; see `abi::attention::decode`.")]
        ///
        /// # Safety
        /// `params`, `lengths`, `packing` and `pages` describe what the pointers point to, as that module
        /// demands.
        #[kernel(max_threads = decode::THREADS, min_blocks = 2, arch = $arch)]
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
            split_blocks: u32,
            $($scales: DecodeScales,)?
        ) {
            const TILE: DecodeTile = DecodeEntry::read(stringify!($name)).tile;
            const CAP: usize = TILE.head_dim_cap as usize;
            const W: usize = CAP * TILE.element_bytes as usize / 2;
            const M: usize = TILE.rows as usize / 16;
            let (lengths, pages) = (&lengths, &pages);
            let arguments = Arguments { q, k, v, o, lse, sink, lengths, pages };
            let scales = scales!($($scales)?);
            // SAFETY: the caller's promise.
            unsafe {
                flash_decode::<$stored, W, M, { CAP / 8 }, { CAP / 16 }>(
                    &arguments, &params, &packing, split_blocks, scales,
                );
            }
        }
    };
}

/// The factors of an entry that has them.
macro_rules! scales {
    () => {
        &DecodeScales::NONE
    };
    ($scales:ident) => {
        &$scales
    };
}

macro_rules! halves {
    ($($name:ident($dtype:ident);)*) => {$(
        decode!("sm_80", $name, $dtype);
    )*};
}

macro_rules! sm89 {
    ($($name:ident($widen:ident);)*) => {$(
        decode!("sm_89", $name, Narrow<$widen>, scales);
    )*};
}

macro_rules! integers {
    ($($name:ident($widen:ident);)*) => {$(
        decode!("sm_80", $name, Narrow<$widen>, scales);
    )*};
}

abi::flash_decode!(halves);
abi::flash_decode_sm89!(sm89);
abi::flash_decode_integers!(integers);
