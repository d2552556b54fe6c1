//! The entries: architectures, element types, layouts of B and tiles.

use cuda_std::tma::TensorMapParam;
use cuda_std::{kernel, shared_array};
use half::{bf16, f16};
use spec::gemm::decode::{DecodeArch, DecodeConfig, SM80_CONFIGS, SM90_CONFIGS};
use spec::gemm::{EpilogueParams, GemmParams, Transpose};

use super::combine::Tickets;
use super::{decode, sm90};
use crate::gemm::fused::{Fused, Pointers};

macro_rules! entries {
    ($arch:ident; $($name:ident: $in:ident => $out:ident, $b:ident, $config:expr;)*) => {$(
        entries!(@$arch $name: $in => $out, $b, $config);
    )*};
    (@sm80 $name:ident: $in:ident => $out:ident, $b:ident, $config:expr) => {
        entries!(@entry "sm_80", DecodeArch::Sm80,
            (a: *const $in, b: *const $in, partials: *mut f32, tickets: *mut u32),
            |d, params, epilogue| {
                const AHEAD: u32 = CONFIG.stages - 1;
                let word = shared_array![u32; 1];
                decode::<$in, $out, WEIGHTS, TOKENS, AHEAD, K_ROWS>(
                    (a, b), d, params, &CONFIG, epilogue, Tickets { partials, tickets, word },
                );
            };
            $name: $in => $out, $b, $config);
    };
    (@sm90 $name:ident: $in:ident => $out:ident, $b:ident, $config:expr) => {
        entries!(@entry "sm_90", DecodeArch::Sm90,
            (map_a: TensorMapParam, map_b: TensorMapParam), |d, params, epilogue| {
                sm90::decode::<$in, $out, WEIGHTS, TOKENS, K_ROWS>(
                    (map_a.as_ptr(), map_b.as_ptr()), d, params, &CONFIG, epilogue,
                );
            };
            $name: $in => $out, $b, $config);
    };
    (@entry $arch:tt, $threads:expr, ($($extra:ident: $ty:ty),*),
        |$d:ident, $params:ident, $epilogue:ident| $body:block;
        $name:ident: $in:ident => $out:ident, $b:ident, $config:expr) => {
        #[doc = concat!("`", stringify!($in), "` operands, B as `", stringify!($b), "`, `",
            stringify!($out), "` output; see [`spec::gemm::decode`].")]
        ///
        /// # Safety
        /// `params` and `epilogue` describe what the pointers point to; the grid is
        /// `DecodeConfig::grid`.
        #[kernel(max_threads = $threads.threads(), min_blocks = $config.blocks, arch = $arch)]
        pub unsafe fn $name(
            $($extra: $ty,)*
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
            const CONFIG: DecodeConfig = $config;
            const WEIGHTS: usize = (CONFIG.tile_n / CONFIG.warps_n / 16) as usize;
            const TOKENS: usize = (CONFIG.tile_m / 8) as usize;
            const K_ROWS: bool = matches!(Transpose::$b, Transpose::N);
            let pointers = Pointers { c, bias, residual, row_scale, column_scale, alpha, beta };
            // SAFETY: the caller's.
            unsafe {
                let fused = Fused::new(pointers, &params, &epilogue);
                let ($d, $params, $epilogue) = (d, &params, &fused);
                $body
            }
        }
    };
}

