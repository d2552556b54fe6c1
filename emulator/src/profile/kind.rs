//! The kind of work that an instruction does, decided when it is lowered.

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

/// The kind of one instruction, as the counters need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) class: Class,
    /// Floating-point operations that each lane executes.
    pub(crate) flops: Option<(Precision, u8)>,
}

impl Kind {
    /// A kind without floating-point operations.
    pub(crate) const fn plain(class: Class) -> Self {
        Self { class, flops: None }
    }

    /// The kind of an instruction, by its mnemonic. A fused multiply-add counts as two operations,
    /// and an instruction on a pair of values twice. `abs`, `neg`, `copysign`, comparisons,
    /// conversions and approximations count as none.
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
