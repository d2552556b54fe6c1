//! The rule about registers that nothing writes.

use super::{Finding, Rule, Severity};
use crate::ast::Function;
use crate::unwritten::never_written;

pub(super) fn check(function: &Function, findings: &mut Vec<Finding>) {
    for found in never_written(function) {
        let name = &found.register;
        let used = if found.used == found.line {
            String::new()
        } else {
            format!(", and line {} uses what comes of it", found.used)
        };
        findings.push(Finding {
            severity: Severity::Warning,
            rule: Rule::UnwrittenRegister,
            line: found.line,
            function: Some(function.name.clone()),
            message: format!(
                "`{name}` is read, and no write of it leads here{used}: it may hold anything; write \
                 it first"
            ),
        });
    }
}
