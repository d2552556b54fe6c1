//! What the table says of one instruction.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::table::{MODIFIERS, ROWS, UNKNOWN};
use super::{Class, Facts, Opcode, Operands, Row, Since, Sort, Wait};
use crate::ast::{Instruction, Operand};

/// Instructions that threads execute together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// A barrier of the block that all threads of a warp must reach together: `bar.*` (but not
    /// `bar.warp`) and `barrier.*.aligned`.
    AlignedBarrier,
    /// A barrier of the block without `.aligned`.
    UnalignedBarrier,
    /// `barrier.cluster.*`, aligned or not.
    ClusterBarrier,
    /// `wgmma.mma_async`.
    Wgmma,
    /// Any other instruction with `.aligned`: wgmma fences and waits, mma, ldmatrix, setmaxnreg.
    OtherAligned,
}

impl Opcode {
    /// The opcode of that name.
    pub fn of(word: &str) -> Option<Self> {
        static BY_WORD: LazyLock<HashMap<&str, Opcode>> = LazyLock::new(|| {
            let all = Opcode::ALL.iter();
            all.map(|opcode| (opcode.word(), *opcode)).collect()
        });
        BY_WORD.get(word).copied()
    }

    /// Its name in PTX.
    pub fn word(self) -> &'static str {
        self.row().word
    }

    /// What is known of it without regard to modifiers.
    pub fn facts(self) -> Facts {
        self.row().facts
    }

    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }
}

/// Whether a modifier is the type of a float, or of a pair of floats.
pub fn is_float(modifier: &str) -> bool {
    ["f16", "bf16", "f32", "f64"].contains(&modifier.trim_end_matches("x2"))
}

impl Instruction {
    /// Its opcode; `None` if PTX does not have it.
    pub fn known(&self) -> Option<Opcode> {
        Opcode::of(&self.opcode)
    }

    /// What is known of it.
    pub fn facts(&self) -> Facts {
        let Some(opcode) = self.known() else {
            return UNKNOWN;
        };
        let forms = self.forms(opcode).last();
        forms.unwrap_or_else(|| opcode.facts())
    }

    /// The facts of the forms that it has.
    fn forms(&self, opcode: Opcode) -> impl Iterator<Item = Facts> {
        let forms = opcode.row().forms.iter();
        let own = forms.filter(|(modifier, _)| self.has(modifier));
        own.map(|(_, facts)| *facts)
    }

    /// The first architecture and PTX version that have it. Only what came with an architecture as a
    /// whole is known (copies, barriers, tensor cores), not every form.
    pub fn since(&self) -> Since {
        let own = self.known().map(|opcode| {
            let forms = self.forms(opcode).map(|facts| facts.since);
            forms.fold(opcode.facts().since, Since::max)
        });
        let modifiers = MODIFIERS.iter().filter(|(word, _)| self.has(word));
        modifiers.fold(own.unwrap_or(UNKNOWN.since), |since, (_, own)| {
            since.max(*own)
        })
    }

    /// The kind of work that it does.
    pub fn class(&self) -> Class {
        match self.facts().sort {
            Sort::Of(class) => class,
            Sort::Float { class, other, .. } => match self.is_of_floats() {
                true => class,
                false => other,
            },
            Sort::Memory => self.class_of_space(),
        }
    }

    /// Floating-point operations that it does for each value; those of tensor cores are not counted.
    pub fn flops(&self) -> u8 {
        match self.facts().sort {
            Sort::Float { flops, .. } if self.is_of_floats() => flops,
            _ => 0,
        }
    }

    fn is_of_floats(&self) -> bool {
        self.modifiers.iter().any(|word| is_float(word))
    }

    fn class_of_space(&self) -> Class {
        let class = |word: &String| {
            Some(match word.split("::").next()? {
                "global" => Class::Global,
                "shared" => Class::Shared,
                "local" => Class::Local,
                "param" | "const" => Class::Constant,
                _ => return None,
            })
        };
        let mut classes = self.modifiers.iter().filter_map(class);
        classes.next().unwrap_or(Class::Generic)
    }

    /// Whether it accesses memory through a generic address: no state space is written.
    pub fn is_generic(&self) -> bool {
        matches!(self.class(), Class::Generic | Class::Atomic)
            && self.class_of_space() == Class::Generic
    }

    /// Whether it may stand before `griddepcontrol.wait`: it touches no global memory and does not
    /// end the thread. Instructions on registers, branches and fences may, and accesses to
    /// parameters and to the block's own shared memory.
    pub fn may_precede_wait(&self) -> bool {
        let space = self.modifiers.first().map(String::as_str);
        match self.facts().wait {
            Wait::Yes => true,
            Wait::Own => matches!(space, Some("param" | "shared")),
            Wait::No => false,
        }
    }

    /// The operand that it writes, as far as that is registers.
    pub fn result(&self) -> Option<&Operand> {
        let first = self.operands.first()?;
        let is_written = match self.facts().operands {
            Operands::Read | Operands::Stored => false,
            Operands::Called => matches!(first, Operand::List(_)) && self.operands.len() > 1,
            _ => first.is_registers(),
        };
        is_written.then_some(first)
    }

    /// Which collective instruction it is, if it is one.
    pub fn collective(&self) -> Option<Collective> {
        let aligned = self.has("aligned");
        Some(match self.known() {
            Some(Opcode::Bar | Opcode::Barrier) if self.has("cluster") => {
                Collective::ClusterBarrier
            }
            Some(Opcode::Bar | Opcode::Barrier) if self.has("warp") => return None,
            Some(Opcode::Bar) => Collective::AlignedBarrier,
            Some(Opcode::Barrier) if aligned => Collective::AlignedBarrier,
            Some(Opcode::Barrier) => Collective::UnalignedBarrier,
            Some(Opcode::Wgmma) if self.has("mma_async") => Collective::Wgmma,
            _ if aligned => Collective::OtherAligned,
            _ => return None,
        })
    }
}

impl Operand {
    /// Whether it stands for registers themselves, not for memory.
    pub fn is_registers(&self) -> bool {
        matches!(
            self,
            Operand::Name(_) | Operand::Vector(_) | Operand::Pair(..) | Operand::Sink
        )
    }
}
