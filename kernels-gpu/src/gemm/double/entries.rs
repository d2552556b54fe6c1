//! The entries.

use cuda_std::{kernel, shared_array};
use spec::gemm::{DOUBLE_LARGE, DOUBLE_SIMT, DOUBLE_SMALL, DoubleParams, EpilogueParams};

use super::ending::{Launch, Pointers};
use super::mma::{self, By8, By16};
use super::simt;

/// `entry! { NAME, MIN_BLOCKS, TILE, ARCH?; |OPERANDS, LAUNCH| BODY }`
macro_rules! entry {
    ($name:ident, $blocks:literal, $tile:ident $(, $arch:tt)?;
        |$operands:ident, $launch:ident| $body:expr) => {
        #[doc = concat!("See [`spec::gemm::DoubleEntry`]; tile [`", stringify!($tile), "`].")]
        ///
        /// # Safety
        /// `params` and `epilogue` describe what the pointers point to; the grid is
        /// `TileConfig::grid`, dynamic shared memory `DoubleEntry::smem_bytes`.
        #[kernel(max_threads = $tile.threads, min_blocks = $blocks $(, arch = $arch)?)]
        pub unsafe fn $name(
            a: *const f64,
            b: *const f64,
            c: *const f64,
            d: *mut f64,
            bias: *const f64,
            residual: *const f64,
            row_scale: *const f64,
            column_scale: *const f64,
            alpha: *const f64,
            beta: *const f64,
            params: DoubleParams,
            epilogue: EpilogueParams,
        ) {
            let $operands = (a, b);
            let $launch = Launch {
                pointers: Pointers {
                    c,
                    d,
                    bias,
                    residual,
                    row_scale,
                    column_scale,
                    alpha,
                    beta,
                },
                params: &params,
                epilogue: &epilogue,
            };
            // SAFETY: the caller's promise.
            unsafe { $body }
        }
    };
}

entry! { gemm_simt_f64_64x64x8, 2, DOUBLE_SIMT; |operands, launch| {
    let smem = shared_array![f64; simt::SMEM_ELEMENTS];
    simt::gemm(operands, launch, smem)
}}

entry! { gemm_mma_f64_128x128x8_s4, 1, DOUBLE_LARGE, "sm_80"; |operands, launch| {
    mma::gemm::<By8, 128, 128, 256, 4, 4>(operands, launch, &DOUBLE_LARGE)
}}

entry! { gemm_mma_f64_64x64x8_s4, 3, DOUBLE_SMALL, "sm_80"; |operands, launch| {
    mma::gemm::<By8, 64, 64, 128, 2, 4>(operands, launch, &DOUBLE_SMALL)
}}

entry! { gemm_mma_f64_128x128x8_s4_m16, 1, DOUBLE_LARGE, "sm_90a"; |operands, launch| {
    mma::gemm::<By16, 128, 128, 256, 4, 4>(operands, launch, &DOUBLE_LARGE)
}}

entry! { gemm_mma_f64_64x64x8_s4_m16, 3, DOUBLE_SMALL, "sm_90a"; |operands, launch| {
    mma::gemm::<By16, 64, 64, 128, 2, 4>(operands, launch, &DOUBLE_SMALL)
}}
