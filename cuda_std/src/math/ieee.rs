//! Single correctly rounded operations, under the names that the target has for them.

#[cfg(target_arch = "nvptx64")]
use core::f32::math as target;

/// The host's own operations, as free functions.
#[cfg(not(target_arch = "nvptx64"))]
mod target {
    pub(super) use f32 as F;

    pub(super) fn mul_add(a: f32, b: f32, c: f32) -> f32 {
        F::mul_add(a, b, c)
    }
    pub(super) fn sqrt(x: f32) -> f32 {
        F::sqrt(x)
    }
    pub(super) fn floor(x: f32) -> f32 {
        F::floor(x)
    }
    pub(super) fn ceil(x: f32) -> f32 {
        F::ceil(x)
    }
    pub(super) fn trunc(x: f32) -> f32 {
        F::trunc(x)
    }
    pub(super) fn round_ties_even(x: f32) -> f32 {
        F::round_ties_even(x)
    }
}

/// `fma.rn.f32`: a · b + c, rounded once.
#[inline(always)]
pub fn fma(a: f32, b: f32, c: f32) -> f32 {
    target::mul_add(a, b, c)
}

/// `mul.rn.f32`: a · b, rounded. Neither LLVM nor ptxas contracts it with an addition.
#[inline(always)]
pub fn mul_rn(a: f32, b: f32) -> f32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let product: f32;
        // SAFETY: one arithmetic instruction on registers.
        unsafe {
            core::arch::asm!("mul.rn.f32 {}, {}, {};", out(reg32) product, in(reg32) a,
                in(reg32) b, options(pure, nomem, nostack));
        }
        product
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        a * b
    }
}

/// a / b, correctly rounded, for b in 2^-60..2^60 and a in the same range or +0. It omits what a
/// general division does for all other operands, which is half of its instructions and a branch.
///
/// *Source*: P. Markstein, "Computation of elementary functions on the IBM RISC System/6000
/// processor", 1990. A reciprocal that is accurate to an ulp is refined by two multiply-adds, and
/// the quotient is corrected by its remainder.
#[inline(always)]
pub(super) fn quotient(a: f32, b: f32) -> f32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let y = super::approx::rcp_approx_ftz(b);
        let y = fma(fma(-b, y, 1.0), y, y);
        let q = mul_rn(a, y);
        fma(fma(-b, q, a), y, q)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        a / b
    }
}

/// 1 / b by the method of [`quotient`] and for the same b, an instruction shorter.
#[inline(always)]
pub(super) fn reciprocal(b: f32) -> f32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let y = super::approx::rcp_approx_ftz(b);
        let y = fma(fma(-b, y, 1.0), y, y);
        fma(fma(-b, y, 1.0), y, y)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        1.0 / b
    }
}

/// `sqrt.rn.f32`: square root, correctly rounded.
#[inline(always)]
pub fn sqrt(x: f32) -> f32 {
    target::sqrt(x)
}

/// Largest integer not above x.
#[inline(always)]
pub fn floor(x: f32) -> f32 {
    target::floor(x)
}

/// Least integer not below x.
#[inline(always)]
pub fn ceil(x: f32) -> f32 {
    target::ceil(x)
}

/// The integer part of x.
#[inline(always)]
pub fn trunc(x: f32) -> f32 {
    target::trunc(x)
}

/// Nearest integer, ties to even.
#[inline(always)]
pub fn rint(x: f32) -> f32 {
    target::round_ties_even(x)
}

macro_rules! signs {
    ($($name:ident = $instruction:literal, $doc:literal, |$x:ident| $host:expr;)*) => {$(
        #[doc = concat!("`", $instruction, "`: ", $doc, "; a NaN is the instruction's own, also where")]
        /// the compiler would change the sign bit by an integer operation.
        #[inline(always)]
        pub fn $name($x: f32) -> f32 {
            #[cfg(target_arch = "nvptx64")]
            {
                let y: f32;
                // SAFETY: one arithmetic instruction on registers.
                unsafe {
                    core::arch::asm!(concat!($instruction, " {}, {};"), out(reg32) y,
                        in(reg32) $x, options(pure, nomem, nostack));
                }
                y
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                $host
            }
        }
    )*};
}

