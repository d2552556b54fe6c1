//! Chains of functions: their limits and their arithmetic.

use super::{BinaryOp, GradOp, UnaryOp};
use crate::DType;

/// Most inputs of a chain.
pub const MAX_INPUTS: usize = 4;

/// Most values that a chain can keep for later steps.
pub const MAX_KEPT: usize = 4;

/// Most steps of a chain, including the first, which loads.
pub const MAX_STEPS: usize = 32;

/// Dtypes that chains compute in f32, which represents all of their values.
pub const CHAIN_DTYPES: [DType; 7] = [
    DType::F32,
    DType::F16,
    DType::Bf16,
    DType::E4m3,
    DType::E5m2,
    DType::U8,
    DType::I8,
];

/// Arithmetic of a chain, which the dtype of its first tensor determines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arithmetic {
    /// f32, for tensors of [`CHAIN_DTYPES`].
    F32,
    /// f64, for tensors of f64.
    F64,
    /// Wrapping i32, for tensors of i32.
    I32,
    /// Wrapping i64, for tensors of i64.
    I64,
}

impl Arithmetic {
    /// All arithmetics.
    pub const ALL: [Self; 4] = [Self::F32, Self::F64, Self::I32, Self::I64];

    /// The arithmetic for values of a dtype; `None` if only casts exist for it.
    pub const fn of(dtype: DType) -> Option<Self> {
        match dtype {
            DType::F32
            | DType::F16
            | DType::Bf16
            | DType::E4m3
            | DType::E5m2
            | DType::U8
            | DType::I8 => Some(Self::F32),
            DType::F64 => Some(Self::F64),
            DType::I32 => Some(Self::I32),
            DType::I64 => Some(Self::I64),
            DType::I16 | DType::U16 | DType::U32 | DType::U64 => None,
        }
    }

    /// Name of the type, which is the prefix of fragments' names.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::I32 => "i32",
            Self::I64 => "i64",
        }
    }

    /// Dtypes of the tensors that it is for.
    pub const fn dtypes(self) -> &'static str {
        match self {
            Self::F32 => "f32, f16, bf16, e4m3, e5m2, u8, i8",
            Self::F64 => "f64",
            Self::I32 => "i32",
            Self::I64 => "i64",
        }
    }

    /// Whether functions with a result of this dtype use their short forms
    /// ([`UnaryOp::narrow_ulps`]): f32 arithmetic with a result of 16 or 8 bits.
    pub const fn is_narrow(self, result: DType) -> bool {
        matches!(self, Self::F32)
            && matches!(result, DType::F16 | DType::Bf16 | DType::E4m3 | DType::E5m2)
    }

    /// Whether it is floating-point arithmetic.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }

    /// Intermediate type of a cast. It represents all values of `from`, so that a single rounding
    /// from it to `to` remains. `None` for u64, which has no casts.
    pub const fn of_cast(from: DType, to: DType) -> Option<Self> {
        let (of_from, of_to) = (Self::of(from), Self::of(to));
        match (from, to) {
            (DType::U64, _) | (_, DType::U64) => None,
            (DType::F64, _) => Some(Self::F64),
            (DType::F32 | DType::F16 | DType::Bf16 | DType::E4m3 | DType::E5m2, _) => {
                Some(Self::F32)
            }
            _ if matches!((of_from, of_to), (Some(Self::F32), Some(Self::F32))) => Some(Self::F32),
            _ => Some(Self::I64),
        }
    }
}

impl UnaryOp {
    /// The functions that are defined in that arithmetic.
    pub fn all_in(arithmetic: Arithmetic) -> impl Iterator<Item = Self> + Clone {
        Self::ALL
            .into_iter()
            .filter(move |op| op.is_defined(arithmetic))
    }

    /// Whether the function takes a scalar beside the element.
    pub const fn takes_scalar(self) -> bool {
        matches!(self, Self::Scale | Self::Offset)
    }

    /// Whether the function is defined in that arithmetic.
    pub const fn is_defined(self, arithmetic: Arithmetic) -> bool {
        let is_common = matches!(
            self,
            Self::Neg
                | Self::Abs
                | Self::Relu
                | Self::Square
                | Self::Scale
                | Self::Offset
                | Self::Sign
                | Self::Not
        );
        match arithmetic {
            Arithmetic::F32 => !matches!(self, Self::BitNot),
            Arithmetic::F64 => is_common || self.wide_ulps().is_some(),
            Arithmetic::I32 | Arithmetic::I64 => is_common || matches!(self, Self::BitNot),
        }
    }

