//! Elements of a word, converted to the type of the arithmetic. Exact.

use cuda_std::convert;

/// Half `part` of a word.
#[inline(always)]
fn half(word: u32, part: u32) -> u16 {
    (word >> (16 * part)) as u16
}

/// Byte `part` of a word.
#[inline(always)]
fn byte(word: u32, part: u32) -> u8 {
    (word >> (8 * part)) as u8
}

/// Float `part` of four e4m3, of which one instruction converts two.
#[inline(always)]
fn e4m3_pair(word: u32, part: u32) -> f32 {
    convert::e4m3x2_to_f32x2_cvt(half(word, part / 2))[part as usize % 2]
}

/// As [`e4m3_pair`], for e5m2.
#[inline(always)]
fn e5m2_pair(word: u32, part: u32) -> f32 {
    convert::e5m2x2_to_f32x2_cvt(half(word, part / 2))[part as usize % 2]
}

fragments! {
    f32_of_f32_0(word: u32) -> f32 = f32::from_bits(word);
    f32_of_f16_0(word: u32) -> f32 = convert::f16_to_f32(half(word, 0));
    f32_of_f16_1(word: u32) -> f32 = convert::f16_to_f32(half(word, 1));
    f32_of_bf16_0(word: u32) -> f32 = f32::from_bits(word << 16);
    f32_of_bf16_1(word: u32) -> f32 = f32::from_bits(word & 0xffff_0000);
    f32_of_e4m3_0(word: u32) -> f32 = convert::e4m3_to_f32(byte(word, 0));
    f32_of_e4m3_1(word: u32) -> f32 = convert::e4m3_to_f32(byte(word, 1));
    f32_of_e4m3_2(word: u32) -> f32 = convert::e4m3_to_f32(byte(word, 2));
    f32_of_e4m3_3(word: u32) -> f32 = convert::e4m3_to_f32(byte(word, 3));
    f32_of_e5m2_0(word: u32) -> f32 = convert::e5m2_to_f32(byte(word, 0));
    f32_of_e5m2_1(word: u32) -> f32 = convert::e5m2_to_f32(byte(word, 1));
    f32_of_e5m2_2(word: u32) -> f32 = convert::e5m2_to_f32(byte(word, 2));
    f32_of_e5m2_3(word: u32) -> f32 = convert::e5m2_to_f32(byte(word, 3));
    f32_of_u8_0(word: u32) -> f32 = f32::from(byte(word, 0));
    f32_of_u8_1(word: u32) -> f32 = f32::from(byte(word, 1));
    f32_of_u8_2(word: u32) -> f32 = f32::from(byte(word, 2));
    f32_of_u8_3(word: u32) -> f32 = f32::from(byte(word, 3));
    f32_of_i8_0(word: u32) -> f32 = f32::from(byte(word, 0) as i8);
    f32_of_i8_1(word: u32) -> f32 = f32::from(byte(word, 1) as i8);
    f32_of_i8_2(word: u32) -> f32 = f32::from(byte(word, 2) as i8);
    f32_of_i8_3(word: u32) -> f32 = f32::from(byte(word, 3) as i8);

    f64_of_f64_0(low: u32, high: u32) -> f64 = f64::from_bits(u64::from(low) | u64::from(high) << 32);

    i32_of_i32_0(word: u32) -> i32 = word as i32;

    i64_of_i64_0(low: u32, high: u32) -> i64 = (u64::from(low) | u64::from(high) << 32) as i64;
    i64_of_i32_0(word: u32) -> i64 = i64::from(word as i32);
    i64_of_u32_0(word: u32) -> i64 = i64::from(word);
    i64_of_i16_0(word: u32) -> i64 = i64::from(half(word, 0) as i16);
    i64_of_i16_1(word: u32) -> i64 = i64::from(half(word, 1) as i16);
    i64_of_u16_0(word: u32) -> i64 = i64::from(half(word, 0));
    i64_of_u16_1(word: u32) -> i64 = i64::from(half(word, 1));
    i64_of_i8_0(word: u32) -> i64 = i64::from(byte(word, 0) as i8);
    i64_of_i8_1(word: u32) -> i64 = i64::from(byte(word, 1) as i8);
    i64_of_i8_2(word: u32) -> i64 = i64::from(byte(word, 2) as i8);
    i64_of_i8_3(word: u32) -> i64 = i64::from(byte(word, 3) as i8);
    i64_of_u8_0(word: u32) -> i64 = i64::from(byte(word, 0));
    i64_of_u8_1(word: u32) -> i64 = i64::from(byte(word, 1));
    i64_of_u8_2(word: u32) -> i64 = i64::from(byte(word, 2));
    i64_of_u8_3(word: u32) -> i64 = i64::from(byte(word, 3));
}

fragments_for! { "sm_89";
    f32_of_e4m3_0_sm89(word: u32) -> f32 = e4m3_pair(word, 0);
    f32_of_e4m3_1_sm89(word: u32) -> f32 = e4m3_pair(word, 1);
    f32_of_e4m3_2_sm89(word: u32) -> f32 = e4m3_pair(word, 2);
    f32_of_e4m3_3_sm89(word: u32) -> f32 = e4m3_pair(word, 3);
    f32_of_e5m2_0_sm89(word: u32) -> f32 = e5m2_pair(word, 0);
    f32_of_e5m2_1_sm89(word: u32) -> f32 = e5m2_pair(word, 1);
    f32_of_e5m2_2_sm89(word: u32) -> f32 = e5m2_pair(word, 2);
    f32_of_e5m2_3_sm89(word: u32) -> f32 = e5m2_pair(word, 3);
}
