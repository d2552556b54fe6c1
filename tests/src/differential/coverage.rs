//! How often each form of the table occurs in the random programs.

use std::collections::{BTreeMap, BTreeSet};

use ptx_syntax::ast::{Module, Statement};

use super::program::{PREAMBLE, Program, SPECIAL};
use super::{kernel::HEADER, table};

/// Number of occurrences, by mnemonic, and for special registers by name.
#[derive(Clone, Debug, Default)]
pub struct Counts(pub BTreeMap<String, usize>);

impl Counts {
    /// Counts the instructions of a program; fails with the parser's error.
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

    /// Number of occurrences of a name.
    #[must_use]
    pub fn of(&self, name: &str) -> usize {
        self.0.get(name).copied().unwrap_or(0)
    }
}

/// The forms that programs must contain, by section: the whole table except sections that programs
/// leave out, and the special registers.
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
