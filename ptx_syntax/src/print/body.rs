//! Statements as text.

use std::fmt::{self, Display, Formatter, Write};

use super::{parameters, separated};
use crate::ast::{Instruction, READS_ONCE, Statement};

/// `{ .. }`, indented by `depth` levels except for the first line.
pub(super) fn block(f: &mut Formatter<'_>, statements: &[Statement], depth: usize) -> fmt::Result {
    f.write_str("{\n")?;
    for statement in statements {
        let outdent = usize::from(matches!(statement, Statement::Label { .. }));
        indent(f, depth + 1 - outdent)?;
        print(f, statement, depth + 1)?;
        f.write_char('\n')?;
    }
    indent(f, depth)?;
    f.write_char('}')
}

impl Display for Statement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        print(f, self, 0)
    }
}

fn indent(f: &mut Formatter<'_>, depth: usize) -> fmt::Result {
    (0..depth).try_for_each(|_| f.write_char('\t'))
}

fn print(f: &mut Formatter<'_>, statement: &Statement, depth: usize) -> fmt::Result {
    match statement {
        Statement::Label { name, .. } => write!(f, "{name}:"),
        Statement::Instruction(it) if it.reads_once => write!(f, "{it}; {READS_ONCE}"),
        Statement::Instruction(it) => write!(f, "{it};"),
        Statement::Registers(registers) => write!(f, "{registers};"),
        Statement::Variable(variable) => write!(f, "{variable};"),
        Statement::Block(inner) => block(f, inner, depth),
        Statement::BranchTargets { name, targets, .. } => {
            write!(f, "{name}: .branchtargets {};", targets.join(", "))
        }
        Statement::CallTargets { name, targets, .. } => {
            write!(f, "{name}: .calltargets {};", targets.join(", "))
        }
        Statement::CallPrototype {
            name,
            returns,
            params,
            directives,
            ..
        } => {
            write!(f, "{name}: .callprototype ")?;
            parameters(f, returns)?;
            f.write_str(" _ ")?;
            parameters(f, params)?;
            write!(f, "{directives};")
        }
        Statement::Loc {
            file, line, column, ..
        } => write!(f, ".loc {file} {line} {column}"),
        Statement::Pragma(text) => write!(f, ".pragma \"{text}\";"),
    }
}

impl Display for Instruction {
    /// The instruction without its `;`.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(guard) = &self.guard {
            write!(
                f,
                "@{}{} ",
                if guard.negated { "!" } else { "" },
                guard.register
            )?;
        }
        f.write_str(&self.opcode)?;
        for modifier in &self.modifiers {
            write!(f, ".{modifier}")?;
        }
        if !self.operands.is_empty() {
            f.write_char(' ')?;
        }
        separated(f, &self.operands)
    }
}
