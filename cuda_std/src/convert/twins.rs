//! Conversions of kernels that exist for f16 and for bf16.
//!
//! A file of compiled kernels holds both as one text (`ptx_syntax::twin`). A comment behind the
//! instruction says what it is for the other type.

use half::{bf16, f16};

/// A type of 16 bits, two of which are in a word.
pub trait Halves {
    /// The lower half of a word as f32: exact; a NaN as by the type's conversion in
    /// [`convert`](super).
    fn low_to_f32(word: u32) -> f32;

    /// The upper half, likewise.
    fn high_to_f32(word: u32) -> f32;
}

macro_rules! halves {
    ($($ty:ident: $low:literal, $high:literal, $host:path;)*) => {$(
        impl Halves for $ty {
            #[inline(always)]
            fn low_to_f32(word: u32) -> f32 {
                #[cfg(target_arch = "nvptx64")]
                {
                    let x: f32;
                    // SAFETY: a conversion on registers.
                    unsafe {
                        core::arch::asm!($low, to = out(reg32) x, from = in(reg32) word,
                            options(pure, nomem, nostack));
                    }
                    x
                }
                #[cfg(not(target_arch = "nvptx64"))]
                {
                    $host(word as u16)
                }
            }

            #[inline(always)]
            fn high_to_f32(word: u32) -> f32 {
                #[cfg(target_arch = "nvptx64")]
                {
                    let x: f32;
                    // SAFETY: a conversion on registers.
                    unsafe {
                        core::arch::asm!($high, to = out(reg32) x, from = in(reg32) word,
                            options(pure, nomem, nostack));
                    }
                    x
                }
                #[cfg(not(target_arch = "nvptx64"))]
                {
                    $host((word >> 16) as u16)
                }
            }
        }
    )*};
}

halves! {
    bf16: "shl.b32 {to}, {from}, 16; // low", "and.b32 {to}, {from}, -65536; // high",
        super::bf16_to_f32;
    f16: "{{.reg .b16 h; mov.b32 {{h, _}}, {from}; cvt.f32.f16 {to}, h;}}",
        "{{.reg .b16 h; mov.b32 {{_, h}}, {from}; cvt.f32.f16 {to}, h;}}", super::f16_to_f32;
}

/// As [`f32x2_to_bf16x2_cvt`](super::f32x2_to_bf16x2_cvt): to bf16 in the kernel of f16 too.
#[inline(always)]
pub fn f32x2_to_bf16x2_cvt_of_both(low: f32, high: f32) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let pair: u32;
        // SAFETY: one conversion on registers.
        unsafe {
            core::arch::asm!("cvt.rn.bf16x2.f32 {}, {}, {}; // bf16", out(reg32) pair,
                in(reg32) high, in(reg32) low, options(pure, nomem, nostack));
        }
        pair
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        super::f32x2_to_bf16x2_cvt(low, high)
    }
}
