//! f16 and bf16 arithmetic, on single values or on pairs in a register.
//!
//! Every operation computes in f64, where products are exact, rounds that to odd, and rounds once
//! more to 16 bits. The result is that of a single rounding of the exact value. PTX has no rounding
//! mode but nearest even here.

use super::fp32::{self, sum_to_odd};
use super::round::Format;
use super::{FloatMode, Rounding, fp32::MinMaxMode};

/// The NaN of every 16-bit operation.
pub const NAN: u16 = 0x7fff;

const SIGN: u16 = 0x8000;

/// f16 or bf16, as bits.
pub trait Half {
    /// Its format.
    const FORMAT: Format;
    /// Bits of `+inf`.
    const INFINITY: u16;
    /// Bits of 1.
    const ONE: u16;
    /// The least positive normal number.
    const LEAST_NORMAL: f64;
    /// Half the distance from 1 to the number below it.
    const HALF_ULP_BELOW_ONE: f64 = 0.5 / (1_u64 << Self::FORMAT.precision) as f64;
    /// The value as f32, as `cvt.f32` gives it. A NaN of f16 gives [`fp32::NAN`], one of bf16 keeps
    /// its bits.
    fn widen(bits: u16) -> f32;
    /// The nearest value, ties to even; NaN gives [`NAN`].
    fn narrow(value: f32) -> u16;
}

/// `.f16`
#[derive(Clone, Copy, Debug)]
pub struct F16;

/// `.bf16`
#[derive(Clone, Copy, Debug)]
pub struct Bf16;

impl Half for F16 {
    const FORMAT: Format = Format::F16;
    const INFINITY: u16 = 0x7c00;
    const ONE: u16 = 0x3c00;
    const LEAST_NORMAL: f64 = 1.0 / 16384.0;

    #[inline(always)]
    fn widen(bits: u16) -> f32 {
        let magnitude = u32::from(bits & !SIGN);
        let sign = u32::from(bits & SIGN) << 16;
        // Subnormals are converted as integers, normal numbers by moving the exponent; infinity
        // becomes f32's.
        let subnormal = (magnitude as i32 as f32 * (1.0 / 16_777_216.0)).to_bits();
        let normal = (magnitude << 13) + (112 << 23);
        let number = if magnitude < 0x400 { subnormal } else { normal };
        let finite = if magnitude == 0x7c00 {
            0x7f80_0000
        } else {
            number
        } | sign;
        let is_nan = magnitude > 0x7c00;
        f32::from_bits(if is_nan { fp32::NAN.to_bits() } else { finite })
    }

    #[inline(always)]
    fn narrow(value: f32) -> u16 {
        let sign = (value.to_bits() >> 16) as u16 & SIGN;
        let magnitude = value.to_bits() & 0x7fff_ffff;
        // An f32 of 0.5 to 1 has f16's least subnormal as its ulp: this addition rounds subnormals.
        let small = (f32::from_bits(magnitude) + 0.5)
            .to_bits()
            .wrapping_sub(0x3f00_0000);
        let rebiased = magnitude.wrapping_sub(112 << 23);
        let large = (rebiased.wrapping_add(0xfff + (rebiased >> 13 & 1)) >> 13).min(0x7c00);
        let finite = if magnitude < 0x3880_0000 {
            small
        } else {
            large
        };
        if magnitude > 0x7f80_0000 {
            NAN
        } else {
            finite as u16 | sign
        }
    }
}

impl Half for Bf16 {
    const FORMAT: Format = Format::BF16;
    const INFINITY: u16 = 0x7f80;
    const ONE: u16 = 0x3f80;
    const LEAST_NORMAL: f64 = f32::MIN_POSITIVE as f64;

    #[inline(always)]
    fn widen(bits: u16) -> f32 {
        f32::from_bits(u32::from(bits) << 16)
    }

    #[inline(always)]
    fn narrow(value: f32) -> u16 {
        let bits = value.to_bits();
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
        if value.is_nan() { NAN } else { rounded as u16 }
    }
}

