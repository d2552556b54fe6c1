//! The entries of Hopper's GEMM, one for each choice of element types, layouts, tile and epilogue.

use core::ptr;

use cuda_std::epilogue::Scale;
use cuda_std::kernel;
use cuda_std::tile::{KMajor, MnMajor};
use cuda_std::tma::TensorMapParam;
use cuda_std::wgmma::{Bf16, E4m3, E5m2, F16, M64, Tf32};
use half::{bf16, f16};
use spec::gemm::raster::Raster;
use spec::gemm::sm90::{Schedule, Sm90Launch, Sm90Tile, THREADS};
use spec::gemm::{EpilogueParams, GemmParams};

use super::kernel::{Config, Gemm, Promoted, Running};
use super::places::Whole;
use super::store::{Destination, Groups, Store, StoreElement};
use crate::gemm::fused::{Fused, Pointers};

/// The major order of A or B that a layout's letter in an entry name stands for.
macro_rules! major {
    (A N) => {
        KMajor
    };
    (A T) => {
        MnMajor
    };
    (B T) => {
        KMajor
    };
    (B N) => {
        MnMajor
    };
}

/// The tile of an entry.
const fn tile(m: u32, n: u32, stages: u32, schedule: Schedule) -> Sm90Tile {
    Sm90Tile {
        tile_m: m,
        tile_n: n,
        stages,
        schedule,
        raster: Raster::Grouped,
    }
}

/// Columns of the products that are added to promoted sums at a time: all, or half, as registers hold
/// the sums of the widest tile and half as many products.
const fn summand_n(tile_n: usize) -> usize {
    if tile_n > 192 { tile_n / 2 } else { tile_n }
}

