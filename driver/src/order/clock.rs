//! Vector clocks.

/// For each agent, the number of its pieces of work that are known to be done.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock(Vec<u64>);

impl Clock {
    pub(super) fn get(&self, agent: usize) -> u64 {
        self.0.get(agent).copied().unwrap_or(0)
    }

    /// Learns what another knows.
    pub(super) fn join(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (own, new) in self.0.iter_mut().zip(&other.0) {
            *own = (*own).max(*new);
        }
    }

    /// Counts a piece of work of an agent, and gives its number.
    pub(super) fn advance(&mut self, agent: usize) -> u64 {
        if self.0.len() <= agent {
            self.0.resize(agent + 1, 0);
        }
        self.0[agent] += 1;
        self.0[agent]
    }
}