entries! { sm80;
    gemm_decode_sm80_bf16_nt_16x64x128: bf16 => bf16, T, SM80_CONFIGS[0];
    gemm_decode_sm80_bf16_nt_64x64x64: bf16 => bf16, T, SM80_CONFIGS[1];
    gemm_decode_sm80_bf16_nn_16x64x128: bf16 => bf16, N, SM80_CONFIGS[0];
    gemm_decode_sm80_bf16_nn_64x64x64: bf16 => bf16, N, SM80_CONFIGS[1];
    gemm_decode_sm80_bf16_f32_nt_16x64x128: bf16 => f32, T, SM80_CONFIGS[0];
    gemm_decode_sm80_bf16_f32_nt_64x64x64: bf16 => f32, T, SM80_CONFIGS[1];
    gemm_decode_sm80_bf16_f32_nn_16x64x128: bf16 => f32, N, SM80_CONFIGS[0];
    gemm_decode_sm80_bf16_f32_nn_64x64x64: bf16 => f32, N, SM80_CONFIGS[1];
    gemm_decode_sm80_f16_nt_16x64x128: f16 => f16, T, SM80_CONFIGS[0];
    gemm_decode_sm80_f16_nt_64x64x64: f16 => f16, T, SM80_CONFIGS[1];
    gemm_decode_sm80_f16_nn_16x64x128: f16 => f16, N, SM80_CONFIGS[0];
    gemm_decode_sm80_f16_nn_64x64x64: f16 => f16, N, SM80_CONFIGS[1];
    gemm_decode_sm80_f16_f32_nt_16x64x128: f16 => f32, T, SM80_CONFIGS[0];
    gemm_decode_sm80_f16_f32_nt_64x64x64: f16 => f32, T, SM80_CONFIGS[1];
    gemm_decode_sm80_f16_f32_nn_16x64x128: f16 => f32, N, SM80_CONFIGS[0];
    gemm_decode_sm80_f16_f32_nn_64x64x64: f16 => f32, N, SM80_CONFIGS[1];
}

entries! { sm90;
    gemm_decode_sm90_bf16_nt_16x64x128: bf16 => bf16, T, SM90_CONFIGS[0];
    gemm_decode_sm90_bf16_nt_64x64x128: bf16 => bf16, T, SM90_CONFIGS[1];
    gemm_decode_sm90_bf16_nt_64x128x128: bf16 => bf16, T, SM90_CONFIGS[2];
    gemm_decode_sm90_bf16_nn_16x64x128: bf16 => bf16, N, SM90_CONFIGS[0];
    gemm_decode_sm90_bf16_nn_64x64x128: bf16 => bf16, N, SM90_CONFIGS[1];
    gemm_decode_sm90_bf16_nn_64x128x128: bf16 => bf16, N, SM90_CONFIGS[2];
    gemm_decode_sm90_bf16_f32_nt_16x64x128: bf16 => f32, T, SM90_CONFIGS[0];
    gemm_decode_sm90_bf16_f32_nt_64x64x128: bf16 => f32, T, SM90_CONFIGS[1];
    gemm_decode_sm90_bf16_f32_nt_64x128x128: bf16 => f32, T, SM90_CONFIGS[2];
    gemm_decode_sm90_bf16_f32_nn_16x64x128: bf16 => f32, N, SM90_CONFIGS[0];
    gemm_decode_sm90_bf16_f32_nn_64x64x128: bf16 => f32, N, SM90_CONFIGS[1];
    gemm_decode_sm90_bf16_f32_nn_64x128x128: bf16 => f32, N, SM90_CONFIGS[2];
    gemm_decode_sm90_f16_nt_16x64x128: f16 => f16, T, SM90_CONFIGS[0];
    gemm_decode_sm90_f16_nt_64x64x128: f16 => f16, T, SM90_CONFIGS[1];
    gemm_decode_sm90_f16_nt_64x128x128: f16 => f16, T, SM90_CONFIGS[2];
    gemm_decode_sm90_f16_nn_16x64x128: f16 => f16, N, SM90_CONFIGS[0];
    gemm_decode_sm90_f16_nn_64x64x128: f16 => f16, N, SM90_CONFIGS[1];
    gemm_decode_sm90_f16_nn_64x128x128: f16 => f16, N, SM90_CONFIGS[2];
    gemm_decode_sm90_f16_f32_nt_16x64x128: f16 => f32, T, SM90_CONFIGS[0];
    gemm_decode_sm90_f16_f32_nt_64x64x128: f16 => f32, T, SM90_CONFIGS[1];
    gemm_decode_sm90_f16_f32_nt_64x128x128: f16 => f32, T, SM90_CONFIGS[2];
    gemm_decode_sm90_f16_f32_nn_16x64x128: f16 => f32, N, SM90_CONFIGS[0];
    gemm_decode_sm90_f16_f32_nn_64x64x128: f16 => f32, N, SM90_CONFIGS[1];
    gemm_decode_sm90_f16_f32_nn_64x128x128: f16 => f32, N, SM90_CONFIGS[2];
}
