//! Matrix instructions: which lane holds which element, and how products are summed.
//!
//! | module | what |
//! |---|---|
//! | [`fragment`] | which lane and register holds which element |
//! | [`wmma`] | where the elements of a fragment lie in memory |
//! | [`descriptor`] | the shared-memory matrix of a `wgmma`: addresses, swizzles |
//! | [`arrange`] | operands in vectors of eight lanes |
//! | [`float`] | elements decoded to a value and an exponent |
//! | [`sum`] | sums of products of f16, bf16, tf32 and fp8 |
//! | [`whole`] | sums of integers, of single bits and of f64 |
//!
//! # How an H200 adds
//! All products of an instruction and the accumulator are added in one step. Each addend is aligned
//! to the largest exponent among them and truncated (not rounded) a number of bits below it. The
//! aligned addends are summed exactly, and the sum is truncated (f32) or rounded to nearest (f16)
//! to the accumulator's format. The table has what was seen on an H200 (driver 580.159), and what
//! this module computes:
//!
//! | instruction | products a step | bits kept below the largest exponent | result |
//! |---|---|---|---|
//! | `mma`, `wgmma` of f16, bf16, tf32 into f32 | all of k | 25 | f32, cut off |
//! | `mma`, `wgmma` of f16 into f16 | all of k | 25 | f16, to nearest even |
//! | `wgmma` of fp8 into f32 | all 32 | 13 | f32 with 13 fraction bits, cut off |
//! | `wgmma` of fp8 into f16 | all 32 | 13 | f16, to nearest even |
//! | `mma` of fp8 | two steps from zero (below) | 25 | then added to the accumulator, to nearest |
//!
//! Hopper runs `mma` of fp8 on its f16 unit: first the elements whose k is 0 or 1 modulo 4, then
//! the others. They go into an accumulator of their own (of the result's format), which an ordinary
//! addition then adds to `c`. The exponent of a product is the sum of its factors' exponents, not
//! that of the product itself; a subnormal factor has the least normal exponent. A zero result is
//! `+0`. NaN, `0 * inf` and `inf - inf` give `0x7fffffff` (f16: `0x7fff`).

pub(crate) mod arrange;
pub(crate) mod descriptor;
pub(crate) mod float;
pub(crate) mod fragment;
pub(crate) mod sum;
pub(crate) mod whole;
pub(crate) mod wmma;

/// Type of the elements of A or B.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Element {
    F16,
    Bf16,
    Tf32,
    E4m3,
    E5m2,
    F64,
    S8,
    U8,
    S4,
    U4,
    B1,
}

impl Element {
    /// The type that a modifier names.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "f16" => Self::F16,
            "bf16" => Self::Bf16,
            "tf32" => Self::Tf32,
            "e4m3" => Self::E4m3,
            "e5m2" => Self::E5m2,
            "f64" => Self::F64,
            "s8" => Self::S8,
            "u8" => Self::U8,
            "s4" => Self::S4,
            "u4" => Self::U4,
            "b1" => Self::B1,
            _ => return None,
        })
    }

    /// Bits of an element.
    pub(crate) fn bits(self) -> usize {
        match self {
            Self::F64 => 64,
            Self::Tf32 => 32,
            Self::F16 | Self::Bf16 => 16,
            Self::E4m3 | Self::E5m2 | Self::S8 | Self::U8 => 8,
            Self::S4 | Self::U4 => 4,
            Self::B1 => 1,
        }
    }

    /// Whether it is one of the two 8-bit floats.
    pub(crate) fn is_fp8(self) -> bool {
        matches!(self, Self::E4m3 | Self::E5m2)
    }

    /// Whether elements are smaller than a byte.
    pub(crate) fn is_sub_byte(self) -> bool {
        self.bits() < 8
    }

    /// Bits of the smallest unit that a matrix is handled in: single bits are handled in words of
    /// 32.
    pub(crate) fn unit_bits(self) -> usize {
        if self == Self::B1 { 32 } else { self.bits() }
    }
}

/// Type of the accumulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Accumulator {
    F16,
    F32,
    F64,
    S32,
}

impl Accumulator {
    /// The type that a modifier names.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "f16" => Self::F16,
            "f32" => Self::F32,
            "f64" => Self::F64,
            "s32" => Self::S32,
            _ => return None,
        })
    }

    /// Bits of an element.
    pub(crate) fn bits(self) -> usize {
        match self {
            Self::F16 => 16,
            Self::F32 | Self::S32 => 32,
            Self::F64 => 64,
        }
    }
}

/// Operation of `mma` on single bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BitOp {
    Xor,
    And,
}
