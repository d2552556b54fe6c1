//! The entries of Hopper's attention, one for each choice of element type, head dimensions, tile
//! and packing.

use core::marker::PhantomData;

use cuda_std::convert::{f32x2_to_bf16x2_cvt, f32x2_to_f16x2_cvt};
use cuda_std::kernel;
use cuda_std::tma::TensorMapParam;
use cuda_std::wgmma::{Bf16, F16, M64};
use spec::attention::sm90::{
    FwdLaunch, FwdTile, TILE_D64, TILE_D64_SHORT, TILE_D128, TILE_D192_128, TILE_D256,
};
use spec::attention::{FlashFwdLengths, FlashFwdParams, FwdPacking};

use super::kernel::{Call, Config, Forward};
use super::rows::{OneHead, Packed};
use super::store::Outputs;

macro_rules! pair {
    (Bf16) => {
        f32x2_to_bf16x2_cvt
    };
    (F16) => {
        f32x2_to_f16x2_cvt
    };
}

/// The row map: queries of one head, or packed as the entry's argument says.
macro_rules! rows {
    (type $a:lifetime) => {
        OneHead
    };
    (type $a:lifetime $packing:ident) => {
        Packed<$a>
    };
    () => {
        OneHead
    };
    ($packing:ident) => {
        Packed(&$packing)
    };
}

macro_rules! entries {
    ($($name:ident: $element:ident, $d:literal $d_v:literal, $m:literal x $n:literal, $tile:expr $(, $packing:ident)?;)*) => {$(
        /// See [`spec::attention::sm90`].
        ///
        /// # Safety
        /// Launched as [`spec::attention::sm90`] says.
        #[kernel(
            arch = "sm_90a", max_threads = $tile.threads(), min_blocks = 1,
            dynamic_shared = $tile.smem_bytes()
        )]
        pub unsafe fn $name(
            q: TensorMapParam,
            k: TensorMapParam,
            v: TensorMapParam,
            o: *mut u8,
            lse: *mut f32,
            sink: *const f32,
            lengths: FlashFwdLengths,
            params: FlashFwdParams,
            launch: FwdLaunch,
            $($packing: FwdPacking,)?
        ) {
            struct This<'a>(PhantomData<&'a ()>);
            impl<'a> Config for This<'a> {
                type Element = $element;
                type Scores = M64<$n, f32, $element, $element>;
                type Output = M64<$d_v, f32, $element, $element>;
                type Rows = rows!(type 'a $($packing)?);
                const TILE: FwdTile = $tile;

                #[inline(always)]
                fn pair(low: f32, high: f32) -> u32 {
                    pair!($element)(low, high)
                }
            }
            type Kernel<'a> = Forward<'a, This<'a>, $m, $n, { $d / 64 }, { $d_v / 64 },
                { $tile.q_stages }, { $tile.stages_k }, { $tile.stages_v }, { $n / 4 }>;
            let call = Call {
                rows: rows!($($packing)?),
                maps: [q.as_ptr(), k.as_ptr(), v.as_ptr()],
                outputs: Outputs { o, lse, sink },
                lengths: &lengths,
                params: &params,
                launch,
            };
            // SAFETY: the caller's promise.
            unsafe { Kernel::run::<{ $tile.registers().0 }, { $tile.registers().1 }>(call) }
        }
    )*};
}

entries! {
    flash_fwd_sm90_bf16_d64_192x128: Bf16, 64 64, 192 x 128, TILE_D64;
    flash_fwd_sm90_bf16_d64_128x128: Bf16, 64 64, 128 x 128, TILE_D64_SHORT;
    flash_fwd_sm90_bf16_d128_128x128: Bf16, 128 128, 128 x 128, TILE_D128;
    flash_fwd_sm90_bf16_d128_128x128_packed: Bf16, 128 128, 128 x 128, TILE_D128, packing;
    flash_fwd_sm90_bf16_d192_128_128x128: Bf16, 192 128, 128 x 128, TILE_D192_128;
    flash_fwd_sm90_bf16_d256_128x64: Bf16, 256 256, 128 x 64, TILE_D256;
    flash_fwd_sm90_bf16_d256_128x64_packed: Bf16, 256 256, 128 x 64, TILE_D256, packing;
    flash_fwd_sm90_f16_d64_192x128: F16, 64 64, 192 x 128, TILE_D64;
    flash_fwd_sm90_f16_d64_128x128: F16, 64 64, 128 x 128, TILE_D64_SHORT;
    flash_fwd_sm90_f16_d128_128x128: F16, 128 128, 128 x 128, TILE_D128;
    flash_fwd_sm90_f16_d128_128x128_packed: F16, 128 128, 128 x 128, TILE_D128, packing;
    flash_fwd_sm90_f16_d192_128_128x128: F16, 192 128, 128 x 128, TILE_D192_128;
    flash_fwd_sm90_f16_d256_128x64: F16, 256 256, 128 x 64, TILE_D256;
    flash_fwd_sm90_f16_d256_128x64_packed: F16, 256 256, 128 x 64, TILE_D256, packing;
}