    /// Largest error of the short form, in the ulp of [`ulps`](Self::ulps); `None` if the function
    /// has no short form. Chains use it if their result is a float of 16 or 8 bits.
    pub const fn narrow_ulps(self) -> Option<f32> {
        match self {
            Self::Sqrt => Some(1.5),
            Self::Rsqrt => Some(3.0),
            Self::Tanh => Some(20.0),
            Self::Exp | Self::Exp2 | Self::Sigmoid | Self::Silu => Some(128.0),
            Self::Gelu | Self::GeluTanh => Some(300.0),
            _ => None,
        }
    }

    /// Largest error in f64, in ulp; `None` if the function is not defined in f64.
    pub const fn wide_ulps(self) -> Option<f64> {
        match self {
            Self::Neg | Self::Abs | Self::Relu | Self::Sign | Self::Not => Some(0.0),
            Self::Floor | Self::Ceil | Self::Round | Self::Trunc => Some(0.0),
            Self::IsNan | Self::IsInf | Self::IsFinite => Some(0.0),
            Self::Square | Self::Scale | Self::Offset | Self::Sqrt | Self::Rcp => Some(0.5),
            Self::Rsqrt => Some(1.5),
            Self::Exp | Self::Log | Self::Tanh => Some(2.0),
            Self::Sigmoid => Some(3.0),
            Self::Silu | Self::Gelu => Some(5.0),
            Self::GeluTanh => Some(6.0),
            _ => None,
        }
    }
}

impl BinaryOp {
    /// The functions that are defined in that arithmetic.
    pub fn all_in(arithmetic: Arithmetic) -> impl Iterator<Item = Self> + Clone {
        Self::ALL
            .into_iter()
            .filter(move |op| op.is_defined(arithmetic))
    }

    /// Whether the function is defined in that arithmetic.
    pub const fn is_defined(self, arithmetic: Arithmetic) -> bool {
        let is_of_bits = matches!(
            self,
            Self::BitAnd | Self::BitOr | Self::BitXor | Self::ShiftLeft | Self::ShiftRight
        );
        match arithmetic {
            Arithmetic::F32 => !is_of_bits,
            Arithmetic::F64 => {
                !is_of_bits
                    && !matches!(
                        self,
                        Self::Pow | Self::Remainder | Self::Fmod | Self::Atan2 | Self::Hypot
                    )
            }
            Arithmetic::I32 | Arithmetic::I64 => {
                !matches!(self, Self::Pow | Self::Atan2 | Self::Hypot | Self::CopySign)
            }
        }
    }
}

impl GradOp {
    /// Whether the function is defined in that arithmetic: only in f32.
    pub const fn is_defined(self, arithmetic: Arithmetic) -> bool {
        matches!(arithmetic, Arithmetic::F32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn casts_go_through_what_holds_both_ends() {
        use Arithmetic::{F32, F64, I64};
        let cases = [
            (DType::Bf16, DType::E4m3, F32),
            (DType::U8, DType::F16, F32),
            (DType::F16, DType::I64, F32),
            (DType::F64, DType::Bf16, F64),
            (DType::I32, DType::F16, I64),
            (DType::U8, DType::I32, I64),
            (DType::U8, DType::F64, I64),
        ];
        for (from, to, want) in cases {
            assert_eq!(Arithmetic::of_cast(from, to), Some(want), "{from} {to}");
        }
        assert_eq!(Arithmetic::of_cast(DType::U64, DType::F32), None);
    }

    #[test]
    fn functions_of_bits_are_those_of_integers() {
        for arithmetic in Arithmetic::ALL {
            let is_integer = !arithmetic.is_float();
            assert_eq!(BinaryOp::ShiftLeft.is_defined(arithmetic), is_integer);
            assert_eq!(UnaryOp::BitNot.is_defined(arithmetic), is_integer);
            assert!(BinaryOp::Add.is_defined(arithmetic));
        }
    }
}
