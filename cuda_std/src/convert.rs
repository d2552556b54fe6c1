//! Conversions between f32 and f16, bf16, tf32 and fp8, with the same bits on host, emulator and
//! GPU.
//!
//! Narrowing rounds to nearest, ties to even (tf32: ties away from zero). Narrowing a NaN gives the
//! format's canonical NaN (of tf32, see [`f32_to_tf32_rna`]).
//!
//! - f16 is one instruction on every GPU.
//! - bf16 to f32 is a shift. f32 to bf16 is integer code, because the instruction needs sm_80
//!   ([`f32_to_bf16_cvt`]).
//! - fp8 is integer code, because the instructions need sm_89 (the functions ending in `x2_cvt`).

mod fp8;
mod twins;

pub use fp8::{
    e4m3_to_f32, e4m3x2_to_f16x2_cvt, e4m3x2_to_f32x2_cvt, e5m2_to_f32, e5m2x2_to_f32x2_cvt,
    f32_to_e4m3_satfinite, f32_to_e5m2_satfinite, f32x2_to_e4m3x2_cvt, f32x2_to_e5m2x2_cvt,
};
pub use twins::{Halves, f32x2_to_bf16x2_cvt_of_both};

/// The NaN that GPU arithmetic produces.
const NAN_F32: u32 = 0x7fff_ffff;

/// `cvt.f32.f16`: exact.
#[inline(always)]
pub fn f16_to_f32(bits: u16) -> f32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let x: f32;
        // SAFETY: one conversion on registers.
        unsafe {
            core::arch::asm!("cvt.f32.f16 {}, {};", out(reg32) x, in(reg16) bits,
                options(pure, nomem, nostack));
        }
        x
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        let x = half::f16::from_bits(bits).to_f32();
        if x.is_nan() {
            f32::from_bits(NAN_F32)
        } else {
            x
        }
    }
}

/// `cvt.rn.f16.f32`: rounds to nearest, ties to even; overflow gives infinity, a NaN 0x7fff.
#[inline(always)]
pub fn f32_to_f16(x: f32) -> u16 {
    #[cfg(target_arch = "nvptx64")]
    {
        let bits: u16;
        // SAFETY: one conversion on registers.
        unsafe {
            core::arch::asm!("cvt.rn.f16.f32 {}, {};", out(reg16) bits, in(reg32) x,
                options(pure, nomem, nostack));
        }
        bits
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        if x.is_nan() {
            0x7fff
        } else {
            half::f16::from_f32(x).to_bits()
        }
    }
}

/// bf16 to f32: exact; a NaN keeps its bits.
#[inline(always)]
pub fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// f32 to bf16 in integer code, for every GPU: rounds to nearest, ties to even; overflow gives
/// infinity, a NaN 0x7fff. The same bits as `cvt.rn.bf16.f32`.
#[inline(always)]
pub fn f32_to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    if x.is_nan() { 0x7fff } else { rounded as u16 }
}

/// `cvt.rn.bf16.f32`: as [`f32_to_bf16`] in one instruction. *Since*: PTX 7.0, sm_80.
#[inline(always)]
pub fn f32_to_bf16_cvt(x: f32) -> u16 {
    #[cfg(target_arch = "nvptx64")]
    {
        let bits: u16;
        // SAFETY: one conversion on registers.
        unsafe {
            core::arch::asm!("cvt.rn.bf16.f32 {}, {};", out(reg16) bits, in(reg32) x,
                options(pure, nomem, nostack));
        }
        bits
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        f32_to_bf16(x)
    }
}

/// `cvt.rn.bf16x2.f32`: converts two f32 to a packed pair of bf16, `low` in the lower half.
/// *Since*: PTX 7.0, sm_80.
#[inline(always)]
pub fn f32x2_to_bf16x2_cvt(low: f32, high: f32) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let pair: u32;
        // SAFETY: one conversion on registers.
        unsafe {
            core::arch::asm!("cvt.rn.bf16x2.f32 {}, {}, {};", out(reg32) pair, in(reg32) high,
                in(reg32) low, options(pure, nomem, nostack));
        }
        pair
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        u32::from(f32_to_bf16(high)) << 16 | u32::from(f32_to_bf16(low))
    }
}

/// `cvt.rn.f16x2.f32`: converts two f32 to a packed pair of f16, `low` in the lower half. *Since*:
/// PTX 7.0, sm_80.
#[inline(always)]
pub fn f32x2_to_f16x2_cvt(low: f32, high: f32) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let pair: u32;
        // SAFETY: one conversion on registers.
        unsafe {
            core::arch::asm!("cvt.rn.f16x2.f32 {}, {}, {};", out(reg32) pair, in(reg32) high,
                in(reg32) low, options(pure, nomem, nostack));
        }
        pair
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        u32::from(f32_to_f16(high)) << 16 | u32::from(f32_to_f16(low))
    }
}

/// `cvt.rna.tf32.f32`: rounds an f32 to the 19 bits that tensor cores multiply, which are its upper
/// bits; to nearest, ties away from zero. *Since*: PTX 7.0, sm_80.
///
/// Infinities and NaNs lose their low 13 bits. A NaN whose mantissa has no other bits set therefore
/// becomes an infinity; arithmetic produces no such NaN.
#[inline(always)]
pub fn f32_to_tf32_rna(x: f32) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let bits: u32;
        // SAFETY: one conversion on registers.
        unsafe {
            core::arch::asm!("cvt.rna.tf32.f32 {}, {};", out(reg32) bits, in(reg32) x,
                options(pure, nomem, nostack));
        }
        bits
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        const LOST: u32 = (1 << 13) - 1;
        let half = if x.is_finite() { LOST.div_ceil(2) } else { 0 };
        (x.to_bits() + half) & !LOST
    }
}

#[cfg(test)]
mod tests;
