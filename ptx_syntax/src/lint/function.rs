//! The rules that examine one function.

use std::collections::HashSet;

use super::sync::is_aligned_barrier;
use super::{Finding, LintOptions, Rule, Severity};
use crate::ast::{AddressBase, Function, FunctionKind, Instruction, Operand, Space};

pub(super) fn check(function: &Function, options: &LintOptions, findings: &mut Vec<Finding>) {
    let mut report = |severity, rule, line, message| {
        findings.push(Finding {
            severity,
            rule,
            line,
            function: Some(function.name.clone()),
            message,
        });
    };
    let allowed = options.allow_local || options.local_allowed_in.contains(&function.name);
    if !allowed {
        local_memory(function, &mut report);
    }
    if function.kind == FunctionKind::Entry {
        launch_bounds(function, &mut report);
    }
    let generic = generic_addresses_of_shared(function);
    for instruction in function.instructions() {
        float(instruction, &mut report);
        if instruction.guard.is_some() && is_aligned_barrier(instruction) {
            let message = format!(
                "`{}` is aligned and guarded: it is undefined unless all threads of the warp agree",
                instruction.mnemonic()
            );
            report(
                Severity::Warning,
                Rule::GuardedBarrier,
                instruction.line,
                message,
            );
        }
        if is_generic_access(instruction) && uses_address(instruction, &generic) {
            let message = format!(
                "`{}` is generic, and its address comes from cvta.shared",
                instruction.mnemonic()
            );
            report(
                Severity::Note,
                Rule::GenericShared,
                instruction.line,
                message,
            );
        }
    }
}

type Report<'r> = dyn FnMut(Severity, Rule, u32, String) + 'r;

fn local_memory(function: &Function, report: &mut Report<'_>) {
    // The arguments of vprintf are passed in local memory by its calling convention.
    let calls_vprintf = function
        .instructions()
        .any(|i| i.opcode == "call" && i.names().contains(&"vprintf"));
    let (severity, why) = if calls_vprintf {
        (Severity::Warning, " (the arguments of vprintf need some)")
    } else {
        (Severity::Error, "")
    };
    for variable in function
        .local_variables()
        .filter(|v| v.space == Space::Local)
    {
        let bytes = variable
            .bytes()
            .map_or("an unknown number of".into(), |b| b.to_string());
        let message = format!("`{}`: {bytes} bytes of local memory{why}", variable.name);
        report(severity, Rule::LocalMemory, variable.line, message);
    }
    let accesses: Vec<_> = function
        .instructions()
        .filter(|i| is_local_access(i))
        .collect();
    if let Some(first) = accesses.first() {
        let message = format!(
            "{} accesses to local memory, the first `{}`{why}",
            accesses.len(),
            first.mnemonic()
        );
        report(severity, Rule::LocalMemory, first.line, message);
    }
}

fn is_local_access(instruction: &Instruction) -> bool {
    matches!(instruction.opcode.as_str(), "ld" | "st" | "ldu") && instruction.has("local")
}

fn launch_bounds(function: &Function, report: &mut Report<'_>) {
    let directives = &function.directives;
    let threads = directives.maxntid.is_some() || directives.reqntid.is_some();
    let find = |opcode: &str| function.instructions().find(|i| i.opcode == opcode);
    if let Some(wgmma) = find("wgmma").filter(|_| !threads) {
        let message = "wgmma needs `.maxntid` or `.reqntid` on its kernel".to_owned();
        report(
            Severity::Error,
            Rule::WgmmaWithoutBounds,
            wgmma.line,
            message,
        );
    }
    let bounded = threads && directives.minnctapersm.is_some();
    if let Some(setmaxnreg) = find("setmaxnreg").filter(|_| !bounded) {
        let message = "setmaxnreg is ignored without `.maxntid` and `.minnctapersm`".to_owned();
        report(
            Severity::Error,
            Rule::SetmaxnregWithoutBounds,
            setmaxnreg.line,
            message,
        );
    }
}

/// Types whose arithmetic ptxas may contract into fused multiply-adds.
const FLOATS: [&str; 7] = ["f32", "f64", "f32x2", "f16", "f16x2", "bf16", "bf16x2"];
/// Rounding modifiers.
const ROUNDINGS: [&str; 6] = ["rn", "rz", "rm", "rp", "rna", "rs"];

fn float(instruction: &Instruction, report: &mut Report<'_>) {
    let is_float = instruction
        .modifiers
        .last()
        .is_some_and(|ty| FLOATS.contains(&ty.as_str()));
    let contractible = matches!(instruction.opcode.as_str(), "add" | "sub" | "mul" | "mad");
    let rounded = instruction
        .modifiers
        .iter()
        .any(|m| ROUNDINGS.contains(&m.as_str()));
    if is_float && contractible && !rounded {
        let mnemonic = instruction.mnemonic();
        let message = format!("`{mnemonic}` may be contracted into an fma: say how it rounds");
        report(
            Severity::Warning,
            Rule::UnroundedFloat,
            instruction.line,
            message,
        );
    }
    let full_range = instruction.opcode == "div" && instruction.has("full");
    if instruction.has("approx") || full_range {
        let message = format!(
            "the bits of `{}` are the hardware's own",
            instruction.mnemonic()
        );
        report(
            Severity::Note,
            Rule::ApproximateFloat,
            instruction.line,
            message,
        );
    }
}

/// Registers that are the destination of a `cvta.shared`.
fn generic_addresses_of_shared(function: &Function) -> HashSet<&str> {
    function
        .instructions()
        .filter(|i| i.opcode == "cvta" && !i.has("to"))
        .filter(|i| {
            i.modifiers
                .first()
                .is_some_and(|space| space.starts_with("shared"))
        })
        .filter_map(|i| match i.operands.first() {
            Some(Operand::Name(register)) => Some(register.as_str()),
            _ => None,
        })
        .collect()
}

fn is_generic_access(instruction: &Instruction) -> bool {
    const SPACES: [&str; 5] = ["global", "shared", "local", "param", "const"];
    let has_space = instruction
        .modifiers
        .iter()
        .any(|m| SPACES.contains(&m.split("::").next().unwrap_or_default()));
    matches!(instruction.opcode.as_str(), "ld" | "st" | "atom" | "red") && !has_space
}

fn uses_address(instruction: &Instruction, registers: &HashSet<&str>) -> bool {
    instruction.operands.iter().any(|operand| match operand {
        Operand::Address {
            base: AddressBase::Name(name),
            ..
        } => registers.contains(name.as_str()),
        _ => false,
    })
}
