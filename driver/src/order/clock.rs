//! Vector clocks, and the time at which what they know is done.

use std::time::{Duration, Instant};

/// For each agent, the number of its pieces of work that are known to be done.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    done: Vec<u64>,
    /// When all of them are done.
    pub(super) time: Duration,
}

impl Clock {
    pub(super) fn get(&self, agent: usize) -> u64 {
        self.done.get(agent).copied().unwrap_or(0)
    }

    /// Learns what another knows.
    pub(super) fn join(&mut self, other: &Self) {
        if self.done.len() < other.done.len() {
            self.done.resize(other.done.len(), 0);
        }
        for (own, new) in self.done.iter_mut().zip(&other.done) {
            *own = (*own).max(*new);
        }
        self.time = self.time.max(other.time);
    }

    /// Counts a piece of work of an agent, and gives its number.
    pub(super) fn advance(&mut self, agent: usize) -> u64 {
        if self.done.len() <= agent {
            self.done.resize(agent + 1, 0);
        }
        self.done[agent] += 1;
        self.done[agent]
    }
}

/// The host's time as if work were done beside it: the host does all work at the call, and this
/// stands still until the host waits for the work.
#[derive(Debug)]
pub(super) struct Watch {
    start: Instant,
    /// What the work took that the host has not waited for.
    beside: Duration,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            start: Instant::now(),
            beside: Duration::ZERO,
        }
    }
}

impl Watch {
    pub(super) fn now(&self) -> Duration {
        self.start.elapsed().saturating_sub(self.beside)
    }

    /// The host has done work that took so long.
    pub(super) fn add(&mut self, taken: Duration) {
        self.beside += taken;
    }

    /// The host waits until a time.
    pub(super) fn wait_until(&mut self, time: Duration) {
        let waited = time.saturating_sub(self.now());
        self.beside = self.beside.saturating_sub(waited);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_the_host_does_takes_none_of_its_time_until_it_waits() {
        let mut watch = Watch::default();
        let long = Duration::from_secs(1000);
        watch.start -= long;
        watch.add(long);
        let before = watch.now();
        assert!(before < long / 2, "{before:?}");
        watch.wait_until(before + long / 2);
        let after = watch.now() - before;
        assert!(after >= long / 2 && after < long, "{after:?}");
        watch.wait_until(before);
        assert!(watch.now() >= before + long / 2);
    }
}
