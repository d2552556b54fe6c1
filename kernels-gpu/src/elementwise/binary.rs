//! Entries of two inputs.

use cuda_std::{kernel, math};
use half::{bf16, f16};
use spec::elementwise::{ElementwiseParams, THREADS};

use super::body::map;

macro_rules! binary {
    ($($f32:ident, $f16:ident, $bf16:ident: |$a:ident, $b:ident| $value:expr;)*) => {
        $(binary! {
            $f32: f32, |$a, $b| $value;
            $f16: f16, |$a, $b| $value;
            $bf16: bf16, |$a, $b| $value;
        })*
    };
    ($($name:ident: $ty:ty, |$a:ident, $b:ident| $value:expr;)*) => {$(
        #[doc = concat!("`", stringify!($value), "` of each pair of ", stringify!($ty), ".")]
        ///
        /// # Safety
        /// Launched as `spec::elementwise` says, with tensors of these extents and strides.
        #[kernel(max_threads = THREADS)]
        pub unsafe fn $name(a: *const $ty, b: *const $ty, y: *mut $ty, params: ElementwiseParams) {
            // SAFETY: the launch's promise.
            unsafe { map([a, b], y, &params, #[inline(always)] |[$a, $b]| $value) }
        }
    )*};
}

binary! {
    binary_add_f32, binary_add_f16, binary_add_bf16: |a, b| a + b;
    binary_sub_f32, binary_sub_f16, binary_sub_bf16: |a, b| a - b;
    binary_mul_f32, binary_mul_f16, binary_mul_bf16: |a, b| a * b;
    binary_div_f32, binary_div_f16, binary_div_bf16: |a, b| a / b;
    binary_max_f32, binary_max_f16, binary_max_bf16: |a, b| math::max_nan(a, b);
    binary_min_f32, binary_min_f16, binary_min_bf16: |a, b| math::min_nan(a, b);
}
