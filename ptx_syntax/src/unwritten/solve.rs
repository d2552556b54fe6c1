//! Which registers are written where they are read: on some way from the start, or on all ways.
//!
//! Registers are looked at in groups of 64, a bit each, so that memory grows with the text alone.
//! A `mov` writes only if what it copies is written. Whether such an instruction writes is supposed
//! at first, and put right as its sources become known; then the group of its target is looked at
//! again.

use super::effect::{Effect, Needs, Register};
use super::graph::Graph;

/// Registers in a group.
const GROUP: u32 = u64::BITS;

/// What is asked of a register that is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// A write reaches the read on some way. One that has a guard counts.
    OnSomeWay,
    /// Every way from the start has a write. One that has a guard does not count.
    OnEveryWay,
}

/// A register in an effect.
#[derive(Clone, Copy)]
struct Event {
    node: u32,
    effect: u32,
    register: Register,
    /// Which source of the effect it is; `None` for its target.
    source: Option<u8>,
}

/// The reads that lack what was asked.
pub(super) struct Lacking {
    events: Vec<Event>,
    lacking: Vec<bool>,
    /// For each register whether a read lacks a write of any kind: also one of what is unwritten
    /// itself.
    pub(super) open: Vec<bool>,
}

impl Lacking {
    /// Instruction, effect and register of each such read.
    pub(super) fn reads(&self) -> impl Iterator<Item = (u32, u32, Register)> {
        let all = self.events.iter().zip(&self.lacking);
        let own = all.filter(|(_, lacks)| **lacks);
        own.map(|(event, _)| (event.node, event.effect, event.register))
    }
}

struct Solver<'g, 'a> {
    graph: &'g Graph<'a>,
    want: Written,
    /// Reachable blocks, each but for loops behind those that lead to it.
    order: Vec<u32>,
    /// Whether each block is reachable.
    reachable: Vec<bool>,
    predecessors: Vec<Vec<u32>>,
    /// Events by group, and in each in the order of the text.
    events: Vec<Event>,
    /// Where the events of each group begin, and the end.
    groups: Vec<usize>,
    lacking: Vec<bool>,
    /// The sources of each effect that are lacking, a bit each.
    missing: Vec<u32>,
    /// Effects that leave their targets unwritten.
    void: Vec<bool>,
    /// For each block, what is written at its end.
    out: Vec<u64>,
}

/// Finds the reads that lack what is wanted, of those that can be reached.
pub(super) fn solve(graph: &Graph<'_>, want: Written) -> Lacking {
    let blocks = graph.successors.len();
    let (order, reachable) = order(graph);
    let mut predecessors = vec![Vec::new(); blocks];
    for block in &order {
        for next in &graph.successors[*block as usize] {
            predecessors[*next as usize].push(*block);
        }
    }
    let (events, groups) = events(graph);
    let mut solver = Solver {
        graph,
        want,
        order,
        reachable,
        predecessors,
        lacking: vec![false; events.len()],
        missing: vec![0; graph.effects.len()],
        void: vec![false; graph.effects.len()],
        out: vec![0; blocks],
        events,
        groups,
    };
    let mut open = vec![false; graph.names.len()];
    let changed = match want {
        Written::OnSomeWay => solver.begin_lacking(),
        // At first as if all that is taken were written.
        Written::OnEveryWay => {
            let changed = (0..solver.groups.len() - 1).flat_map(|group| solver.group(group));
            let changed: Vec<u32> = changed.collect();
            for (event, lacks) in solver.events.iter().zip(&solver.lacking) {
                open[event.register as usize] |= lacks;
            }
            changed
        }
    };
    solver.settle(changed);
    Lacking {
        events: solver.events,
        lacking: solver.lacking,
        open,
    }
}

