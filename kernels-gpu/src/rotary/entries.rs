//! The entries: for each dtype of x and of the tables, by vectors of halves, by vectors of
//! neighbours, and with any strides.

use cuda_std::kernel;
use cuda_std::param::ByValue;
use half::{bf16, f16};
use spec::rotary::{RotaryParams, THREADS};

use super::place::Arrays;
use super::{strided, vectors};

macro_rules! entries {
    ($($name:ident: $ty:ty, $table:ty, $rotate:expr;)*) => {$(
        #[doc = concat!("Turns pairs of ", stringify!($ty), " by tables of ", stringify!($table), ".")]
        ///
        /// # Safety
        /// Launched as `spec::rotary` says, with arrays of these extents and strides.
        #[kernel(max_threads = THREADS)]
        pub unsafe fn $name(
            x: *const u8,
            y: *mut u8,
            cos: *const u8,
            sin: *const u8,
            positions: *const i32,
            params: ByValue<RotaryParams, 552>,
        ) {
            let params = &*params;
            let arrays = Arrays {
                x,
                y,
                cos,
                sin,
                positions,
                params,
            };
            // SAFETY: the launch's promise.
            unsafe { $rotate(&arrays) }
        }
    )*};
}

entries! {
    rotary_f32_f32_halves: f32, f32, vectors::rotate::<f32, f32, 4, false>;
    rotary_f32_f32_interleaved: f32, f32, vectors::rotate::<f32, f32, 4, true>;
    rotary_f32_f32_strided: f32, f32, strided::rotate::<f32, f32>;
    rotary_f16_f32_halves: f16, f32, vectors::rotate::<f16, f32, 8, false>;
    rotary_f16_f32_interleaved: f16, f32, vectors::rotate::<f16, f32, 8, true>;
    rotary_f16_f32_strided: f16, f32, strided::rotate::<f16, f32>;
    rotary_f16_f16_halves: f16, f16, vectors::rotate::<f16, f16, 8, false>;
    rotary_f16_f16_interleaved: f16, f16, vectors::rotate::<f16, f16, 8, true>;
    rotary_f16_f16_strided: f16, f16, strided::rotate::<f16, f16>;
    rotary_bf16_f32_halves: bf16, f32, vectors::rotate::<bf16, f32, 8, false>;
    rotary_bf16_f32_interleaved: bf16, f32, vectors::rotate::<bf16, f32, 8, true>;
    rotary_bf16_f32_strided: bf16, f32, strided::rotate::<bf16, f32>;
    rotary_bf16_bf16_halves: bf16, bf16, vectors::rotate::<bf16, bf16, 8, false>;
    rotary_bf16_bf16_interleaved: bf16, bf16, vectors::rotate::<bf16, bf16, 8, true>;
    rotary_bf16_bf16_strided: bf16, bf16, strided::rotate::<bf16, bf16>;
}