macro_rules! entries {
    ($($epilogue:ident $name:ident: $in_a:ident $in_b:ident $out:ident, $a:ident $b:ident,
        $m:literal x $n:tt x $stages:literal $schedule:ident;)*) => {$(
        entries!(@$epilogue $name: $in_a $in_b $out, $a $b, $m $n $stages $schedule);
    )*};
    (@kernel $in_a:ident $in_b:ident, $a:ident $b:ident, $m:literal $n:tt $stages:literal
        $schedule:ident $sums:ident) => {
        struct This;
        impl Config for This {
            type Mma = M64<$n, f32, $in_a, $in_b>;
            type A = major!(A $a);
            type B = major!(B $b);
            const TILE: Sm90Tile = tile($m, $n, $stages, Schedule::$schedule);
            type Sums = entries!(@sums $sums $in_a $in_b $n);
            type Places = Whole;
        }
        type Kernel = Gemm<This, $m, $n, $stages, { This::TILE.subtiles() as usize }>;
    };
    (@sums Running $in_a:ident $in_b:ident $n:tt) => { Running };
    (@sums Promoted $in_a:ident $in_b:ident $n:tt) => {
        Promoted<M64<{ summand_n($n) }, f32, $in_a, $in_b>>
    };
    // Many entries are used less than others; these have their epilogue's code once.
    (@groups E4m3 E4m3 bf16, N T $n:tt) => { Groups::Unrolled };
    (@groups Tf32 Tf32 f32, N T $n:tt) => { Groups::Unrolled };
    (@groups Bf16 Bf16 bf16, $a:ident $b:ident $n:tt) => { Groups::Unrolled };
    (@groups F16 F16 f16, N T 128) => { Groups::Unrolled };
    (@groups F16 F16 f16, N T 256) => { Groups::Unrolled };
    (@groups $in_a:ident $in_b:ident $out:ident, $a:ident $b:ident $n:tt) => { Groups::Rolled };
    (@fused_groups Running $out:ident) => { Groups::Rolled };
    (@fused_groups Promoted $out:ident) => {{
        const { assert!(This::TILE.tile_n.is_multiple_of(<$out as StoreElement>::BOX)) };
        Groups::Boxes
    }};
    (@plain $($entry:tt)*) => { entries!(@scaled Running $($entry)*); };
    (@promoted $($entry:tt)*) => { entries!(@scaled Promoted $($entry)*); };
    (@scaled $sums:ident $name:ident: $in_a:ident $in_b:ident $out:ident, $a:ident $b:ident,
        $m:literal $n:tt $stages:literal $schedule:ident) => {
        /// `alpha * scale_a * scale_b * a @ b`; see [`spec::gemm::sm90`].
        ///
        /// # Safety
        /// Launched as [`spec::gemm::sm90`] says.
        #[kernel(
            arch = "sm_90a", max_threads = THREADS, min_blocks = 1,
            dynamic_shared = tile($m, $n, $stages, Schedule::$schedule).smem_bytes()
        )]
        pub unsafe fn $name(
            a: TensorMapParam,
            b: TensorMapParam,
            d: TensorMapParam,
            scale_a: *const f32,
            scale_b: *const f32,
            alpha: *const f32,
            params: GemmParams,
            launch: Sm90Launch,
            workspace: *mut u32,
        ) {
            entries!(@kernel $in_a $in_b, $a $b, $m $n $stages $schedule $sums);
            // SAFETY: the caller's promise.
            unsafe {
                Kernel::run([a.as_ptr(), b.as_ptr()], &params, launch, workspace, |boxes| {
                    let scales = scalar(scale_a, 1.0) * scalar(scale_b, 1.0);
                    let epilogue = Scale(scalar(alpha, params.alpha) * scales);
                    let d = Destination::<$out>::of_map(d.as_ptr(), &params);
                    Store::new(d, epilogue, entries!(@groups $in_a $in_b $out, $a $b $n), boxes)
                })
            }
        }
    };
    (@fused $($entry:tt)*) => { entries!(@whole Running $($entry)*); };
    (@promoted_fused $($entry:tt)*) => { entries!(@whole Promoted $($entry)*); };
    (@whole $sums:ident $name:ident: $in_a:ident $in_b:ident $out:ident, $a:ident $b:ident,
        $m:literal $n:tt $stages:literal $schedule:ident) => {
        /// The product and all that [`spec::gemm::epilogue`] says; see [`spec::gemm::sm90`].
        ///
        /// # Safety
        /// Launched as [`spec::gemm::sm90`] says.
        #[kernel(
            arch = "sm_90a", max_threads = THREADS, min_blocks = 1,
            dynamic_shared = tile($m, $n, $stages, Schedule::$schedule).smem_bytes()
        )]
        pub unsafe fn $name(
            a: TensorMapParam,
            b: TensorMapParam,
            map_d: TensorMapParam,
            launch: Sm90Launch,
            workspace: *mut u32,
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
            entries!(@kernel $in_a $in_b, $a $b, $m $n $stages $schedule $sums);
            const { assert!(!This::TILE.boxes_overlap(size_of::<$out>() as u32)) };
            // SAFETY: the caller's promise.
            unsafe {
                Kernel::run([a.as_ptr(), b.as_ptr()], &params, launch, workspace, |boxes| {
                    let (row_scale, of_rows) = scale(row_scale, epilogue.row_scale_stride);
                    let (column_scale, of_columns) =
                        scale(column_scale, epilogue.column_scale_stride);
                    let pointers =
                        Pointers { c, bias, residual, row_scale, column_scale, alpha, beta };
                    let epilogue =
                        Fused::new(pointers, &params, &epilogue).times(of_rows * of_columns);
                    let d = if This::TILE.stores_by_thread() {
                        Destination::new(map_d.as_ptr(), d, &params, launch)
                    } else {
                        Destination::of_map(map_d.as_ptr(), &params)
                    };
                    Store::new(d, epilogue, entries!(@fused_groups $sums $out), boxes)
                })
            }
        }
    };
}

/// What `pointer` points to, or `value` if it is null.
#[inline(always)]
unsafe fn scalar(pointer: *const f32, value: f32) -> f32 {
    if pointer.is_null() {
        value
    } else {
        // SAFETY: the launch's promise.
        unsafe { pointer.read() }
    }
}

/// The scales that differ by row or column, or null; and the one that does not, or 1.
#[inline(always)]
unsafe fn scale(pointer: *const f32, stride: u32) -> (*const f32, f32) {
    if stride == 0 {
        // SAFETY: the launch's promise.
        (ptr::null(), unsafe { scalar(pointer, 1.0) })
    } else {
        (pointer, 1.0)
    }
}

