//! The entries of Hopper's grouped GEMM: [`spec::gemm::ragged`].

use cuda_std::epilogue::Scale;
use cuda_std::kernel;
use cuda_std::tile::{KMajor, MnMajor};
use cuda_std::tma::TensorMapParam;
use cuda_std::wgmma::{Bf16, F16, M64};
use half::{bf16, f16};
use spec::gemm::GemmParams;
use spec::gemm::ragged::{RaggedLaunch, TILE, smem_bytes};
use spec::gemm::sm90::{Sm90Tile, THREADS};

use super::kernel::{Config, Gemm, Running};
use super::ragged::Ragged;
use super::store::{Destination, Groups, Store};

macro_rules! entries {
    ($($name:ident: $element:ident $d:ident, $b:ident;)*) => {$(
        /// `alpha * a @ b[group]`, where the rows of a and d are in groups.
        ///
        /// # Safety
        /// Launched as [`spec::gemm::ragged`] says.
        #[kernel(
            arch = "sm_90a", max_threads = THREADS, min_blocks = 1, dynamic_shared = smem_bytes()
        )]
        pub unsafe fn $name(
            a: TensorMapParam,
            b: TensorMapParam,
            map_d: TensorMapParam,
            d: *mut $d,
            ends: *const i32,
            params: GemmParams,
            launch: RaggedLaunch,
        ) {
            struct This;
            impl Config for This {
                type Mma = M64<128, f32, $element, $element>;
                type A = KMajor;
                type B = $b;
                const TILE: Sm90Tile = TILE;
                type Sums = Running;
                type Places = Ragged;
            }
            type Kernel = Gemm<This, 128, 128, 5, { TILE.subtiles() as usize }>;
            let workspace = core::ptr::null_mut(); // no tile is cut
            // SAFETY: the caller's promise.
            unsafe {
                let maps = [a.as_ptr(), b.as_ptr()];
                Kernel::run(maps, &params, (launch, ends), workspace, |boxes| {
                    let d = Destination::of_rows(map_d.as_ptr(), d, &params);
                    Store::new(d, Scale(params.alpha), Groups::Rolled, boxes)
                })
            }
        }
    )*};
}

entries! {
    gemm_grouped_sm90_bf16_nt_128x128_s5_pp: Bf16 bf16, KMajor;
    gemm_grouped_sm90_bf16_nn_128x128_s5_pp: Bf16 bf16, MnMajor;
    gemm_grouped_sm90_f16_nt_128x128_s5_pp: F16 f16, KMajor;
    gemm_grouped_sm90_f16_nn_128x128_s5_pp: F16 f16, MnMajor;
}
