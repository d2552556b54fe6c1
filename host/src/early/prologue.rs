//! How far a kernel gets without memory that another launch may touch.
//!
//! What it does before its first access to global memory (parameters, indices, addresses, shared
//! memory) may run while the launch before it still does. So the wait goes behind that, at a place
//! that every thread passes exactly once: no branch leads across it, in either direction.

use ptx_syntax::ast::{Instruction, Operand, Statement};
use std::collections::HashMap;

/// Instructions that touch registers only, branches, and fences.
const HARMLESS: [&str; 47] = [
    "abs",
    "add",
    "and",
    "bfe",
    "bfi",
    "bfind",
    "bra",
    "brev",
    "clz",
    "cnot",
    "copysign",
    "cos",
    "createpolicy",
    "cvt",
    "cvta",
    "div",
    "elect",
    "ex2",
    "fence",
    "fma",
    "lg2",
    "lop3",
    "mad",
    "mad24",
    "max",
    "min",
    "mov",
    "mul",
    "mul24",
    "neg",
    "not",
    "or",
    "popc",
    "prmt",
    "rcp",
    "rem",
    "rsqrt",
    "sad",
    "selp",
    "set",
    "setp",
    "shf",
    "shl",
    "shr",
    "sin",
    "sqrt",
    "sub",
];

/// The line of the last such place: the wait goes to its beginning. `None` if there is no place
/// beyond the beginning of the body.
pub(crate) fn wait_line(body: &[Statement]) -> Option<u32> {
    let jumps = jumps(body)?;
    let reach = body
        .iter()
        .position(|statement| !is_harmless(statement))
        .unwrap_or(body.len());
    let mut places = body.iter().enumerate().take(reach + 1).rev();
    places.find_map(|(idx, statement)| {
        let crosses = |&(from, to): &(usize, usize)| (from < idx) != (to < idx);
        let line = line_of(statement).filter(|_| !jumps.iter().any(crosses))?;
        // It is to begin its line: nothing else of the body stands there.
        let before = body[..idx].iter().rev().find_map(any_line)?;
        (before < line).then_some(line)
    })
}

/// From where to where branches lead, as indices of the body. `None` if they cannot all be told.
/// Those to a `trap` do not count: what comes there ends the launch with a fault.
fn jumps(body: &[Statement]) -> Option<Vec<(usize, usize)>> {
    let mut labels = HashMap::new();
    for (idx, statement) in body.iter().enumerate() {
        if let Statement::Label { name, .. } = statement {
            labels.insert(name.as_str(), idx);
        }
    }
    let mut jumps = Vec::new();
    for (idx, statement) in body.iter().enumerate() {
        let targets: Vec<&str> = match statement {
            Statement::Instruction(branch) if branch.opcode == "bra" => {
                match branch.operands.as_slice() {
                    [Operand::Name(target)] => vec![target],
                    _ => return None,
                }
            }
            // Of `brx.idx`, which stands behind its targets.
            Statement::BranchTargets { targets, .. } => {
                targets.iter().map(String::as_str).collect()
            }
            Statement::Block(inner) if inner.iter().any(|it| opcode(it) == Some("bra")) => {
                return None;
            }
            _ => continue,
        };
        for target in targets {
            let to = *labels.get(target)?;
            let instruction = body[to..].iter().find_map(opcode);
            if instruction != Some("trap") {
                jumps.push((idx, to));
            }
        }
    }
    Some(jumps)
}

fn is_harmless(statement: &Statement) -> bool {
    match statement {
        Statement::Instruction(it) => {
            let space = it.modifiers.first().map(String::as_str);
            match it.opcode.as_str() {
                "ld" => matches!(space, Some("param" | "shared")),
                "st" => space == Some("shared"),
                // Of a block. Those of a cluster are for shared memory of others, which may not be
                // there yet.
                "bar" => true,
                "mbarrier" => space == Some("init"),
                opcode => HARMLESS.contains(&opcode),
            }
        }
        Statement::Block(inner) => inner.iter().all(is_harmless),
        _ => true,
    }
}

fn opcode(statement: &Statement) -> Option<&str> {
    match statement {
        Statement::Instruction(Instruction { opcode, .. }) => Some(opcode),
        _ => None,
    }
}

