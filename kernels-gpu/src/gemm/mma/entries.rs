//! The entries, by the table of [`MmaEntry`]. Their epilogue is the built-in one, chosen at run time: it runs once for each 16 bytes that a thread stores, outside
//! the mainloop.

use abi::gemm::{EpilogueParams, GemmParams, MmaEntry, MmaTile};
use cuda_std::kernel;
use half::{bf16, f16};

use super::body::{Kernel, gemm};
use super::either::Either;
use super::one_by_one::OneByOne;
use super::product;
use super::sums::Sums;
use crate::gemm::fused::{Fused, Pointers};

/// The kernels of a list: blocks of an SM, the product, and the ending. An ending is `Typed(D)`; or
/// `Either(D)`: `D` or f32, as the launch says; or `Sums(D)`: whatever that says of sums in i32.
macro_rules! kernels {
    ($arch:tt; $($name:ident(
        $blocks:literal, $product:ident($a:ty, $b:ty) => $ending:ident($d:ty)
    );)*) => {$(
        kernels!(@$ending($d) $arch, $blocks; $name: $product($a, $b));
    )*};
    (@Typed($d:ty) $($entry:tt)*) => {
        kernels!(@entry OneByOne<Fused<$d>>, $d, $($entry)*);
    };
    (@Either($d:ty) $($entry:tt)*) => {
        kernels!(@entry Either<$d>, u8, $($entry)*);
    };
    (@Sums($d:ty) $($entry:tt)*) => {
        kernels!(@entry Sums<'_>, $d, $($entry)*);
    };
    (@entry $ending:ty, $out:ty, $arch:tt, $blocks:literal;
        $name:ident: $product:ident($a:ty, $b:ty)) => {
        #[doc = concat!("`", stringify!($a), "` by `", stringify!($b), "` operands; see [`MmaEntry`].")]
        ///
        /// # Safety
        /// `params` and `epilogue` describe what the pointers point to; grid, threads and shared
        /// memory are those of its [`MmaTile`].
        #[kernel(
            max_threads = MmaEntry::read(stringify!($name)).tile.threads(),
            min_blocks = $blocks, arch = $arch
        )]
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
            const ENTRY: MmaEntry = MmaEntry::read(stringify!($name));
            const TILE: MmaTile = ENTRY.tile;
            struct Entry;
            impl Kernel for Entry {
                type Product = product::$product;
                const TILE: MmaTile = TILE;
                const A_K: bool = ENTRY.trans_a.is_n();
                const B_K: bool = !ENTRY.trans_b.is_n();
            }
            const M: usize = (TILE.warp_m() / 16) as usize;
            const N: usize = (TILE.warp_n() / 8) as usize;
            const STAGES_LESS_2: u32 = TILE.stages - 2;
            // SAFETY: the caller's promise.
            unsafe {
                let pointers = Pointers { c, bias, residual, row_scale, column_scale, alpha, beta };
                let ending = <$ending>::new(pointers, &params, &epilogue);
                gemm::<Entry, _, M, N, STAGES_LESS_2>(a, b, d.cast(), &params, ending)
            }
        }
    };
}

macro_rules! sm75 {
    ($($entries:tt)*) => {
        kernels!("sm_75"; $($entries)*);
    };
}

macro_rules! sm80 {
    ($($entries:tt)*) => {
        kernels!("sm_80"; $($entries)*);
    };
}

macro_rules! sm89 {
    ($($entries:tt)*) => {
        kernels!("sm_89"; $($entries)*);
    };
}

abi::gemm_mma_sm80!(sm80);
abi::gemm_mma_sm75!(sm75);
abi::gemm_mma_sm89!(sm89);
