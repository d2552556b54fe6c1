//! The entries of Hopper's GEMM, by the table of [`abi::gemm::sm90`].

use core::marker::PhantomData;
use core::ptr;

use abi::DType;
use abi::gemm::sm90::{Sm90Entry, Sm90Launch, Sm90Tile, THREADS};
use abi::gemm::{EpilogueParams, GemmParams};
use cuda_std::epilogue::Scale;
use cuda_std::kernel;
use cuda_std::tma::TensorMapParam;
use cuda_std::wgmma::M64;
use half::{bf16, f16};

use super::kernel::{Config, Gemm, Promoted, Running};
use super::store::{Destination, Groups, Store, StoreElement};
use super::tile_coords::Whole;
use crate::entry::{Contiguous, Of, Order, Types};
use crate::gemm::fused::{Fused, Pointers};

/// Columns of the products that are added to promoted sums at a time: all, or half, as registers
/// hold the sums of the widest tile and half as many products.
pub(super) const fn summand_n(tile_n: u32) -> usize {
    (if tile_n > 192 { tile_n / 2 } else { tile_n }) as usize
}

/// [`Promoted`] or [`Running`] sums of operands A and B.
pub(super) struct SumsOf<const PROMOTED: bool, const SUMMAND_N: usize, A, B>(PhantomData<(A, B)>);

/// The choice of [`SumsOf`].
pub(super) trait Choice {
    type Sums;
}

impl<const SUMMAND_N: usize, A, B> Choice for SumsOf<false, SUMMAND_N, A, B> {
    type Sums = Running;
}

impl<const SUMMAND_N: usize, A, B> Choice for SumsOf<true, SUMMAND_N, A, B> {
    type Sums = Promoted<M64<SUMMAND_N, f32, A, B>>;
}

/// How often the code of a plain epilogue is there. Unrolled, it makes products of a short k up to
/// a quarter faster, but not those with results of four bytes, other than tf32.
const fn groups(entry: &Sm90Entry) -> Groups {
    match (entry.a, entry.output) {
        (DType::F32, _) | (_, DType::F16 | DType::Bf16) => Groups::Unrolled,
        _ => Groups::Rolled,
    }
}

/// The same for fused epilogues.
const fn fused_groups(entry: &Sm90Entry) -> Groups {
    if entry.epilogue.is_promoted() {
        Groups::Boxes
    } else {
        Groups::Rolled
    }
}

/// The kernel type of the entry `$name`.
macro_rules! kernel_of {
    ($name:ident) => {
        const ENTRY: Sm90Entry = Sm90Entry::read(stringify!($name));
        const TILE: Sm90Tile = ENTRY.tile;
        type A = <Of<{ ENTRY.a as u8 }> as Types>::Operand;
        type B = <Of<{ ENTRY.b as u8 }> as Types>::Operand;
        type Sum = <Of<{ ENTRY.a as u8 }> as Types>::Sum;
        type Chosen = SumsOf<{ ENTRY.epilogue.is_promoted() }, { summand_n(TILE.tile_n) }, A, B>;
        struct This;
        impl Config for This {
            type Mma = M64<{ TILE.tile_n as usize }, Sum, A, B>;
            type A = <Contiguous<{ ENTRY.trans_a.is_n() }> as Order>::Major;
            type B = <Contiguous<{ !ENTRY.trans_b.is_n() }> as Order>::Major;
            const TILE: Sm90Tile = TILE;
            const HOLDS: bool = !matches!(ENTRY.a, DType::I8);
            type Sums = <Chosen as Choice>::Sums;
            type TileCoords = Whole;
        }
        type Kernel = Gemm<
            This,
            { TILE.tile_m },
            { TILE.tile_n },
            { TILE.stages },
            { TILE.subtiles() as usize },
        >;
    };
}

pub(super) use kernel_of;

macro_rules! plain {
    ($($name:ident;)*) => {$(
        /// `alpha * scale_a * scale_b * a @ b`; see [`abi::gemm::sm90`].
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
            d: TensorMapParam,
            scale_a: *const f32,
            scale_b: *const f32,
            alpha: *const f32,
            workspace: *mut u32,
            params: GemmParams,
            launch: Sm90Launch,
        ) {
            kernel_of!($name);
            type Out = <Of<{ ENTRY.output as u8 }> as Types>::Element;
            // SAFETY: the caller's promise.
            unsafe {
                Kernel::run([a.as_ptr(), b.as_ptr()], &params, launch, workspace, |boxes| {
                    let scales = scalar(scale_a, 1.0) * scalar(scale_b, 1.0);
                    let epilogue = Scale(scalar(alpha, params.alpha) * scales);
                    let d = Destination::<Out>::of_map(d.as_ptr(), &params);
                    Store::new(d, epilogue, groups(&ENTRY), boxes)
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
                let is_whole = TILE.tile_n.is_multiple_of(<$out as StoreElement>::BOX);
                assert!(is_whole || !matches!(fused_groups(&ENTRY), Groups::Boxes));
                assert!(!TILE.boxes_overlap(size_of::<$out>() as u32));
            }
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
                    let d = if TILE.stores_by_thread() {
                        Destination::new(map_d.as_ptr(), d, &params, launch)
                    } else {
                        Destination::of_map(map_d.as_ptr(), &params)
                    };
                    Store::new(d, epilogue, fused_groups(&ENTRY), boxes)
                })
            }
        }
    )*};
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

abi::gemm_sm90_plain!(plain);
abi::gemm_sm90_fused!(fused);