macro_rules! extrema {
    ($($name:ident, $newer:ident = $instruction:literal, $doc:literal, |$a:ident, $b:ident| $host:expr;)*) => {$(
        #[doc = concat!($doc, " of both; NaN if either is. +0 is more than -0.")]
        #[inline(always)]
        pub fn $name($a: f32, $b: f32) -> f32 {
            #[cfg(target_arch = "nvptx64")]
            {
                let y: f32;
                // SAFETY: one arithmetic instruction on registers.
                unsafe {
                    core::arch::asm!(concat!($instruction, ".f32 {}, {}, {};"), out(reg32) y,
                        in(reg32) $a, in(reg32) $b, options(pure, nomem, nostack));
                }
                if $a.is_nan() | $b.is_nan() { f32::NAN } else { y }
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                if $a.is_nan() | $b.is_nan() { f32::NAN } else { $host }
            }
        }

        #[doc = concat!("`", $instruction, ".NaN.f32`: [`", stringify!($name), "`], by one instruction. *Since*: PTX 7.0, sm_80.")]
        ///
        /// # Panics
        /// On the host.
        #[inline(always)]
        pub fn $newer($a: f32, $b: f32) -> f32 {
            on_device!("math::maximum_sm80 or minimum_sm80", ($a, $b), {
                let y: f32;
                // SAFETY: one arithmetic instruction on registers.
                unsafe {
                    core::arch::asm!(concat!($instruction, ".NaN.f32 {}, {}, {};"), out(reg32) y,
                        in(reg32) $a, in(reg32) $b, options(pure, nomem, nostack));
                }
                y
            })
        }
    )*};
}

extrema! {
    maximum, maximum_sm80 = "max", "The larger", |a, b| if a > b || (a == b && b.is_sign_negative()) { a } else { b };
    minimum, minimum_sm80 = "min", "The smaller", |a, b| if a < b || (a == b && a.is_sign_negative()) { a } else { b };
}

signs! {
    neg = "neg.f32", "-x", |x| -x;
    abs = "abs.f32", "|x|", |x| x.abs();
}

macro_rules! pairs {
    ($($name:ident = $instruction:literal, $doc:literal, $larger:path, $value:path;)*) => {$(
        #[doc = concat!("`", $instruction, "`: ", $doc, ". +0 is more than -0. *Since*: PTX 7.0, sm_80.")]
        #[inline(always)]
        pub fn $name(a: u32, b: u32) -> u32 {
            #[cfg(target_arch = "nvptx64")]
            {
                let y: u32;
                // SAFETY: one arithmetic instruction on registers.
                unsafe {
                    core::arch::asm!(concat!($instruction, " {}, {}, {};"), out(reg32) y,
                        in(reg32) a, in(reg32) b, options(pure, nomem, nostack));
                }
                y
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                let half = |a: u32, b: u32| u32::from($larger(a as u16, b as u16, $value));
                half(a >> 16, b >> 16) << 16 | half(a, b)
            }
        }
    )*};
}

/// The NaN of operations on 16 bits.
#[cfg(not(target_arch = "nvptx64"))]
const HALF_NAN: u16 = 0x7fff;

/// The larger of two 16-bit floats, of which `value` gives the values; of NaN and a number, the
/// number.
#[cfg(not(target_arch = "nvptx64"))]
fn larger_half(a: u16, b: u16, value: fn(u16) -> f32) -> u16 {
    let [x, y] = [a, b].map(value);
    match (x.is_nan(), y.is_nan()) {
        (true, true) => HALF_NAN,
        (true, false) => b,
        (false, true) => a,
        _ if x > y || (x == y && y.is_sign_negative()) => a,
        _ => b,
    }
}

/// The same, but NaN if one of them is.
#[cfg(not(target_arch = "nvptx64"))]
fn larger_half_or_nan(a: u16, b: u16, value: fn(u16) -> f32) -> u16 {
    match [a, b].map(value).iter().any(|x| x.is_nan()) {
        true => HALF_NAN,
        false => larger_half(a, b, value),
    }
}

pairs! {
    max_f16x2 = "max.f16x2", "the larger of each two f16 of a packed pair; of NaN and a number, the number",
        larger_half, crate::convert::f16_to_f32;
    max_bf16x2 = "max.bf16x2", "the larger of each two bf16 of a packed pair; of NaN and a number, the number",
        larger_half, crate::convert::bf16_to_f32;
    max_nan_bf16x2 = "max.NaN.bf16x2", "the larger of each two bf16 of a packed pair; NaN if one of them is",
        larger_half_or_nan, crate::convert::bf16_to_f32;
}
