//! 16-bit and 8-bit floats: encoded with round-to-nearest-even, decoded exactly.
//!
//! This does not use the CPU's conversions or a crate, so that a value has the same bits
//! everywhere.

use anyhow::Result;
use warpsmith::DType;

use crate::memory;

/// Layout of a small float.
#[derive(Clone, Copy, Debug)]
struct Format {
    mantissa_bits: i32,
    exponent_bits: i32,
    /// Code of the largest finite value, without sign.
    largest: u16,
    nan: u16,
    /// Code of infinity; `None` if conversions saturate to the largest finite value.
    infinity: Option<u16>,
}

fn format(dtype: DType) -> Option<Format> {
    let (mantissa_bits, exponent_bits, largest, nan, infinity) = match dtype {
        DType::F16 => (10, 5, 0x7bff, 0x7e00, Some(0x7c00)),
        DType::Bf16 => (7, 8, 0x7f7f, 0x7fc0, Some(0x7f80)),
        // As the hardware's `satfinite` conversions.
        DType::E4m3 => (3, 4, 0x7e, 0x7f, None),
        DType::E5m2 => (2, 5, 0x7b, 0x7f, None),
        _ => return None,
    };
    Some(Format {
        mantissa_bits,
        exponent_bits,
        largest,
        nan,
        infinity,
    })
}

impl Format {
    fn smallest_exponent(self) -> i32 {
        2 - (1 << (self.exponent_bits - 1))
    }

    fn sign_bit(self) -> u16 {
        1 << (self.mantissa_bits + self.exponent_bits)
    }

    fn encode(self, value: f64) -> u16 {
        if value.is_nan() {
            return self.nan;
        }
        let sign = if value.is_sign_negative() {
            self.sign_bit()
        } else {
            0
        };
        let magnitude = value.abs();
        if magnitude.is_infinite() {
            return sign | self.infinity.unwrap_or(self.largest);
        }
        let exponent_of_f64 = (magnitude.to_bits() >> 52) as i32 - 1023;
        let smallest = self.smallest_exponent();
        let exponent = exponent_of_f64.max(smallest);
        // Exact: a power of two, and a quotient of at most 53 bits.
        let steps = (magnitude / power_of_two(exponent - self.mantissa_bits)).round_ties_even();
        let one = f64::from(1 << self.mantissa_bits);
        // The mantissa of a normal number starts at `one`; a carry reaches the next binade by
        // itself.
        let code = f64::from(exponent - smallest) * one + steps;
        let finite = code <= f64::from(self.largest);
        sign | if finite {
            code as u16
        } else {
            self.infinity.unwrap_or(self.largest)
        }
    }

    fn decode(self, code: u16) -> f64 {
        let sign = if code & self.sign_bit() == 0 {
            1.0
        } else {
            -1.0
        };
        let magnitude = code & (self.sign_bit() - 1);
        if self.infinity == Some(magnitude) || self.is_e5m2_infinity(magnitude) {
            return sign * f64::INFINITY;
        }
        if magnitude > self.largest {
            return f64::NAN;
        }
        let mantissa = f64::from(magnitude & ((1 << self.mantissa_bits) - 1));
        let exponent = i32::from(magnitude >> self.mantissa_bits);
        let (exponent, mantissa) = match exponent {
            0 => (1, mantissa),
            _ => (exponent, mantissa + f64::from(1 << self.mantissa_bits)),
        };
        let scale = power_of_two(exponent - 1 + self.smallest_exponent() - self.mantissa_bits);
        sign * mantissa * scale
    }

    /// E5M2 has an infinity, but conversions to it saturate instead.
    fn is_e5m2_infinity(self, magnitude: u16) -> bool {
        self.exponent_bits == 5 && self.mantissa_bits == 2 && magnitude == 0x7c
    }
}

