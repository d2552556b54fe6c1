//! The basic blocks of a function, and which follows which.

use std::collections::{BTreeMap, BTreeSet};

use ptx_syntax::ast::{Function, Instruction, Operand, Statement};
use ptx_syntax::isa::Effect;

/// Basic blocks of a function.
pub(crate) struct Graph<'a> {
    pub(crate) blocks: Vec<Vec<&'a Instruction>>,
    pub(crate) successors: Vec<BTreeSet<usize>>,
}

impl<'a> Graph<'a> {
    pub(crate) fn of(function: &'a Function) -> Self {
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

    pub(crate) fn instructions(&self) -> impl Iterator<Item = (usize, &'a Instruction)> {
        let blocks = self.blocks.iter().enumerate();
        blocks.flat_map(|(index, block)| block.iter().map(move |instruction| (index, *instruction)))
    }

    /// Whether the kernel may end behind a block.
    pub(crate) fn is_end(&self, block: usize) -> bool {
        match self.blocks[block].last().map(|last| last.facts().effect) {
            Some(Effect::Ends) => true,
            Some(Effect::Jumps | Effect::Traps) => false,
            _ => block + 1 == self.blocks.len(),
        }
    }

    /// Whether every path from the entry to `block` goes through `by`.
    pub(crate) fn dominates(&self, by: usize, block: usize) -> bool {
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

pub(crate) fn ends_block(instruction: &Instruction) -> bool {
    matches!(
        instruction.facts().effect,
        Effect::Jumps | Effect::Ends | Effect::Traps
    )
}
