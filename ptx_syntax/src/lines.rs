//! Removing line numbers from a tree.

use crate::ast::{Module, Statement, Variable};

impl Module {
    /// Sets every line number to 0, so that trees of differently formatted texts compare equal.
    pub fn clear_lines(&mut self) {
        self.target_line = 0;
        clear(&mut self.variables);
        for alias in &mut self.aliases {
            alias.line = 0;
        }
        for function in &mut self.functions {
            function.line = 0;
            clear(&mut function.returns);
            clear(&mut function.params);
            function
                .body
                .iter_mut()
                .flatten()
                .for_each(Statement::clear_lines);
        }
    }
}

impl Statement {
    fn clear_lines(&mut self) {
        match self {
            Statement::Label { line, .. }
            | Statement::BranchTargets { line, .. }
            | Statement::CallTargets { line, .. } => *line = 0,
            Statement::Instruction(instruction) => instruction.line = 0,
            Statement::Registers(registers) => registers.line = 0,
            Statement::Variable(variable) => variable.line = 0,
            Statement::Block(inner) => inner.iter_mut().for_each(Statement::clear_lines),
            Statement::CallPrototype {
                returns,
                params,
                line,
                ..
            } => {
                *line = 0;
                clear(returns);
                clear(params);
            }
            // The line of a `.loc` refers to the source file, not to this text. Where it was inlined
            // is not printed.
            Statement::Loc { inlined_at, .. } => *inlined_at = None,
            Statement::Pragma(_) => {}
        }
    }
}

fn clear(variables: &mut [Variable]) {
    for variable in variables {
        variable.line = 0;
    }
}
