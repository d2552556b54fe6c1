//! Comparisons and classes of numbers.
//!
//! Two values are less, equal, greater or unordered, and each PTX comparison accepts some of the
//! four. A [`Compare`] is that set as a bit mask. So one branch-free test serves all comparisons,
//! and a loop over lanes is vectorised although the operator is known only at run time.

use super::int::Integer;

const LESS: u32 = 1;
const EQUAL: u32 = 2;
const GREATER: u32 = 4;
const UNORDERED: u32 = 8;

/// A comparison operator of `setp` and `set`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Compare(u32);

impl Default for Compare {
    fn default() -> Self {
        Self::EQ
    }
}

impl Compare {
    /// `eq`
    pub const EQ: Self = Self(EQUAL);
    /// `ne`: an ordered comparison, so false if an operand is NaN.
    pub const NE: Self = Self(LESS | GREATER);
    /// `lt`, and `lo`
    pub const LT: Self = Self(LESS);
    /// `le`, and `ls`
    pub const LE: Self = Self(LESS | EQUAL);
    /// `gt`, and `hi`
    pub const GT: Self = Self(GREATER);
    /// `ge`, and `hs`
    pub const GE: Self = Self(GREATER | EQUAL);
    /// `equ`
    pub const EQU: Self = Self(EQUAL | UNORDERED);
    /// `neu`
    pub const NEU: Self = Self(LESS | GREATER | UNORDERED);
    /// `ltu`
    pub const LTU: Self = Self(LESS | UNORDERED);
    /// `leu`
    pub const LEU: Self = Self(LESS | EQUAL | UNORDERED);
    /// `gtu`
    pub const GTU: Self = Self(GREATER | UNORDERED);
    /// `geu`
    pub const GEU: Self = Self(GREATER | EQUAL | UNORDERED);
    /// `num`: neither is NaN.
    pub const NUM: Self = Self(LESS | EQUAL | GREATER);
    /// `nan`: one or both are NaN.
    pub const NAN: Self = Self(UNORDERED);

    /// The operator with that name. `lo ls hi hs` compare as unsigned: the caller passes unsigned
    /// values for them.
    #[must_use]
    pub fn from_modifier(modifier: &str) -> Option<Self> {
        Some(match modifier {
            "eq" => Self::EQ,
            "ne" => Self::NE,
            "lt" | "lo" => Self::LT,
            "le" | "ls" => Self::LE,
            "gt" | "hi" => Self::GT,
            "ge" | "hs" => Self::GE,
            "equ" => Self::EQU,
            "neu" => Self::NEU,
            "ltu" => Self::LTU,
            "leu" => Self::LEU,
            "gtu" => Self::GTU,
            "geu" => Self::GEU,
            "num" => Self::NUM,
            "nan" => Self::NAN,
            _ => return None,
        })
    }

    /// Compares two integers.
    #[inline(always)]
    #[must_use]
    pub fn int<T: Integer>(self, a: T, b: T) -> bool {
        self.accepts(a < b, a == b, a > b, false)
    }

    /// Compares two f32; subnormals keep their value.
    #[inline(always)]
    #[must_use]
    pub fn f32(self, a: f32, b: f32) -> bool {
        self.accepts(a < b, a == b, a > b, a.is_nan() | b.is_nan())
    }

    /// Compares two f64.
    #[inline(always)]
    #[must_use]
    pub fn f64(self, a: f64, b: f64) -> bool {
        self.accepts(a < b, a == b, a > b, a.is_nan() | b.is_nan())
    }

    #[inline(always)]
    fn accepts(self, less: bool, equal: bool, greater: bool, unordered: bool) -> bool {
        let place = (u32::from(less) * LESS)
            | (u32::from(equal) * EQUAL)
            | (u32::from(greater) * GREATER)
            | (u32::from(unordered) * UNORDERED);
        self.0 & place != 0
    }
}

/// A property that `testp` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TestProperty {
    /// Neither infinite nor NaN.
    Finite,
    /// Infinite.
    Infinite,
    /// Not NaN.
    Number,
    /// NaN.
    NotANumber,
    /// Neither infinite, NaN nor subnormal; zeros are normal.
    Normal,
    /// Subnormal; zeros are not.
    Subnormal,
}

impl TestProperty {
    /// The property with that name.
    #[must_use]
    pub fn from_modifier(modifier: &str) -> Option<Self> {
        Some(match modifier {
            "finite" => Self::Finite,
            "infinite" => Self::Infinite,
            "number" => Self::Number,
            "notanumber" => Self::NotANumber,
            "normal" => Self::Normal,
            "subnormal" => Self::Subnormal,
            _ => return None,
        })
    }

    /// `testp.f32`
    #[inline(always)]
    #[must_use]
    pub fn f32(self, a: f32) -> bool {
        match self {
            Self::Finite => a.is_finite(),
            Self::Infinite => a.is_infinite(),
            Self::Number => !a.is_nan(),
            Self::NotANumber => a.is_nan(),
            Self::Normal => a.is_normal() | (a == 0.0),
            Self::Subnormal => a.is_subnormal(),
        }
    }

    /// `testp.f64`
    #[inline(always)]
    #[must_use]
    pub fn f64(self, a: f64) -> bool {
        match self {
            Self::Finite => a.is_finite(),
            Self::Infinite => a.is_infinite(),
            Self::Number => !a.is_nan(),
            Self::NotANumber => a.is_nan(),
            Self::Normal => a.is_normal() | (a == 0.0),
            Self::Subnormal => a.is_subnormal(),
        }
    }
}
