//! What kind of work an instruction is, decided when it is lowered.

use ptx_syntax::ast::Instruction;
use ptx_syntax::explain::Class;

/// Format of float arithmetic outside of tensor cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precision {
    /// f16, bf16 and their pairs.
    Half,
    Single,
    Double,
}

/// Kind of one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) class: Class,
    /// Floating-point operations of one lane.
    pub(crate) flops: Option<(Precision, u8)>,
}

impl Kind {
    /// A kind without arithmetic.
    pub(crate) const fn plain(class: Class) -> Self {
        Self { class, flops: None }
    }

    /// The kind of an instruction, by its mnemonic. A fused multiply-add is two operations, an
    /// operation on a pair of halves is one for each; comparisons, conversions and approximations
    /// are none.
    pub(crate) fn of(inst: &Instruction) -> Self {
        let class = Class::of(inst);
        let each = match class {
            Class::Fma => 2,
            Class::Float if !matches!(inst.opcode.as_str(), "abs" | "neg" | "copysign") => 1,
            _ => return Self::plain(class),
        };
        let flops = inst.modifiers.iter().find_map(|word| {
            Some(match word.as_str() {
                "f64" => (Precision::Double, each),
                "f32" => (Precision::Single, each),
                "f32x2" => (Precision::Single, 2 * each),
                "f16" | "bf16" => (Precision::Half, each),
                "f16x2" | "bf16x2" => (Precision::Half, 2 * each),
                _ => return None,
            })
        });
        Self { class, flops }
    }
}
