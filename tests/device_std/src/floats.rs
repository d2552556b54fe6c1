//! Functions of f32, and conversions.

use cuda_std::{convert, kernel, math, thread};

/// `y[f * len + i] = f(x[i])` for the functions of [`math`], in the order of the test.
///
/// # Safety
/// `x` holds `len` elements and `y` 17 times as many.
#[kernel]
pub unsafe fn math_answers(x: *const f32, y: *mut f32, len: u32) {
    for i in thread::grid_stride(u64::from(len)) {
        // SAFETY: i < len.
        let x = unsafe { x.add(i as usize).read() };
        let values = [
            math::exp(x),
            math::exp2(x),
            math::log(x),
            math::log2(x),
            math::tanh(x),
            math::erf(x),
            math::erfc(x),
            math::gelu(x),
            math::gelu_tanh(x),
            math::silu(x),
            math::sigmoid(x),
            math::sin(x),
            math::cos(x),
            math::rcp(x),
            math::rsqrt(x),
            math::floor(x),
            math::rint(x),
        ];
        for j in 0..17 {
            // SAFETY: one of the 17 results.
            unsafe { y.add(j * len as usize + i as usize).write(values[j]) };
        }
    }
}

/// As [`math_answers`] for the 8 approximations.
///
/// # Safety
/// `x` holds `len` elements and `y` 8 times as many.
#[kernel]
pub unsafe fn approx_answers(x: *const f32, y: *mut f32, len: u32) {
    use math::approx::*;
    for i in thread::grid_stride(u64::from(len)) {
        // SAFETY: i < len.
        let x = unsafe { x.add(i as usize).read() };
        let values = [
            ex2_approx(x),
            lg2_approx(x),
            rcp_approx(x),
            rsqrt_approx(x),
            sqrt_approx(x),
            sin_approx(x),
            cos_approx(x),
            tanh_approx(x),
        ];
        for j in 0..8 {
            // SAFETY: one of the 8 results.
            unsafe { y.add(j * len as usize + i as usize).write(values[j]) };
        }
    }
}

/// `y[7 * i ..]`: x as f16 bits, bf16 bits twice (integer code, instruction), e4m3, e5m2, and back
/// from f16 and e4m3.
///
/// # Safety
/// `x` holds `len` elements and `y` 7 times as many.
#[kernel]
pub unsafe fn convert_answers(x: *const f32, y: *mut u32, len: u32) {
    for i in thread::grid_stride(u64::from(len)) {
        // SAFETY: i < len.
        unsafe {
            let x = x.add(i as usize).read();
            let y = y.add(7 * i as usize);
            let (f16, e4m3) = (convert::f32_to_f16(x), convert::f32_to_e4m3_satfinite(x));
            y.write(u32::from(f16));
            y.add(1).write(u32::from(convert::f32_to_bf16(x)));
            y.add(2).write(convert::f32x2_to_bf16x2_cvt(x, 0.0));
            y.add(3).write(u32::from(e4m3));
            y.add(4).write(u32::from(convert::f32_to_e5m2_satfinite(x)));
            y.add(5).write(convert::f16_to_f32(f16).to_bits());
            y.add(6).write(convert::e4m3_to_f32(e4m3).to_bits());
        }
    }
}

/// `y[3 * i ..]`: the larger f16 of the pairs `x[i]` and `x[len - 1 - i]`, the larger bf16, and the
/// larger bf16 or NaN.
///
/// # Safety
/// `x` holds `len` elements and `y` three times as many.
#[kernel]
pub unsafe fn larger_answers(x: *const u32, y: *mut u32, len: u32) {
    for i in thread::grid_stride(u64::from(len)) {
        // SAFETY: i < len.
        unsafe {
            let [a, b] = [i, u64::from(len) - 1 - i].map(|i| x.add(i as usize).read());
            let y = y.add(3 * i as usize);
            y.write(math::max_f16x2(a, b));
            y.add(1).write(math::max_bf16x2(a, b));
            y.add(2).write(math::max_nan_bf16x2(a, b));
        }
    }
}
