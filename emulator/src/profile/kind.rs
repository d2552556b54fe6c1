//! The kind of work that an instruction does, decided when it is lowered.

use ptx_syntax::ast::Instruction;
use ptx_syntax::isa::{Class, is_float};

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
        let each = inst.flops();
        let mut types = inst.modifiers.iter().filter(|word| is_float(word));
        let flops = types.next().filter(|_| each > 0).map(|ty| {
            let precision = match ty.as_str() {
                "f64" => Precision::Double,
                "f32" | "f32x2" => Precision::Single,
                _ => Precision::Half,
            };
            (precision, if ty.ends_with("x2") { 2 * each } else { each })
        });
        let class = inst.class();
        Self { class, flops }
    }
}
