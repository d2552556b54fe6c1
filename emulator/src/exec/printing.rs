//! What clusters print that run in parallel, in the order of the clusters.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::fifo::{Fifo, PRINTF_FIFO_BYTES};

/// Bytes that clusters may print ahead of an earlier cluster that still runs; then the threads that
/// run them wait for it.
const AHEAD: usize = 4 * PRINTF_FIFO_BYTES;

/// Sorts the texts of clusters.
pub(super) struct Printing<'a> {
    state: Mutex<State<'a>>,
    moved: Condvar,
}

struct State<'a> {
    /// The text of all clusters before `next`.
    sorted: &'a mut Fifo,
    /// The first cluster that has not ended.
    next: u64,
    /// The texts of later clusters that have ended.
    ahead: BTreeMap<u64, Fifo>,
    /// Bytes of `ahead`.
    bytes: usize,
    /// The first cluster that has failed: what later ones print does not count.
    failed: u64,
}

impl<'a> Printing<'a> {
    pub(super) fn new(sorted: &'a mut Fifo) -> Self {
        let state = State {
            sorted,
            next: 0,
            ahead: BTreeMap::new(),
            bytes: 0,
            failed: u64::MAX,
        };
        Self {
            state: Mutex::new(state),
            moved: Condvar::new(),
        }
    }

    /// Begins a cluster. Clusters begin in order, each once.
    pub(super) fn turn(&self, cluster: u64) -> Turn<'_, 'a> {
        Turn {
            printing: self,
            cluster,
            printed: Fifo::default(),
            failed: u64::MAX,
        }
    }

    fn locked(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State<'_> {
    fn ended(&mut self, cluster: u64, printed: Fifo, failed: u64) {
        self.failed = self.failed.min(failed);
        self.bytes += printed.len();
        self.ahead.insert(cluster, printed);
        while self.next <= self.failed
            && let Some(mut printed) = self.ahead.remove(&self.next)
        {
            self.bytes -= printed.len();
            self.sorted.append(&mut printed);
            self.next += 1;
        }
        if self.next > self.failed {
            self.ahead.clear();
            self.bytes = 0;
        }
    }
}

/// A cluster that runs. It ends when this is dropped, even by a panic: others may wait for it.
pub(super) struct Turn<'p, 'a> {
    printing: &'p Printing<'a>,
    cluster: u64,
    pub(super) printed: Fifo,
    /// The first cluster known to have failed when this one ends: this one, or one from here on
    /// that was held against it. `u64::MAX` if there is none.
    pub(super) failed: u64,
}

impl Drop for Turn<'_, '_> {
    fn drop(&mut self) {
        let printed = std::mem::take(&mut self.printed);
        let mut state = self.printing.locked();
        state.ended(self.cluster, printed, self.failed);
        self.printing.moved.notify_all();
        // The first cluster that has not ended runs on a thread that does not wait here.
        let wait = |state: &mut State<'_>| state.bytes > AHEAD;
        let waited = self.printing.moved.wait_while(state, wait);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_in_the_order_of_clusters_up_to_the_first_that_fails() {
        let mut text = Fifo::default();
        let printing = Printing::new(&mut text);
        let turns: Vec<_> = (0..5).map(|cluster| printing.turn(cluster)).collect();
        for mut turn in turns.into_iter().rev() {
            let own = format!("{} ", turn.cluster);
            turn.printed.write(own.as_bytes());
            // Cluster 1 finds that cluster 2 has failed.
            turn.failed = [u64::MAX, 2, u64::MAX, u64::MAX, 4][turn.cluster as usize];
        }
        drop(printing);
        assert_eq!(text.into_text(), b"0 1 2 ");
    }

    #[test]
    fn threads_that_are_far_ahead_wait_for_the_first() {
        let mut text = Fifo::default();
        let printing = Printing::new(&mut text);
        let ended = std::sync::atomic::AtomicU64::new(0);
        let order = std::sync::atomic::Ordering::SeqCst;
        std::thread::scope(|scope| {
            let first = printing.turn(0);
            let ahead = scope.spawn(|| {
                for cluster in 1..64 {
                    let mut turn = printing.turn(cluster);
                    turn.printed.fill(b'x', PRINTF_FIFO_BYTES);
                    ended.fetch_add(1, order);
                }
            });
            while ended.load(order) < 5 {
                std::thread::yield_now();
            }
            assert!(printing.locked().bytes <= AHEAD + PRINTF_FIFO_BYTES);
            drop(first);
            assert!(ahead.join().is_ok());
        });
        drop(printing);
        assert_eq!(text.len(), PRINTF_FIFO_BYTES);
    }
}