/// `2^exponent` for exponents of normal f64.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// Appends `value` as a float of that type; false if the type is not a float.
pub(super) fn append(dtype: DType, value: f64, bytes: &mut Vec<u8>) -> bool {
    match (dtype, format(dtype)) {
        (DType::F64, _) => bytes.extend(value.to_le_bytes()),
        (DType::F32, _) => bytes.extend((value as f32).to_le_bytes()),
        (_, Some(format)) => {
            let code = format.encode(value).to_le_bytes();
            bytes.extend(&code[..dtype.size_bytes()]);
        }
        (_, None) => return false,
    }
    true
}

/// The 8- or 16-bit floats in `bytes` as f32, exactly; `None` if the type is not such a float.
pub(super) fn widen(dtype: DType, bytes: &[u8]) -> Result<Option<Vec<f32>>> {
    let Some(format) = format(dtype) else {
        return Ok(None);
    };
    let elements = bytes.chunks_exact(dtype.size_bytes());
    let code = |element: &[u8]| {
        let high = element.get(1).copied().unwrap_or(0);
        u16::from_le_bytes([element[0], high])
    };
    let count = elements.len();
    let widened = elements.map(|element| format.decode(code(element)) as f32);
    memory::collected(count, widened).map(Some)
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;

    const SMALL: [DType; 4] = [DType::F16, DType::Bf16, DType::E4m3, DType::E5m2];

    #[test]
    fn every_number_survives_the_way_there_and_back() {
        for dtype in SMALL {
            let format = format(dtype).expect("a small float");
            let codes = 0..=u16::MAX >> (16 - 8 * dtype.size_bytes());
            for code in codes {
                let value = format.decode(code);
                if value.is_finite() {
                    assert_eq!(format.encode(value), code, "{dtype} {code:#x} {value}");
                }
            }
        }
    }

    #[test]
    fn sixteen_bit_floats_agree_with_another_implementation() {
        let f16_format = format(DType::F16).expect("a small float");
        let bf16_format = format(DType::Bf16).expect("a small float");
        for step in 0..1_000_003_u32 {
            let value = f32::from_bits(step.wrapping_mul(4_294_917));
            if value.is_nan() {
                continue;
            }
            let wide = f64::from(value);
            assert_eq!(
                f16_format.encode(wide),
                f16::from_f32(value).to_bits(),
                "{value:e}"
            );
            assert_eq!(
                bf16_format.encode(wide),
                bf16::from_f32(value).to_bits(),
                "{value:e}"
            );
        }
        for code in 0..=u16::MAX {
            let (got, want) = (f16_format.decode(code), f16::from_bits(code).to_f64());
            assert!(
                got == want || (got.is_nan() && want.is_nan()),
                "{code:#x}: {got} {want}"
            );
        }
    }

    #[test]
    fn a_value_just_above_a_tie_rounds_up() {
        // 1 + 2^-11 is a tie in f16; a bit of 2^-50 above it decides.
        let format = format(DType::F16).expect("a small float");
        let tie = 1.0 + 2.0_f64.powi(-11);
        assert_eq!(format.encode(tie), 0x3c00);
        assert_eq!(format.encode(tie + 2.0_f64.powi(-50)), 0x3c01);
    }

    #[test]
    fn eight_bit_floats_saturate_and_keep_nan() {
        for (dtype, largest, nan) in [(DType::E4m3, 448.0, 0x7f), (DType::E5m2, 57344.0, 0x7f)] {
            let format = format(dtype).expect("a small float");
            assert_eq!(format.decode(format.encode(1e30)), largest);
            assert_eq!(format.decode(format.encode(f64::NEG_INFINITY)), -largest);
            assert_eq!(format.encode(f64::NAN), nan);
        }
        let e5m2 = format(DType::E5m2).expect("a small float");
        assert_eq!(e5m2.decode(0xfc), f64::NEG_INFINITY);
        assert!(e5m2.decode(0x7d).is_nan());
        assert_eq!(
            e5m2.encode(2.0_f64.powi(-17)),
            0,
            "half of the smallest, a tie to even"
        );
        assert_eq!(e5m2.encode(1.5 * 2.0_f64.powi(-17)), 1);
    }
}