entries! {
    plain gemm_sm90_bf16_nt_128x128_s6_pp_plain: Bf16 Bf16 bf16, N T, 128 x 128 x 6 Pingpong;
    plain gemm_sm90_bf16_nt_128x160_s5_pp_plain: Bf16 Bf16 bf16, N T, 128 x 160 x 5 Pingpong;
    plain gemm_sm90_bf16_nt_128x168_s5_pp_plain: Bf16 Bf16 bf16, N T, 128 x 168 x 5 Pingpong;
    plain gemm_sm90_bf16_nt_128x176_s5_pp_plain: Bf16 Bf16 bf16, N T, 128 x 176 x 5 Pingpong;
    plain gemm_sm90_bf16_nt_128x192_s4_pp_plain: Bf16 Bf16 bf16, N T, 128 x 192 x 4 Pingpong;
    plain gemm_sm90_bf16_nt_128x256_s4_plain: Bf16 Bf16 bf16, N T, 128 x 256 x 4 Cooperative;
    plain gemm_sm90_bf16_nt_64x128_s8_pp_plain: Bf16 Bf16 bf16, N T, 64 x 128 x 8 Pingpong;
    plain gemm_sm90_bf16_nt_128x224_s4_plain: Bf16 Bf16 bf16, N T, 128 x 224 x 4 Cooperative;
    plain gemm_sm90_bf16_nt_128x80_s7_plain: Bf16 Bf16 bf16, N T, 128 x 80 x 7 Cooperative;
    plain gemm_sm90_bf16_nt_128x48_s8_plain: Bf16 Bf16 bf16, N T, 128 x 48 x 8 Cooperative;
    plain gemm_sm90_bf16_f32_nt_128x128_s6_pp_plain: Bf16 Bf16 f32, N T, 128 x 128 x 6 Pingpong;
    fused gemm_sm90_bf16_nt_128x128_s6_pp_fused: Bf16 Bf16 bf16, N T, 128 x 128 x 6 Pingpong;
    fused gemm_sm90_bf16_nt_128x192_s4_pp_fused: Bf16 Bf16 bf16, N T, 128 x 192 x 4 Pingpong;
    plain gemm_sm90_bf16_nn_128x128_s6_pp_plain: Bf16 Bf16 bf16, N N, 128 x 128 x 6 Pingpong;
    plain gemm_sm90_bf16_nn_128x192_s4_pp_plain: Bf16 Bf16 bf16, N N, 128 x 192 x 4 Pingpong;
    plain gemm_sm90_bf16_nn_128x256_s4_plain: Bf16 Bf16 bf16, N N, 128 x 256 x 4 Cooperative;
    plain gemm_sm90_bf16_nn_128x64_s8_pp_plain: Bf16 Bf16 bf16, N N, 128 x 64 x 8 Pingpong;
    plain gemm_sm90_bf16_f32_nn_128x128_s6_pp_plain: Bf16 Bf16 f32, N N, 128 x 128 x 6 Pingpong;
    fused gemm_sm90_bf16_nn_128x128_s6_pp_fused: Bf16 Bf16 bf16, N N, 128 x 128 x 6 Pingpong;
    fused gemm_sm90_bf16_nn_128x192_s4_pp_fused: Bf16 Bf16 bf16, N N, 128 x 192 x 4 Pingpong;
    plain gemm_sm90_bf16_tn_128x128_s6_pp_plain: Bf16 Bf16 bf16, T N, 128 x 128 x 6 Pingpong;
    plain gemm_sm90_bf16_tn_128x192_s4_pp_plain: Bf16 Bf16 bf16, T N, 128 x 192 x 4 Pingpong;
    plain gemm_sm90_bf16_tn_128x256_s4_plain: Bf16 Bf16 bf16, T N, 128 x 256 x 4 Cooperative;
    plain gemm_sm90_bf16_tn_128x64_s8_pp_plain: Bf16 Bf16 bf16, T N, 128 x 64 x 8 Pingpong;
    plain gemm_sm90_bf16_f32_tn_128x128_s6_pp_plain: Bf16 Bf16 f32, T N, 128 x 128 x 6 Pingpong;
    plain gemm_sm90_bf16_tt_128x128_s6_pp_plain: Bf16 Bf16 bf16, T T, 128 x 128 x 6 Pingpong;
    plain gemm_sm90_bf16_tt_128x256_s4_plain: Bf16 Bf16 bf16, T T, 128 x 256 x 4 Cooperative;
    plain gemm_sm90_bf16_tt_128x64_s8_pp_plain: Bf16 Bf16 bf16, T T, 128 x 64 x 8 Pingpong;
    plain gemm_sm90_bf16_f32_tt_128x128_s6_pp_plain: Bf16 Bf16 f32, T T, 128 x 128 x 6 Pingpong;
    plain gemm_sm90_f16_nt_128x128_s6_pp_plain: F16 F16 f16, N T, 128 x 128 x 6 Pingpong;
    plain gemm_sm90_f16_nt_128x176_s5_pp_plain: F16 F16 f16, N T, 128 x 176 x 5 Pingpong;
    plain gemm_sm90_f16_nt_128x192_s4_pp_plain: F16 F16 f16, N T, 128 x 192 x 4 Pingpong;
    plain gemm_sm90_f16_nt_128x256_s4_plain: F16 F16 f16, N T, 128 x 256 x 4 Cooperative;
    plain gemm_sm90_f16_nt_64x128_s8_pp_plain: F16 F16 f16, N T, 64 x 128 x 8 Pingpong;
    plain gemm_sm90_f16_nt_128x80_s7_plain: F16 F16 f16, N T, 128 x 80 x 7 Cooperative;
    plain gemm_sm90_f16_nt_128x48_s8_plain: F16 F16 f16, N T, 128 x 48 x 8 Cooperative;
    plain gemm_sm90_f16_f32_nt_128x128_s6_pp_plain: F16 F16 f32, N T, 128 x 128 x 6 Pingpong;
    fused gemm_sm90_f16_nt_128x128_s6_pp_fused: F16 F16 f16, N T, 128 x 128 x 6 Pingpong;
    fused gemm_sm90_f16_nt_128x192_s4_pp_fused: F16 F16 f16, N T, 128 x 192 x 4 Pingpong;
    plain gemm_sm90_f16_nn_128x128_s6_pp_plain: F16 F16 f16, N N, 128 x 128 x 6 Pingpong;
    plain gemm_sm90_f16_nn_128x192_s4_pp_plain: F16 F16 f16, N N, 128 x 192 x 4 Pingpong;
    plain gemm_sm90_f16_nn_128x256_s4_plain: F16 F16 f16, N N, 128 x 256 x 4 Cooperative;
    plain gemm_sm90_f16_nn_128x64_s8_pp_plain: F16 F16 f16, N N, 128 x 64 x 8 Pingpong;
    plain gemm_sm90_f16_f32_nn_128x128_s6_pp_plain: F16 F16 f32, N N, 128 x 128 x 6 Pingpong;
    fused gemm_sm90_f16_nn_128x128_s6_pp_fused: F16 F16 f16, N N, 128 x 128 x 6 Pingpong;
    fused gemm_sm90_f16_nn_128x192_s4_pp_fused: F16 F16 f16, N N, 128 x 192 x 4 Pingpong;
    plain gemm_sm90_f16_tn_128x128_s6_pp_plain: F16 F16 f16, T N, 128 x 128 x 6 Pingpong;
    plain gemm_sm90_f16_tn_128x192_s4_pp_plain: F16 F16 f16, T N, 128 x 192 x 4 Pingpong;
    plain gemm_sm90_f16_tn_128x256_s4_plain: F16 F16 f16, T N, 128 x 256 x 4 Cooperative;
    plain gemm_sm90_f16_tn_128x64_s8_pp_plain: F16 F16 f16, T N, 128 x 64 x 8 Pingpong;
    plain gemm_sm90_f16_f32_tn_128x128_s6_pp_plain: F16 F16 f32, T N, 128 x 128 x 6 Pingpong;
    plain gemm_sm90_f16_tt_128x128_s6_pp_plain: F16 F16 f16, T T, 128 x 128 x 6 Pingpong;
    plain gemm_sm90_f16_tt_128x256_s4_plain: F16 F16 f16, T T, 128 x 256 x 4 Cooperative;
    plain gemm_sm90_f16_tt_128x64_s8_pp_plain: F16 F16 f16, T T, 128 x 64 x 8 Pingpong;
    plain gemm_sm90_f16_f32_tt_128x128_s6_pp_plain: F16 F16 f32, T T, 128 x 128 x 6 Pingpong;
    plain gemm_sm90_e4m3_bf16_nt_128x128_s6_pp_plain: E4m3 E4m3 bf16, N T, 128 x 128 x 6 Pingpong;
    plain gemm_sm90_e4m3_bf16_nt_128x192_s4_pp_plain: E4m3 E4m3 bf16, N T, 128 x 192 x 4 Pingpong;
    plain gemm_sm90_e4m3_f32_nt_128x128_s6_pp_plain: E4m3 E4m3 f32, N T, 128 x 128 x 6 Pingpong;
    promoted gemm_sm90_e4m3_bf16_nt_128x128_s6_promoted: E4m3 E4m3 bf16, N T, 128 x 128 x 6 Cooperative;
    promoted gemm_sm90_e4m3_bf16_nt_128x176_s5_promoted: E4m3 E4m3 bf16, N T, 128 x 176 x 5 Cooperative;
    promoted gemm_sm90_e4m3_bf16_nt_128x256_s4_promoted: E4m3 E4m3 bf16, N T, 128 x 256 x 4 Cooperative;
    promoted gemm_sm90_e4m3_f32_nt_128x128_s6_promoted: E4m3 E4m3 f32, N T, 128 x 128 x 6 Cooperative;
    fused gemm_sm90_e4m3_bf16_nt_128x192_s4_pp_fused: E4m3 E4m3 bf16, N T, 128 x 192 x 4 Pingpong;
    promoted_fused gemm_sm90_e4m3_bf16_nt_128x256_s4_promoted_fused: E4m3 E4m3 bf16, N T,
        128 x 256 x 4 Cooperative;
    plain gemm_sm90_e4m3_e5m2_bf16_nt_128x128_s6_pp_plain: E4m3 E5m2 bf16, N T, 128 x 128 x 6 Pingpong;
    plain gemm_sm90_e4m3_e5m2_f32_nt_128x128_s6_pp_plain: E4m3 E5m2 f32, N T, 128 x 128 x 6 Pingpong;
    promoted gemm_sm90_e4m3_e5m2_bf16_nt_128x128_s6_promoted: E4m3 E5m2 bf16, N T, 128 x 128 x 6 Cooperative;
    promoted gemm_sm90_e4m3_e5m2_f32_nt_128x128_s6_promoted: E4m3 E5m2 f32, N T, 128 x 128 x 6 Cooperative;
    plain gemm_sm90_e5m2_e4m3_bf16_nt_128x128_s6_pp_plain: E5m2 E4m3 bf16, N T, 128 x 128 x 6 Pingpong;
    plain gemm_sm90_e5m2_e4m3_f32_nt_128x128_s6_pp_plain: E5m2 E4m3 f32, N T, 128 x 128 x 6 Pingpong;
    promoted gemm_sm90_e5m2_e4m3_bf16_nt_128x128_s6_promoted: E5m2 E4m3 bf16, N T, 128 x 128 x 6 Cooperative;
    promoted gemm_sm90_e5m2_e4m3_f32_nt_128x128_s6_promoted: E5m2 E4m3 f32, N T, 128 x 128 x 6 Cooperative;
    plain gemm_sm90_f32_nt_128x128_s6_pp_plain: Tf32 Tf32 f32, N T, 128 x 128 x 6 Pingpong;
    plain gemm_sm90_f32_nt_128x256_s4_plain: Tf32 Tf32 f32, N T, 128 x 256 x 4 Cooperative;
}
