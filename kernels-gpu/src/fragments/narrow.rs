//! Words of elements, converted from the type of the arithmetic.
//!
//! **Numerics**: to floats, rounded once to nearest, ties to even; beyond the largest value of an
//! 8-bit type, to that value. To integers, towards zero; beyond the range to its end, NaN to 0.
//! From f64 and i64, floats narrower than f32 are rounded from `f32_odd_of_..`, which keeps all
//! that matters to them.

use cuda_std::convert;

/// x rounded to odd: if x is between two f32, the one whose last bit is 1. A narrower float that is
/// rounded from this has been rounded from x only once.
#[inline(always)]
fn to_odd(x: f64) -> f32 {
    let nearest = x as f32;
    let back = f64::from(nearest);
    let bits = nearest.to_bits();
    let is_even_and_off = (back != x) & !x.is_nan() & (bits & 1 == 0);
    // x is between `nearest`, which is even, and its other neighbour, which is odd.
    let other = if back.abs() > x.abs() {
        bits - 1
    } else {
        bits + 1
    };
    f32::from_bits(if is_even_and_off { other } else { bits })
}

/// As [`to_odd`], for an integer.
#[inline(always)]
fn integer_to_odd(x: i64) -> f32 {
    let magnitude = x.unsigned_abs();
    let bits = 64 - magnitude.leading_zeros();
    let dropped = bits.saturating_sub(24);
    let kept = magnitude >> dropped;
    let is_exact = kept << dropped == magnitude;
    let odd = (kept | u64::from(!is_exact)) << dropped;
    // 24 bits: exact.
    let value = odd as f32;
    if x < 0 { -value } else { value }
}

/// x, or the end of the range if x is beyond it.
#[inline(always)]
fn clamp(x: i64, least: i64, most: i64) -> i64 {
    let x = if x < least { least } else { x };
    if x > most { most } else { x }
}

/// Two halves as a word.
#[inline(always)]
fn halves(low: u16, high: u16) -> u32 {
    u32::from(low) | u32::from(high) << 16
}

/// Four bytes as a word.
#[inline(always)]
fn bytes(of: [u8; 4]) -> u32 {
    u32::from_le_bytes(of)
}

/// The upper word.
#[inline(always)]
fn high(x: u64) -> u32 {
    (x >> 32) as u32
}

