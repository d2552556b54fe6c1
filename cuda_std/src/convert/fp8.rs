//! The OCP 8-bit floats: conversions in integer code, and the instructions of sm_89.

/// The encoding of an 8-bit float.
#[derive(Clone, Copy)]
struct Format {
    mantissa_bits: u32,
    bias: i32,
    /// Bits of the largest finite value.
    largest: u8,
}

const E4M3: Format = Format {
    mantissa_bits: 3,
    bias: 7,
    largest: 0x7e,
};
const E5M2: Format = Format {
    mantissa_bits: 2,
    bias: 15,
    largest: 0x7b,
};

/// Rounds to nearest, ties to even; magnitudes above the largest finite value saturate to it.
#[inline(always)]
fn from_f32(x: f32, format: Format) -> u8 {
    let sign = ((x.to_bits() >> 24) & 0x80) as u8;
    let magnitude = x.to_bits() & 0x7fff_ffff;
    if x.is_nan() {
        return 0x7f;
    }
    let exponent = (magnitude >> 23) as i32 - 127;
    // Subnormal results have a fixed spacing, so more bits are dropped.
    let below = (1 - format.bias - exponent).max(0) as u32;
    let dropped = 23 - format.mantissa_bits + below;
    if dropped > 24 {
        return sign;
    }
    let significand = (magnitude & 0x007f_ffff) | 0x0080_0000;
    let kept = significand >> dropped;
    let rest = significand & ((1 << dropped) - 1);
    let half = 1 << (dropped - 1);
    let up = rest > half || (rest == half && kept & 1 == 1);
    let rounded = kept + u32::from(up);
    // The leading bit of a normal significand adds one to the exponent field, hence the `- 1`. A
    // carry out of the rounding moves into the field as it should.
    let field = if below > 0 {
        0
    } else {
        (exponent + format.bias - 1) as u32
    };
    let bits = (field << format.mantissa_bits) + rounded;
    sign | bits.min(u32::from(format.largest)) as u8
}

/// The value of a finite encoding: exact.
#[inline(always)]
fn finite_to_f32(bits: u8, format: Format) -> f32 {
    let sign = u32::from(bits & 0x80) << 24;
    let magnitude = u32::from(bits & 0x7f);
    let mantissa = magnitude & ((1 << format.mantissa_bits) - 1);
    let field = (magnitude >> format.mantissa_bits) as i32;
    let power = |exponent: i32| f32::from_bits(((exponent + 127) as u32) << 23);
    let value = if field == 0 {
        mantissa as f32 * power(1 - format.bias - format.mantissa_bits as i32)
    } else {
        let significand = mantissa | 1 << format.mantissa_bits;
        significand as f32 * power(field - format.bias - format.mantissa_bits as i32)
    };
    f32::from_bits(value.to_bits() | sign)
}

/// f32 to e4m3 as `cvt.rn.satfinite.e4m3x2.f32` does it: rounds to nearest, ties to even;
/// magnitudes beyond 448 become ±448 (infinities too), a NaN 0x7f.
#[inline(always)]
pub fn f32_to_e4m3_satfinite(x: f32) -> u8 {
    from_f32(x, E4M3)
}

/// f32 to e5m2 as `cvt.rn.satfinite.e5m2x2.f32` does it: rounds to nearest, ties to even;
/// magnitudes beyond 57344 become ±57344 (infinities too), a NaN 0x7f.
#[inline(always)]
pub fn f32_to_e5m2_satfinite(x: f32) -> u8 {
    from_f32(x, E5M2)
}

/// e4m3 to f32: exact. 0x7f and 0xff are NaN; there is no infinity.
#[inline(always)]
pub fn e4m3_to_f32(bits: u8) -> f32 {
    if bits & 0x7f == 0x7f {
        f32::from_bits(super::NAN_F32)
    } else {
        finite_to_f32(bits, E4M3)
    }
}

/// e5m2 to f32: exact, as it is the upper byte of an f16. 0x7c and 0xfc are infinities, and the
/// encodings above them are NaN.
#[inline(always)]
pub fn e5m2_to_f32(bits: u8) -> f32 {
    super::f16_to_f32(u16::from(bits) << 8)
}

/// `cvt.rn.f16x2.e4m3x2`: two bytes to two f16, the lower first; exact. *Since*: PTX 8.1, sm_89.
#[inline(always)]
pub fn e4m3x2_to_f16x2_cvt(pair: u16) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let halves: u32;
        // SAFETY: one conversion on registers.
        unsafe {
            core::arch::asm!("cvt.rn.f16x2.e4m3x2 {}, {};", out(reg32) halves, in(reg16) pair,
                options(pure, nomem, nostack));
        }
        halves
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        let [low, high] = pair.to_le_bytes().map(e4m3_to_f32).map(super::f32_to_f16);
        u32::from(high) << 16 | u32::from(low)
    }
}

macro_rules! pairs {
    ($($narrow:ident, $narrow_to:literal, $scalar:ident; $widen:ident, $widen_from:literal, $to_f32:ident;)*) => {$(
        #[doc = concat!("`", $narrow_to, "`: two f32 to two bytes, `low` in the lower.")]
        /// *Since*: PTX 8.1, sm_89.
        #[inline(always)]
        pub fn $narrow(low: f32, high: f32) -> u16 {
            #[cfg(target_arch = "nvptx64")]
            {
                let pair: u16;
                // SAFETY: one conversion on registers.
                unsafe {
                    core::arch::asm!(concat!($narrow_to, " {}, {}, {};"), out(reg16) pair,
                        in(reg32) high, in(reg32) low, options(pure, nomem, nostack));
                }
                pair
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                u16::from($scalar(high)) << 8 | u16::from($scalar(low))
            }
        }

        #[doc = concat!("`", $widen_from, "`: two bytes to two f32, the lower first; exact.")]
        /// *Since*: PTX 8.1, sm_89.
        #[inline(always)]
        pub fn $widen(pair: u16) -> [f32; 2] {
            #[cfg(target_arch = "nvptx64")]
            {
                let halves: u32;
                // SAFETY: one conversion on registers.
                unsafe {
                    core::arch::asm!(concat!($widen_from, " {}, {};"), out(reg32) halves,
                        in(reg16) pair, options(pure, nomem, nostack));
                }
                [super::f16_to_f32(halves as u16), super::f16_to_f32((halves >> 16) as u16)]
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                pair.to_le_bytes().map($to_f32)
            }
        }
    )*};
}

pairs! {
    f32x2_to_e4m3x2_cvt, "cvt.rn.satfinite.e4m3x2.f32", f32_to_e4m3_satfinite;
    e4m3x2_to_f32x2_cvt, "cvt.rn.f16x2.e4m3x2", e4m3_to_f32;
    f32x2_to_e5m2x2_cvt, "cvt.rn.satfinite.e5m2x2.f32", f32_to_e5m2_satfinite;
    e5m2x2_to_f32x2_cvt, "cvt.rn.f16x2.e5m2x2", e5m2_to_f32;
}
