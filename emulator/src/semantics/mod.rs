//! What one PTX instruction computes for one thread: pure functions, without state or memory.
//!
//! Lowering picks a function (and its mode) for each instruction, and the executor calls it in a
//! loop over the 32 lanes of a warp. The functions that matter for speed are `#[inline(always)]`
//! and free of branches and calls, so that the loop is vectorised.
//!
//! | module | PTX |
//! |---|---|
//! | [`int`] | `add sub mul mad mul24 mad24 sad div rem abs neg min max shl shr cnot`, carries |
//! | [`bits`] | `popc clz bfind fns brev bfe bfi bmsk szext shf lop3 prmt` |
//! | [`packed`] | `dp4a dp2a`, `add min max` on `u16x2 s16x2` |
//! | [`video`] | `vadd vsub vavrg vabsdiff vmin vmax` of 2 and 4 parts |
//! | [`compare`] | `setp set testp`, and the condition names |
//! | [`fp32`] | f32 arithmetic, every rounding mode, `.ftz`, `.sat`; `min max abs neg copysign` |
//! | [`fp64`] | f64 arithmetic, every rounding mode |
//! | [`fp16`] | f16, bf16, f16x2, bf16x2 arithmetic |
//! | [`cvt`] | `cvt` to, from and between floats |
//! | [`approx`] | `.approx` and `div.full` |
//! | [`texture`] | `tex`: texels of a coordinate, and filtering |
//! | [`fp8`] | `cvt` to and from e4m3x2, e5m2x2 |
//! | `tensor` | `mma`, `wgmma`: layouts and sums |
//! | [`round`] | exact arithmetic on unpacked numbers and one rounding to any format |
//!
//! # Conventions
//! Integers are passed as the Rust integer of their type, f32 and f64 as `f32` and `f64` (moves
//! keep NaN payloads). 16-bit floats are the bits in a `u16`, and packed pairs are a `u32` with the
//! first element in the low half.
//!
//! A name without suffix is the common form (round to nearest even, no `.ftz`, no `.sat`) and is
//! the fast one. Its `_with` twin takes a [`FloatMode`] with any combination of modifiers, at a
//! cost of a few nanoseconds for f32 and some tens for f64 in a directed rounding mode.
//!
//! # NaN
//! An f32 operation whose result is NaN gives `0x7fffffff`, a 16-bit one `0x7fff`; so do `abs` and
//! `neg`. f64 operations propagate the payload of their last NaN operand (`div`: the first; `fma`:
//! `b`, else `c`, else `a`), made quiet, and give `0xfff8000000000000` if no operand was NaN.
//! Conversions to and from f64 keep payloads. `mov`, `selp`, `slct`, `copysign`, loads and stores
//! change no bit.
//!
//! # FMA
//! `fma` uses [`f32::mul_add`], which is one instruction when the caller is compiled with the
//! `fma` target feature and otherwise a correctly rounded library call (about 5 ns, not
//! vectorised). The results are the same.
//!
//! Source: PTX ISA 9.0, chapter 9; where it leaves a choice, the behaviour of an H200.

pub mod approx;
pub mod bits;
pub mod compare;
pub mod cvt;
pub mod fp16;
pub mod fp32;
pub mod fp64;
pub mod fp8;
pub mod int;
pub mod packed;
pub mod round;
pub(crate) mod tensor;
pub mod texture;
pub mod video;

/// A rounding modifier: of a float result (`.rn`), or to an integer value (`.rni`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// `.rn`, `.rni`: to nearest, ties to even.
    #[default]
    NearestEven,
    /// `.rna`: to nearest, ties away from zero.
    NearestAway,
    /// `.rz`, `.rzi`: toward zero.
    TowardZero,
    /// `.rm`, `.rmi`: toward negative infinity.
    Down,
    /// `.rp`, `.rpi`: toward positive infinity.
    Up,
}

impl Rounding {
    /// The mode that a PTX modifier names (`rn rz rm rp rna`, or `rni rzi rmi rpi`).
    #[must_use]
    pub fn from_modifier(modifier: &str) -> Option<Self> {
        Some(match modifier {
            "rn" | "rni" => Self::NearestEven,
            "rna" => Self::NearestAway,
            "rz" | "rzi" => Self::TowardZero,
            "rm" | "rmi" => Self::Down,
            "rp" | "rpi" => Self::Up,
            _ => return None,
        })
    }
}

/// The modifiers of a floating-point instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FloatMode {
    /// Rounding of the result.
    pub rounding: Rounding,
    /// `.ftz`: subnormal inputs and results become zeros of the same sign.
    pub ftz: bool,
    /// `.sat`: the result is clamped to `[0, 1]`, NaN to `+0`.
    pub saturate: bool,
}

impl FloatMode {
    /// Whether this is the mode that the functions without suffix compute.
    #[must_use]
    pub fn is_plain(self) -> bool {
        self == Self::default()
    }
}
