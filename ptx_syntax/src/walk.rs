//! Iteration over the statements of a function, including nested blocks.

use crate::ast::{AddressBase, Function, Instruction, Operand, Registers, Statement, Variable};

impl Function {
    /// Every statement of the body, in textual order. A block precedes its contents.
    pub fn statements(&self) -> impl Iterator<Item = &Statement> {
        let mut open = vec![self.body.as_deref().unwrap_or_default().iter()];
        std::iter::from_fn(move || {
            loop {
                match open.last_mut()?.next() {
                    None => {
                        open.pop();
                    }
                    Some(block @ Statement::Block(inner)) => {
                        open.push(inner.iter());
                        return Some(block);
                    }
                    Some(other) => return Some(other),
                }
            }
        })
    }

    /// Every instruction, in textual order.
    pub fn instructions(&self) -> impl Iterator<Item = &Instruction> {
        self.statements().filter_map(|statement| match statement {
            Statement::Instruction(instruction) => Some(instruction),
            _ => None,
        })
    }

    /// Every variable that the body declares outside register space.
    pub fn local_variables(&self) -> impl Iterator<Item = &Variable> {
        self.statements().filter_map(|statement| match statement {
            Statement::Variable(variable) => Some(variable),
            _ => None,
        })
    }

    /// Every `.reg` declaration.
    pub fn registers(&self) -> impl Iterator<Item = &Registers> {
        self.statements().filter_map(|statement| match statement {
            Statement::Registers(registers) => Some(registers),
            _ => None,
        })
    }
}

impl Statement {
    /// Its line; `None` for one whose line the tree does not have.
    pub fn line(&self) -> Option<u32> {
        match self {
            Statement::Label { line, .. }
            | Statement::BranchTargets { line, .. }
            | Statement::CallTargets { line, .. }
            | Statement::CallPrototype { line, .. } => Some(*line),
            Statement::Instruction(instruction) => Some(instruction.line),
            Statement::Registers(registers) => Some(registers.line),
            Statement::Variable(variable) => Some(variable.line),
            Statement::Block(_) | Statement::Loc { .. } | Statement::Pragma(_) => None,
        }
    }
}

impl Instruction {
    /// An instruction without a guard. `mnemonic` has its modifiers: `ld.global.v4.f32`.
    pub fn new(mnemonic: &str, operands: Vec<Operand>, line: u32) -> Self {
        let mut words = mnemonic.split('.').map(str::to_owned);
        Self {
            guard: None,
            opcode: words.next().unwrap_or_default(),
            modifiers: words.collect(),
            operands,
            reads_once: false,
            line,
        }
    }

    /// Whether the mnemonic has this modifier (`"f32"`, `"shared::cta"`).
    pub fn has(&self, modifier: &str) -> bool {
        self.modifiers.iter().any(|word| word == modifier)
    }

    /// The mnemonic as written: `ld.global.v4.f32`.
    pub fn mnemonic(&self) -> String {
        let mut text = self.opcode.clone();
        for modifier in &self.modifiers {
            text.push('.');
            text.push_str(modifier);
        }
        text
    }

    /// Every name in its operands: registers, symbols, labels.
    pub fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for operand in &self.operands {
            operand.collect_names(&mut names);
        }
        names
    }
}

impl Operand {
    /// Every name in it: registers, symbols, labels.
    pub fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.collect_names(&mut names);
        names
    }

    fn collect_names<'a>(&'a self, out: &mut Vec<&'a str>) {
        match self {
            Operand::Name(name) | Operand::SymbolOffset { name, .. } => out.push(name),
            Operand::Address { base, extra, .. } => {
                if let AddressBase::Name(name) = base {
                    out.push(name);
                }
                extra.iter().for_each(|item| item.collect_names(out));
            }
            Operand::Vector(items) | Operand::List(items) => {
                items.iter().for_each(|item| item.collect_names(out));
            }
            Operand::Pair(a, b) => {
                a.collect_names(out);
                b.collect_names(out);
            }
            Operand::Not(inner) | Operand::Negated(inner) => inner.collect_names(out),
            Operand::Element {
                array, register, ..
            } => {
                out.push(array);
                out.extend(register.as_deref());
            }
            Operand::Integer(_) | Operand::F32(_) | Operand::F64(_) | Operand::Sink => {}
        }
    }
}
