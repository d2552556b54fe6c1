//! Checks that the optimiser has not duplicated barriers or wgmma instructions into divergent code,
//! by comparing a kernel's PTX with its IR before `opt`.
//!
//! The PTX may have more of them for a good reason: an unrolled loop has one for each iteration.
//! Each copy then dominates the next one. Two copies of which neither dominates the other are in
//! different arms of a branch, on which a warp may diverge; that is refused.

use std::collections::{BTreeMap, BTreeSet};

use ptx_syntax::ast::{Function, Instruction, Module, Operand, Statement};

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
            if places.len() > source && !graph.is_chain(&places) {
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

fn barriers(counted: &Collectives) -> usize {
    counted.barriers
}

fn wgmma(counted: &Collectives) -> usize {
    counted.wgmma
}

/// Counts of an instruction, a call's those of what it calls; `known` has those of functions.
fn count<'a>(
    module: &'a Module,
    instruction: &Instruction,
    known: &mut BTreeMap<&'a str, Collectives>,
) -> Collectives {
    let has = |word: &str| {
        instruction
            .modifiers
            .iter()
            .any(|modifier| modifier == word)
    };
    let mut total = Collectives::default();
    match instruction.opcode.as_str() {
        "bar" | "barrier" if !has("warp") => total.barriers = 1,
        "wgmma" if has("mma_async") => total.wgmma = 1,
        "call" => {
            let names = instruction.names();
            let callees = module
                .functions
                .iter()
                .filter(|f| names.contains(&f.name.as_str()));
            for function in callees {
                total += count_function(module, function, known);
            }
        }
        _ => {}
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

/// Basic blocks of a function.
struct Graph<'a> {
    blocks: Vec<Vec<&'a Instruction>>,
    successors: Vec<BTreeSet<usize>>,
}

impl<'a> Graph<'a> {
    fn of(function: &'a Function) -> Self {
        let mut blocks: Vec<Vec<&Instruction>> = vec![Vec::new()];
        let mut labels: BTreeMap<&str, usize> = BTreeMap::new();
        let mut tables: BTreeMap<&str, &[String]> = BTreeMap::new();
        for statement in function.statements() {
            match statement {
                Statement::Label { name, .. } => {
                    blocks.push(Vec::new());
                    labels.insert(name, blocks.len() - 1);
                }
                Statement::Instruction(instruction) => {
                    if let Some(block) = blocks.last_mut() {
                        block.push(instruction);
                    }
                    if ends_block(instruction) {
                        blocks.push(Vec::new());
                    }
                }
                Statement::BranchTargets { name, targets, .. } => {
                    tables.insert(name, targets);
                }
                _ => {}
            }
        }
        let successors = (0..blocks.len())
            .map(|block| {
                let mut next = BTreeSet::new();
                let last = blocks[block].last();
                if let Some(jump) = last.filter(|instruction| ends_block(instruction)) {
                    let names = jump.operands.iter().filter_map(|operand| match operand {
                        Operand::Name(name) => Some(name.as_str()),
                        _ => None,
                    });
                    for name in names {
                        let table = tables.get(name).into_iter().flat_map(|table| table.iter());
                        let targets = table.map(String::as_str).chain([name]);
                        next.extend(targets.filter_map(|target| labels.get(target)));
                    }
                }
                let falls_through = last.is_none_or(|instruction| {
                    !ends_block(instruction) || instruction.guard.is_some()
                });
                if falls_through && block + 1 < blocks.len() {
                    next.insert(block + 1);
                }
                next
            })
            .collect();
        Self { blocks, successors }
    }

    fn instructions(&self) -> impl Iterator<Item = (usize, &'a Instruction)> {
        let blocks = self.blocks.iter().enumerate();
        blocks.flat_map(|(index, block)| block.iter().map(move |instruction| (index, *instruction)))
    }

    /// Whether, of any two of these blocks, one dominates the other.
    fn is_chain(&self, blocks: &[usize]) -> bool {
        blocks.iter().enumerate().all(|(index, a)| {
            blocks[..index]
                .iter()
                .all(|b| self.dominates(*a, *b) || self.dominates(*b, *a))
        })
    }

    /// Whether every path from the entry to `block` goes through `by`.
    fn dominates(&self, by: usize, block: usize) -> bool {
        if by == block || by == 0 {
            return true;
        }
        let mut seen = BTreeSet::from([0]);
        let mut open = vec![0];
        while let Some(next) = open.pop() {
            if next == block {
                return false;
            }
            open.extend(
                self.successors[next]
                    .iter()
                    .filter(|to| **to != by && seen.insert(**to)),
            );
        }
        true
    }
}

fn ends_block(instruction: &Instruction) -> bool {
    matches!(
        instruction.opcode.as_str(),
        "bra" | "brx" | "ret" | "exit" | "trap"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusals(body: &str, barriers: usize) -> Vec<Refusal> {
        let text = format!(
            ".version 7.8\n.target sm_75\n.address_size 64\n.visible .entry k()\n{{\n\
             .reg .pred %p<3>;\n{body}\n}}\n"
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
    }
}
