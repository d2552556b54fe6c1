//! Holds safe kernels to their rule: where all threads of a block have to be there, they are.
//!
//! `Block::sync`, `Block::reduce` and `SharedTile::sync` of cuda_std are safe functions because a
//! build checks safe kernels. It refuses one in which not all threads of the block pass a barrier,
//! or an exchange between lanes, alike. Threads of all blocks pass a barrier of the grid alike. The finished PTX is checked, after all optimisations.
//! [`crate::divergence`] says which of its blocks all threads pass alike, and is wrong on the side
//! of refusing.

use std::collections::BTreeMap;

use ptx_syntax::ast::{Function, Instruction, Module};
use ptx_syntax::isa::{Effect, Opcode};
use ptx_syntax::origins::Origins;

use crate::divergence::{Cause, Divergence, Threads};
use crate::graph::Graph;
use crate::ir::kernels::Kernel;
use crate::lint::{Parting, Place, Refusal};

/// What a barrier of the grid begins with: it reads this half of the address of its workspace.
const GRID_BARRIER: &str = "%envreg2";

/// Checks the safe kernels among `kernels`.
pub(crate) fn check(module: &Module, kernels: &[Kernel]) -> Vec<Refusal> {
    let origins = Origins::of(module);
    let place = |instruction: &Instruction| Place {
        line: instruction.line,
        source: source(&origins, instruction),
    };
    let mut refusals = Vec::new();
    for kernel in kernels.iter().filter(|kernel| kernel.safe) {
        let function = function(module, &kernel.name);
        let Some(function) = function else { continue };
        let graph = Graph::of(function);
        let block = Divergence::of(&graph, Threads::OfBlock);
        let grid = std::cell::LazyCell::new(|| Divergence::of(&graph, Threads::OfGrid));
        let parting =
            |divergence: &Divergence<'_>, at: usize, instruction| match divergence.blocks[at] {
                Some(Cause::Branch(branch)) => Some(Parting::Branch(place(branch))),
                Some(Cause::Endless) => Some(Parting::Endless),
                None => own_parting(divergence, instruction),
            };
        for (at, instruction) in graph.instructions() {
            let refusal = |name, threads| {
                let kernel = kernel.name.clone();
                let at = place(instruction);
                move |cause| Refusal::Divergent {
                    kernel,
                    instruction: name,
                    at,
                    threads,
                    cause,
                }
            };
            if instruction.known() == Some(Opcode::Call) {
                if may_gather(module, instruction, &mut BTreeMap::new()) {
                    let refusal = refusal(mnemonic(instruction), Threads::OfBlock);
                    refusals.push(refusal(Parting::Call));
                }
            } else if instruction.names().contains(&GRID_BARRIER) {
                let parting = parting(&grid, at, instruction);
                refusals.extend(parting.map(refusal("grid::sync".to_owned(), Threads::OfGrid)));
            } else if gathers(instruction) {
                let parting = parting(&block, at, instruction);
                refusals.extend(parting.map(refusal(mnemonic(instruction), Threads::OfBlock)));
            }
        }
    }
    refusals
}

/// Whether threads may part at the instruction itself: some of them do not execute it, or wait at
/// another barrier.
fn own_parting(divergence: &Divergence<'_>, instruction: &Instruction) -> Option<Parting> {
    let is_barrier = matches!(instruction.known(), Some(Opcode::Bar | Opcode::Barrier));
    let is_plain = is_barrier && !instruction.has("red");
    let parts = match is_plain {
        true => divergence.varies(instruction),
        false => instruction.guard.is_some(),
    };
    parts.then_some(Parting::Operand)
}

/// Whether it waits for other threads of the block or exchanges values with them.
fn gathers(instruction: &Instruction) -> bool {
    match instruction.known() {
        Some(Opcode::Bar | Opcode::Barrier) => true,
        Some(Opcode::Activemask) => false,
        _ => instruction.collective().is_some() || instruction.facts().effect == Effect::Lanes,
    }
}

/// Whether a function that is called here has such an instruction, as far as the build can see.
fn may_gather<'a>(
    module: &'a Module,
    call: &'a Instruction,
    known: &mut BTreeMap<&'a str, bool>,
) -> bool {
    let names = call.names();
    let callees = names.iter().filter_map(|name| function(module, name));
    let mut callees = callees.peekable();
    // Through a pointer.
    if callees.peek().is_none() {
        return true;
    }
    callees.any(|callee| {
        if let Some(gathers) = known.get(callee.name.as_str()) {
            return *gathers;
        }
        // A recursive call finds this entry.
        known.insert(&callee.name, false);
        let found = callee.instructions().any(|instruction| {
            gathers(instruction)
                || instruction.known() == Some(Opcode::Call)
                    && may_gather(module, instruction, known)
        });
        known.insert(&callee.name, found);
        found
    })
}

/// The function with this name. Its prototype, which may stand before it, is not taken for it.
fn function<'a>(module: &'a Module, name: &str) -> Option<&'a Function> {
    let named = module.functions.iter();
    named
        .filter(|function| function.name == name)
        .max_by_key(|function| function.body.is_some())
}

