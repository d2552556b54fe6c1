//! The Hopper GEMM with an epilogue of your own.

use core::ptr::null_mut;

use abi::gemm::GemmParams;
use abi::gemm::raster::Raster;
use abi::gemm::sm90::{Sm90Launch, Sm90Tile, THREADS, TILE_128X128};
use cuda_std::epilogue::{Coord, Epilogue, Scale};
use cuda_std::kernel;
use cuda_std::tile::KMajor;
use cuda_std::tma::TensorMapParam;
use cuda_std::wgmma::{Bf16, M64};
use half::bf16;
use kernels_gpu::gemm::sm90::{Config, Destination, Gemm, Groups, Running, Store, Whole};

/// Sets elements above the diagonal to zero.
#[derive(Clone, Copy)]
struct LowerTriangle;

impl Epilogue for LowerTriangle {
    #[inline(always)]
    fn apply(&self, coord: Coord, x: f32) -> f32 {
        if coord.column > coord.row { 0.0 } else { x }
    }
}

struct Product;

impl Config for Product {
    type Mma = M64<128, f32, Bf16, Bf16>;
    type A = KMajor;
    type B = KMajor;
    // The library's own kernels use groups of rows, set at the launch.
    const TILE: Sm90Tile = Sm90Tile {
        raster: Raster::Hilbert,
        ..TILE_128X128
    };
    type Sums = Running;
    type TileCoords = Whole;
}

/// The lower triangle of `alpha * a @ b^T`. The epilogue is inlined.
///
/// # Safety
/// Launched as [`abi::gemm::sm90`] describes for a plain entry with [`TILE_128X128`].
#[kernel(
    arch = "sm_90a",
    max_threads = THREADS,
    min_blocks = 1,
    dynamic_shared = TILE_128X128.smem_bytes()
)]
pub unsafe fn lower_triangle(
    a: TensorMapParam,
    b: TensorMapParam,
    d: TensorMapParam,
    params: GemmParams,
    launch: Sm90Launch,
) {
    type Kernel = Gemm<Product, 128, 128, 6, 2>;
    let epilogue = Scale(params.alpha).then(LowerTriangle);
    // SAFETY: guaranteed by the caller.
    unsafe {
        Kernel::run(
            [a.as_ptr(), b.as_ptr()],
            &params,
            launch,
            null_mut(),
            |boxes| {
                let d = Destination::<bf16>::of_map(d.as_ptr(), &params);
                Store::new(d, epilogue, Groups::Rolled, boxes)
            },
        )
    }
}
