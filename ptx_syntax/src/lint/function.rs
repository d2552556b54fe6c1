//! The rules that examine one function.

use std::collections::HashSet;

use super::Severity::{self, Error, Note, Warning};
use super::{Finding, LintOptions, Rule};
use crate::ast::{AddressBase, Function, FunctionKind, Instruction, Operand, Space};
use crate::isa::{Collective, Effect, Opcode, is_float};

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
        if options.rounding {
            rounding(instruction, &mut report);
        }
        approximation(instruction, &mut report);
        let is_aligned_barrier = instruction.collective() == Some(Collective::AlignedBarrier);
        if instruction.guard.is_some() && is_aligned_barrier {
            let message = format!(
                "`{}` is aligned and guarded: it is undefined unless all threads of the warp agree",
                instruction.mnemonic()
            );
            report(Warning, Rule::GuardedBarrier, instruction.line, message);
        }
        if instruction.is_generic() && uses_address(instruction, &generic) {
            let message = format!(
                "`{}` is generic, and its address comes from cvta.shared",
                instruction.mnemonic()
            );
            report(Note, Rule::GenericShared, instruction.line, message);
        }
    }
}

type Report<'r> = dyn FnMut(Severity, Rule, u32, String) + 'r;

fn local_memory(function: &Function, report: &mut Report<'_>) {
    // The arguments of vprintf are passed in local memory by its calling convention.
    let calls_vprintf = function
        .instructions()
        .any(|i| i.facts().effect == Effect::Calls && i.names().contains(&"vprintf"));
    let (severity, why) = if calls_vprintf {
        (Warning, " (the arguments of vprintf need some)")
    } else {
        (Error, "")
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
    let effect = instruction.facts().effect;
    matches!(effect, Effect::Reads | Effect::Writes) && instruction.has("local")
}

fn launch_bounds(function: &Function, report: &mut Report<'_>) {
    let directives = &function.directives;
    let threads = directives.maxntid.is_some() || directives.reqntid.is_some();
    let find = |opcode| function.instructions().find(|i| i.known() == Some(opcode));
    if let Some(wgmma) = find(Opcode::Wgmma).filter(|_| !threads) {
        let message = "wgmma needs `.maxntid` or `.reqntid` on its kernel".to_owned();
        report(Error, Rule::WgmmaWithoutBounds, wgmma.line, message);
    }
    let bounded = threads && directives.minnctapersm.is_some() || directives.maxnreg.is_some();
    if let Some(found) = find(Opcode::Setmaxnreg).filter(|_| !bounded) {
        let message = "setmaxnreg is ignored without `.maxnreg`, or `.maxntid` and `.minnctapersm`"
            .to_owned();
        report(Error, Rule::SetmaxnregWithoutBounds, found.line, message);
    }
}

/// Rounding modifiers.
const ROUNDINGS: [&str; 6] = ["rn", "rz", "rm", "rp", "rna", "rs"];

fn rounding(instruction: &Instruction, report: &mut Report<'_>) {
    let opcode = instruction.known();
    let is_of_floats = instruction.modifiers.last().is_some_and(|ty| is_float(ty));
    // ptxas may contract these into fused multiply-adds.
    let contractible = matches!(
        opcode,
        Some(Opcode::Add | Opcode::Sub | Opcode::Mul | Opcode::Mad)
    );
    let rounded = instruction
        .modifiers
        .iter()
        .any(|m| ROUNDINGS.contains(&m.as_str()));
    if is_of_floats && contractible && !rounded {
        let mnemonic = instruction.mnemonic();
        let message = format!("`{mnemonic}` may be contracted into an fma: say how it rounds");
        report(Warning, Rule::UnroundedFloat, instruction.line, message);
    }
}

fn approximation(instruction: &Instruction, report: &mut Report<'_>) {
    let full_range = instruction.known() == Some(Opcode::Div) && instruction.has("full");
    if instruction.has("approx") || full_range {
        let message = format!(
            "the bits of `{}` are the hardware's own",
            instruction.mnemonic()
        );
        report(Note, Rule::ApproximateFloat, instruction.line, message);
    }
}

/// Registers that are the destination of a `cvta.shared`.
fn generic_addresses_of_shared(function: &Function) -> HashSet<&str> {
    function
        .instructions()
        .filter(|i| i.known() == Some(Opcode::Cvta) && !i.has("to"))
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

fn uses_address(instruction: &Instruction, registers: &HashSet<&str>) -> bool {
    instruction.operands.iter().any(|operand| match operand {
        Operand::Address {
            base: AddressBase::Name(name),
            ..
        } => registers.contains(name.as_str()),
        _ => false,
    })
}
