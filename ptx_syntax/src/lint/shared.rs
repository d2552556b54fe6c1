//! The rule about the size of static shared memory.

use super::{Finding, Rule, Severity};
use crate::ast::Module;
use crate::explain::{MOST_STATIC_SHARED_BYTES, explain};

pub(super) fn check(module: &Module, findings: &mut Vec<Finding>) {
    for kernel in explain(module).kernels {
        let bytes = kernel.static_shared_bytes;
        if bytes > MOST_STATIC_SHARED_BYTES {
            findings.push(Finding {
                severity: Severity::Error,
                rule: Rule::StaticShared,
                line: kernel.line,
                function: Some(kernel.name),
                message: format!(
                    "{bytes} bytes of static shared memory, want {MOST_STATIC_SHARED_BYTES} or \
                     less; dynamic shared memory may have more"
                ),
            });
        }
    }
}
