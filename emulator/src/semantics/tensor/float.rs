//! Elements as exact f32 values with the exponents that alignment looks at.
//!
//! Nothing here overflows; it wraps so that a build with overflow checks has vectors too.

use super::Element;

/// Exponent of zero: below every other, even if another exponent is added.
pub(crate) const NOTHING: i32 = -20_000;
/// Exponent of infinities and NaN: above every other, even if that of zero is added.
pub(crate) const SPECIAL: i32 = 60_000;

/// Value and exponent of a float with `MANTISSA` stored bits of significand.
#[inline(always)]
fn decode<const BITS: u32, const MANTISSA: u32>(bits: u32) -> (f32, i32) {
    let exponent_bits = BITS - 1 - MANTISSA;
    let bias = (1 << (exponent_bits - 1)) - 1;
    let magnitude = bits & ((1 << (BITS - 1)) - 1);
    let field = magnitude >> MANTISSA;
    // The exponent still has the source's bias; a multiplication corrects it, for subnormals too.
    let rebias = f32::from_bits((254 - bias) << 23);
    let value = f32::from_bits(magnitude << (23 - MANTISSA)) * rebias;
    let (special, value) = if BITS == 8 && MANTISSA == 3 {
        let nan = magnitude == 0x7f;
        (nan, if nan { f32::NAN } else { value })
    } else {
        let special = field == (1 << exponent_bits) - 1;
        let fraction = magnitude & ((1 << MANTISSA) - 1);
        let odd = if fraction == 0 {
            f32::INFINITY
        } else {
            f32::NAN
        };
        (special, if special { odd } else { value })
    };
    let exponent = (field.max(1) as i32).wrapping_sub(bias as i32);
    let exponent = if magnitude == 0 { NOTHING } else { exponent };
    let sign = (bits >> (BITS - 1)) << 31;
    (
        f32::from_bits(value.to_bits() | sign),
        if special { SPECIAL } else { exponent },
    )
}

/// Value and exponent of the bits of an f32.
#[inline(always)]
pub(crate) fn f32_parts(bits: u32) -> (f32, i32) {
    let field = (bits >> 23 & 0xff) as i32;
    let exponent = if bits << 1 == 0 {
        NOTHING
    } else {
        field.max(1).wrapping_sub(127)
    };
    let exponent = if field == 0xff { SPECIAL } else { exponent };
    (f32::from_bits(bits), exponent)
}

/// Value and exponent of the bits of an f16.
#[inline(always)]
pub(crate) fn f16_parts(bits: u32) -> (f32, i32) {
    decode::<16, 10>(bits & 0xffff)
}

/// Decodes elements, each in the low bits of a word.
#[inline(always)]
pub(crate) fn decode_all(
    element: Element,
    bits: &[u32],
    values: &mut [f32],
    exponents: &mut [i32],
) {
    let parts = bits.iter().zip(values.iter_mut().zip(exponents));
    match element {
        Element::F16 => parts.for_each(|(b, (v, e))| (*v, *e) = decode::<16, 10>(*b)),
        Element::Bf16 => parts.for_each(|(b, (v, e))| (*v, *e) = f32_parts(*b << 16)),
        Element::E4m3 => parts.for_each(|(b, (v, e))| (*v, *e) = decode::<8, 3>(*b)),
        Element::E5m2 => parts.for_each(|(b, (v, e))| (*v, *e) = decode::<8, 2>(*b)),
        // tf32 is an f32 whose low 13 bits are ignored.
        _ => parts.for_each(|(b, (v, e))| (*v, *e) = f32_parts(*b & !0x1fff)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::semantics::Rounding;
    use crate::semantics::cvt::reformat;
    use crate::semantics::round::Format;

    fn check(element: Element, format: Format, bits: u32) {
        let (mut value, mut exponent) = ([0.0], [0]);
        decode_all(element, &[bits], &mut value, &mut exponent);
        let wide = reformat(
            format,
            u64::from(bits),
            Format::F32,
            Rounding::NearestEven,
            false,
        );
        let want = f32::from_bits(wide as u32);
        let (value, exponent) = (value[0], exponent[0]);
        if want.is_nan() {
            assert!(value.is_nan());
        } else {
            assert_eq!(value.to_bits(), want.to_bits(), "{element:?} 0x{bits:x}");
        }
        if !want.is_finite() {
            assert_eq!(exponent, SPECIAL);
        } else if want == 0.0 {
            assert_eq!(exponent, NOTHING);
        } else {
            let significand = f64::from(want.abs()) / 2f64.powi(exponent);
            assert!(significand < 2.0, "{element:?} 0x{bits:x}");
        }
    }

    #[test]
    fn every_narrow_float_decodes_to_its_value() {
        for bits in 0..=0xffff {
            check(Element::F16, Format::F16, bits);
            check(Element::Bf16, Format::BF16, bits);
        }
        for bits in 0..=0xff {
            check(Element::E4m3, Format::E4M3, bits);
            check(Element::E5m2, Format::E5M2, bits);
        }
    }

    #[test]
    fn the_low_bits_of_tf32_do_not_count() {
        let (mut value, mut exponent) = ([0.0; 2], [0; 2]);
        decode_all(
            Element::Tf32,
            &[0x3f80_1fff, 0x1fff],
            &mut value,
            &mut exponent,
        );
        assert_eq!((value, exponent), ([1.0, 0.0], [0, NOTHING]));
    }
}
