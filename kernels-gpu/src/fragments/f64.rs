//! Functions of f64.

use cuda_std::math::wide;

/// A condition as 1 or 0.
#[inline(always)]
fn claim(holds: bool) -> f64 {
    if holds { 1.0 } else { 0.0 }
}

/// Whether `x` is not 0. A NaN is not, so it is true, as in NumPy.
#[inline(always)]
fn is_true(x: f64) -> bool {
    x != 0.0
}

fragments! {
    f64_neg(x: f64) -> f64 = -x;
    f64_abs(x: f64) -> f64 = x.abs();
    f64_exp(x: f64) -> f64 = wide::exp(x);
    f64_log(x: f64) -> f64 = wide::log(x);
    f64_sqrt(x: f64) -> f64 = wide::sqrt(x);
    f64_rsqrt(x: f64) -> f64 = wide::rsqrt(x);
    f64_rcp(x: f64) -> f64 = wide::rcp(x);
    f64_relu(x: f64) -> f64 = if x < 0.0 { 0.0 } else { x };
    f64_gelu(x: f64) -> f64 = wide::gelu(x);
    f64_gelu_tanh(x: f64) -> f64 = wide::gelu_tanh(x);
    f64_silu(x: f64) -> f64 = wide::silu(x);
    f64_sigmoid(x: f64) -> f64 = wide::sigmoid(x);
    f64_tanh(x: f64) -> f64 = wide::tanh(x);
    f64_square(x: f64) -> f64 = x * x;
    f64_sign(x: f64) -> f64 = if x.abs() > 0.0 { 1f64.copysign(x) } else { x };
    f64_floor(x: f64) -> f64 = wide::floor(x);
    f64_ceil(x: f64) -> f64 = wide::ceil(x);
    f64_round(x: f64) -> f64 = wide::rint(x);
    f64_trunc(x: f64) -> f64 = wide::trunc(x);
    f64_not(x: f64) -> f64 = claim(x == 0.0);
    f64_is_nan(x: f64) -> f64 = claim(x.is_nan());
    f64_is_inf(x: f64) -> f64 = claim(x.abs() == f64::INFINITY);
    f64_is_finite(x: f64) -> f64 = claim(x.abs() < f64::INFINITY);

    f64_add(a: f64, b: f64) -> f64 = a + b;
    f64_sub(a: f64, b: f64) -> f64 = a - b;
    f64_mul(a: f64, b: f64) -> f64 = a * b;
    f64_div(a: f64, b: f64) -> f64 = a / b;
    f64_max(a: f64, b: f64) -> f64 = wide::max_nan(a, b);
    f64_min(a: f64, b: f64) -> f64 = wide::min_nan(a, b);
    f64_copysign(a: f64, b: f64) -> f64 = a.copysign(b);
    f64_eq(a: f64, b: f64) -> f64 = claim(a == b);
    f64_ne(a: f64, b: f64) -> f64 = claim(a != b);
    f64_lt(a: f64, b: f64) -> f64 = claim(a < b);
    f64_le(a: f64, b: f64) -> f64 = claim(a <= b);
    f64_gt(a: f64, b: f64) -> f64 = claim(a > b);
    f64_ge(a: f64, b: f64) -> f64 = claim(a >= b);
    f64_and(a: f64, b: f64) -> f64 = claim(is_true(a) & is_true(b));
    f64_or(a: f64, b: f64) -> f64 = claim(is_true(a) | is_true(b));
    f64_xor(a: f64, b: f64) -> f64 = claim(is_true(a) != is_true(b));

    f64_is_true(x: f64) -> u32 = u32::from(is_true(x));
    f64_select(condition: u32, x: f64, y: f64) -> f64 = if condition != 0 { x } else { y };
}