/// The line of an instruction or a label, before which the wait may stand.
fn line_of(statement: &Statement) -> Option<u32> {
    match statement {
        Statement::Instruction(it) => Some(it.line),
        Statement::Label { line, .. } => Some(*line),
        _ => None,
    }
}

/// The line of whatever has one.
fn any_line(statement: &Statement) -> Option<u32> {
    match statement {
        Statement::Registers(registers) => Some(registers.line),
        Statement::Variable(variable) => Some(variable.line),
        Statement::Block(inner) => inner.iter().rev().find_map(any_line),
        _ => line_of(statement),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of the line that the wait is put before, in a body of these lines.
    fn place(lines: &[&str]) -> Option<String> {
        let head =
            ".version 7.8\n.target sm_75\n.address_size 64\n.visible .entry k(.param .u64 p)\n{";
        let text = format!("{head}\n{}\n}}\n", lines.join("\n"));
        let module = ptx_syntax::parse(&text).expect("valid");
        let line = wait_line(module.functions[0].body.as_deref()?)?;
        text.lines().nth(line as usize - 1).map(str::to_owned)
    }

    const REGISTERS: &str = ".reg .b64 %rd<3>; .reg .b32 %r<3>; .reg .pred %p<2>;";

    #[test]
    fn parameters_indices_and_addresses_come_before_the_wait() {
        let load = "ld.global.u32 %r2, [%rd1];";
        let body = [
            REGISTERS,
            "ld.param.u64 %rd1, [p];",
            "mov.u32 %r1, %tid.x;",
            load,
            "ret;",
        ];
        assert_eq!(place(&body).as_deref(), Some(load));
    }

    #[test]
    fn no_branch_leads_across_the_wait() {
        let skip = "@%p1 bra $L;";
        let over = [
            REGISTERS,
            "setp.eq.u32 %p1, %r1, 0;",
            skip,
            "add.u32 %r1, %r1, 1;",
            "ld.global.u32 %r2, [%rd1];",
            "$L:",
            "ret;",
        ];
        assert_eq!(place(&over).as_deref(), Some(skip));
        let behind = "st.global.u32 [%rd1], %r1;";
        let joined = [
            REGISTERS,
            "setp.eq.u32 %p1, %r1, 0;",
            skip,
            "add.u32 %r1, %r1, 1;",
            "$L:",
            "add.u32 %r1, %r1, 2;",
            behind,
            "ret;",
        ];
        assert_eq!(place(&joined).as_deref(), Some(behind));
        let around = [
            REGISTERS,
            "mov.u32 %r1, 7;",
            "$L:",
            "add.u32 %r1, %r1, 1;",
            "ld.global.u32 %r2, [%rd1];",
            "@%p1 bra $L;",
            "ret;",
        ];
        // Behind the label, each round of the loop would wait.
        assert_eq!(place(&around).as_deref(), Some("$L:"));
    }

    #[test]
    fn what_leads_to_a_trap_may_miss_the_wait() {
        let load = "ld.global.u32 %r2, [%rd1];";
        let body = [
            REGISTERS,
            "setp.eq.u32 %p1, %r1, 0;",
            "@%p1 bra $L;",
            "add.u32 %r1, %r1, 1;",
            load,
            "ret;",
            "$L:",
            "trap;",
        ];
        assert_eq!(place(&body).as_deref(), Some(load));
    }

    #[test]
    fn what_exits_calls_or_is_not_known_is_not_passed() {
        for stop in [
            "@%p1 ret;",
            "@%p1 trap;",
            "atom.global.add.u32 %r1, [%rd1], 1;",
            "exit;",
        ] {
            let body = [
                REGISTERS,
                "mov.u32 %r1, 7;",
                stop,
                "add.u32 %r1, %r1, 1;",
                "ret;",
            ];
            assert_eq!(place(&body).as_deref(), Some(stop));
        }
    }

    #[test]
    fn a_line_that_holds_more_is_not_split() {
        let two = "mov.u32 %r1, 7; st.global.u32 [%rd1], %r1;";
        let body = [REGISTERS, two, "ret;"];
        assert_eq!(place(&body).as_deref(), Some(two));
    }
}