/// The nearest 16-bit value of an f64 that is exact or rounded to odd.
#[inline(always)]
pub(super) fn narrow_f64<H: Half>(value: f64) -> u16 {
    // Rounded to odd once more, in f32: the neighbour toward zero, with its last bit set if
    // inexact.
    let nearest = value as f32;
    let back = f64::from(nearest);
    let toward_zero = nearest.to_bits() - u32::from(back.abs() > value.abs());
    H::narrow(f32::from_bits(toward_zero | u32::from(back != value)))
}

/// What `.ftz` does to an operand or a result.
#[inline(always)]
pub fn flush<H: Half>(bits: u16) -> u16 {
    if bits & H::INFINITY == 0 {
        bits & SIGN
    } else {
        bits
    }
}

#[inline(always)]
fn input<H: Half>(mode: FloatMode, bits: u16) -> f64 {
    f64::from(H::widen(if mode.ftz { flush::<H>(bits) } else { bits }))
}

#[inline(always)]
fn output<H: Half>(mode: FloatMode, value: f64) -> u16 {
    // As for f32, what `.ftz` flushes is decided on the value rounded with an unbounded exponent.
    let tiny = mode.ftz & (value.abs() < H::LEAST_NORMAL * (1.0 - H::HALF_ULP_BELOW_ONE));
    let zero = (value.to_bits() >> 48) as u16 & SIGN;
    let bits = if tiny { zero } else { narrow_f64::<H>(value) };
    if mode.saturate {
        saturate::<H>(bits)
    } else {
        bits
    }
}

/// What `.sat` does to a result: NaN and negative numbers become `+0`, those above 1 become 1.
#[inline(always)]
pub fn saturate<H: Half>(bits: u16) -> u16 {
    if bits > H::INFINITY {
        0
    } else {
        bits.min(H::ONE)
    }
}

/// The number, or [`NAN`] for any NaN.
#[inline(always)]
pub fn canonical<H: Half>(bits: u16) -> u16 {
    if bits & !SIGN > H::INFINITY {
        NAN
    } else {
        bits
    }
}

/// `.relu` on a result: negative numbers become `+0`; NaN stays [`NAN`].
#[inline(always)]
pub fn relu<H: Half>(bits: u16) -> u16 {
    if bits & !SIGN > H::INFINITY {
        NAN
    } else if bits & SIGN != 0 {
        0
    } else {
        bits
    }
}

/// `add`; only `.ftz` and `.sat` of the mode apply, here and below.
#[inline(always)]
pub fn add<H: Half>(mode: FloatMode, a: u16, b: u16) -> u16 {
    let (a, b) = (input::<H>(mode, a), input::<H>(mode, b));
    output::<H>(mode, sum_to_odd(a, b, Rounding::NearestEven))
}

/// `sub`
#[inline(always)]
pub fn sub<H: Half>(mode: FloatMode, a: u16, b: u16) -> u16 {
    add::<H>(mode, a, b ^ SIGN)
}

/// `mul`
#[inline(always)]
pub fn mul<H: Half>(mode: FloatMode, a: u16, b: u16) -> u16 {
    output::<H>(mode, input::<H>(mode, a) * input::<H>(mode, b))
}

/// `fma`: one rounding.
#[inline(always)]
pub fn fma<H: Half>(mode: FloatMode, a: u16, b: u16, c: u16) -> u16 {
    let product = input::<H>(mode, a) * input::<H>(mode, b);
    output::<H>(
        mode,
        sum_to_odd(product, input::<H>(mode, c), Rounding::NearestEven),
    )
}

/// The NaN (of either sign) that marks an element outside a tensor's bounds; an H200 recognises no
/// other.
pub const OUT_OF_BOUNDS: u16 = 0x7ff7;

/// `.oob`: the result `d`, or zero if `a` or `b` is [`OUT_OF_BOUNDS`].
#[inline(always)]
pub fn zero_out_of_bounds(a: u16, b: u16, d: u16) -> u16 {
    if a & !SIGN == OUT_OF_BOUNDS || b & !SIGN == OUT_OF_BOUNDS {
        0
    } else {
        d
    }
}

