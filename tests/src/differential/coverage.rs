//! How often each form of the table appears in programs.

use std::collections::{BTreeMap, BTreeSet};

use ptx_syntax::ast::{Module, Statement};

use super::program::{PREAMBLE, Program, SPECIAL};
use super::{kernel::HEADER, table};

/// Appearances by mnemonic, and of special registers by name.
#[derive(Clone, Debug, Default)]
pub struct Counts(pub BTreeMap<String, usize>);

impl Counts {
    /// Counts the instructions of a program; the error is the parser's.
    pub fn add(&mut self, program: &Program) -> Result<(), String> {
        let text = [HEADER, PREAMBLE, &program.ptx].concat();
        let module: Module = ptx_syntax::parse(&text).map_err(|error| error.to_string())?;
        for function in &module.functions {
            self.statements(function.body.as_deref().unwrap_or_default());
        }
        for name in SPECIAL {
            *self.0.entry(name.to_owned()).or_default() += program.ptx.matches(name).count();
        }
        Ok(())
    }

    fn statements(&mut self, statements: &[Statement]) {
        for statement in statements {
            match statement {
                Statement::Instruction(instruction) => {
                    *self.0.entry(instruction.mnemonic()).or_default() += 1;
                }
                Statement::Block(inner) => self.statements(inner),
                _ => {}
            }
        }
    }

    /// Appearances of one name.
    #[must_use]
    pub fn of(&self, name: &str) -> usize {
        self.0.get(name).copied().unwrap_or(0)
    }
}

/// The forms that programs must contain, by section: all of the table but what stands alone there,
/// and the special registers.
#[must_use]
pub fn wanted() -> BTreeMap<String, BTreeSet<String>> {
    let mut wanted: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let lines = table::plain().into_iter().chain(table::machine());
    for line in lines.filter(|line| !line.is_alone()) {
        wanted.entry(line.section).or_default().extend(line.names);
    }
    let special = SPECIAL.iter().map(|name| (*name).to_owned()).collect();
    wanted.insert("special".to_owned(), special);
    wanted
}
