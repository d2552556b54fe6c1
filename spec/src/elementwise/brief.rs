//! Programs of common functions over dense tensors, for the kernel that does nothing else.

use super::{BinaryOp, MAX_STEPS, Operand, Step, UnaryOp};

/// Elements of a thread.
pub const BRIEF_LEN: u32 = 16;

/// Numbers of the instructions, which are a table's indices.
pub mod brief_code {
    #![expect(missing_docs, reason = "the names are those of the functions")]
    pub const NEG: u32 = 0;
    pub const ABS: u32 = 1;
    pub const RELU: u32 = 2;
    pub const SQUARE: u32 = 3;
    pub const SQRT: u32 = 4;
    pub const RCP: u32 = 5;
    pub const EXP: u32 = 6;
    pub const LOG: u32 = 7;
    pub const SILU: u32 = 8;
    pub const SIGMOID: u32 = 9;
    pub const TANH: u32 = 10;
    pub const GELU: u32 = 11;
    pub const GELU_TANH: u32 = 12;
    pub const ADD: u32 = 13;
    pub const SUB: u32 = 14;
    pub const SUB_FROM: u32 = 15;
    pub const MUL: u32 = 16;
    pub const DIV: u32 = 17;
    pub const MAX: u32 = 18;
    pub const MIN: u32 = 19;
    pub const ADD_SCALAR: u32 = 20;
    pub const MUL_SCALAR: u32 = 21;
    pub const MAX_SCALAR: u32 = 22;
    pub const MIN_SCALAR: u32 = 23;
    pub const SUB_SCALAR: u32 = 24;
    pub const SUB_FROM_SCALAR: u32 = 25;
}

/// A launch.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BriefParams {
    /// Elements.
    pub len: u32,
    /// Neighbours of an access: 8 where no tensor's elements are wider than 2 bytes, else 4; 1 where a
    /// tensor is not aligned for that.
    pub chunk: u32,
    /// Steps in use.
    pub steps: u32,
    /// Inputs: 1 or 2.
    pub inputs: u32,
    /// Dtypes of the inputs and the output.
    pub dtypes: [u32; 3],
    /// 4: how often four elements are 16, as a number that the compiler does not know.
    pub quarters: u32,
    /// Instruction and scalar.
    pub program: [Step; MAX_STEPS],
}

/// Names an entry: `chain_brief`, or `chain_brief_sm89`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BriefEntry {
    /// For devices of compute capability 8.9 and above.
    pub converts: bool,
}

impl core::fmt::Display for BriefEntry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(if self.converts {
            "chain_brief_sm89"
        } else {
            "chain_brief"
        })
    }
}

/// The brief instruction that does what a step does; `None` where there is none.
const fn brief_step(step: Step) -> Option<Step> {
    use brief_code as code;
    let (instruction, place) = (step.word & 0xff, (step.word >> 8) & 0xff);
    let is_first = step.word >> 24 != 0;
    let is_scalar = place == Step::SCALAR;
    let is_unary = place == Step::NO_OPERAND;
    const fn is(instruction: u32, op: BinaryOp) -> bool {
        instruction == op.code()
    }
    let unary = [
        (UnaryOp::Neg, code::NEG),
        (UnaryOp::Abs, code::ABS),
        (UnaryOp::Relu, code::RELU),
        (UnaryOp::Square, code::SQUARE),
        (UnaryOp::Sqrt, code::SQRT),
        (UnaryOp::Rcp, code::RCP),
        (UnaryOp::Exp, code::EXP),
        (UnaryOp::Log, code::LOG),
        (UnaryOp::Silu, code::SILU),
        (UnaryOp::Sigmoid, code::SIGMOID),
        (UnaryOp::Tanh, code::TANH),
        (UnaryOp::Gelu, code::GELU),
        (UnaryOp::GeluTanh, code::GELU_TANH),
    ];
    let mut word = u32::MAX;
    if is_unary {
        let mut i = 0;
        while i < unary.len() {
            if unary[i].0.code() == instruction {
                word = unary[i].1;
            }
            i += 1;
        }
    } else if is_scalar {
        word = match is_first {
            _ if is(instruction, BinaryOp::Add) => code::ADD_SCALAR,
            _ if is(instruction, BinaryOp::Mul) => code::MUL_SCALAR,
            // Of two NaN the first stays, but both are the canonical one once rounded.
            _ if is(instruction, BinaryOp::Max) => code::MAX_SCALAR,
            _ if is(instruction, BinaryOp::Min) => code::MIN_SCALAR,
            false if is(instruction, BinaryOp::Sub) => code::SUB_SCALAR,
            true if is(instruction, BinaryOp::Sub) => code::SUB_FROM_SCALAR,
            _ => u32::MAX,
        };
    } else if place == 1 {
        word = match is_first {
            _ if is(instruction, BinaryOp::Add) => code::ADD,
            _ if is(instruction, BinaryOp::Mul) => code::MUL,
            _ if is(instruction, BinaryOp::Max) => code::MAX,
            _ if is(instruction, BinaryOp::Min) => code::MIN,
            false if is(instruction, BinaryOp::Sub) => code::SUB,
            true if is(instruction, BinaryOp::Sub) => code::SUB_FROM,
            false if is(instruction, BinaryOp::Div) => code::DIV,
            _ => u32::MAX,
        };
    }
    if word == u32::MAX {
        None
    } else {
        Some(Step {
            word,
            scalar: step.scalar,
        })
    }
}

/// The brief program of a program; `None` where it has a step that there is none for.
pub const fn brief_program(program: &[Step; MAX_STEPS], steps: u32) -> Option<[Step; MAX_STEPS]> {
    let mut brief = [Step {
        word: 0,
        scalar: 0.0,
    }; MAX_STEPS];
    let load = Step::load(Operand::Input(0, crate::DType::F32)).word;
    if steps == 0 || program[0].word & 0xffff != load & 0xffff {
        return None;
    }
    let mut i = 1;
    while i < steps as usize {
        match brief_step(program[i]) {
            Some(step) => brief[i - 1] = step,
            None => return None,
        }
        i += 1;
    }
    Some(brief)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    fn steps(of: &[Step]) -> [Step; MAX_STEPS] {
        let mut all = [Step::default(); MAX_STEPS];
        all[..of.len()].copy_from_slice(of);
        all
    }

    #[test]
    fn common_steps_have_brief_instructions_and_others_have_none() {
        let load = Step::load(Operand::Input(0, DType::Bf16));
        let program = steps(&[
            load,
            Step::unary(UnaryOp::Gelu, 0.0),
            Step::binary(BinaryOp::Sub, Operand::Scalar(2.0), true),
            Step::binary(BinaryOp::Div, Operand::Input(1, DType::F32), false),
        ]);
        let brief = brief_program(&program, 4).expect("common steps");
        let words = [brief[0].word, brief[1].word, brief[2].word];
        let want = [
            brief_code::GELU,
            brief_code::SUB_FROM_SCALAR,
            brief_code::DIV,
        ];
        assert_eq!((words, brief[1].scalar), (want, 2.0));
        for rare in [
            Step::unary(UnaryOp::Sin, 0.0),
            Step::keep(0),
            Step::mask(Operand::Input(1, DType::U8)),
            Step::binary(BinaryOp::Pow, Operand::Scalar(2.0), false),
            Step::binary(BinaryOp::Add, Operand::Input(2, DType::F32), false),
        ] {
            assert_eq!(brief_program(&steps(&[load, rare]), 2), None);
        }
        assert!(brief_program(&steps(&[load]), 1).is_some());
    }
}
