//! The entries, by the tables of [`abi::gemm::decode`].

use abi::gemm::decode::sm90::{DecodeLaunch, Sm90DecodeEntry, TILE_N_MAX};
use abi::gemm::decode::{DECODE_THREADS, DecodeConfig, DecodeEntry};
use abi::gemm::{EpilogueParams, GemmParams};
use cuda_std::tma::TensorMapParam;
use cuda_std::wgmma::M64;
use cuda_std::{kernel, shared_array};
use half::{bf16, f16};

use super::tickets::Tickets;
use super::{decode, sm90};
use crate::entry::{Contiguous, Of, Order, Types};
use crate::gemm::fused::{Pointers, Unread};

/// Most threads of a block of Hopper's kernel.
const SM90_THREADS: u32 = TILE_N_MAX * 2 + 32;

macro_rules! entry {
    ($arch:tt, $threads:expr, ($($first:ident: $of_first:ty),*), ($($last:ident: $of_last:ty)?),
        |$d:ident, $params:ident, $epilogue:ident| $body:block;
        $name:ident: $in:ident) => {
        #[doc = "See [`abi::gemm::decode`]."]
        ///
        /// # Safety
        /// `params` and `epilogue` describe what the pointers point to; the launch is as
        /// [`abi::gemm::decode`] says.
        #[kernel(max_threads = $threads, min_blocks = 1, arch = $arch)]
        pub unsafe fn $name(
            $($first: $of_first,)*
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
            $($last: $of_last,)?
        ) {
            let pointers = Pointers { c, bias, residual, row_scale, column_scale, alpha, beta };
            // SAFETY: the caller's promise.
            unsafe {
                let unread = Unread { pointers, params: &params, epilogue: &epilogue };
                let ($d, $params, $epilogue) = (d, &params, unread);
                $body
            }
        }
    };
}

macro_rules! sm80 {
    ($($name:ident($in:ident);)*) => {$(
        entry!("sm_80", DECODE_THREADS,
            (a: *const $in, b: *const $in, partials: *mut f32, tickets: *mut u32), (),
            |d, params, epilogue| {
                const ENTRY: DecodeEntry = DecodeEntry::read(stringify!($name));
                const CONFIG: DecodeConfig = ENTRY.config;
                const WEIGHTS: usize = (CONFIG.tile_n / CONFIG.warps_n / 16) as usize;
                const TOKENS: usize = (CONFIG.tile_m / 8) as usize;
                const K_ROWS: bool = ENTRY.trans_b.is_n();
                const AHEAD: u32 = CONFIG.stages - 1;
                const ANYWHERE: bool = ENTRY.is_anywhere;
                let word = shared_array![u32; 1];
                decode::<$in, WEIGHTS, TOKENS, AHEAD, K_ROWS, ANYWHERE>(
                    (a, b), d, params, &CONFIG, epilogue, Tickets { partials, tickets, word },
                );
            };
            $name: $in);
    )*};
}

macro_rules! sm90_entry {
    ($name:ident: $out:ident) => {
        entry!("sm_90a", SM90_THREADS,
            (map_a: TensorMapParam, map_b: TensorMapParam), (launch: DecodeLaunch),
            |d, params, epilogue| {
                const ENTRY: Sm90DecodeEntry = Sm90DecodeEntry::read(stringify!($name));
                const TILE_M: u32 = ENTRY.tile_m;
                type Input = Of<{ ENTRY.input as u8 }>;
                type Operand = <Input as Types>::Operand;
                type Sum = <Input as Types>::Sum;
                type Major = <Contiguous<{ !ENTRY.trans_b.is_n() }> as Order>::Major;
                type Mma = M64<{ TILE_M as usize }, Sum, Operand, Operand>;
                sm90::decode::<Mma, Major, Sum, $out, TILE_M, { ENTRY.promotes() }>(
                    [map_a.as_ptr(), map_b.as_ptr()], d, params, launch, epilogue,
                );
            };
            $name: $out);
    };
}

macro_rules! sm90 {
    ($($name:ident($out:ident);)*) => {
        $(sm90_entry!($name: $out);)*
    };
}

/// Results are in i32; no epilogue has a type of 16 bits.
macro_rules! sm90_sums {
    ($($name:ident;)*) => {
        $(sm90_entry!($name: f16);)*
    };
}

abi::gemm_decode_sm80!(sm80);
abi::gemm_decode_sm90!(sm90);
abi::gemm_decode_sm90_sums!(sm90_sums);
