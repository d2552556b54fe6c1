//! The entries for i8. The kernel is that of all other types: `wgmma` adds up i32, whose bits stand
//! where other types have f32, until the epilogue takes them for what they are.

use abi::DType;
use abi::gemm::sm90::{Sm90Entry, Sm90Launch, Sm90Tile, THREADS};
use abi::gemm::{EpilogueParams, GemmParams};
use cuda_std::element::Element;
use cuda_std::epilogue::{Coord, Epilogue};
use cuda_std::kernel;
use cuda_std::tma::TensorMapParam;
use cuda_std::wgmma::M64;
use half::{bf16, f16};

use super::entries::{Choice, SumsOf, kernel_of, summand_n};
use super::kernel::{Config, Gemm};
use super::store::{Destination, Groups, Store, Word};
use super::tile_coords::Whole;
use crate::entry::{Contiguous, Of, Order, Types};
use crate::gemm::fused::{Fused, Pointers};

/// `alpha` times the sum, in wrapping i32, as bits.
#[derive(Clone, Copy)]
struct Times(i32);

impl Epilogue for Times {
    #[inline(always)]
    fn apply(&self, _coord: Coord, x: f32) -> f32 {
        let x = self.0.wrapping_mul(x.to_bits() as i32);
        f32::from_bits(x as u32)
    }
}

/// The built-in epilogue of the sum, rounded to f32. Its steps are never merged, so that the bits
/// are those of the portable kernel.
#[derive(Clone, Copy)]
struct OfSums<Out>(Fused<Out>);

impl<Out: Element> Epilogue for OfSums<Out> {
    #[inline(always)]
    fn apply(&self, coord: Coord, x: f32) -> f32 {
        self.0.apply(coord, rounded(x))
    }

    #[inline(always)]
    fn apply_all<const N: usize>(&self, coord: impl Fn(usize) -> Coord, x: &mut [f32; N]) {
        for i in 0..N {
            x[i] = rounded(x[i]);
        }
        self.0.apply_all(coord, x);
    }
}

/// The sum of these bits, rounded to nearest.
#[inline(always)]
fn rounded(bits: f32) -> f32 {
    bits.to_bits() as i32 as f32
}

macro_rules! plain {
    ($($name:ident;)*) => {$(
        /// `alpha * a @ b` in i32, without scales; see [`abi::gemm::sm90`].
        ///
        /// # Safety
        /// Launched as [`abi::gemm::sm90`] says; `alpha` is as [`abi::gemm::integer`] says.
        #[kernel(
            arch = "sm_90a", max_threads = THREADS, min_blocks = 1,
            dynamic_shared = Sm90Entry::read(stringify!($name)).tile.smem_bytes()
        )]
        pub unsafe fn $name(
            a: TensorMapParam,
            b: TensorMapParam,
            d: TensorMapParam,
            _scale_a: *const f32,
            _scale_b: *const f32,
            alpha: *const f32,
            workspace: *mut u32,
            params: GemmParams,
            launch: Sm90Launch,
        ) {
            kernel_of!($name);
            const { assert!(!TILE.takes_stream_k(), "stream-K adds up f32") };
            // SAFETY: the caller's promise.
            unsafe {
                Kernel::run([a.as_ptr(), b.as_ptr()], &params, launch, workspace, |boxes| {
                    let alpha = if alpha.is_null() {
                        params.alpha.to_bits() as i32
                    } else {
                        alpha.cast::<i32>().read()
                    };
                    let d = Destination::<Word>::of_map(d.as_ptr(), &params);
                    Store::new(d, Times(alpha), Groups::Rolled, boxes)
                })
            }
        }
    )*};
}

macro_rules! fused {
    ($($name:ident($out:ident);)*) => {$(
        /// The product and all that [`abi::gemm::epilogue`] says; see [`abi::gemm::sm90`].
        ///
        /// # Safety
        /// Launched as [`abi::gemm::sm90`] says.
        #[kernel(
            arch = "sm_90a", max_threads = THREADS, min_blocks = 1,
            dynamic_shared = Sm90Entry::read(stringify!($name)).tile.smem_bytes()
        )]
        pub unsafe fn $name(
            a: TensorMapParam,
            b: TensorMapParam,
            map_d: TensorMapParam,
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
            launch: Sm90Launch,
        ) {
            kernel_of!($name);
            const {
                assert!(!TILE.takes_stream_k(), "stream-K adds up f32");
                assert!(!TILE.boxes_overlap(size_of::<$out>() as u32));
            }
            // SAFETY: the caller's promise.
            unsafe {
                Kernel::run([a.as_ptr(), b.as_ptr()], &params, launch, workspace, |boxes| {
                    let pointers =
                        Pointers { c, bias, residual, row_scale, column_scale, alpha, beta };
                    let epilogue = OfSums(Fused::new(pointers, &params, &epilogue));
                    let d = Destination::new(map_d.as_ptr(), d, &params, launch);
                    Store::new(d, epilogue, Groups::Rolled, boxes)
                })
            }
        }
    )*};
}

abi::gemm_sm90_sums!(plain);
abi::gemm_sm90_sums_fused!(fused);
