//! The entries of Hopper's grouped GEMM: [`abi::gemm::ragged`].

use abi::gemm::GemmParams;
use abi::gemm::ragged::{RaggedEntry, RaggedLaunch, TILE, smem_bytes};
use abi::gemm::sm90::{Sm90Tile, THREADS};
use cuda_std::epilogue::Scale;
use cuda_std::kernel;
use cuda_std::tile::KMajor;
use cuda_std::tma::TensorMapParam;
use cuda_std::wgmma::M64;
use half::{bf16, f16};

use super::kernel::{Config, Gemm, Running};
use super::ragged::Ragged;
use super::store::{Destination, Groups, Store};
use crate::entry::{Contiguous, Of, Order, Types};

macro_rules! entries {
    ($($name:ident($d:ident);)*) => {$(
        /// `alpha * a @ b[group]`, where the rows of a and d are in groups.
        ///
        /// # Safety
        /// Launched as [`abi::gemm::ragged`] says.
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
            const ENTRY: RaggedEntry = RaggedEntry::read(stringify!($name));
            type Operand = <Of<{ ENTRY.dtype as u8 }> as Types>::Operand;
            struct This;
            impl Config for This {
                type Mma = M64<{ TILE.tile_n as usize }, f32, Operand, Operand>;
                type A = KMajor;
                type B = <Contiguous<{ !ENTRY.trans_b.is_n() }> as Order>::Major;
                const TILE: Sm90Tile = TILE;
                type Sums = Running;
                type TileCoords = Ragged;
            }
            type Kernel = Gemm<
                This,
                { TILE.tile_m },
                { TILE.tile_n },
                { TILE.stages },
                { TILE.subtiles() as usize },
            >;
            let workspace = core::ptr::null_mut(); // no tile is cut
            // SAFETY: the caller's promise.
            unsafe {
                let maps = [a.as_ptr(), b.as_ptr()];
                Kernel::run(maps, &params, (launch, ends), workspace, |boxes| {
                    let d = Destination::of_rows(map_d.as_ptr(), d, &params);
                    Store::new(d, Scale(params.alpha), Groups::Unrolled, boxes)
                })
            }
        }
    )*};
}

abi::gemm_grouped_sm90!(entries);
