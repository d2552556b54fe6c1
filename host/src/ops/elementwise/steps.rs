//! Steps and operands of a chain.

use crate::fuse::Fragment;
use crate::{Error, Result};
use abi::elementwise::{Arithmetic, BinaryOp, GradOp, UnaryOp};
use std::fmt;

/// A number as an operand of a chain; f32, f64, i32, u32 and i64 convert to it. In f32 arithmetic
/// it is rounded to nearest. In integer arithmetic it must be an integer in range.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Number {
    /// From f32.
    F32(f32),
    /// From f64.
    F64(f64),
    /// From an integer type.
    Integer(i64),
}

macro_rules! numbers {
    ($($ty:ty: $variant:ident;)*) => {$(
        impl From<$ty> for Number {
            fn from(number: $ty) -> Self {
                Self::$variant(number.into())
            }
        }
    )*};
}

numbers! { f32: F32; f64: F64; i32: Integer; i64: Integer; u32: Integer; }

impl fmt::Display for Number {
    /// As short as tells it from its neighbours: `0.1`, `3.4028235e38`, `-2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::F32(value) => fmt::Debug::fmt(value, f),
            Self::F64(value) => fmt::Debug::fmt(value, f),
            Self::Integer(value) => value.fmt(f),
        }
    }
}

impl Number {
    /// Its bits in that arithmetic, in the low bits of the result.
    pub(super) fn bits(self, arithmetic: Arithmetic) -> Result<u64> {
        match (arithmetic, self.as_f64(), self.whole()) {
            (Arithmetic::F32, ..) => Ok(u64::from(self.as_f32().to_bits())),
            (Arithmetic::F64, value, _) => Ok(value.to_bits()),
            (Arithmetic::I64, _, Some(value)) => Ok(value as u64),
            (Arithmetic::I32, _, Some(value)) if i32::try_from(value).is_ok() => {
                Ok(u64::from(value as u32))
            }
            _ => Err(Error::value(
                "number of a chain",
                self.to_string(),
                format!("a whole number that {} holds", arithmetic.name()),
            )),
        }
    }

    fn as_f32(self) -> f32 {
        match self {
            Self::F32(value) => value,
            Self::F64(value) => value as f32,
            Self::Integer(value) => value as f32,
        }
    }

    fn as_f64(self) -> f64 {
        match self {
            Self::F32(value) => value.into(),
            Self::F64(value) => value,
            Self::Integer(value) => value as f64,
        }
    }

    /// Its value as an integer, if it is one.
    fn whole(self) -> Option<i64> {
        match self {
            Self::Integer(value) => Some(value),
            _ => {
                let value = self.as_f64();
                let fits =
                    value.fract() == 0.0 && value >= -(2_f64.powi(63)) && value < 2_f64.powi(63);
                fits.then_some(value as i64)
            }
        }
    }
}

/// The second operand of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operand {
    /// A number.
    Number(Number),
    /// An input, by its index.
    Input(u8),
    /// A value that was kept, by its slot.
    Kept(u8),
}

/// One step: value = f(value, operand).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step<'a> {
    Unary(UnaryOp),
    /// The operand comes first where `is_first`.
    Binary {
        op: BinaryOp,
        operand: Operand,
        is_first: bool,
    },
    Gradient(GradOp, Operand),
    Keep(u8),
    /// value = operand.
    Load(Operand),
    /// Writes the value to the tensor of an input.
    Store(u8),
    /// mask = (operand != 0); true for NaN.
    Mask(Operand),
    /// The value where the mask is set, else the operand.
    Select(Operand),
    /// A fragment applied to the value, and to an operand if it takes two arguments.
    Apply(&'a Fragment, Option<Operand>),
}

