//! What reports say about an mbarrier: its state, and why a phase does not end.

use super::{Mbarrier, plural};

impl Mbarrier {
    /// Its state, as a report's text.
    pub(crate) fn describe(&self) -> String {
        format!(
            "phase {} (parity {}), {} of {} pending, tx-count {}",
            self.phase,
            self.phase & 1,
            self.pending,
            plural(self.expected, "arrival"),
            self.tx
        )
    }

    /// Why so many arrivals at once cannot be.
    #[cold]
    pub(super) fn too_many(&self, count: u32) -> String {
        let count = plural(count, "arrival");
        match (self.pending, self.tx) {
            (0, tx) if tx > 0 => format!(
                "{count} where all {} have come and the phase waits for {tx} bytes alone: more \
                 threads arrive than mbarrier.init counts",
                self.expected
            ),
            (pending, _) => format!("{count} where the phase waits for {pending}"),
        }
    }

    /// Whether the current phase waits for no bytes, so that it may end before a copy that is in
    /// flight.
    pub(crate) fn expects_nothing(&self) -> bool {
        self.tx <= 0
    }

    /// The most probable reason why warp `agent` of the cluster waits for the current phase for
    /// ever.
    pub(crate) fn advice(&self, agent: u32) -> String {
        let seen = self.seen.get(&agent).copied().unwrap_or(0);
        if self.phase >= seen + 2 {
            return self.ran_ahead(seen);
        }
        match (self.pending, self.tx) {
            (0, tx) if tx > 0 => format!(
                "all arrivals have come, but {tx} of the bytes that expect_tx announced have not: \
                 a copy was not issued, is smaller, or signals another mbarrier"
            ),
            (_, tx) if tx < 0 => format!(
                "{} bytes came in this phase and {} of them were not announced: expect_tx is \
                 missing, or announces too few",
                self.came, -tx
            ),
            (pending, tx) if tx > 0 => format!(
                "{} and {tx} of the bytes that expect_tx announced are missing",
                plural(pending, "arrival")
            ),
            (pending, _) if pending < self.expected => format!(
                "{} of {} came, and no thread is left that could bring the rest: mbarrier.init has \
                 a greater count than arrivals come, or a thread has exited or waits elsewhere \
                 before it arrives",
                self.expected - pending,
                plural(self.expected, "arrival")
            ),
            _ if self.came > 0 => format!(
                "{} bytes came, as announced, but no arrival: expect_tx alone brings none, \
                 mbarrier.arrive.expect_tx does",
                self.came
            ),
            _ => self.nobody_arrived(seen),
        }
    }

    /// More than one phase has ended since a warp waited last.
    fn ran_ahead(&self, seen: u64) -> String {
        format!(
            "phases {seen} to {} ended before the warp waited for them: more arrivals come than the \
             {} that mbarrier.init counts, or the warp has left out a wait",
            self.phase - 1,
            self.expected
        )
    }

    /// Nothing has happened in this phase.
    fn nobody_arrived(&self, seen: u64) -> String {
        let (phase, other) = (self.phase, 1 - (self.phase & 1));
        if phase == 0 {
            "nobody has arrived yet: the arrival is missing or behind this wait; a wait that is to \
             pass before the first phase has ended, as a producer's for a slot that is empty from \
             the start, takes parity 1"
                .to_owned()
        } else if seen < phase {
            format!(
                "nobody has arrived in phase {phase}; the warp has not waited for phase {seen}, \
                 which has ended: for that one, the parity is {other}"
            )
        } else {
            format!(
                "nobody has arrived in phase {phase}, and the warp has waited for the one before: \
                 it waits once too often or with the wrong parity, or an arrival is missing"
            )
        }
    }
}
