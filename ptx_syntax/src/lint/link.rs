//! Names that are declared but defined nowhere.

use std::collections::HashSet;

use super::{Finding, Rule, Severity};
use crate::ast::{FunctionKind, Linkage, Module, Space};

/// Functions that the driver provides to every module.
const RUNTIME: [&str; 4] = ["vprintf", "malloc", "free", "__assertfail"];

pub(super) fn check(module: &Module, findings: &mut Vec<Finding>) {
    let defined: HashSet<&str> = module
        .functions
        .iter()
        .filter(|function| function.body.is_some())
        .map(|function| function.name.as_str())
        .chain(module.aliases.iter().map(|alias| alias.name.as_str()))
        .collect();
    for function in &module.functions {
        let name = function.name.as_str();
        let resolved = function.body.is_some() || defined.contains(name) || RUNTIME.contains(&name);
        if function.kind == FunctionKind::Func && !resolved {
            findings.push(unresolved(
                function.line,
                format!(
                    "function `{name}` is declared and never defined; the driver only knows {}",
                    RUNTIME.join(", ")
                ),
            ));
        }
    }
    let variables: HashSet<&str> = module
        .variables
        .iter()
        .filter(|variable| variable.linkage != Linkage::Extern)
        .map(|variable| variable.name.as_str())
        .collect();
    for variable in &module.variables {
        let is_extern = variable.linkage == Linkage::Extern && variable.space != Space::Shared;
        if is_extern && !variables.contains(variable.name.as_str()) {
            findings.push(unresolved(
                variable.line,
                format!("variable `{}` is declared and never defined", variable.name),
            ));
        }
    }
}

fn unresolved(line: u32, message: String) -> Finding {
    Finding {
        severity: Severity::Error,
        rule: Rule::UnresolvedExtern,
        line,
        function: None,
        message,
    }
}
