//! Checks that the optimiser has not duplicated barriers or wgmma instructions into divergent code,
//! by comparing a kernel's PTX with its IR before `opt`.
//!
//! The PTX may have more of them for a good reason: an unrolled loop has one for each iteration.
//! Each copy then dominates the next one. Two copies of which neither dominates the other are in
//! different arms of a branch. Where threads of a warp may part at its condition, that is refused.
//! Where all take the same way, as at a condition on a parameter, on the loop's counter or on a
//! warp's role, each copy stands for another iteration.

use std::collections::BTreeMap;

use ptx_syntax::ast::{Function, Instruction, Module};
use ptx_syntax::isa::Opcode;

use crate::divergence::{Divergence, Threads};
use crate::graph::Graph;
use crate::ir::collectives::Collectives;
use crate::lint::Refusal;

/// Compares each kernel of `module` with its counts in `source`.
pub(crate) fn check(module: &Module, source: &BTreeMap<String, Collectives>) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    for (kernel, before) in source {
        let function = module
            .functions
            .iter()
            .find(|function| function.name == *kernel);
        let Some(function) = function else { continue };
        let graph = Graph::of(function);
        for (what, source, of) in [
            (
                "barriers",
                before.barriers,
                barriers as fn(&Collectives) -> usize,
            ),
            ("wgmma", before.wgmma, wgmma),
        ] {
            let (mut places, mut known) = (Vec::new(), BTreeMap::new());
            for (block, instruction) in graph.instructions() {
                let counted = of(&count(module, instruction, &mut known));
                places.extend(std::iter::repeat_n(block, counted));
            }
            if places.len() > source && !all_meet(&graph, &places) {
                let ptx = places.len();
                refusals.push(Refusal::Copied {
                    kernel: kernel.clone(),
                    what,
                    source,
                    ptx,
                });
            }
        }
    }
    refusals
}

/// Whether, of any two of these blocks, one dominates the other or a warp's threads pass both alike.
fn all_meet(graph: &Graph<'_>, blocks: &[usize]) -> bool {
    let mut pairs = (1..blocks.len()).flat_map(|b| (0..b).map(move |a| (blocks[a], blocks[b])));
    let arms = |&(a, b): &(usize, usize)| !graph.dominates(a, b) && !graph.dominates(b, a);
    let Some(first) = pairs.find(arms) else {
        return true;
    };
    let divergence = Divergence::of(graph, Threads::OfWarp);
    let mut arms = std::iter::once(first).chain(pairs.filter(arms));
    arms.all(|(a, b)| divergence.blocks[a].is_none() && divergence.blocks[b].is_none())
}

fn barriers(counted: &Collectives) -> usize {
    counted.barriers
}

fn wgmma(counted: &Collectives) -> usize {
    counted.wgmma
}

/// Counts of an instruction; a call has the counts of the function that it calls, which `known`
/// has.
fn count<'a>(
    module: &'a Module,
    instruction: &Instruction,
    known: &mut BTreeMap<&'a str, Collectives>,
) -> Collectives {
    let mut total = Collectives::default();
    match instruction.known() {
        Some(Opcode::Call) => {
            let names = instruction.names();
            let callees = module
                .functions
                .iter()
                .filter(|f| names.contains(&f.name.as_str()));
            for function in callees {
                total += count_function(module, function, known);
            }
        }
        _ => total.add(instruction),
    }
    total
}

fn count_function<'a>(
    module: &'a Module,
    function: &'a Function,
    known: &mut BTreeMap<&'a str, Collectives>,
) -> Collectives {
    if let Some(counted) = known.get(function.name.as_str()) {
        return *counted;
    }
    // A recursive call finds this entry and adds nothing.
    known.insert(&function.name, Collectives::default());
    let mut total = Collectives::default();
    for instruction in function.instructions() {
        total += count(module, instruction, known);
    }
    known.insert(&function.name, total);
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusals(body: &str, barriers: usize) -> Vec<Refusal> {
        let text = format!(
            ".version 7.8\n.target sm_75\n.address_size 64\n.visible .entry k()\n{{\n\
             .reg .pred %p<3>;\nsetp.lt.u32 %p1,%tid.x,8;\nsetp.lt.u32 %p2,%ctaid.x,8;\n\
             {body}\n}}\n"
        );
        let module = ptx_syntax::parse(&text).expect("the fixture is valid PTX");
        let source = Collectives { barriers, wgmma: 0 };
        check(&module, &BTreeMap::from([("k".to_owned(), source)]))
    }

    const ARMS: &str = "@%p1 bra $A;\nbar.sync 0;\nbra.uni $B;\n$A:\nbar.sync 0;\n$B:\nret;";
    const ROLLED_OUT: &str = "bar.sync 0;\n@%p1 bra $A;\nbar.sync 0;\n$A:\nret;";

    #[test]
    fn a_barrier_copied_into_both_arms_is_refused() {
        let expected = Refusal::Copied {
            kernel: "k".to_owned(),
            what: "barriers",
            source: 1,
            ptx: 2,
        };
        assert_eq!(refusals(ARMS, 1), [expected]);
    }

    #[test]
    fn arms_of_the_source_are_its_own_affair() {
        assert_eq!(refusals(ARMS, 2), []);
    }

    #[test]
    fn a_function_that_calls_itself_twice_is_counted_once_a_call() {
        let text = ".version 7.8\n.target sm_75\n.address_size 64\n\
                    .func f\n{\nbar.sync 0;\ncall f;\ncall f;\nret;\n}\n\
                    .visible .entry k()\n{\n.reg .pred %p<2>;\n\
                    @%p1 bra $A;\ncall f;\nbra.uni $B;\n$A:\ncall f;\n$B:\nret;\n}\n";
        let module = ptx_syntax::parse(text).expect("the fixture is valid PTX");
        let copies = |barriers| {
            let source = Collectives { barriers, wgmma: 0 };
            check(&module, &BTreeMap::from([("k".to_owned(), source)])).len()
        };
        assert_eq!((copies(2), copies(1)), (0, 1));
    }

    #[test]
    fn an_unrolled_loop_may_have_more() {
        assert_eq!(refusals(ROLLED_OUT, 1), []);
        let condition = "@%p2 bra $A;\nbar.sync 0;\n$A:\n@!%p2 bra $B;\nbar.sync 0;\n$B:\nret;";
        assert_eq!(refusals(condition, 1), []);
        assert_eq!(refusals(&condition.replace("%p2", "%p1"), 1).len(), 1);
        // One of the two is enough.
        assert_eq!(refusals(&condition.replace("!%p2", "!%p1"), 1).len(), 1);
    }
}
