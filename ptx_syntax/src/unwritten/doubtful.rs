//! The registers that may be unwritten on some way, and what has to be known about them at run time.

use std::collections::HashMap;

use super::effect::{self, Effect, Needs, Register};
use super::graph::Graph;
use super::solve::{Lacking, Written, solve};
use super::trace::Trace;
use crate::ast::Function;

/// A register whose state has to be known: its position in [`Doubtful::watched`].
pub type Watched = usize;

/// What has to be known about one register of an instruction. It holds in the lanes that the guard
/// of the instruction lets through, but for [`Step::Guard`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// The register is the guard: its content matters in all lanes.
    Guard(Doubt<'a>),
    /// The content of the register matters.
    Read(Doubt<'a>),
    /// It matters where the predicate holds.
    ReadIf(Doubt<'a>, When<'a>),
    /// The register is written.
    Write(Watched),
    /// The register is written where the others are: all, or one of them.
    Take {
        /// The register.
        to: Watched,
        /// The others, as far as they may be unwritten.
        from: Vec<Watched>,
        /// Whether all of them have to be.
        all: bool,
    },
    /// The register gets the first where the predicate holds, and else the second; `None` is
    /// written.
    Select {
        /// The register.
        to: Watched,
        /// The two.
        from: [Option<Watched>; 2],
        /// The predicate.
        when: When<'a>,
        /// The register of the predicate, if it may be unwritten: then the result is, too.
        by: Option<Watched>,
    },
}

/// A predicate of a [`Step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct When<'a> {
    /// The predicate register.
    pub register: &'a str,
    /// Whether it holds where the register is false.
    pub negated: bool,
}

/// A register that may be unwritten where its content matters, or is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt<'a> {
    /// The register.
    pub register: Watched,
    /// If it is computed from others: those of them that may be unwritten, and the lines that read
    /// them; at most four.
    pub origins: Vec<(&'a str, u32)>,
}

/// A register that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch<'a> {
    /// Its name as written.
    pub name: &'a str,
    /// Whether it may be read before any instruction that writes it. Others may only get what such
    /// registers hold.
    pub open: bool,
}

/// The registers of a function that may be unwritten where they matter or are stored, on some way
/// through it.
#[derive(Clone, Debug, Default)]
pub struct Doubtful<'a> {
    watched: Vec<Watch<'a>>,
    steps: HashMap<u32, Vec<Step<'a>>>,
    stores: HashMap<u32, Vec<Option<Doubt<'a>>>>,
}

impl<'a> Doubtful<'a> {
    /// Finds them.
    pub fn of(function: &'a Function) -> Self {
        let graph = Graph::of(function);
        let lacking = solve(&graph, Written::OnEveryWay);
        Finder::new(&graph, &lacking).find(&lacking)
    }

    /// The registers whose state has to be known; none in most functions.
    pub fn watched(&self) -> &[Watch<'a>] {
        &self.watched
    }

    /// What has to be known about an instruction, given its number in the text of the function.
    pub fn steps(&self, instruction: u32) -> &[Step<'a>] {
        self.steps.get(&instruction).map_or(&[], Vec::as_slice)
    }

    /// For each element that an instruction stores, its register if that may be unwritten; nothing
    /// if none may. Memory takes that over, in the lanes that the guard lets through.
    pub fn stored(&self, instruction: u32) -> &[Option<Doubt<'a>>] {
        self.stores.get(&instruction).map_or(&[], Vec::as_slice)
    }
}

struct Finder<'g, 'a> {
    graph: &'g Graph<'a>,
    /// The sources of each effect that may be unwritten.
    doubts: Vec<Vec<Register>>,
    trace: Trace,
    /// For each register its number among those that are watched.
    numbers: Vec<Option<Watched>>,
}

impl<'g, 'a> Finder<'g, 'a> {
    fn new(graph: &'g Graph<'a>, lacking: &Lacking) -> Self {
        let mut doubts: Vec<Vec<Register>> = vec![Vec::new(); graph.effects.len()];
        for (_, effect, register) in lacking.reads() {
            doubts[effect as usize].push(register);
        }
        Self {
            numbers: numbers(graph, &doubts),
            trace: Trace::new(graph, lacking),
            graph,
            doubts,
        }
    }

