//! Registers that are read before they are written: PTX leaves open what they hold.
//!
//! Compilers write such reads where they cannot matter. A value that only one branch sets and only
//! the same condition uses later is unwritten on the other way, and moves carry that along. Triton
//! pads vectors with registers that nothing writes, computes with them, and throws the result away.
//! So it matters where what came of an unwritten register is an address or a guard, or leaves the
//! thread. Stored values do not matter yet: rustc stores the payload of an enum beside a tag that
//! marks it as absent. Memory is unwritten there, until something is stored that is not. Before all
//! that, arithmetic makes of it what is unwritten too. A result of logic and packing is written if
//! one source is, and what `shfl` gives is: its use may be thrown away. An accumulator of `wgmma`
//! is read only where `scale-d` says so. Writes behind a guard are writes.

mod doubtful;
mod effect;
mod graph;
mod names;
mod solve;
mod trace;

pub use doubtful::{Doubt, Doubtful, Step, Watch, Watched, When};

use std::collections::BTreeMap;

use crate::ast::Function;
use effect::Effect;
use graph::Graph;
use solve::{Written, solve};
use trace::Trace;

/// A register that is read where no write reaches, whatever way is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeverWritten {
    /// Its name as written.
    pub register: String,
    /// Line of the read.
    pub line: u32,
    /// Line where what comes of it is used: that line, if it is used as it is.
    pub used: u32,
}

/// The registers of a function that are read where no write reaches, and whose content is used, in
/// the order of lines. Code that cannot be reached is left out. So are elements of a vector that is
/// stored with others that may be written: compilers write these, but no store of nothing at all.
pub fn never_written(function: &Function) -> Vec<NeverWritten> {
    let graph = Graph::of(function);
    let lacking = solve(&graph, Written::OnSomeWay);
    let trace = Trace::new(&graph, &lacking);
    let mut missing = vec![0; graph.effects.len()];
    for (_, effect, _) in lacking.reads() {
        missing[effect as usize] += 1;
    }
    let is_used = |effect: u32| match &graph.effects[effect as usize] {
        Effect::Read(_) => true,
        Effect::Store(elements) => elements.len() == missing[effect as usize],
        _ => false,
    };
    // By register, the first read and its use.
    let mut first = BTreeMap::new();
    for (node, effect, register) in lacking.reads() {
        if is_used(effect) {
            for (root, read) in trace.roots(node, register) {
                let places = first.entry(root).or_insert((read, node));
                *places = (*places).min((read, node));
            }
        }
    }
    let line = |node: u32| graph.nodes[node as usize].line;
    let found = first
        .into_iter()
        .map(|(register, (read, used))| NeverWritten {
            register: graph.names[register as usize].to_owned(),
            line: line(read),
            used: line(used),
        });
    let mut found: Vec<NeverWritten> = found.collect();
    found.sort_by_key(|found| found.line);
    found
}
