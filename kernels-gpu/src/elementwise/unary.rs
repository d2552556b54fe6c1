//! Entries of one input.

use cuda_std::element::{E4m3, E5m2};
use cuda_std::{kernel, math};
use half::{bf16, f16};
use spec::elementwise::{ElementwiseParams, THREADS};

use super::body::{copy, map};

macro_rules! unary {
    ($($f32:ident, $f16:ident, $bf16:ident: |$x:ident, $scalar:ident| $value:expr;)*) => {
        $(unary! {
            $f32: f32, f32, |$x, $scalar| $value;
            $f16: f16, f16, |$x, $scalar| $value;
            $bf16: bf16, bf16, |$x, $scalar| $value;
        })*
    };
    ($($name:ident: $from:ty, $to:ty, |$x:ident, $scalar:ident| $value:expr;)*) => {$(
        #[doc = concat!("`", stringify!($value), "` of each ", stringify!($from), ".")]
        ///
        /// # Safety
        /// Launched as `spec::elementwise` says, with tensors of these extents and strides.
        #[kernel(max_threads = THREADS)]
        pub unsafe fn $name(x: *const $from, y: *mut $to, params: ElementwiseParams) {
            let $scalar = params.scalar;
            // SAFETY: the launch's promise.
            unsafe { map([x], y, &params, #[inline(always)] |[$x]| $value) }
        }
    )*};
}

unary! {
    unary_neg_f32, unary_neg_f16, unary_neg_bf16: |x, _scalar| -x;
    unary_abs_f32, unary_abs_f16, unary_abs_bf16: |x, _scalar| x.abs();
    unary_exp_f32, unary_exp_f16, unary_exp_bf16: |x, _scalar| math::exp(x);
    unary_log_f32, unary_log_f16, unary_log_bf16: |x, _scalar| math::log(x);
    unary_sqrt_f32, unary_sqrt_f16, unary_sqrt_bf16: |x, _scalar| math::sqrt(x);
    unary_rsqrt_f32, unary_rsqrt_f16, unary_rsqrt_bf16: |x, _scalar| math::rsqrt(x);
    unary_rcp_f32, unary_rcp_f16, unary_rcp_bf16: |x, _scalar| math::rcp(x);
    unary_relu_f32, unary_relu_f16, unary_relu_bf16: |x, _scalar| if x < 0.0 { 0.0 } else { x };
    unary_gelu_f32, unary_gelu_f16, unary_gelu_bf16: |x, _scalar| math::gelu(x);
    unary_gelu_tanh_f32, unary_gelu_tanh_f16, unary_gelu_tanh_bf16: |x, _scalar| math::gelu_tanh(x);
    unary_silu_f32, unary_silu_f16, unary_silu_bf16: |x, _scalar| math::silu(x);
    unary_sigmoid_f32, unary_sigmoid_f16, unary_sigmoid_bf16: |x, _scalar| math::sigmoid(x);
    unary_tanh_f32, unary_tanh_f16, unary_tanh_bf16: |x, _scalar| math::tanh(x);
    unary_sin_f32, unary_sin_f16, unary_sin_bf16: |x, _scalar| math::sin(x);
    unary_cos_f32, unary_cos_f16, unary_cos_bf16: |x, _scalar| math::cos(x);
    unary_erf_f32, unary_erf_f16, unary_erf_bf16: |x, _scalar| math::erf(x);
    unary_square_f32, unary_square_f16, unary_square_bf16: |x, _scalar| x * x;
    unary_scale_f32, unary_scale_f16, unary_scale_bf16: |x, scalar| scalar * x;
    unary_offset_f32, unary_offset_f16, unary_offset_bf16: |x, scalar| x + scalar;
}

unary! {
    cast_f32_f16: f32, f16, |x, _scalar| x;
    cast_f32_bf16: f32, bf16, |x, _scalar| x;
    cast_f16_f32: f16, f32, |x, _scalar| x;
    cast_f16_bf16: f16, bf16, |x, _scalar| x;
    cast_bf16_f32: bf16, f32, |x, _scalar| x;
    cast_bf16_f16: bf16, f16, |x, _scalar| x;
    cast_e4m3_f32: E4m3, f32, |x, _scalar| x;
    cast_e4m3_f16: E4m3, f16, |x, _scalar| x;
    cast_e4m3_bf16: E4m3, bf16, |x, _scalar| x;
    cast_e4m3_e5m2: E4m3, E5m2, |x, _scalar| x;
    cast_e5m2_f32: E5m2, f32, |x, _scalar| x;
    cast_e5m2_f16: E5m2, f16, |x, _scalar| x;
    cast_e5m2_bf16: E5m2, bf16, |x, _scalar| x;
    cast_e5m2_e4m3: E5m2, E4m3, |x, _scalar| x;
    cast_f32_e4m3: f32, E4m3, |x, _scalar| x;
    cast_f32_e5m2: f32, E5m2, |x, _scalar| x;
    cast_f16_e4m3: f16, E4m3, |x, _scalar| x;
    cast_f16_e5m2: f16, E5m2, |x, _scalar| x;
    cast_bf16_e4m3: bf16, E4m3, |x, _scalar| x;
    cast_bf16_e5m2: bf16, E5m2, |x, _scalar| x;
}

macro_rules! copies {
    ($($name:ident: $ty:ty;)*) => {$(
        #[doc = concat!("Copies elements as wide as ", stringify!($ty), ".")]
        ///
        /// # Safety
        /// Launched as `spec::elementwise` says, with tensors of these extents and strides.
        #[kernel(max_threads = THREADS)]
        pub unsafe fn $name(x: *const $ty, y: *mut $ty, params: ElementwiseParams) {
            // SAFETY: the launch's promise.
            unsafe { copy(x, y, &params) }
        }
    )*};
}

copies! {
    copy_b8: u8;
    copy_b16: u16;
    copy_b32: u32;
    copy_b64: u64;
}
