//! The entries, one for each choice of element type, head_dim cap and part.

use cuda_std::kernel;
use half::{bf16, f16};
use spec::attention::FlashFwdLengths;
use spec::attention::backward::FlashBwdParams;
use spec::attention::backward::sm80::{Part, Sm80BwdTile, THREADS};

use super::kernel::{Arguments, Gradients, run};

macro_rules! entries {
    ($($name:ident: $dtype:ident, $cap:literal, $part:ident;)*) => {$(
        #[doc = concat!("`", stringify!($part), "` in `", stringify!($dtype),
            "`, head_dim and head_dim_v up to ", stringify!($cap),
            "; see `spec::attention::backward::sm80`.")]
        ///
        /// # Safety
        /// `params` and `lengths` describe what the pointers point to, as that module demands.
        #[kernel(
            max_threads = THREADS, min_blocks = 2, arch = "sm_80",
            dynamic_shared = Sm80BwdTile::of($cap, Part::$part).smem_bytes()
        )]
        pub unsafe fn $name(
            q: *const u8,
            k: *const u8,
            v: *const u8,
            d_o: *const u8,
            lse: *const f32,
            delta: *const f32,
            of_ds: *mut u8,
            of_p: *mut u8,
            lengths: FlashFwdLengths,
            params: FlashBwdParams,
        ) {
            struct This;
            impl Gradients for This {
                const PART: Part = Part::$part;
            }
            const TILE: Sm80BwdTile = Sm80BwdTile::of($cap, Part::$part);
            const ROWS: usize = TILE.rows as usize;
            const COLUMNS: usize = TILE.columns as usize;
            const M: usize = ROWS / 64;
            const N: usize = TILE.at_once as usize / 8;
            let arguments = Arguments {
                q, k, v, d_o, lse, delta, of_ds, of_p, lengths: &lengths, params: &params,
            };
            // SAFETY: the caller's promise.
            unsafe {
                run::<$dtype, This, $cap, ROWS, COLUMNS, M, N, { N / 2 }, { $cap / 8 }>(&arguments);
            }
        }
    )*};
}

entries! {
    attention_backward_sm80_bf16_d64_dq: bf16, 64, Dq;
    attention_backward_sm80_bf16_d64_dkdv: bf16, 64, DkDv;
    attention_backward_sm80_bf16_d128_dq: bf16, 128, Dq;
    attention_backward_sm80_bf16_d128_dkdv: bf16, 128, DkDv;
    attention_backward_sm80_bf16_d256_dq: bf16, 256, Dq;
    attention_backward_sm80_bf16_d256_dk: bf16, 256, Dk;
    attention_backward_sm80_bf16_d256_dv: bf16, 256, Dv;
    attention_backward_sm80_f16_d64_dq: f16, 64, Dq;
    attention_backward_sm80_f16_d64_dkdv: f16, 64, DkDv;
    attention_backward_sm80_f16_d128_dq: f16, 128, Dq;
    attention_backward_sm80_f16_d128_dkdv: f16, 128, DkDv;
    attention_backward_sm80_f16_d256_dq: f16, 256, Dq;
    attention_backward_sm80_f16_d256_dk: f16, 256, Dk;
    attention_backward_sm80_f16_d256_dv: f16, 256, Dv;
}
