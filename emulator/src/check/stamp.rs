//! What an agent knows to have happened.

use super::knowledge::Knowledge;

/// A vector clock over the agents of a cluster. For each agent, it has the epoch up to which its
/// accesses have happened, and the epoch up to which they have passed a proxy fence. These are empty,
/// without cost, if races are not checked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(super) generic: Vec<u32>,
    pub(super) fenced: Vec<u32>,
    /// What is known of other clusters.
    pub(super) grid: Knowledge,
    /// The clock of a [trace](crate::trace) at which it happened; 0 without one.
    pub(crate) steps: u64,
}

impl Stamp {
    /// Joins what another agent knows.
    pub(crate) fn join(&mut self, other: &Self) {
        raise(&mut self.generic, &other.generic);
        raise(&mut self.fenced, &other.fenced);
        self.grid.join(&other.grid);
        self.steps = self.steps.max(other.steps);
    }

    /// Joins what is known of the warps' own cluster and of others, as another cluster knows it.
    pub(super) fn join_outside(&mut self, known: &Knowledge, cluster: u32) {
        if let Some(own) = known.of_cluster(cluster) {
            raise(&mut self.generic, own);
        }
        self.grid.join(known);
    }

    /// The same, as it happens at a step of a trace.
    pub(crate) fn at(mut self, steps: u64) -> Self {
        self.steps = steps;
        self
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.generic.clear();
        self.fenced.clear();
        self.grid = Knowledge::default();
        self.steps = 0;
    }

    /// Everything in `known` has passed a proxy fence.
    pub(super) fn fence(&mut self, known: &[u32]) {
        raise(&mut self.fenced, known);
    }

    /// Records that an agent's accesses up to an epoch have happened.
    pub(super) fn learn(&mut self, agent: usize, epoch: u32) {
        if self.generic.len() <= agent {
            self.generic.resize(agent + 1, 0);
        }
        self.generic[agent] = self.generic[agent].max(epoch);
    }
}

fn raise(own: &mut Vec<u32>, other: &[u32]) {
    if own.len() < other.len() {
        own.resize(other.len(), 0);
    }
    for (own, other) in own.iter_mut().zip(other) {
        *own = (*own).max(*other);
    }
}
