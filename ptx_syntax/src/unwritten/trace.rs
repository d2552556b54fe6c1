//! Where what an unwritten register holds comes from.

use std::collections::{HashMap, HashSet};

use super::effect::Register;
use super::graph::Graph;
use super::solve::Lacking;

/// Most origins that are followed to their end.
const ORIGINS: usize = 4;

/// The lacking sources of what is taken from registers, by what it is taken to.
pub(super) struct Trace(HashMap<Register, Vec<(Register, u32)>>);

impl Trace {
    pub(super) fn new(graph: &Graph<'_>, lacking: &Lacking) -> Self {
        let mut sources: HashMap<Register, Vec<(Register, u32)>> = HashMap::new();
        for (node, effect, register) in lacking.reads() {
            if let Some(target) = graph.effects[effect as usize].target() {
                sources.entry(target).or_default().push((register, node));
            }
        }
        Self(sources)
    }

    /// The registers that the content of `register`, which `node` reads, comes from, and the
    /// instructions that read them.
    pub(super) fn roots(&self, node: u32, register: Register) -> Vec<(Register, u32)> {
        let mut roots = Vec::new();
        let mut seen = HashSet::from([register]);
        let mut open = vec![(register, node)];
        while let Some((register, node)) = open.pop() {
            match self.0.get(&register) {
                Some(sources) => {
                    let before = open.len();
                    open.extend(sources.iter().filter(|(source, _)| seen.insert(*source)));
                    // Of registers that are taken from each other alone, round a loop, the last.
                    if open.len() == before && open.is_empty() && roots.is_empty() {
                        roots.extend(sources.first());
                    }
                }
                None => roots.push((register, node)),
            }
            if roots.len() == ORIGINS {
                break;
            }
        }
        roots
    }
}
