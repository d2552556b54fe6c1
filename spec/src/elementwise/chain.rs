//! Programs of the kernel that computes elementwise functions.

use super::{BinaryOp, GradOp, UnaryOp, WalkParams};
use crate::DType;

/// Inputs of a program.
pub const MAX_INPUTS: usize = 4;

/// Values that a program can keep for later.
pub const MAX_KEPT: usize = 4;

/// Steps of a program.
pub const MAX_STEPS: usize = 32;

/// Dtypes that programs read and write: those whose values are values of f32.
pub const CHAIN_DTYPES: [DType; 7] = [
    DType::F32,
    DType::F16,
    DType::Bf16,
    DType::E4m3,
    DType::E5m2,
    DType::U8,
    DType::I8,
];

/// Numbers that instructions and dtypes have in a [`Step`].
pub mod code {
    use crate::DType;

    /// value = operand.
    pub const LOAD: u32 = 0;
    /// kept\[operand\] = value.
    pub const KEEP: u32 = 1;
    /// mask = operand ≠ 0.
    pub const MASK: u32 = 2;
    /// value = mask ? value : operand.
    pub const SELECT: u32 = 3;

    /// The number of a dtype of [`CHAIN_DTYPES`](super::CHAIN_DTYPES), or of one that only casts
    /// take.
    pub const fn dtype(dtype: DType) -> u32 {
        match dtype {
            DType::F32 => 0,
            DType::F16 => 1,
            DType::Bf16 => 2,
            DType::E4m3 => 3,
            DType::E5m2 => 4,
            DType::U8 => 5,
            DType::I8 => 6,
            DType::U16 => 7,
            DType::I16 => 8,
            DType::U32 => 9,
            DType::I32 => 10,
            DType::U64 => 11,
            DType::I64 => 12,
            DType::F64 => 13,
        }
    }
}

/// Where the second operand of an instruction is from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operand {
    /// There is none.
    None,
    /// The step's scalar.
    Scalar(f32),
    /// An input, by its number, of that dtype.
    Input(u8, DType),
    /// A value that was kept, by its number.
    Kept(u8),
}

/// One instruction of a program: value = f(value, operand).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Step {
    /// Instruction, the operand's place ([`Step::NO_OPERAND`] and so on), its dtype, and whether the
    /// operand comes first: 8 bits each, lowest first.
    pub word: u32,
    /// The scalar.
    pub scalar: f32,
}

impl Step {
    /// Place of an operand that is not there.
    pub const NO_OPERAND: u32 = 0xff;
    /// Place of the scalar.
    pub const SCALAR: u32 = 0xfe;
    /// Place of the first kept value; inputs begin at 0.
    pub const KEPT: u32 = 0x10;

    const fn new(code: u32, operand: Operand, is_first: bool) -> Self {
        let (place, dtype, scalar) = match operand {
            Operand::None => (Self::NO_OPERAND, DType::F32, 0.0),
            Operand::Scalar(scalar) => (Self::SCALAR, DType::F32, scalar),
            Operand::Input(input, dtype) => (input as u32, dtype, 0.0),
            Operand::Kept(number) => (Self::KEPT + number as u32, DType::F32, 0.0),
        };
        Self {
            word: code | place << 8 | code::dtype(dtype) << 16 | (is_first as u32) << 24,
            scalar,
        }
    }

    /// value = operand.
    pub const fn load(operand: Operand) -> Self {
        Self::new(code::LOAD, operand, false)
    }

    /// Keeps the value under a number.
    pub const fn keep(number: u8) -> Self {
        Self::new(code::KEEP, Operand::Kept(number), false)
    }

    /// Sets the mask to where the operand is not 0 (NaN is not).
    pub const fn mask(operand: Operand) -> Self {
        Self::new(code::MASK, operand, false)
    }

    /// value stays where the mask is set, else becomes the operand.
    pub const fn select(operand: Operand) -> Self {
        Self::new(code::SELECT, operand, false)
    }

    /// value = op(value); for those with a scalar, op(value, scalar).
    pub const fn unary(op: UnaryOp, scalar: f32) -> Self {
        match op {
            UnaryOp::Scale => Self::binary(BinaryOp::Mul, Operand::Scalar(scalar), false),
            UnaryOp::Offset => Self::binary(BinaryOp::Add, Operand::Scalar(scalar), false),
            _ => Self::new(op.code(), Operand::None, false),
        }
    }

    /// value = op(value, operand), or op(operand, value) where the operand comes first.
    pub const fn binary(op: BinaryOp, operand: Operand, is_first: bool) -> Self {
        Self::new(op.code(), operand, is_first)
    }

    /// value = op'(value) · operand.
    pub const fn gradient(op: GradOp, operand: Operand) -> Self {
        Self::new(op.code(), operand, false)
    }
}

/// A launch of a chain.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChainParams {
    /// The tensors: y, a, b, c, d.
    pub walk: WalkParams,
    /// Steps in use; the first loads.
    pub steps: u32,
    /// The output's dtype, as [`code::dtype`].
    pub output: u32,
    /// Inputs in use.
    pub inputs: u32,
    /// Dtypes of the first two inputs, 8 bits each, lowest first.
    pub dtypes: u32,
    /// The program.
    pub program: [Step; MAX_STEPS],
}

/// Names an entry: `chain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChainEntry;

impl core::fmt::Display for ChainEntry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("chain")
    }
}

/// A launch of `cast`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CastParams {
    /// The tensors: y, x.
    pub walk: WalkParams,
    /// The input's dtype, as [`code::dtype`].
    pub from: u32,
    /// The output's.
    pub to: u32,
}

/// Names an entry: `cast`, between any two dtypes but u64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CastEntry;

impl core::fmt::Display for CastEntry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("cast")
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    #[test]
    fn steps_say_instruction_place_dtype_and_order() {
        let step = Step::binary(BinaryOp::Sub, Operand::Input(2, DType::Bf16), true);
        assert_eq!(step.word, BinaryOp::Sub.code() | 2 << 8 | 2 << 16 | 1 << 24);
        let step = Step::unary(UnaryOp::Scale, 0.5);
        assert_eq!(
            (step.word, step.scalar),
            (BinaryOp::Mul.code() | Step::SCALAR << 8, 0.5)
        );
        assert_eq!(Step::keep(3).word, code::KEEP | (Step::KEPT + 3) << 8);
    }

    #[test]
    fn entry_names_are_as_documented() {
        assert_eq!(ChainEntry.to_string(), "chain");
        assert_eq!(CastEntry.to_string(), "cast");
    }
}
