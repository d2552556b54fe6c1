//! The rules about the module's target.

use super::{Finding, Rule, Severity};
use crate::ast::Module;

pub(super) fn check(module: &Module, findings: &mut Vec<Finding>) {
    let mut report = |rule, line, function, message| {
        findings.push(Finding {
            severity: Severity::Error,
            rule,
            line,
            function,
            message,
        });
    };
    let target = match module.target() {
        Ok(Some(target)) => target,
        Ok(None) => return,
        Err(unknown) => {
            let (line, message) = (module.target_line, unknown.to_string());
            return report(Rule::UnknownTarget, line, None, message);
        }
    };
    for function in &module.functions {
        for instruction in function.instructions() {
            if let Err(newer) = target.check(instruction) {
                let (line, name) = (newer.line, function.name.clone());
                report(Rule::NewerInstruction, line, Some(name), newer.to_string());
            }
        }
    }
}
