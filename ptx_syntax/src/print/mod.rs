//! Printing a tree as PTX text that parses back to the same tree.
//!
//! `Display` formats anew, so line numbers differ from the original's: call [`Module::clear_lines`]
//! before comparing trees. [`Module::text_at_lines`] keeps them. Variables and functions are
//! printed in the order of their lines.

mod body;
mod declaration;
mod lines;
mod operand;

use std::fmt::{self, Display, Formatter, Write};

use crate::ast::{Directives, Function, FunctionKind, Linkage, Module, Variable};

impl Display for Module {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.version;
        writeln!(f, ".version {major}.{minor}")?;
        writeln!(f, ".target {}", self.targets.join(", "))?;
        writeln!(f, ".address_size {}", self.address_size)?;
        for (index, path) in &self.files {
            writeln!(f, ".file {index} \"{path}\"")?;
        }
        for pragma in &self.pragmas {
            writeln!(f, ".pragma \"{pragma}\";")?;
        }
        let mut variables = self.variables.iter().peekable();
        for function in &self.functions {
            while let Some(variable) = variables.next_if(|v| v.line <= function.line) {
                module_variable(f, variable)?;
            }
            write!(f, "\n{function}")?;
        }
        for variable in variables {
            module_variable(f, variable)?;
        }
        for alias in &self.aliases {
            writeln!(f, ".alias {}, {};", alias.name, alias.target)?;
        }
        Ok(())
    }
}

fn module_variable(f: &mut Formatter<'_>, variable: &Variable) -> fmt::Result {
    writeln!(f, "{variable};")
}

impl Display for Function {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Head(self))?;
        if !self.returns.is_empty() {
            parameters(f, &self.returns)?;
            f.write_char(' ')?;
        }
        f.write_str(&self.name)?;
        parameters(f, &self.params)?;
        write!(f, "{}", self.directives)?;
        let Some(statements) = &self.body else {
            return f.write_str("\n;\n");
        };
        f.write_char('\n')?;
        body::block(f, statements, 0)?;
        f.write_char('\n')
    }
}

/// The part of a function before its return parameters and its name.
struct Head<'a>(&'a Function);

impl Display for Head<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(function) = self;
        linkage(f, function.linkage)?;
        f.write_str(match function.kind {
            FunctionKind::Entry => ".entry ",
            FunctionKind::Func => ".func ",
        })?;
        attributes(f, &function.attributes)
    }
}

impl Display for Directives {
    /// Prints each directive on a line of its own.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let extents = [
            (".maxntid", self.maxntid),
            (".reqntid", self.reqntid),
            (".reqnctapercluster", self.reqnctapercluster),
        ];
        for (word, value) in extents {
            if let Some([x, y, z]) = value {
                write!(f, "\n{word} {x}, {y}, {z}")?;
            }
        }
        let counts = [
            (".minnctapersm", self.minnctapersm),
            (".maxnctapersm", self.maxnctapersm),
            (".maxnreg", self.maxnreg),
            (".maxclusterrank", self.maxclusterrank),
            (".local_maxnreg", self.local_maxnreg),
            (".abi_preserve", self.abi_preserve),
            (".abi_preserve_control", self.abi_preserve_control),
        ];
        for (word, value) in counts {
            if let Some(count) = value {
                write!(f, "\n{word} {count}")?;
            }
        }
        let flags = [
            (".explicitcluster", self.explicitcluster),
            (".blocksareclusters", self.blocksareclusters),
            (".noreturn", self.noreturn),
        ];
        for (word, _) in flags.iter().filter(|(_, set)| *set) {
            write!(f, "\n{word}")?;
        }
        for pragma in &self.pragmas {
            write!(f, "\n.pragma \"{pragma}\";")?;
        }
        Ok(())
    }
}

/// `(.param .b64 a, .param .b32 b)`
fn parameters(f: &mut Formatter<'_>, all: &[Variable]) -> fmt::Result {
    f.write_char('(')?;
    separated(f, all)?;
    f.write_char(')')
}

/// `.attribute(.a, .b) `, or nothing.
fn attributes(f: &mut Formatter<'_>, all: &[String]) -> fmt::Result {
    if all.is_empty() {
        return Ok(());
    }
    write!(f, ".attribute({}) ", all.join(", "))
}

fn linkage(f: &mut Formatter<'_>, linkage: Linkage) -> fmt::Result {
    f.write_str(match linkage {
        Linkage::Internal => "",
        Linkage::Visible => ".visible ",
        Linkage::Extern => ".extern ",
        Linkage::Weak => ".weak ",
        Linkage::Common => ".common ",
    })
}

/// The items, separated by commas.
fn separated<T: Display>(f: &mut Formatter<'_>, items: &[T]) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        write!(f, "{item}")?;
    }
    Ok(())
}
