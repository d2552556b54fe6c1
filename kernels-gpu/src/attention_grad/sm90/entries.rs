//! The entries of Hopper's gradients of attention, by the table of [`Sm90GradEntry`].

use abi::attention::FlashFwdLengths;
use abi::attention_grad::AttentionGradParams;
use abi::attention_grad::sm90::{Sm90GradEntry, Sm90GradTile, THREADS};
use abi::attention_grad::sums::Rounding;
use abi::gemm::sm90::WARPGROUP;
use cuda_std::convert::{f32x2_to_bf16x2_cvt, f32x2_to_f16x2_cvt};
use cuda_std::kernel;
use cuda_std::panels::Panels;
use cuda_std::pipeline::Stages;
use cuda_std::shared::SharedAddr;
use cuda_std::shared_array;
use cuda_std::tma::TensorMapParam;
use cuda_std::wgmma::{Bf16, F16, M64};

use super::kernel::{Backward, Call, Config};
use super::round::round;
use super::schedule::TileScheduler;
use super::store::VIA_BYTES;

macro_rules! pair {
    (Bf16) => {
        f32x2_to_bf16x2_cvt
    };
    (F16) => {
        f32x2_to_f16x2_cvt
    };
}

/// Shared memory through which a block stores, aligned for its swizzle.
#[derive(Clone, Copy)]
#[repr(C, align(1024))]
struct Via([u8; VIA_BYTES as usize]);

macro_rules! alone {
    ($($name:ident($element:ident);)*) => { kernels! { consume: $($name($element);)* } };
}

macro_rules! pairs {
    ($($name:ident($element:ident);)*) => { kernels! { consume_in_pair: $($name($element);)* } };
}

macro_rules! kernels {
    ($consume:ident: $($name:ident($element:ident);)*) => {$(
        /// See [`abi::attention_grad::sm90`].
        ///
        /// # Safety
        /// Launched as [`abi::attention_grad::sm90`] says.
        #[kernel(
            arch = "sm_90a", max_threads = THREADS, min_blocks = 1,
            dynamic_shared = Sm90GradEntry::read(stringify!($name)).tile.smem_bytes()
        )]
        pub unsafe fn $name(
            q: TensorMapParam,
            k: TensorMapParam,
            v: TensorMapParam,
            d_o: TensorMapParam,
            lse: *const f32,
            delta: *const f32,
            sums: *mut f32,
            key_sums: *mut f32,
            counters: *mut u32,
            dk: *mut u16,
            dv: *mut u16,
            lengths: FlashFwdLengths,
            params: AttentionGradParams,
        ) {
            const ENTRY: Sm90GradEntry = Sm90GradEntry::read(stringify!($name));
            const TILE: Sm90GradTile = ENTRY.tile;
            const REGISTERS: (u32, u32) = TILE.registers();
            struct This;
            impl Config for This {
                type Element = $element;
                type Scores = M64<{ TILE.tile_m as usize }, f32, $element, $element>;
                type Keys = M64<{ TILE.head_dim as usize }, f32, $element, $element>;
                type Queries = M64<{ 64 * TILE.ctas() as usize }, f32, $element, $element>;
                type Kv = Panels<{ TILE.keys() }, { TILE.panels() }>;
                type Q = Panels<{ TILE.tile_m }, { TILE.panels() }>;
                type Ds = Panels<{ TILE.keys() }, { TILE.tile_m / 64 }>;
                type GradStages = Stages<{ TILE.d_o_stages() }>;
                type P = [u32; TILE.tile_m as usize / 4];
                const TILE: Sm90GradTile = TILE;
                const HAS_LENGTHS: bool = ENTRY.has_lengths;

                #[inline(always)]
                fn pair(low: f32, high: f32) -> u32 {
                    pair!($element)(low, high)
                }

                #[inline(always)]
                unsafe fn consume(kernel: &Backward<'_, Self>, scheduler: TileScheduler) {
                    // SAFETY: passed on to the caller.
                    unsafe { kernel.$consume(scheduler) }
                }
            }
            let call = Call {
                maps: [q.as_ptr(), k.as_ptr(), v.as_ptr(), d_o.as_ptr()],
                lse,
                delta,
                sums,
                key_sums,
                counters,
                dk,
                dv,
                lengths: &lengths,
                params: &params,
            };
            // SAFETY: the caller's promise.
            unsafe { Backward::<This>::run::<{ REGISTERS.0 }, { REGISTERS.1 }>(call) }
        }
    )*};
}

abi::attention_grad_sm90!(alone);
abi::attention_grad_sm90_pair!(pairs);

/// See [`abi::attention_grad::sums`].
///
/// # Safety
/// Launched as [`abi::attention_grad::sums`] says.
#[kernel(arch = "sm_90a", max_threads = WARPGROUP)]
pub unsafe fn attention_grad_sm90_round(
    sums: *const f32,
    gradient: *mut u16,
    lengths: FlashFwdLengths,
    params: AttentionGradParams,
    rounding: Rounding,
) {
    let via = shared_array![Via; 1];
    // SAFETY: the caller's promise; the array is this block's.
    unsafe {
        let via = SharedAddr::of(via.cast_const());
        round((sums, gradient), (&lengths, &params), &rounding, via);
    }
}
