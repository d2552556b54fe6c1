//! Printing a tree so that everything stays on its line.

use std::fmt::{Display, Write};

use super::Head;
use crate::ast::{Alias, Function, Module, READS_ONCE, Statement, Variable};

impl Module {
    /// The text of the module, with blank lines where they are needed so that everything stands on
    /// its own [line](crate::ast). Reports about the text then name the lines of the text that the
    /// tree comes from. It parses back to the same tree, line numbers included.
    ///
    /// What the tree adds to that text shares the line of a neighbour.
    ///
    /// ```
    /// let ptx = ".version 7.8\n.target sm_75\n\n\n.entry k() {\n// nothing\nret;\n}\n";
    /// let module = ptx_syntax::parse(ptx)?;
    /// assert_eq!(ptx_syntax::parse(&module.text_at_lines())?, module);
    /// # Ok::<(), ptx_syntax::ParseError>(())
    /// ```
    pub fn text_at_lines(&self) -> String {
        let mut text = Text {
            text: String::new(),
            line: 1,
        };
        text.module(self);
        text.text
    }
}

/// Text in the making, and the line that it has reached.
struct Text {
    text: String,
    line: u32,
}

impl Text {
    fn module(&mut self, module: &Module) {
        let (major, minor) = module.version;
        self.here(format_args!(".version {major}.{minor}"));
        let targets = module.targets.join(", ");
        self.at(module.target_line, format_args!(".target {targets}"));
        self.here(format_args!(".address_size {}", module.address_size));
        for (index, path) in &module.files {
            self.here(format_args!(".file {index} \"{path}\""));
        }
        for pragma in &module.pragmas {
            self.here(format_args!(".pragma \"{pragma}\";"));
        }
        let mut variables = module.variables.iter().peekable();
        let mut aliases = module.aliases.iter().peekable();
        for function in &module.functions {
            while let Some(variable) = variables.next_if(|it| it.line <= function.line) {
                self.at(variable.line, format_args!("{variable};"));
            }
            while let Some(alias) = aliases.next_if(|it| it.line < function.line) {
                self.alias(alias);
            }
            self.function(function);
        }
        for variable in variables {
            self.at(variable.line, format_args!("{variable};"));
        }
        aliases.for_each(|alias| self.alias(alias));
        self.text.push('\n');
    }

    fn alias(&mut self, Alias { name, target, line }: &Alias) {
        self.at(*line, format_args!(".alias {name}, {target};"));
    }

    fn function(&mut self, function: &Function) {
        let first = function.returns.first().map_or(function.line, |it| it.line);
        self.at(first, Head(function));
        if !function.returns.is_empty() {
            self.parameters(&function.returns);
        }
        self.at(function.line, &function.name);
        self.parameters(&function.params);
        self.here(&function.directives);
        match &function.body {
            Some(body) => self.block(body),
            None => self.here(';'),
        }
    }

    fn parameters(&mut self, all: &[Variable]) {
        self.here('(');
        for (index, param) in all.iter().enumerate() {
            self.at(param.line, param);
            if index + 1 < all.len() {
                self.text.push(',');
            }
        }
        self.here(')');
    }

    fn block(&mut self, statements: &[Statement]) {
        self.here('{');
        for statement in statements {
            match statement {
                Statement::Block(inner) => self.block(inner),
                other => self.at(other.line().unwrap_or(self.line), other),
            }
        }
        self.here('}');
    }

    fn here(&mut self, item: impl Display) {
        self.at(self.line, item);
    }

    /// Appends the item on this line, or where the text is if that is further on.
    fn at(&mut self, line: u32, item: impl Display) {
        if let Some(blank @ 1..) = line.checked_sub(self.line) {
            self.text.extend(std::iter::repeat_n('\n', blank as usize));
            self.line = line;
        } else if self.text.ends_with(READS_ONCE) {
            // A comment takes the rest of its line.
            self.text.push('\n');
            self.line += 1;
        } else if !self.text.ends_with(['\n', ' ', '(']) {
            self.text.push(' ');
        }
        let start = self.text.len();
        // Writing to a string does not fail.
        let _ = write!(self.text, "{item}");
        // Directives are printed on lines of their own, which have no numbers in the tree.
        if self.text[start..].contains('\n') {
            let item = self.text.split_off(start).replace('\n', " ");
            self.text.push_str(item.trim_start());
        }
    }
}
