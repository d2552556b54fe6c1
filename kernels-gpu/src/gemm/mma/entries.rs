//! The entries, one for each choice of element types, layouts and tile. Their epilogue is the
//! built-in one, chosen at run time: it runs once for each 16 bytes that a thread stores, outside
//! the mainloop.

use cuda_std::kernel;
use half::{bf16, f16};
use spec::gemm::{
    EpilogueParams, GemmParams, MMA_ADA, MMA_LARGE, MMA_SMALL, MMA_TURING, MmaTile, Transpose,
};

use super::body::{Kernel, gemm};
use super::either::Either;
use super::one_by_one::OneByOne;
use super::product;
use super::sums::Sums;
use crate::gemm::fused::{Fused, Pointers};

/// `entries! { ARCH, MIN_BLOCKS, TILE; NAME: PRODUCT(A, B) => ENDING, TRANS_A TRANS_B; .. }`. An
/// ending is `Typed(D)`; or `Either(D)`: `D` or f32, as the launch says; or `Sums(D)`: whatever that
/// says of sums in i32.
macro_rules! entries {
    ($arch:tt, $blocks:literal, $tile:ident;
        $($name:ident: $product:ident($a:ty, $b:ty) => $ending:ident($d:ty), $ta:ident $tb:ident;)*
    ) => {$(
        entries!(@$ending($d) $arch, $blocks, $tile; $name: $product($a, $b), $ta $tb);
    )*};
    (@Typed($d:ty) $($entry:tt)*) => {
        entries!(@entry OneByOne<Fused<$d>>, $d, $($entry)*);
    };
    (@Either($d:ty) $($entry:tt)*) => {
        entries!(@entry Either<$d>, u8, $($entry)*);
    };
    (@Sums($d:ty) $($entry:tt)*) => {
        entries!(@entry Sums<'_>, $d, $($entry)*);
    };
    (@entry $ending:ty, $out:ty, $arch:tt, $blocks:literal, $tile:ident;
        $name:ident: $product:ident($a:ty, $b:ty), $ta:ident $tb:ident) => {
        #[doc = concat!("`", stringify!($a), "` by `", stringify!($b), "` operands, layout `",
            stringify!($ta), stringify!($tb), "`; see [`spec::gemm::MmaEntry`].")]
        ///
        /// # Safety
        /// `params` and `epilogue` describe what the pointers point to; grid, threads and shared
        /// memory are those of its [`MmaTile`].
        #[kernel(max_threads = $tile.threads(), min_blocks = $blocks, arch = $arch)]
        pub unsafe fn $name(
            a: *const $a,
            b: *const $b,
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
            struct Entry;
            impl Kernel for Entry {
                type Product = product::$product;
                const TILE: MmaTile = $tile;
                const A_K: bool = matches!(Transpose::$ta, Transpose::N);
                const B_K: bool = matches!(Transpose::$tb, Transpose::T);
            }
            const M: usize = ($tile.warp_m() / 16) as usize;
            const N: usize = ($tile.warp_n() / 8) as usize;
            const STAGES_LESS_2: u32 = $tile.stages - 2;
            // SAFETY: the caller's promise.
            unsafe {
                let pointers = Pointers { c, bias, residual, row_scale, column_scale, alpha, beta };
                let ending = <$ending>::new(pointers, &params, &epilogue);
                gemm::<Entry, _, M, N, STAGES_LESS_2>(a, b, d.cast(), &params, ending)
            }
        }
    };
}

entries! { "sm_80", 1, MMA_LARGE;
    gemm_mma_bf16_nn_128x256x64_s3_fused: Bf16(bf16, bf16) => Typed(bf16), N N;
    gemm_mma_bf16_nt_128x256x64_s3_fused: Bf16(bf16, bf16) => Typed(bf16), N T;
    gemm_mma_f16_nn_128x256x64_s3_fused: F16(f16, f16) => Typed(f16), N N;
    gemm_mma_f16_nt_128x256x64_s3_fused: F16(f16, f16) => Typed(f16), N T;
}

entries! { "sm_80", 2, MMA_SMALL;
    gemm_mma_bf16_nn_128x128x32_s4_fused: Bf16(bf16, bf16) => Either(bf16), N N;
    gemm_mma_bf16_nt_128x128x32_s4_fused: Bf16(bf16, bf16) => Either(bf16), N T;
    gemm_mma_bf16_tn_128x128x32_s4_fused: Bf16(bf16, bf16) => Either(bf16), T N;
    gemm_mma_bf16_tt_128x128x32_s4_fused: Bf16(bf16, bf16) => Either(bf16), T T;
    gemm_mma_f16_nn_128x128x32_s4_fused: F16(f16, f16) => Either(f16), N N;
    gemm_mma_f16_nt_128x128x32_s4_fused: F16(f16, f16) => Either(f16), N T;
    gemm_mma_f16_tn_128x128x32_s4_fused: F16(f16, f16) => Either(f16), T N;
    gemm_mma_f16_tt_128x128x32_s4_fused: F16(f16, f16) => Either(f16), T T;
}

// The only layout that the instruction takes of 8 bits: both operands K-major.
entries! { "sm_80", 1, MMA_ADA;
    gemm_mma_i8_nt_128x128x64_s4_fused: S8(i8, i8) => Sums(u8), N T;
}

// f32 operands, as tf32.
entries! { "sm_80", 2, MMA_SMALL;
    gemm_mma_f32_nn_128x128x16_s4_fused: Tf32(f32, f32) => Typed(f32), N N;
    gemm_mma_f32_nt_128x128x16_s4_fused: Tf32(f32, f32) => Typed(f32), N T;
    gemm_mma_f32_tn_128x128x16_s4_fused: Tf32(f32, f32) => Typed(f32), T N;
    gemm_mma_f32_tt_128x128x16_s4_fused: Tf32(f32, f32) => Typed(f32), T T;
}

entries! { "sm_75", 1, MMA_TURING;
    gemm_mma_f16_nn_128x128x32_s2_fused: TuringF16(f16, f16) => Typed(f16), N N;
    gemm_mma_f16_nt_128x128x32_s2_fused: TuringF16(f16, f16) => Typed(f16), N T;
    gemm_mma_f16_tn_128x128x32_s2_fused: TuringF16(f16, f16) => Typed(f16), T N;
    gemm_mma_f16_tt_128x128x32_s2_fused: TuringF16(f16, f16) => Typed(f16), T T;
}

// K-major likewise.
entries! { "sm_89", 1, MMA_ADA;
    gemm_mma_e4m3_bf16_nt_128x128x64_s4_fused: E4m3E4m3(u8, u8) => Typed(bf16), N T;
    gemm_mma_e4m3_e5m2_bf16_nt_128x128x64_s4_fused: E4m3E5m2(u8, u8) => Typed(bf16), N T;
    gemm_mma_e5m2_e4m3_bf16_nt_128x128x64_s4_fused: E5m2E4m3(u8, u8) => Typed(bf16), N T;
    gemm_mma_e5m2_bf16_nt_128x128x64_s4_fused: E5m2E5m2(u8, u8) => Typed(bf16), N T;
}
