//! The entries, by the table of [`Sm80GradEntry`].

use abi::attention::FlashFwdLengths;
use abi::attention_grad::AttentionGradParams;
use abi::attention_grad::sm80::{Part, Sm80GradEntry, Sm80GradTile, THREADS};
use cuda_std::kernel;
use half::{bf16, f16};

use super::kernel::{Arguments, Gradients, run};

macro_rules! kernels {
    ($($name:ident($dtype:ident);)*) => {$(
        #[doc = concat!("The gradients in its name, in `", stringify!($dtype),
            "`; see `abi::attention_grad::sm80`.")]
        ///
        /// # Safety
        /// `params` and `lengths` describe what the pointers point to, as that module demands.
        #[kernel(
            max_threads = THREADS, min_blocks = 2, arch = "sm_80",
            dynamic_shared = Sm80GradEntry::read(stringify!($name)).tile().smem_bytes()
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
            params: AttentionGradParams,
        ) {
            const ENTRY: Sm80GradEntry = Sm80GradEntry::read(stringify!($name));
            struct This;
            impl Gradients for This {
                const PART: Part = ENTRY.part;
            }
            const TILE: Sm80GradTile = ENTRY.tile();
            const CAP: usize = TILE.head_dim_cap as usize;
            const ROWS: usize = TILE.rows as usize;
            const COLUMNS: usize = TILE.columns as usize;
            const M: usize = ROWS / 64;
            const N: usize = TILE.at_once as usize / 8;
            let arguments = Arguments {
                q, k, v, d_o, lse, delta, of_ds, of_p, lengths: &lengths, params: &params,
            };
            // SAFETY: the caller's promise.
            unsafe {
                run::<$dtype, This, CAP, ROWS, COLUMNS, M, N, { N / 2 }, { CAP / 8 }>(&arguments);
            }
        }
    )*};
}

abi::attention_grad_sm80!(kernels);
