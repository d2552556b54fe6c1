//! A linter: what is wrong, slow or undefined in a module, found in its text alone.
//!
//! Each finding has a [`Rule`], whose documentation explains it. Faults that depend on values
//! (races, divergence, bank conflicts) are not found here; the emulator finds them.

mod finding;
mod function;
mod link;
mod shared;
mod sync;
mod target;
mod unwritten;

pub use finding::{Finding, Rule, Severity};
pub use sync::SyncCounts;

use crate::ast::Module;

/// What [`lint_with`] tolerates, and what it looks for beyond the faults.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LintOptions {
    /// Accept local memory in every function.
    pub allow_local: bool,
    /// Functions that may use local memory.
    pub local_allowed_in: Vec<String>,
    /// Look for floats whose rounding is open ([`Rule::UnroundedFloat`]): for kernels that promise
    /// the same bits everywhere. Other compilers leave it open in every line.
    pub rounding: bool,
}

impl LintOptions {
    /// These options with local memory allowed (or not) in every function.
    #[must_use]
    pub fn allow_local(mut self, allow: bool) -> Self {
        self.allow_local = allow;
        self
    }

    /// These options with the check of rounding, or without.
    #[must_use]
    pub fn rounding(mut self, check: bool) -> Self {
        self.rounding = check;
        self
    }

    /// These options with local memory allowed in one more function.
    #[must_use]
    pub fn allow_local_in(mut self, function: impl Into<String>) -> Self {
        self.local_allowed_in.push(function.into());
        self
    }
}

/// Lints a module with default options. Findings are in the order of lines.
pub fn lint(module: &Module) -> Vec<Finding> {
    lint_with(module, &LintOptions::default())
}

/// Lints a module. Findings are in the order of lines.
pub fn lint_with(module: &Module, options: &LintOptions) -> Vec<Finding> {
    let mut findings = Vec::new();
    link::check(module, &mut findings);
    target::check(module, &mut findings);
    shared::check(module, &mut findings);
    for function in &module.functions {
        if function.body.is_some() {
            function::check(function, options, &mut findings);
            unwritten::check(function, &mut findings);
        }
    }
    findings.sort_by_key(|finding| finding.line);
    findings
}
