//! The entries of Hopper's attention, by the table of [`FwdEntry`].

use core::marker::PhantomData;

use abi::attention::decode::{DecodeEntry, WIDE_THREADS};
use abi::attention::sm90::{FwdEntry, FwdLaunch, FwdTile};
use abi::attention::{FlashFwdLengths, FlashFwdPages, FlashFwdParams, FwdPacking};
use cuda_std::convert::{f32x2_to_bf16x2_cvt, f32x2_to_f16x2_cvt};
use cuda_std::kernel;
use cuda_std::panels::Panels;
use cuda_std::pipeline::Stages;
use cuda_std::tma::TensorMapParam;
use cuda_std::wgmma::{Bf16, F16, M64};

use super::kernel::{Call, Config, Forward, ROWS};
use super::rows::{OneHead, Packed};
use super::store::Outputs;
use super::wide;
use crate::attention::sm80::Arguments;

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

macro_rules! entry {
    ($name:ident, $element:ident $(, $packing:ident)?) => {
        /// See [`abi::attention::sm90`].
        ///
        /// # Safety
        /// Launched as [`abi::attention::sm90`] says.
        #[kernel(
            arch = "sm_90a", min_blocks = 1,
            max_threads = FwdEntry::read(stringify!($name)).tile.threads(),
            dynamic_shared = FwdEntry::read(stringify!($name)).tile.smem_bytes()
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
            const TILE: FwdTile = FwdEntry::read(stringify!($name)).tile;
            const REGISTERS: (u32, u32) = TILE.registers();
            struct This<'a>(PhantomData<&'a ()>);
            impl<'a> Config for This<'a> {
                type Element = $element;
                type Scores = M64<{ TILE.tile_n as usize }, f32, $element, $element>;
                type Output = M64<{ TILE.head_dim_v as usize }, f32, $element, $element>;
                type Rows = rows!(type 'a $($packing)?);
                type Q = Panels<ROWS, { TILE.panels() }>;
                type K = Panels<{ TILE.tile_n }, { TILE.panels() }>;
                type V = Panels<{ TILE.tile_n }, { TILE.panels_v() }>;
                type QStages = Stages<{ TILE.q_stages }>;
                type KStages = Stages<{ TILE.stages_k }>;
                type VStages = Stages<{ TILE.stages_v }>;
                type P = [u32; TILE.tile_n as usize / 4];
                const TILE: FwdTile = TILE;

                #[inline(always)]
                fn pair(low: f32, high: f32) -> u32 {
                    pair!($element)(low, high)
                }
            }
            let call = Call {
                rows: rows!($($packing)?),
                maps: [q.as_ptr(), k.as_ptr(), v.as_ptr()],
                outputs: Outputs { o, lse, sink },
                lengths: &lengths,
                params: &params,
                launch,
            };
            // SAFETY: the caller's promise.
            unsafe { Forward::<This<'_>>::run::<{ REGISTERS.0 }, { REGISTERS.1 }>(call) }
        }
    };
}

macro_rules! plain {
    ($($name:ident($element:ident);)*) => {$(
        entry!($name, $element);
    )*};
}

macro_rules! packed {
    ($($name:ident($element:ident);)*) => {$(
        entry!($name, $element, packing);
    )*};
}

macro_rules! wide {
    ($($name:ident($element:ident);)*) => {$(
        /// Wide heads; see `abi::attention::decode`.
        ///
        /// # Safety
        /// Launched as that module says.
        #[kernel(
            arch = "sm_90a", min_blocks = 1, max_threads = WIDE_THREADS,
            dynamic_shared = DecodeEntry::read(stringify!($name)).tile.smem_bytes()
        )]
        pub unsafe fn $name(
            q: *const u8,
            k: *const u8,
            v: *const u8,
            o: *mut u8,
            lse: *mut f32,
            sink: *const f32,
            lengths: FlashFwdLengths,
            params: FlashFwdParams,
            packing: FwdPacking,
            pages: FlashFwdPages,
            split_blocks: u32,
        ) {
            let (lengths, pages) = (&lengths, &pages);
            let arguments = Arguments { q, k, v, o, lse, sink, lengths, pages };
            // SAFETY: the caller's promise.
            unsafe { wide::attend::<$element>(&arguments, &params, &packing, split_blocks) }
        }
    )*};
}

abi::flash_decode_wide!(wide);
abi::flash_fwd_sm90!(plain);
abi::flash_fwd_sm90_packed!(packed);
