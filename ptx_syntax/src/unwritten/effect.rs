//! What one instruction does to registers.

use crate::ast::{AddressBase, Instruction, Operand};
use crate::isa::{Opcode, Operands};

/// Number of a register in its function.
pub(super) type Register = u32;

/// A predicate register, possibly negated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct When {
    pub(super) register: Register,
    pub(super) negated: bool,
}

/// Which of its sources an instruction needs to give something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// One: it copies or puts together, and a part may be left open.
    One,
    /// All: it computes.
    All,
}

/// One effect of an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// The content matters: an address, a guard, what is passed on to others.
    Read(Register),
    /// Memory takes over the elements of a store: where one is unwritten, its bytes are. `None` is
    /// a constant.
    Store(Box<[Option<Register>]>),
    /// The same, where a predicate holds: an accumulator of `wgmma`.
    ReadIf { register: Register, when: When },
    /// The register is written.
    Write(Register),
    /// The register gets what is made of others, and is written if they are.
    Take {
        to: Register,
        from: Box<[Register]>,
        needs: Needs,
    },
    /// The register gets the content of the first where the predicate holds, else that of the
    /// second; `None` is a constant. Compilers choose by unwritten predicates too, and throw the
    /// result away.
    Select {
        to: Register,
        from: [Option<Register>; 2],
        when: When,
    },
}

impl Effect {
    /// The register that is written.
    pub(super) fn target(&self) -> Option<Register> {
        match self {
            Self::Read(_) | Self::Store(_) | Self::ReadIf { .. } => None,
            Self::Write(to) | Self::Take { to, .. } | Self::Select { to, .. } => Some(*to),
        }
    }

    /// Calls `f` with each register whose content it takes, for a choice the predicate first.
    pub(super) fn for_sources(&self, mut f: impl FnMut(Register)) {
        match self {
            Self::Write(_) => {}
            Self::Read(register) | Self::ReadIf { register, .. } => f(*register),
            Self::Store(elements) => elements.iter().flatten().copied().for_each(f),
            Self::Take { from, .. } => from.iter().copied().for_each(f),
            Self::Select { from, when, .. } => {
                f(when.register);
                from.iter().flatten().copied().for_each(f);
            }
        }
    }
}

/// Collects the effects of instructions. `resolve` gives the number of a register, and nothing for
/// labels, variables and special registers.
pub(super) struct Collector<'c, 'a> {
    pub(super) resolve: &'c mut dyn FnMut(&'a str) -> Option<Register>,
    pub(super) effects: &'c mut Vec<Effect>,
}