    fn find(&self, lacking: &Lacking) -> Doubtful<'a> {
        let registers = self.numbers.iter().enumerate();
        let registers = registers.filter(|(_, number)| number.is_some());
        let watched = registers.map(|(register, _)| Watch {
            name: self.graph.names[register],
            open: lacking.open[register],
        });
        let watched: Vec<Watch<'a>> = watched.collect();
        let (mut steps, mut stores) = (HashMap::new(), HashMap::new());
        let mut start = 0;
        for (number, node) in (0..).zip(&self.graph.nodes) {
            let end = node.effects_end as usize;
            let own =
                (start..end).filter_map(|at| self.step(number, at, node.guarded && at == start));
            let own: Vec<Step<'a>> = own.collect();
            if !own.is_empty() {
                steps.insert(number, own);
            }
            if let Some(own) = (start..end).find_map(|at| self.store(number, at)) {
                stores.insert(number, own);
            }
            start = end;
            if watched.is_empty() {
                break;
            }
        }
        Doubtful {
            watched,
            steps,
            stores,
        }
    }

    /// The step of an effect, if there is something to know about it.
    fn step(&self, node: u32, at: usize, is_guard: bool) -> Option<Step<'a>> {
        let number = |register: &Register| self.numbers[*register as usize];
        let doubts = &self.doubts[at];
        let effect = &self.graph.effects[at];
        let Some(to) = effect.target() else {
            let register = *doubts.first()?;
            let doubt = self.doubt(node, register, number(&register)?);
            return Some(match effect {
                Effect::Store(_) => return None,
                Effect::ReadIf { when, .. } => Step::ReadIf(doubt, self.when(*when)),
                _ if is_guard => Step::Guard(doubt),
                _ => Step::Read(doubt),
            });
        };
        let to = number(&to)?;
        Some(match effect {
            Effect::Take { from, needs, .. }
                if *needs == Needs::All && !doubts.is_empty()
                    || from.iter().all(|own| doubts.contains(own)) =>
            {
                Step::Take {
                    to,
                    from: doubts.iter().filter_map(number).collect(),
                    all: *needs == Needs::All,
                }
            }
            Effect::Select { from, when, .. } if !doubts.is_empty() => {
                let if_open = |own: Register| doubts.contains(&own).then(|| number(&own)).flatten();
                Step::Select {
                    to,
                    from: from.map(|own| own.and_then(if_open)),
                    when: self.when(*when),
                    by: if_open(when.register),
                }
            }
            _ => Step::Write(to),
        })
    }

    /// The elements of a store, if one of them may be unwritten.
    fn store(&self, node: u32, at: usize) -> Option<Vec<Option<Doubt<'a>>>> {
        let (Effect::Store(elements), doubts) = (&self.graph.effects[at], &self.doubts[at]) else {
            return None;
        };
        let element = |register: &Option<Register>| {
            let register = register.filter(|own| doubts.contains(own))?;
            Some(self.doubt(node, register, self.numbers[register as usize]?))
        };
        (!doubts.is_empty()).then(|| elements.iter().map(element).collect())
    }

    fn when(&self, when: effect::When) -> When<'a> {
        When {
            register: self.graph.names[when.register as usize],
            negated: when.negated,
        }
    }

    fn doubt(&self, node: u32, register: Register, number: Watched) -> Doubt<'a> {
        let roots = self.trace.roots(node, register);
        let others = roots.iter().filter(|(root, _)| *root != register);
        let line = |node: u32| self.graph.nodes[node as usize].line;
        let origins = others.map(|(root, at)| (self.graph.names[*root as usize], line(*at)));
        Doubt {
            register: number,
            origins: origins.collect(),
        }
    }
}

/// Numbers the registers whose unwritten content may come to where it matters.
fn numbers(graph: &Graph<'_>, doubts: &[Vec<Register>]) -> Vec<Option<Watched>> {
    let mut watched = vec![false; graph.names.len()];
    let mut sources: HashMap<Register, Vec<Register>> = HashMap::new();
    let mut open: Vec<Register> = Vec::new();
    for (effect, doubts) in graph.effects.iter().zip(doubts) {
        match effect.target() {
            None => open.extend(doubts),
            Some(target) if !doubts.is_empty() => {
                sources.entry(target).or_default().extend(doubts);
            }
            Some(_) => {}
        }
    }
    while let Some(register) = open.pop() {
        if !std::mem::replace(&mut watched[register as usize], true) {
            open.extend(sources.get(&register).into_iter().flatten());
        }
    }
    let mut numbers = 0..;
    let number = |watched: bool| watched.then(|| numbers.next()).flatten();
    watched.into_iter().map(number).collect()
}