impl Step<'_> {
    /// A unary function; `number` is the scalar of those that take one.
    pub(crate) fn unary(op: UnaryOp, number: Number) -> Self {
        let binary = |op| Self::Binary {
            op,
            operand: Operand::Number(number),
            is_first: false,
        };
        match op {
            UnaryOp::Scale => binary(BinaryOp::Mul),
            UnaryOp::Offset => binary(BinaryOp::Add),
            _ => Self::Unary(op),
        }
    }

    pub(crate) fn binary(op: BinaryOp, operand: Operand, is_first: bool) -> Self {
        Self::Binary {
            op,
            operand,
            is_first,
        }
    }

    pub(super) fn operand(&self) -> Option<Operand> {
        match *self {
            Self::Unary(_) | Self::Keep(_) | Self::Store(_) => None,
            Self::Binary { operand, .. }
            | Self::Gradient(_, operand)
            | Self::Load(operand)
            | Self::Mask(operand)
            | Self::Select(operand) => Some(operand),
            Self::Apply(_, operand) => operand,
        }
    }

    /// Part of the kernel's key: two steps with equal words differ at most in their numbers.
    pub(super) fn words(&self) -> [u64; 2] {
        let operand = match self.operand() {
            None => 0,
            Some(Operand::Number(_)) => 1,
            Some(Operand::Input(input)) => 0x100 | u64::from(input),
            Some(Operand::Kept(number)) => 0x200 | u64::from(number),
        };
        let (kind, what) = match *self {
            Self::Unary(op) => (1, op.code().into()),
            Self::Binary { op, is_first, .. } => (2 + u64::from(is_first), op.code().into()),
            Self::Gradient(op, _) => (4, op.code().into()),
            Self::Keep(number) => (5, number.into()),
            Self::Mask(_) => (6, 0),
            Self::Select(_) => (7, 0),
            Self::Apply(fragment, _) => (8, fragment.id()),
            Self::Load(_) => (9, 0),
            Self::Store(input) => (10, input.into()),
        };
        [kind << 32 | operand, what]
    }

    /// Checks that its function, if it has one, is defined in that arithmetic.
    pub(super) fn check_defined_in(&self, arithmetic: Arithmetic) -> Result<()> {
        let (name, kind, is_defined): (_, _, &dyn Fn(Arithmetic) -> bool) = match self {
            Self::Unary(op) => (op.name(), "", &|arithmetic| op.is_defined(arithmetic)),
            Self::Binary { op, .. } => (op.name(), "", &|arithmetic| op.is_defined(arithmetic)),
            // Not that of the function of this name, which more dtypes have.
            Self::Gradient(op, _) => (op.name(), "'s gradient", &|arithmetic| {
                op.is_defined(arithmetic)
            }),
            _ => return Ok(()),
        };
        if is_defined(arithmetic) {
            return Ok(());
        }
        let all = Arithmetic::ALL.into_iter();
        let dtypes = all.filter(|&arithmetic| is_defined(arithmetic));
        let dtypes: Vec<&str> = dtypes.map(Arithmetic::dtypes).collect();
        Err(Error::unsupported(
            format!("{name}{kind} of {}", arithmetic.name()),
            format!("tensors of {}", dtypes.join(", ")),
        ))
    }

    /// Estimate of its PTX instructions, to tell long functions from short ones.
    pub(super) fn weight(&self) -> u32 {
        /// For functions whose result is exact or rounded once: mostly one or two instructions.
        const SHORT: u32 = 4;
        const MEDIUM: u32 = 30;
        const LONG: u32 = 40;
        match self {
            Self::Binary {
                op: BinaryOp::Remainder | BinaryOp::Fmod | BinaryOp::Pow | BinaryOp::Atan2,
                ..
            } => 4 * LONG,
            Self::Unary(UnaryOp::Sin | UnaryOp::Cos | UnaryOp::Tan) => 3 * LONG,
            Self::Unary(UnaryOp::Exp | UnaryOp::Exp2 | UnaryOp::Sigmoid | UnaryOp::Tanh) => MEDIUM,
            Self::Unary(op) if op.ulps() > 0.5 => LONG,
            Self::Binary { op, .. } if op.ulps() > 0.5 => LONG,
            Self::Gradient(op, _) if op.ulps() > 0.5 => 2 * LONG,
            Self::Apply(fragment, _) => fragment.instructions(),
            _ => SHORT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ArgumentError;

    #[test]
    fn numbers_are_those_of_the_arithmetic_or_refused() {
        let bits = |number: Number, arithmetic| number.bits(arithmetic).ok();
        assert_eq!(bits(1.5_f32.into(), Arithmetic::F32), Some(0x3fc0_0000));
        assert_eq!(bits(0.1_f64.into(), Arithmetic::F32), Some(0x3dcc_cccd));
        assert_eq!(
            bits(0.1_f64.into(), Arithmetic::F64),
            Some(0.1_f64.to_bits())
        );
        assert_eq!(bits((-2).into(), Arithmetic::I32), Some(0xffff_fffe));
        assert_eq!(bits(3.0_f64.into(), Arithmetic::I64), Some(3));
        assert_eq!(bits(i64::MIN.into(), Arithmetic::I64), Some(1 << 63));
        for (number, arithmetic) in [
            (Number::from(0.5_f64), Arithmetic::I64),
            (f64::NAN.into(), Arithmetic::I32),
            (2_147_483_648_i64.into(), Arithmetic::I32),
            (9.3e18_f64.into(), Arithmetic::I64),
        ] {
            let error = number.bits(arithmetic).expect_err("not of that type");
            assert!(
                matches!(error, Error::Argument(ArgumentError::Value { .. })),
                "{error}"
            );
        }
    }
}