impl<'a> Collector<'_, 'a> {
    /// Appends the effects of an instruction.
    pub(super) fn instruction(&mut self, instruction: &'a Instruction) {
        if let Some(guard) = &instruction.guard {
            self.read_name(&guard.register);
        }
        let operands = instruction.operands.as_slice();
        let facts = instruction.facts();
        match (facts.operands, operands) {
            (Operands::Selected, [to, a, b, p]) => self.select(to, [a, b], p),
            (Operands::Exchanged, [to, _, rest @ ..]) => {
                self.reads(rest);
                self.write(to);
            }
            (Operands::Stored, [address, value, rest @ ..]) => {
                self.read(address);
                self.store(value);
                self.reads(rest);
            }
            (Operands::Accumulated, [sums, rest @ ..]) => {
                self.reads(rest);
                let scale = rest.get(if instruction.has("sp") { 4 } else { 2 });
                self.accumulators(sums, scale);
                self.write(sums);
            }
            (Operands::Called, [Operand::List(results), rest @ ..]) if !rest.is_empty() => {
                self.reads(rest);
                results.iter().for_each(|result| self.write(result));
            }
            (Operands::Computed, [to, rest @ ..]) => self.take(to, rest, Needs::All),
            (Operands::Merged, [to, a, b])
                if instruction.known() == Some(Opcode::Xor) && a == b =>
            {
                self.write(to);
            }
            (Operands::Merged, [to, rest @ ..]) => self.take(to, rest, Needs::One),
            (Operands::Written | Operands::Selected | Operands::Exchanged, [to, rest @ ..]) => {
                if !to.is_registers() {
                    self.read(to);
                }
                self.reads(rest);
                self.write(to);
            }
            _ => self.reads(operands),
        }
    }

    fn name(&mut self, operand: &'a Operand) -> Option<Register> {
        match operand {
            Operand::Name(name) => (self.resolve)(name),
            _ => None,
        }
    }

    fn read_name(&mut self, name: &'a str) {
        if let Some(register) = (self.resolve)(name) {
            self.effects.push(Effect::Read(register));
        }
    }

    fn reads(&mut self, operands: &'a [Operand]) {
        operands.iter().for_each(|operand| self.read(operand));
    }

    fn read(&mut self, operand: &'a Operand) {
        match operand {
            Operand::Name(name) => self.read_name(name),
            Operand::Address { base, extra, .. } => {
                if let AddressBase::Name(name) = base {
                    self.read_name(name);
                }
                self.reads(extra);
            }
            Operand::Vector(items) | Operand::List(items) => self.reads(items),
            Operand::Pair(a, b) => {
                self.read(a);
                self.read(b);
            }
            Operand::Not(inner) | Operand::Negated(inner) => self.read(inner),
            Operand::Element { register, .. } => {
                if let Some(name) = register {
                    self.read_name(name);
                }
            }
            Operand::SymbolOffset { .. }
            | Operand::Integer(_)
            | Operand::F32(_)
            | Operand::F64(_)
            | Operand::Sink => {}
        }
    }

    fn store(&mut self, value: &'a Operand) {
        let items = match value {
            Operand::Vector(items) => items.as_slice(),
            other => std::slice::from_ref(other),
        };
        let elements: Box<[Option<Register>]> = items.iter().map(|item| self.name(item)).collect();
        if elements.iter().any(Option::is_some) {
            self.effects.push(Effect::Store(elements));
        }
    }

    fn write(&mut self, operand: &'a Operand) {
        match operand {
            Operand::Name(name) => {
                if let Some(register) = (self.resolve)(name) {
                    self.effects.push(Effect::Write(register));
                }
            }
            Operand::Vector(items) => items.iter().for_each(|item| self.write(item)),
            Operand::Pair(a, b) => {
                self.write(a);
                self.write(b);
            }
            _ => {}
        }
    }

    /// An instruction from registers to registers. Constants are not sources: a value made of them
    /// and of an unwritten register is as open as the register.
    fn take(&mut self, to: &'a Operand, from: &'a [Operand], needs: Needs) {
        let reads = self.effects.len();
        self.reads(from);
        let reads = self.effects.drain(reads..);
        let sources = reads.filter_map(|effect| match effect {
            Effect::Read(register) => Some(register),
            _ => None,
        });
        let sources: Box<[Register]> = sources.collect();
        let is_constant = |item: &Operand| !matches!(item, Operand::Name(_));
        let part_is_constant = match from {
            [Operand::Vector(parts)] => parts.iter().any(is_constant),
            _ => false,
        };
        let writes = self.effects.len();
        self.write(to);
        if sources.is_empty() || part_is_constant {
            return;
        }
        for effect in &mut self.effects[writes..] {
            if let Effect::Write(to) = *effect {
                let from = sources.clone();
                *effect = Effect::Take { to, from, needs };
            }
        }
    }

    fn select(&mut self, to: &'a Operand, from: [&'a Operand; 2], predicate: &'a Operand) {
        let from = from.map(|operand| self.name(operand));
        match (self.name(to), self.when(predicate)) {
            (Some(to), Some(when)) => self.effects.push(Effect::Select { to, from, when }),
            _ => self.write(to),
        }
    }

    /// Accumulators, which are read unless the operand `scale-d` is false.
    fn accumulators(&mut self, sums: &'a Operand, scale: Option<&'a Operand>) {
        match scale {
            None | Some(Operand::Integer(0)) => {}
            Some(Operand::Integer(_)) => self.read(sums),
            Some(predicate) => {
                let Some(when) = self.when(predicate) else {
                    return;
                };
                let items = match sums {
                    Operand::Vector(items) => items.as_slice(),
                    other => std::slice::from_ref(other),
                };
                for item in items {
                    if let Some(register) = self.name(item) {
                        self.effects.push(Effect::ReadIf { register, when });
                    }
                }
            }
        }
    }

    fn when(&mut self, predicate: &'a Operand) -> Option<When> {
        match predicate {
            Operand::Name(name) => (self.resolve)(name).map(|register| When {
                register,
                negated: false,
            }),
            Operand::Not(inner) => self.when(inner).map(|when| When {
                negated: !when.negated,
                ..when
            }),
            _ => None,
        }
    }
}
