//! The rule that holds instructions against the module's target.

use super::{Finding, Rule, Severity};
use crate::ast::{Function, Instruction, Module};

/// An architecture: its number, and whether it has to be that of one GPU alone (`sm_90a`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    number: u32,
    is_specific: bool,
}

const fn sm(number: u32) -> Target {
    Target {
        number,
        is_specific: false,
    }
}

/// What `wgmma` and `setmaxnreg` need.
const SM_90A: Target = Target {
    number: 90,
    is_specific: true,
};

pub(super) fn check(module: &Module, function: &Function, findings: &mut Vec<Finding>) {
    let Some((name, has)) = module
        .targets
        .iter()
        .find_map(|name| Some((name, target(name)?)))
    else {
        return;
    };
    for instruction in function.instructions() {
        let Some(needs) = needs(instruction) else {
            continue;
        };
        if has.number < needs.number || (needs.is_specific && !has.is_specific) {
            let suffix = if needs.is_specific { "a" } else { "" };
            findings.push(Finding {
                severity: Severity::Error,
                rule: Rule::NewerInstruction,
                line: instruction.line,
                function: Some(function.name.clone()),
                message: format!(
                    "`{}` needs sm_{}{suffix}, and the module's target is {name}",
                    instruction.mnemonic(),
                    needs.number
                ),
            });
        }
    }
}

/// The architecture of a name: `sm_90a`, `sm_100f`.
fn target(name: &str) -> Option<Target> {
    let version = name.strip_prefix("sm_")?;
    let digits = version.trim_end_matches(['a', 'f']);
    Some(Target {
        number: digits.parse().ok()?,
        is_specific: digits.len() < version.len(),
    })
}

/// The least architecture that has an instruction, where this rule knows it.
fn needs(instruction: &Instruction) -> Option<Target> {
    let has = |word: &str| instruction.has(word);
    let by_opcode = match instruction.opcode.as_str() {
        "wgmma" | "setmaxnreg" => Some(SM_90A),
        "mapa" | "getctarank" | "elect" | "griddepcontrol" | "stmatrix" | "tensormap"
        | "multimem" => Some(sm(90)),
        "cp" if has("bulk") || has("reduce") => Some(sm(90)),
        "st" | "red" if has("async") => Some(sm(90)),
        "barrier" if has("cluster") => Some(sm(90)),
        "fence" if has("async") || has("mbarrier_init") => Some(sm(90)),
        "mbarrier" if has("try_wait") || has("expect_tx") || has("complete_tx") => Some(sm(90)),
        "cp" if has("async") => Some(sm(80)),
        "mbarrier" | "redux" | "createpolicy" => Some(sm(80)),
        "mma" if has("m16n8k16") || has("m16n8k32") => Some(sm(80)),
        _ => None,
    };
    let by_modifier = if has("shared::cluster") || has("multicast::cluster") {
        Some(sm(90))
    } else if ["e4m3", "e5m2", "e4m3x2", "e5m2x2"].into_iter().any(has) {
        Some(sm(89))
    } else if ["tf32", "bf16", "bf16x2"].into_iter().any(has) {
        Some(sm(80))
    } else {
        None
    };
    by_opcode.max(by_modifier)
}