impl Solver<'_, '_> {
    /// Begins as if nothing that is taken were written. A register whose only source is itself,
    /// round a loop, then stays so.
    fn begin_lacking(&mut self) -> Vec<u32> {
        for (event, lacks) in self.events.iter().zip(&mut self.lacking) {
            if let Some(source) = event.source {
                let block = self.graph.nodes[event.node as usize].block;
                *lacks = self.reachable[block as usize];
                self.missing[event.effect as usize] |= bit_of(source);
            }
        }
        self.void = (0..self.graph.effects.len())
            .map(|effect| self.is_void(effect))
            .collect();
        (0..self.groups.len() - 1)
            .flat_map(|group| self.group(group))
            .collect()
    }

    /// Lets the effects in `changed` write or not, as their sources now say, and looks again at what
    /// depends on them.
    fn settle(&mut self, mut changed: Vec<u32>) {
        let mut queued = vec![false; self.groups.len()];
        let mut again = Vec::new();
        loop {
            for effect in std::mem::take(&mut changed) {
                self.void[effect as usize] = self.is_void(effect as usize);
                let target = self.graph.effects[effect as usize].target();
                if let Some(group) = target.map(|target| (target / GROUP) as usize)
                    && !std::mem::replace(&mut queued[group], true)
                {
                    again.push(group);
                }
            }
            let Some(group) = again.pop() else { return };
            queued[group] = false;
            changed = self.group(group);
        }
    }

    /// Looks at one group. Returns the effects whose set of written registers has changed.
    fn group(&mut self, group: usize) -> Vec<u32> {
        let events = self.groups[group]..self.groups[group + 1];
        if events.is_empty() {
            return Vec::new();
        }
        let given = self.given(group);
        let changes = self.changes(events.clone());
        self.flow(given, &changes);
        let mut turned = Vec::new();
        let mut block = u32::MAX;
        let mut written = 0;
        for at in events {
            let event = self.events[at];
            let own = self.graph.nodes[event.node as usize].block;
            if !self.reachable[own as usize] {
                continue;
            }
            if own != block {
                block = own;
                written = self.enter(block, given);
            }
            let Some(source) = event.source else {
                written = self.after(event, written);
                continue;
            };
            let lacks = written & bit_of_register(event.register) == 0;
            if std::mem::replace(&mut self.lacking[at], lacks) != lacks {
                let effect = event.effect as usize;
                self.missing[effect] ^= bit_of(source);
                if self.void[effect] != self.is_void(effect) {
                    turned.push(event.effect);
                }
            }
        }
        turned
    }

    /// The registers of a group that are written from the start.
    fn given(&self, group: usize) -> u64 {
        let own = self.graph.given.iter();
        let own = own.filter(|register| **register / GROUP == group as u32);
        own.fold(0, |bits, register| bits | bit_of_register(*register))
    }

    /// For each block, what it leaves of what was written before, and what it writes.
    fn changes(&self, events: std::ops::Range<usize>) -> Vec<(u64, u64)> {
        let mut changes = vec![(u64::MAX, 0); self.out.len()];
        for event in self.events[events]
            .iter()
            .filter(|event| event.source.is_none())
        {
            let block = self.graph.nodes[event.node as usize].block;
            let (kept, written) = &mut changes[block as usize];
            let bit = bit_of_register(event.register);
            *written = self.after(*event, *written);
            // What is taken from nothing is open, whatever was there before.
            if *written & bit == 0 && self.after(*event, bit) == 0 {
                *kept &= !bit;
            }
        }
        changes
    }

    /// What is written after a write.
    fn after(&self, event: Event, written: u64) -> u64 {
        let bit = bit_of_register(event.register);
        let guarded = self.graph.nodes[event.node as usize].guarded;
        let void = self.void[event.effect as usize];
        match (self.want, guarded, void) {
            (_, false, false) | (Written::OnSomeWay, true, false) => written | bit,
            (_, false, true) | (Written::OnEveryWay, true, true) => written & !bit,
            (Written::OnSomeWay, true, true) | (Written::OnEveryWay, true, false) => written,
        }
    }

