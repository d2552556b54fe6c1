//! Between raw words and f32.

use core::array;

use cuda_std::convert;

/// The values of a group, of the dtype of that number.
#[inline(always)]
pub(in crate::elementwise) fn widen<const CVT: bool>(words: [u32; 8], dtype: u32) -> [f32; 8] {
    let half = |j: usize| (words[j / 4 * 4 + j % 4 / 2] >> (16 * (j % 2))) as u16;
    let byte = |j: usize| (words[j / 4 * 4] >> (8 * (j % 4))) as u8;
    match dtype {
        0 => words.map(f32::from_bits),
        1 => array::from_fn(|j| convert::f16_to_f32(half(j))),
        2 => array::from_fn(|j| convert::bf16_to_f32(half(j))),
        3 | 4 if CVT => {
            let pair = |j: usize| {
                let bytes = (words[j / 4 * 4] >> (16 * (j % 4 / 2))) as u16;
                if dtype == 3 {
                    convert::e4m3x2_to_f32x2_cvt(bytes)
                } else {
                    convert::e5m2x2_to_f32x2_cvt(bytes)
                }
            };
            array::from_fn(|j| pair(j)[j % 2])
        }
        3 => array::from_fn(|j| convert::e4m3_to_f32(byte(j))),
        4 => array::from_fn(|j| convert::e5m2_to_f32(byte(j))),
        5 => array::from_fn(|j| f32::from(byte(j))),
        _ => array::from_fn(|j| f32::from(byte(j) as i8)),
    }
}

/// The values of a group rounded to the dtype of that number: to nearest for floats; integers lose
/// their fraction and saturate, NaN is 0.
#[inline(always)]
pub(in crate::elementwise) fn narrow<const CVT: bool>(value: [f32; 8], dtype: u32) -> [u32; 8] {
    let halves = |pair: &dyn Fn(f32, f32) -> u32| {
        let [a, b, c, d, e, f, g, h] = value;
        [pair(a, b), pair(c, d), 0, 0, pair(e, f), pair(g, h), 0, 0]
    };
    let bytes = |pair: &dyn Fn(f32, f32) -> u32| {
        let [a, b, c, d, e, f, g, h] = value;
        let low = pair(a, b) | pair(c, d) << 16;
        let high = pair(e, f) | pair(g, h) << 16;
        [low, 0, 0, 0, high, 0, 0, 0]
    };
    let two = |a: u8, b: u8| u32::from(a) | u32::from(b) << 8;
    match dtype {
        0 => value.map(f32::to_bits),
        1 if CVT => halves(&convert::f32x2_to_f16x2_cvt),
        1 => halves(&|a, b| {
            u32::from(convert::f32_to_f16(a)) | u32::from(convert::f32_to_f16(b)) << 16
        }),
        2 if CVT => halves(&convert::f32x2_to_bf16x2_cvt),
        2 => halves(&|a, b| {
            u32::from(convert::f32_to_bf16(a)) | u32::from(convert::f32_to_bf16(b)) << 16
        }),
        3 if CVT => bytes(&|a, b| u32::from(convert::f32x2_to_e4m3x2_cvt(a, b))),
        3 => bytes(&|a, b| {
            two(
                convert::f32_to_e4m3_satfinite(a),
                convert::f32_to_e4m3_satfinite(b),
            )
        }),
        4 if CVT => bytes(&|a, b| u32::from(convert::f32x2_to_e5m2x2_cvt(a, b))),
        4 => bytes(&|a, b| {
            two(
                convert::f32_to_e5m2_satfinite(a),
                convert::f32_to_e5m2_satfinite(b),
            )
        }),
        5 => bytes(&|a, b| two(a as u8, b as u8)),
        _ => bytes(&|a, b| two(a as i8 as u8, b as i8 as u8)),
    }
}