fn mnemonic(instruction: &Instruction) -> String {
    let words = std::iter::once(&instruction.opcode).chain(&instruction.modifiers);
    words.map(String::as_str).collect::<Vec<_>>().join(".")
}

/// The line in the kernel.
fn source(origins: &Origins, instruction: &Instruction) -> Option<(String, u32)> {
    origins.at(instruction.line).first().cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is refused in a safe kernel with this body.
    fn refused(body: &str) -> Vec<String> {
        let text = format!(
            ".version 7.8\n.target sm_75\n.address_size 64\n.file 1 \"k.rs\"\n\
             .extern .func vprintf(.param .b64 f);\n\
             .func plain(.param .b32 a)\n{{\nret;\n}}\n\
             .func waits\n;\n\
             .func through\n{{\ncall waits;\nret;\n}}\n\
             .func waits\n{{\nbar.sync 0;\nret;\n}}\n\
             .visible .entry k(.param .u32 n)\n{{\n\
             .reg .pred %p<9>;\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n{body}\nret;\n}}\n"
        );
        let module = ptx_syntax::parse(&text).expect("the fixture is valid PTX");
        let kernel: Kernel = serde_json::from_str(
            r#"{"name":"k","module":"c","params":[],"max_threads":null,"min_blocks":null,
                "cluster":null,"dynamic_shared_bytes":null,"safe":true}"#,
        )
        .expect("the metadata is valid");
        let refusals = check(&module, &[kernel]);
        refusals.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_all_threads_pass_alike_is_accepted() {
        for body in [
            "bar.sync 0;",
            "ld.param.u32 %r1,[n];\n$L:\nbar.sync 1;\nadd.u32 %r1,%r1,-1;\n\
             setp.ne.u32 %p1,%r1,0;\n@%p1 bra $L;",
            "mov.u32 %r1,%ctaid.x;\nsetp.lt.u32 %p1,%r1,4;\n@%p1 bra $L;\nbar.sync 0;\n$L:",
            "mov.u32 %r1,%tid.x;\nsetp.lt.u32 %p1,%r1,4;\n@%p1 bra $L;\nadd.u32 %r2,%r1,1;\n$L:\n\
             bar.sync 0;\nshfl.sync.bfly.b32 %r3,%r2,1,31,-1;",
            "mov.u32 %r1,%tid.x;\nsetp.lt.u32 %p1,%r1,4;\n@%p1 bra $L;\ntrap;\n$L:\nbar.sync 0;",
            "activemask.b32 %r1;\ncall plain, (%r1);\ncall vprintf, (%rd1);",
            "ld.param.u32 %r1,[n];\nsetp.lt.u32 %p1,%r1,%nctaid.x;\n@%p1 bra $L;\n\
             mov.b32 %r2,%envreg2;\nbar.sync 0;\n$L:",
            // The same address of memory that nobody writes.
            "mov.u64 %rd1,n;\nld.global.nc.u32 %r1,[%rd1];\nsetp.lt.u32 %p1,%r1,4;\n\
             @%p1 bra $L;\nbar.sync 0;\n$L:",
        ] {
            assert_eq!(refused(body), [""; 0], "{body}");
        }
    }

    #[test]
    fn where_threads_may_part_it_is_refused_with_the_line() {
        let part = "mov.u32 %r1,%tid.x;\nsetp.lt.u32 %p1,%r1,4;\n.loc 1 7 3\n";
        for (body, want) in [
            (
                "@%p1 bra $L;\n.loc 1 9 3\nbar.sync 0;\n$L:",
                "k.rs:9: the safe kernel `k` has `bar.sync` where not all threads of the block may come: the condition at k.rs:7",
            ),
            ("@%p1 ret;\nbar.sync 0;", "the condition at k.rs:7"),
            ("@%p1 bar.sync 0;", "operands may differ"),
            (
                "selp.u32 %r2,1,2,%p1;\nbar.sync %r2;",
                "operands may differ",
            ),
            (
                "@%p1 bra $L;\nshfl.sync.bfly.b32 %r3,%r2,1,31,-1;\n$L:",
                "`shfl.sync.bfly.b32`",
            ),
            ("@%p1 bra $L;\nbar.warp.sync -1;\n$L:", "`bar.warp.sync`"),
            ("$L:\nbar.sync 0;\n@%p1 bra $L;", "the condition at"),
            ("$L:\nbar.sync 0;\nbra $L;", "no way leads"),
            (
                "setp.eq.u32 %p2,%ctaid.x,0;\n@%p2 bra $L;\nmov.b32 %r2,%envreg2;\nbar.sync 0;\n$L:",
                "`grid::sync` where not all threads of the grid may come",
            ),
            ("call through;", "inline(always)"),
            ("call %rd1, proto;", "inline(always)"),
        ] {
            let found = refused(&format!("{part}{body}"));
            assert!(
                found.len() == 1 && found[0].contains(want),
                "{body}: {found:?}, want {want}"
            );
        }
    }
}