fragments! {
    f32_from_f32(x: f32) -> u32 = x.to_bits();
    f16_from_f32(a: f32, b: f32) -> u32 = halves(convert::f32_to_f16(a), convert::f32_to_f16(b));
    bf16_from_f32(a: f32, b: f32) -> u32 = halves(convert::f32_to_bf16(a), convert::f32_to_bf16(b));
    e4m3_from_f32(a: f32, b: f32, c: f32, d: f32) -> u32 = bytes([a, b, c, d].map(convert::f32_to_e4m3_satfinite));
    e5m2_from_f32(a: f32, b: f32, c: f32, d: f32) -> u32 = bytes([a, b, c, d].map(convert::f32_to_e5m2_satfinite));
    u8_from_f32(a: f32, b: f32, c: f32, d: f32) -> u32 = bytes([a as u8, b as u8, c as u8, d as u8]);
    i8_from_f32(a: f32, b: f32, c: f32, d: f32) -> u32 = bytes([a as i8 as u8, b as i8 as u8, c as i8 as u8, d as i8 as u8]);
    u16_from_f32(a: f32, b: f32) -> u32 = halves(a as u16, b as u16);
    i16_from_f32(a: f32, b: f32) -> u32 = halves(a as i16 as u16, b as i16 as u16);
    u32_from_f32(x: f32) -> u32 = x as u32;
    i32_from_f32(x: f32) -> u32 = x as i32 as u32;
    i64_from_f32_0(x: f32) -> u32 = x as i64 as u32;
    i64_from_f32_1(x: f32) -> u32 = high(x as i64 as u64);
    f64_from_f32_0(x: f32) -> u32 = f64::from(x).to_bits() as u32;
    f64_from_f32_1(x: f32) -> u32 = high(f64::from(x).to_bits());

    f64_from_f64_0(x: f64) -> u32 = x.to_bits() as u32;
    f64_from_f64_1(x: f64) -> u32 = high(x.to_bits());
    f32_odd_of_f64(x: f64) -> f32 = to_odd(x);
    f32_from_f64(x: f64) -> u32 = (x as f32).to_bits();
    u8_from_f64(a: f64, b: f64, c: f64, d: f64) -> u32 = bytes([a as u8, b as u8, c as u8, d as u8]);
    i8_from_f64(a: f64, b: f64, c: f64, d: f64) -> u32 = bytes([a as i8 as u8, b as i8 as u8, c as i8 as u8, d as i8 as u8]);
    u16_from_f64(a: f64, b: f64) -> u32 = halves(a as u16, b as u16);
    i16_from_f64(a: f64, b: f64) -> u32 = halves(a as i16 as u16, b as i16 as u16);
    u32_from_f64(x: f64) -> u32 = x as u32;
    i32_from_f64(x: f64) -> u32 = x as i32 as u32;
    i64_from_f64_0(x: f64) -> u32 = x as i64 as u32;
    i64_from_f64_1(x: f64) -> u32 = high(x as i64 as u64);

    i32_from_i32(x: i32) -> u32 = x as u32;
    u8_from_i32(a: i32, b: i32, c: i32, d: i32) -> u32 = bytes([a, b, c, d].map(|x| clamp(i64::from(x), 0, 255) as u8));

    i64_from_i64_0(x: i64) -> u32 = x as u32;
    i64_from_i64_1(x: i64) -> u32 = high(x as u64);
    f64_from_i64_0(x: i64) -> u32 = (x as f64).to_bits() as u32;
    f64_from_i64_1(x: i64) -> u32 = high((x as f64).to_bits());
    f32_odd_of_i64(x: i64) -> f32 = integer_to_odd(x);
    f32_from_i64(x: i64) -> u32 = (x as f32).to_bits();
    u8_from_i64(a: i64, b: i64, c: i64, d: i64) -> u32 = bytes([a, b, c, d].map(|x| clamp(x, 0, 255) as u8));
    i8_from_i64(a: i64, b: i64, c: i64, d: i64) -> u32 = bytes([a, b, c, d].map(|x| clamp(x, -128, 127) as u8));
    u16_from_i64(a: i64, b: i64) -> u32 = halves(clamp(a, 0, 65_535) as u16, clamp(b, 0, 65_535) as u16);
    i16_from_i64(a: i64, b: i64) -> u32 = halves(clamp(a, -32_768, 32_767) as u16, clamp(b, -32_768, 32_767) as u16);
    u32_from_i64(x: i64) -> u32 = clamp(x, 0, 0xffff_ffff) as u32;
    i32_from_i64(x: i64) -> u32 = clamp(x, -0x8000_0000, 0x7fff_ffff) as u32;
}

fragments_for! { "sm_80";
    f16_from_f32_sm80(a: f32, b: f32) -> u32 = convert::f32x2_to_f16x2_cvt(a, b);
    bf16_from_f32_sm80(a: f32, b: f32) -> u32 = convert::f32x2_to_bf16x2_cvt(a, b);
}

fragments_for! { "sm_89";
    e4m3_from_f32_sm89(a: f32, b: f32, c: f32, d: f32) -> u32 = halves(convert::f32x2_to_e4m3x2_cvt(a, b), convert::f32x2_to_e4m3x2_cvt(c, d));
    e5m2_from_f32_sm89(a: f32, b: f32, c: f32, d: f32) -> u32 = halves(convert::f32x2_to_e5m2x2_cvt(a, b), convert::f32x2_to_e5m2x2_cvt(c, d));
}
