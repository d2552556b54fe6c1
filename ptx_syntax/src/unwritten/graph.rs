//! A function as a graph of basic blocks, with the effects of its instructions.

use super::effect::{Collector, Effect, Register};
use super::names::{Label, Names};
use crate::ast::{Function, Instruction, Operand, Statement};
use crate::isa;

/// One instruction.
pub(super) struct Node {
    pub(super) line: u32,
    /// Whether it may not run where its place is passed.
    pub(super) guarded: bool,
    /// End of its effects; they begin where those of the instruction before end.
    pub(super) effects_end: u32,
    /// The basic block that it is in.
    pub(super) block: u32,
}

/// The graph of a function.
pub(super) struct Graph<'a> {
    /// Names of the registers.
    pub(super) names: Vec<&'a str>,
    /// Parameters that are registers: written from the start.
    pub(super) given: Vec<Register>,
    /// Instructions in the order of the text.
    pub(super) nodes: Vec<Node>,
    pub(super) effects: Vec<Effect>,
    /// The blocks that follow each block. Behind the blocks of the text there is an empty one for
    /// each `.branchtargets`, which all branches through it share.
    pub(super) successors: Vec<Vec<u32>>,
}

/// Where a block may go.
#[derive(Default)]
struct Exits {
    /// To the block behind it in the text.
    next: bool,
    target: Option<Target>,
}

/// Where a branch may go.
enum Target {
    Label(Label),
    /// To the labels of a `.branchtargets`.
    Table(usize),
}

struct Builder<'a> {
    names: Names<'a>,
    nodes: Vec<Node>,
    effects: Vec<Effect>,
    /// For each block, where it goes.
    exits: Vec<Exits>,
    /// The block of each label.
    placed: Vec<Option<u32>>,
    /// Whether the last block has an instruction.
    begun: bool,
}

impl<'a> Graph<'a> {
    pub(super) fn of(function: &'a Function) -> Self {
        let mut builder = Builder {
            names: Names::default(),
            nodes: Vec::new(),
            effects: Vec::new(),
            exits: vec![Exits::default()],
            placed: Vec::new(),
            begun: false,
        };
        let given = builder.names.enter(function);
        builder.statements(function.body.as_deref().unwrap_or_default());
        builder.finish(given)
    }
}

impl<'a> Builder<'a> {
    fn statements(&mut self, statements: &'a [Statement]) {
        self.names.open(statements);
        self.placed.resize(self.names.label_count(), None);
        for statement in statements {
            match statement {
                Statement::Label { name, .. } => {
                    if self.begun {
                        self.next_block(true);
                    }
                    if let Some(label) = self.names.label(name) {
                        self.placed[label as usize] = Some(self.exits.len() as u32 - 1);
                    }
                }
                Statement::Instruction(instruction) => self.instruction(instruction),
                Statement::Registers(registers) => self.names.registers(registers),
                Statement::Block(inner) => self.statements(inner),
                _ => {}
            }
        }
        self.names.close();
    }

    /// Ends a block.
    fn next_block(&mut self, goes_on: bool) {
        if let Some(last) = self.exits.last_mut() {
            last.next = goes_on;
        }
        self.exits.push(Exits::default());
        self.begun = false;
    }

    fn instruction(&mut self, instruction: &'a Instruction) {
        self.begun = true;
        let names = &mut self.names;
        Collector {
            resolve: &mut |name| names.register(name),
            effects: &mut self.effects,
        }
        .instruction(instruction);
        let guarded = instruction.guard.is_some();
        self.nodes.push(Node {
            line: instruction.line,
            guarded,
            effects_end: self.effects.len() as u32,
            block: self.exits.len() as u32 - 1,
        });
        match instruction.facts().effect {
            isa::Effect::Jumps => {
                let target = self.target(instruction);
                if let Some(last) = self.exits.last_mut() {
                    last.target = target;
                }
                self.next_block(guarded);
            }
            isa::Effect::Ends | isa::Effect::Traps if !guarded => self.next_block(false),
            _ => {}
        }
    }

    fn target(&self, branch: &Instruction) -> Option<Target> {
        let Some(Operand::Name(name)) = branch.operands.last() else {
            return None;
        };
        match self.names.table(name) {
            Some(table) => Some(Target::Table(table)),
            None => self.names.label(name).map(Target::Label),
        }
    }

    fn finish(self, given: Vec<Register>) -> Graph<'a> {
        let count = self.exits.len() as u32;
        let successors = self.exits.iter().zip(1..).map(|(exits, behind)| {
            let next = (exits.next && behind < count).then_some(behind);
            let target = match &exits.target {
                Some(Target::Label(label)) => self.placed[*label as usize],
                Some(Target::Table(table)) => Some(count + *table as u32),
                None => None,
            };
            next.into_iter().chain(target).collect()
        });
        let tables = self.names.tables.iter().map(|labels| {
            let placed = labels
                .iter()
                .filter_map(|label| self.placed[*label as usize]);
            placed.collect()
        });
        Graph {
            successors: successors.chain(tables).collect(),
            names: self.names.registers,
            given,
            nodes: self.nodes,
            effects: self.effects,
        }
    }
}
