//! The entries, by the table of [`DoubleEntry`].

use abi::gemm::{DoubleEntry, DoubleParams, EpilogueParams, TileConfig};
use cuda_std::{kernel, shared_array};

use super::ending::{Launch, Pointers};
use super::mma::{self, By8, By16};
use super::simt;

/// `entry! { NAME, MIN_BLOCKS, ARCH?; |OPERANDS, LAUNCH, TILE| BODY }`
macro_rules! entry {
    ($name:ident, $blocks:literal $(, $arch:tt)?;
        |$operands:ident, $launch:ident, $tile:ident| $body:expr) => {
        /// See [`DoubleEntry`].
        ///
        /// # Safety
        /// `params` and `epilogue` describe what the pointers point to; the grid is
        /// `TileConfig::grid`, dynamic shared memory `DoubleEntry::smem_bytes`.
        #[kernel(
            max_threads = DoubleEntry::read(stringify!($name)).tile.threads,
            min_blocks = $blocks $(, arch = $arch)?
        )]
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
            const $tile: TileConfig = DoubleEntry::read(stringify!($name)).tile;
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

macro_rules! simt {
    ($($name:ident;)*) => {$(
        entry! { $name, 2; |operands, launch, _TILE| {
            let smem = shared_array![f64; simt::SMEM_ELEMENTS];
            simt::gemm(operands, launch, smem)
        }}
    )*};
}

macro_rules! sm80 {
    ($($name:ident($blocks:literal, $m:literal, $n:literal);)*) => {$(
        entry! { $name, $blocks, "sm_80"; |operands, launch, TILE| {
            mma::gemm::<By8, { TILE.tile_m }, { TILE.tile_n }, { TILE.threads }, $m, $n>(
                operands, launch, &TILE,
            )
        }}
    )*};
}

macro_rules! sm90 {
    ($($name:ident($blocks:literal, $m:literal, $n:literal);)*) => {$(
        entry! { $name, $blocks, "sm_90a"; |operands, launch, TILE| {
            mma::gemm::<By16, { TILE.tile_m }, { TILE.tile_n }, { TILE.threads }, $m, $n>(
                operands, launch, &TILE,
            )
        }}
    )*};
}

abi::gemm_double_simt!(simt);
abi::gemm_double_sm80!(sm80);
abi::gemm_double_sm90!(sm90);
