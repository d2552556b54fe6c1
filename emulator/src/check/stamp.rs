//! What an agent knows to have happened.

use super::knowledge::Knowledge;

/// A vector clock over the agents of a cluster: for each, how far its accesses have happened, and
/// how far they have passed a proxy fence. Empty, and free, when races are not looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(super) generic: Vec<u32>,
    pub(super) fenced: Vec<u32>,
    /// What is known of other clusters.
    pub(super) grid: Knowledge,
}

impl Stamp {
    /// Takes up what another knows.
    pub(crate) fn join(&mut self, other: &Self) {
        raise(&mut self.generic, &other.generic);
        raise(&mut self.fenced, &other.fenced);
        self.grid.join(&other.grid);
    }

    /// Knows nothing again.
    pub(crate) fn clear(&mut self) {
        self.generic.clear();
        self.fenced.clear();
        self.grid = Knowledge::default();
    }

    /// What is known of each agent has passed a proxy fence.
    pub(super) fn fence(&mut self, known: &[u32]) {
        raise(&mut self.fenced, known);
    }

    /// Knows of an agent's accesses up to an epoch.
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