    /// Fills in `out`.
    fn flow(&mut self, given: u64, changes: &[(u64, u64)]) {
        let start = match self.want {
            Written::OnSomeWay => 0,
            Written::OnEveryWay => u64::MAX,
        };
        self.out.fill(start);
        loop {
            let mut changed = false;
            for at in 0..self.order.len() {
                let block = self.order[at];
                let (kept, written) = changes[block as usize];
                let out = self.enter(block, given) & kept | written;
                changed |= std::mem::replace(&mut self.out[block as usize], out) != out;
            }
            if !changed {
                return;
            }
        }
    }

    /// What is written at the start of a block.
    fn enter(&self, block: u32, given: u64) -> u64 {
        let before = self.predecessors[block as usize].iter();
        let before = before.map(|block| self.out[*block as usize]);
        let before = before.chain((block == 0).then_some(given));
        match self.want {
            Written::OnSomeWay => before.fold(0, |all, one| all | one),
            Written::OnEveryWay => before.fold(u64::MAX, |all, one| all & one),
        }
    }

    /// Whether an effect with its missing sources leaves its target unwritten.
    fn is_void(&self, effect: usize) -> bool {
        let missing = self.missing[effect];
        match &self.graph.effects[effect] {
            Effect::Take { from, needs, .. } => match needs {
                Needs::One => missing.count_ones() as usize == from.len(),
                Needs::All => missing != 0,
            },
            Effect::Select { .. } if self.want == Written::OnSomeWay => {
                const PREDICATE: u32 = 1;
                missing & PREDICATE != 0 || (missing & !PREDICATE).count_ones() == 2
            }
            Effect::Select { .. } => missing != 0,
            Effect::Read(_) | Effect::Store(_) | Effect::ReadIf { .. } | Effect::Write(_) => false,
        }
    }
}

fn bit_of_register(register: Register) -> u64 {
    1 << (register % GROUP)
}

/// Sources beyond the bits share the last.
fn bit_of(source: u8) -> u32 {
    1 << u32::from(source).min(u32::BITS - 1)
}

/// Every register of every effect, by group.
fn events(graph: &Graph<'_>) -> (Vec<Event>, Vec<usize>) {
    let mut all = Vec::new();
    let mut effects = 0;
    for (node, end) in (0..).zip(graph.nodes.iter().map(|node| node.effects_end)) {
        let own = effects..end;
        let mut add = |effect, register, source| {
            all.push(Event {
                node,
                effect,
                register,
                source,
            });
        };
        for effect in own.clone() {
            let mut source = 0;
            graph.effects[effect as usize].for_sources(|register| {
                add(effect, register, Some(source));
                source += 1;
            });
        }
        for effect in own {
            if let Some(target) = graph.effects[effect as usize].target() {
                add(effect, target, None);
            }
        }
        effects = end;
    }
    all.sort_by_key(|event| event.register / GROUP);
    let groups = (graph.names.len() as u32).div_ceil(GROUP);
    let mut starts: Vec<usize> = (0..groups)
        .map(|group| all.partition_point(|event| event.register / GROUP < group))
        .collect();
    starts.push(all.len());
    (all, starts)
}

/// The blocks that can be reached from the first, in reverse postorder; and which they are.
fn order(graph: &Graph<'_>) -> (Vec<u32>, Vec<bool>) {
    let mut reachable = vec![false; graph.successors.len()];
    let mut order = Vec::new();
    reachable[0] = true;
    let mut open = vec![(0_u32, 0_usize)];
    while let Some((block, next)) = open.last_mut() {
        match graph.successors[*block as usize].get(*next) {
            Some(successor) => {
                *next += 1;
                if !std::mem::replace(&mut reachable[*successor as usize], true) {
                    open.push((*successor, 0));
                }
            }
            None => {
                order.push(*block);
                open.pop();
            }
        }
    }
    order.reverse();
    (order, reachable)
}
