//! The entries, one for each choice of architecture, element types, layout of B and tile.

use cuda_std::tile::{KMajor, MnMajor};
use cuda_std::tma::TensorMapParam;
use cuda_std::wgmma::{Bf16, F16, M64};
use cuda_std::{kernel, shared_array};
use half::{bf16, f16};
use spec::gemm::decode::sm90::{DecodeLaunch, TILE_N_MAX};
use spec::gemm::decode::{DECODE_CONFIGS, DECODE_THREADS, DecodeConfig};
use spec::gemm::{EpilogueParams, GemmParams, Transpose};

use super::tickets::Tickets;
use super::{decode, sm90};
use crate::gemm::fused::{Pointers, Unread};

/// Most threads of a block of Hopper's kernel.
const SM90_THREADS: u32 = TILE_N_MAX * 2 + 32;

macro_rules! entries {
    ($arch:ident; $($name:ident: $in:ident, $b:ident, $config:expr;)*) => {$(
        entries!(@$arch $name: $in, $b, $config);
    )*};
    (@sm80 $name:ident: $in:ident, $b:ident, $config:expr) => {
        entries!(@entry "sm_80", DECODE_THREADS,
            (a: *const $in, b: *const $in, partials: *mut f32, tickets: *mut u32),
            |d, params, epilogue| {
                const CONFIG: DecodeConfig = $config;
                const WEIGHTS: usize = (CONFIG.tile_n / CONFIG.warps_n / 16) as usize;
                const TOKENS: usize = (CONFIG.tile_m / 8) as usize;
                const K_ROWS: bool = matches!(Transpose::$b, Transpose::N);
                const AHEAD: u32 = CONFIG.stages - 1;
                let word = shared_array![u32; 1];
                decode::<$in, WEIGHTS, TOKENS, AHEAD, K_ROWS>(
                    (a, b), d, params, &CONFIG, epilogue, Tickets { partials, tickets, word },
                );
            };
            $name: $in, $b);
    };
    (@sm90 $name:ident: $in:ident, $b:ident, $tile_m:literal) => {
        entries!(@entry "sm_90a", SM90_THREADS,
            (map_a: TensorMapParam, map_b: TensorMapParam, launch: DecodeLaunch),
            |d, params, epilogue| {
                type Mma = M64<$tile_m, f32, entries!(@operand $in), entries!(@operand $in)>;
                sm90::decode::<Mma, entries!(@layout $b), $in, $tile_m>(
                    [map_a.as_ptr(), map_b.as_ptr()], d, params, launch, epilogue,
                );
            };
            $name: $in, $b);
    };
    (@operand bf16) => { Bf16 };
    (@operand f16) => { F16 };
    (@layout T) => { KMajor };
    (@layout N) => { MnMajor };
    (@entry $arch:tt, $threads:expr, ($($extra:ident: $ty:ty),*),
        |$d:ident, $params:ident, $epilogue:ident| $body:block;
        $name:ident: $in:ident, $b:ident) => {
        #[doc = concat!("`", stringify!($in), "` operands, B as `", stringify!($b), "`; see
            [`spec::gemm::decode`].")]
        ///
        /// # Safety
        /// `params` and `epilogue` describe what the pointers point to; the launch is as
        /// [`spec::gemm::decode`] says.
        #[kernel(max_threads = $threads, min_blocks = 1, arch = $arch)]
        pub unsafe fn $name(
            $($extra: $ty,)*
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

entries! { sm80;
    gemm_decode_sm80_bf16_nt_16x64x128: bf16, T, DECODE_CONFIGS[0];
    gemm_decode_sm80_bf16_nt_64x64x64: bf16, T, DECODE_CONFIGS[1];
    gemm_decode_sm80_bf16_nn_16x64x128: bf16, N, DECODE_CONFIGS[0];
    gemm_decode_sm80_bf16_nn_64x64x64: bf16, N, DECODE_CONFIGS[1];
    gemm_decode_sm80_f16_nt_16x64x128: f16, T, DECODE_CONFIGS[0];
    gemm_decode_sm80_f16_nt_64x64x64: f16, T, DECODE_CONFIGS[1];
    gemm_decode_sm80_f16_nn_16x64x128: f16, N, DECODE_CONFIGS[0];
    gemm_decode_sm80_f16_nn_64x64x64: f16, N, DECODE_CONFIGS[1];
}

entries! { sm90;
    gemm_decode_sm90_bf16_nt_16: bf16, T, 16;
    gemm_decode_sm90_bf16_nt_32: bf16, T, 32;
    gemm_decode_sm90_bf16_nt_64: bf16, T, 64;
    gemm_decode_sm90_bf16_nt_128: bf16, T, 128;
    gemm_decode_sm90_bf16_nn_16: bf16, N, 16;
    gemm_decode_sm90_bf16_nn_32: bf16, N, 32;
    gemm_decode_sm90_bf16_nn_64: bf16, N, 64;
    gemm_decode_sm90_f16_nt_16: f16, T, 16;
    gemm_decode_sm90_f16_nt_32: f16, T, 32;
    gemm_decode_sm90_f16_nt_64: f16, T, 64;
    gemm_decode_sm90_f16_nt_128: f16, T, 128;
    gemm_decode_sm90_f16_nn_16: f16, N, 16;
    gemm_decode_sm90_f16_nn_32: f16, N, 32;
    gemm_decode_sm90_f16_nn_64: f16, N, 64;
}
