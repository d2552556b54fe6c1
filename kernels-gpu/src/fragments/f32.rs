//! Functions of f32.

use cuda_std::math::{self, narrow};

/// A condition as 1 or 0.
#[inline(always)]
fn claim(holds: bool) -> f32 {
    if holds { 1.0 } else { 0.0 }
}

/// Whether `x` is not 0. A NaN is not, so it is true, as in NumPy.
#[inline(always)]
fn is_true(x: f32) -> bool {
    x != 0.0
}

fragments! {
    f32_neg(x: f32) -> f32 = math::neg(x);
    f32_abs(x: f32) -> f32 = math::abs(x);
    f32_exp(x: f32) -> f32 = math::exp(x);
    f32_log(x: f32) -> f32 = math::log(x);
    f32_sqrt(x: f32) -> f32 = math::sqrt(x);
    f32_rsqrt(x: f32) -> f32 = math::rsqrt(x);
    f32_rcp(x: f32) -> f32 = math::rcp(x);
    f32_relu(x: f32) -> f32 = if x < 0.0 { 0.0 } else { x };
    f32_gelu(x: f32) -> f32 = math::gelu(x);
    f32_gelu_tanh(x: f32) -> f32 = math::gelu_tanh(x);
    f32_silu(x: f32) -> f32 = math::silu(x);
    f32_sigmoid(x: f32) -> f32 = math::sigmoid(x);
    f32_tanh(x: f32) -> f32 = math::tanh(x);
    f32_sin(x: f32) -> f32 = math::sin(x);
    f32_cos(x: f32) -> f32 = math::cos(x);
    f32_erf(x: f32) -> f32 = math::erf(x);
    f32_square(x: f32) -> f32 = x * x;
    f32_sign(x: f32) -> f32 = if x.abs() > 0.0 { 1f32.copysign(x) } else { x };
    f32_floor(x: f32) -> f32 = math::floor(x);
    f32_ceil(x: f32) -> f32 = math::ceil(x);
    f32_round(x: f32) -> f32 = math::rint(x);
    f32_trunc(x: f32) -> f32 = math::trunc(x);
    f32_exp2(x: f32) -> f32 = math::exp2(x);
    f32_expm1(x: f32) -> f32 = math::expm1(x);
    f32_log2(x: f32) -> f32 = math::log2(x);
    f32_log10(x: f32) -> f32 = math::log10(x);
    f32_log1p(x: f32) -> f32 = math::log1p(x);
    f32_tan(x: f32) -> f32 = math::tan(x);
    f32_asin(x: f32) -> f32 = math::asin(x);
    f32_acos(x: f32) -> f32 = math::acos(x);
    f32_atan(x: f32) -> f32 = math::atan(x);
    f32_sinh(x: f32) -> f32 = math::sinh(x);
    f32_cosh(x: f32) -> f32 = math::cosh(x);
    f32_asinh(x: f32) -> f32 = math::asinh(x);
    f32_acosh(x: f32) -> f32 = math::acosh(x);
    f32_atanh(x: f32) -> f32 = math::atanh(x);
    f32_erfc(x: f32) -> f32 = math::erfc(x);
    f32_not(x: f32) -> f32 = claim(x == 0.0);
    f32_is_nan(x: f32) -> f32 = claim(x.is_nan());
    f32_is_inf(x: f32) -> f32 = claim(x.abs() == f32::INFINITY);
    f32_is_finite(x: f32) -> f32 = claim(x.abs() < f32::INFINITY);

    f32_add(a: f32, b: f32) -> f32 = a + b;
    f32_sub(a: f32, b: f32) -> f32 = a - b;
    f32_mul(a: f32, b: f32) -> f32 = a * b;
    f32_div(a: f32, b: f32) -> f32 = a / b;
    f32_max(a: f32, b: f32) -> f32 = math::maximum(a, b);
    f32_min(a: f32, b: f32) -> f32 = math::minimum(a, b);
    f32_pow(a: f32, b: f32) -> f32 = math::pow(a, b);
    f32_remainder(a: f32, b: f32) -> f32 = math::remainder(a, b);
    f32_fmod(a: f32, b: f32) -> f32 = math::fmod(a, b);
    f32_atan2(a: f32, b: f32) -> f32 = math::atan2(a, b);
    f32_hypot(a: f32, b: f32) -> f32 = math::hypot(a, b);
    f32_copysign(a: f32, b: f32) -> f32 = a.copysign(b);
    f32_eq(a: f32, b: f32) -> f32 = claim(a == b);
    f32_ne(a: f32, b: f32) -> f32 = claim(a != b);
    f32_lt(a: f32, b: f32) -> f32 = claim(a < b);
    f32_le(a: f32, b: f32) -> f32 = claim(a <= b);
    f32_gt(a: f32, b: f32) -> f32 = claim(a > b);
    f32_ge(a: f32, b: f32) -> f32 = claim(a >= b);
    f32_and(a: f32, b: f32) -> f32 = claim(is_true(a) & is_true(b));
    f32_or(a: f32, b: f32) -> f32 = claim(is_true(a) | is_true(b));
    f32_xor(a: f32, b: f32) -> f32 = claim(is_true(a) != is_true(b));

    f32_relu_grad(x: f32, dy: f32) -> f32 = math::relu_grad(x) * dy;
    f32_gelu_grad(x: f32, dy: f32) -> f32 = math::gelu_grad(x) * dy;
    f32_gelu_tanh_grad(x: f32, dy: f32) -> f32 = math::gelu_tanh_grad(x) * dy;
    f32_silu_grad(x: f32, dy: f32) -> f32 = math::silu_grad(x) * dy;
    f32_sigmoid_grad(x: f32, dy: f32) -> f32 = math::sigmoid_grad(x) * dy;
    f32_tanh_grad(x: f32, dy: f32) -> f32 = math::tanh_grad(x) * dy;

    f32_exp_narrow(x: f32) -> f32 = narrow::exp(x);
    f32_exp2_narrow(x: f32) -> f32 = narrow::exp2(x);
    f32_sqrt_narrow(x: f32) -> f32 = narrow::sqrt(x);
    f32_rsqrt_narrow(x: f32) -> f32 = narrow::rsqrt(x);
    f32_sigmoid_narrow(x: f32) -> f32 = narrow::sigmoid(x);
    f32_silu_narrow(x: f32) -> f32 = narrow::silu(x);
    f32_gelu_narrow(x: f32) -> f32 = narrow::gelu(x);
    f32_gelu_tanh_narrow(x: f32) -> f32 = narrow::gelu_tanh(x);
    f32_tanh_narrow(x: f32) -> f32 = narrow::tanh(x);

    f32_is_true(x: f32) -> u32 = u32::from(is_true(x));
    f32_select(condition: u32, x: f32, y: f32) -> f32 = if condition != 0 { x } else { y };
}

fragments_for! { "sm_80";
    f32_max_sm80(a: f32, b: f32) -> f32 = math::maximum_sm80(a, b);
    f32_min_sm80(a: f32, b: f32) -> f32 = math::minimum_sm80(a, b);
}