/// `neg`; NaN gives [`NAN`].
#[inline(always)]
pub fn neg<H: Half>(a: u16) -> u16 {
    if a & !SIGN > H::INFINITY {
        NAN
    } else {
        a ^ SIGN
    }
}

/// `abs`; NaN gives [`NAN`].
#[inline(always)]
pub fn abs<H: Half>(a: u16) -> u16 {
    if a & !SIGN > H::INFINITY {
        NAN
    } else {
        a & !SIGN
    }
}

/// `min` with any modifiers: `-0` is less than `+0`; of a NaN and a number, the number unless
/// `.NaN`.
#[inline(always)]
pub fn min<H: Half>(mode: MinMaxMode, a: u16, b: u16) -> u16 {
    min_max::<H>(mode, a, b, fp32::min)
}

/// `max` with any modifiers: `+0` is greater than `-0`; of a NaN and a number, the number unless
/// `.NaN`.
#[inline(always)]
pub fn max<H: Half>(mode: MinMaxMode, a: u16, b: u16) -> u16 {
    min_max::<H>(mode, a, b, fp32::max)
}

#[inline(always)]
fn min_max<H: Half>(mode: MinMaxMode, a: u16, b: u16, choose: impl Fn(f32, f32) -> f32) -> u16 {
    let (a, b) = if mode.ftz {
        (flush::<H>(a), flush::<H>(b))
    } else {
        (a, b)
    };
    // With `.xorsign.abs` a NaN's sign counts too.
    let (sign, kept) = if mode.xorsign_abs {
        ((a ^ b) & SIGN, !SIGN)
    } else {
        (0, u16::MAX)
    };
    let (x, y) = (H::widen(a & kept), H::widen(b & kept));
    let chosen = H::narrow(choose(x, y));
    let is_nan = x.is_nan() & y.is_nan() | mode.nan & (x.is_nan() | y.is_nan());
    if is_nan { NAN } else { chosen ^ sign }
}

#[inline(always)]
fn high(a: u32) -> u16 {
    (a >> 16) as u16
}

#[inline(always)]
fn join(high: u16, low: u16) -> u32 {
    u32::from(high) << 16 | u32::from(low)
}

/// `add` on both halves.
#[inline(always)]
pub fn add_x2<H: Half>(mode: FloatMode, a: u32, b: u32) -> u32 {
    join(
        add::<H>(mode, high(a), high(b)),
        add::<H>(mode, a as u16, b as u16),
    )
}

/// `sub` on both halves.
#[inline(always)]
pub fn sub_x2<H: Half>(mode: FloatMode, a: u32, b: u32) -> u32 {
    join(
        sub::<H>(mode, high(a), high(b)),
        sub::<H>(mode, a as u16, b as u16),
    )
}

/// `mul` on both halves.
#[inline(always)]
pub fn mul_x2<H: Half>(mode: FloatMode, a: u32, b: u32) -> u32 {
    join(
        mul::<H>(mode, high(a), high(b)),
        mul::<H>(mode, a as u16, b as u16),
    )
}

/// `fma` on both halves.
#[inline(always)]
pub fn fma_x2<H: Half>(mode: FloatMode, a: u32, b: u32, c: u32) -> u32 {
    join(
        fma::<H>(mode, high(a), high(b), high(c)),
        fma::<H>(mode, a as u16, b as u16, c as u16),
    )
}

/// `min` on both halves.
#[inline(always)]
pub fn min_x2<H: Half>(mode: MinMaxMode, a: u32, b: u32) -> u32 {
    join(
        min::<H>(mode, high(a), high(b)),
        min::<H>(mode, a as u16, b as u16),
    )
}

/// `max` on both halves.
#[inline(always)]
pub fn max_x2<H: Half>(mode: MinMaxMode, a: u32, b: u32) -> u32 {
    join(
        max::<H>(mode, high(a), high(b)),
        max::<H>(mode, a as u16, b as u16),
    )
}

/// `.relu` on both halves of a result.
#[inline(always)]
pub fn relu_x2<H: Half>(a: u32) -> u32 {
    join(relu::<H>(high(a)), relu::<H>(a as u16))
}
