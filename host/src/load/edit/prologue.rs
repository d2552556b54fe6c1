//! How far a kernel gets without memory that another launch may touch.
//!
//! What it does before its first access to global memory (parameters, indices, addresses, shared
//! memory) may run while the launch before it still does. So the wait goes behind that, at a place
//! that every thread passes exactly once: no branch leads across it, in either direction.

use ptx_syntax::ast::{Instruction, Operand, Statement};
use ptx_syntax::isa::Opcode;
use std::collections::HashMap;

/// The index in `body` of the last such place, which is before an instruction or a label. 0, the
/// beginning of the body, if there is no other.
pub(super) fn end(body: &[Statement]) -> usize {
    let Some(jumps) = jumps(body) else {
        return 0;
    };
    let reach = body.iter().position(|statement| !passes(statement));
    let mut places = 0..=reach.unwrap_or(body.len());
    let is_place = |&at: &usize| {
        let crosses = |&(from, to): &(usize, usize)| (from < at) != (to < at);
        let is_code = matches!(
            body.get(at),
            Some(Statement::Instruction(_) | Statement::Label { .. })
        );
        is_code && !jumps.iter().any(crosses)
    };
    places.rfind(is_place).unwrap_or(0)
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
            Statement::Instruction(branch) if is(statement, Opcode::Bra) => {
                match branch.operands.as_slice() {
                    [Operand::Name(target)] => vec![target],
                    _ => return None,
                }
            }
            // Of `brx.idx`, which stands behind its targets.
            Statement::BranchTargets { targets, .. } => {
                targets.iter().map(String::as_str).collect()
            }
            Statement::Block(inner) if inner.iter().any(|it| is(it, Opcode::Bra)) => return None,
            _ => continue,
        };
        for target in targets {
            let to = *labels.get(target)?;
            let first = body[to..].iter().find_map(instruction);
            if first.and_then(Instruction::known) != Some(Opcode::Trap) {
                jumps.push((idx, to));
            }
        }
    }
    Some(jumps)
}

/// Whether all of a statement may stand before the wait.
fn passes(statement: &Statement) -> bool {
    match statement {
        Statement::Instruction(it) => it.may_precede_wait(),
        Statement::Block(inner) => inner.iter().all(passes),
        _ => true,
    }
}

fn instruction(statement: &Statement) -> Option<&Instruction> {
    match statement {
        Statement::Instruction(instruction) => Some(instruction),
        _ => None,
    }
}

fn is(statement: &Statement, opcode: Opcode) -> bool {
    instruction(statement).is_some_and(|it| it.known() == Some(opcode))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line that the wait goes before, in a body of these lines.
    fn place<'a>(lines: &[&'a str]) -> Option<&'a str> {
        let head =
            ".version 7.8\n.target sm_75\n.address_size 64\n.visible .entry k(.param .u64 p)\n{";
        let text = format!("{head}\n{}\n}}\n", lines.join("\n"));
        let module = ptx_syntax::parse(&text).expect("valid");
        let body = module.functions[0].body.as_deref()?;
        let line = body.get(end(body))?.line()?;
        let first = head.lines().count() as u32 + 1;
        lines.get((line - first) as usize).copied()
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
        assert_eq!(place(&body), Some(load));
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
        assert_eq!(place(&over), Some(skip));
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
        assert_eq!(place(&joined), Some(behind));
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
        assert_eq!(place(&around), Some("$L:"));
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
        assert_eq!(place(&body), Some(load));
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
            assert_eq!(place(&body), Some(stop));
        }
    }

    #[test]
    fn without_another_place_it_is_the_beginning() {
        let body = [REGISTERS, "bra $nowhere;", "ret;"];
        assert_eq!(place(&body), Some(REGISTERS));
    }
}
