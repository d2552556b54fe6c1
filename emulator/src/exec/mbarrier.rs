//! The state of mbarriers: phase, pending arrivals, pending transaction bytes (tx-count).
//!
//! The state is kept beside shared memory, by block and offset, so that only `mbarrier`
//! instructions and completing copies change it. Other accesses to its eight bytes of shared memory
//! are refused.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use super::access_faults::touches_mbarrier;
use super::fault::{Checked, Fault};
use super::row::{Lanes, Row};
use crate::check::Stamp;
use crate::report::FaultKind;

/// Most arrivals of a phase, and largest magnitude of the tx-count.
pub(crate) const MOST: u32 = (1 << 20) - 1;
/// Bytes of an mbarrier.
pub(crate) const MBARRIER_BYTES: u64 = 8;
/// Bits of a state below the phase count; they hold the pending arrivals.
const PENDING_BITS: u32 = 20;

/// A place in shared memory: the rank of a block of the cluster, and the offset in its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) rank: u32,
    pub(crate) offset: u64,
}

/// A copy that has landed: who issued it, and where it wrote.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Landed {
    /// Rank of the block that issued it.
    pub(crate) rank: u32,
    /// Warp in that block.
    pub(crate) warp: u32,
    pub(crate) lane: u32,
    pub(crate) pc: u32,
    pub(crate) target: Place,
    pub(crate) bytes: u64,
}

/// One mbarrier.
#[derive(Clone, Debug)]
pub(crate) struct Mbarrier {
    /// Arrivals that each coming phase waits for.
    expected: u32,
    /// Arrivals that the current phase still waits for.
    pending: u32,
    /// Transaction bytes that the current phase still waits for; negative if bytes came before they
    /// were expected.
    tx: i64,
    /// Bytes that have arrived in the current phase.
    came: u64,
    /// Number of completed phases.
    phase: u64,
    /// For each warp of the cluster that has waited: the phases that had completed then.
    seen: BTreeMap<u32, u64>,
    /// The first copy for which no thread has waited, with the phase in which it landed.
    unseen: Option<(u64, Landed)>,
    /// The joined stamps of the arrivals in the current phase.
    arrived: Stamp,
    /// The joined stamps of the arrivals in the last completed phase.
    completed: Stamp,
}

impl Mbarrier {
    fn new(count: u32) -> Self {
        Self {
            expected: count,
            pending: count,
            tx: 0,
            came: 0,
            phase: 0,
            seen: BTreeMap::new(),
            unseen: None,
            arrived: Stamp::default(),
            completed: Stamp::default(),
        }
    }

    /// What `mbarrier.arrive` returns: the phase, and the pending arrivals.
    pub(crate) fn state(&self) -> u64 {
        self.phase << PENDING_BITS | u64::from(self.pending)
    }

    /// What waiting for the last completed phase acquires.
    pub(crate) fn knowledge(&self) -> &Stamp {
        &self.completed
    }

    /// Whether the phase of a state has completed.
    ///
    /// # Errors
    /// Why the state cannot be waited for.
    pub(crate) fn has_passed(&self, state: u64) -> Result<bool, String> {
        match self.phase.checked_sub(state >> PENDING_BITS) {
            Some(0) => Ok(false),
            Some(1) => Ok(true),
            Some(more) => Err(format!(
                "the state is of a phase that {more} others have followed; only the current and \
                 the one before can be waited for"
            )),
            None => Err("the state is not one that this mbarrier gave".to_owned()),
        }
    }

    /// Whether the phase with a parity has completed: true if the current phase has the other
    /// parity.
    pub(crate) fn has_parity_passed(&self, parity: u32) -> bool {
        self.phase & 1 != u64::from(parity & 1)
    }

    /// Notes that a warp (index in the cluster) has found a phase completed.
    pub(crate) fn note_seen(&mut self, agent: u32) {
        self.seen.insert(agent, self.phase);
        let current = self.phase;
        self.unseen.take_if(|(phase, _)| *phase < current);
    }

    /// Notes that a copy lands in the current phase, for which somebody has to wait.
    pub(crate) fn note_landed(&mut self, copy: Landed) {
        self.unseen.get_or_insert((self.phase, copy));
    }

    pub(crate) fn expect(&mut self, bytes: u32) -> Result<(), String> {
        self.tx = in_range(self.tx + i64::from(bytes), bytes, "expecting")?;
        Ok(())
    }

    /// Counts bytes that have arrived (complete-tx). Returns whether that completes the phase.
    pub(crate) fn complete(&mut self, bytes: u32, stamp: &Stamp) -> Result<bool, String> {
        self.tx = in_range(self.tx - i64::from(bytes), bytes, "completing")?;
        self.came += u64::from(bytes);
        self.arrived.join(stamp);
        Ok(self.end_phase())
    }

    /// Counts arrivals. Returns whether that completes the phase.
    pub(crate) fn arrive(
        &mut self,
        count: u32,
        leaves: bool,
        no_complete: bool,
        stamp: &Stamp,
    ) -> Result<bool, String> {
        if count == 0 || count > MOST {
            return Err(format!(
                "{count} arrivals at once: 1 to {MOST} are possible"
            ));
        }
        if count > self.pending {
            return Err(self.too_many(count));
        }
        if no_complete && count == self.pending {
            return Err(format!(
                "{} with .noComplete where the phase waits for no more: it would complete",
                plural(count, "arrival")
            ));
        }
        self.pending -= count;
        if leaves {
            self.expected = self.expected.saturating_sub(count);
        }
        self.arrived.join(stamp);
        Ok(self.end_phase())
    }

    /// Adds a pending arrival to the current phase: `cp.async.mbarrier.arrive` without `.noinc`.
    pub(crate) fn add_pending(&mut self) -> Result<(), String> {
        if self.pending == MOST {
            return Err(format!("more than {MOST} pending arrivals"));
        }
        self.pending += 1;
        Ok(())
    }

    fn end_phase(&mut self) -> bool {
        let ends = self.pending == 0 && self.tx == 0;
        if ends {
            self.phase += 1;
            self.came = 0;
            self.pending = self.expected;
            std::mem::swap(&mut self.completed, &mut self.arrived);
            self.arrived.clear();
        }
        ends
    }
}

fn in_range(tx: i64, bytes: u32, doing: &str) -> Result<i64, String> {
    if bytes > MOST || tx.abs() > i64::from(MOST) {
        return Err(format!(
            "{doing} {bytes} bytes makes {tx} pending: the limits are -{MOST} and {MOST}"
        ));
    }
    Ok(tx)
}

pub(super) fn plural(count: u32, noun: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{s}")
}

/// The fault of a misused mbarrier.
#[cold]
pub(crate) fn misuse(lane: Option<u32>, message: String) -> Box<Fault> {
    Fault::new(FaultKind::MbarrierMisuse, lane, message)
}

/// The mbarriers of a cluster.
#[derive(Debug, Default)]
pub(crate) struct Mbarriers {
    live: BTreeMap<Place, Mbarrier>,
    invalidated: BTreeSet<Place>,
    /// For each block, the range of offsets in which its mbarriers lie: first byte, and end.
    spans: Vec<Cell<(u64, u64)>>,
}

impl Mbarriers {
    pub(crate) fn new(blocks: usize) -> Self {
        Self {
            spans: vec![Cell::new((u64::MAX, 0)); blocks],
            ..Self::default()
        }
    }

    pub(crate) fn init(&mut self, at: Place, count: u32) -> Result<(), String> {
        if count == 0 || count > MOST {
            return Err(format!("a count of {count}: it must be 1 to {MOST}"));
        }
        if let Some(found) = self.live.get(&at) {
            return Err(format!(
                "it is one already: {}; mbarrier.inval must end it first",
                found.describe()
            ));
        }
        self.invalidated.remove(&at);
        self.live.insert(at, Mbarrier::new(count));
        let span = &self.spans[at.rank as usize];
        let (first, end) = span.get();
        span.set((first.min(at.offset), end.max(at.offset + MBARRIER_BYTES)));
        Ok(())
    }

    pub(crate) fn invalidate(&mut self, at: Place) -> Result<(), String> {
        self.get(at)?;
        self.live.remove(&at);
        self.invalidated.insert(at);
        Ok(())
    }

    /// The first copy into the memory of a block that has landed, and that nobody has waited for.
    pub(crate) fn unseen(&self, rank: u32) -> Option<(Place, Landed)> {
        let all = self.live.iter();
        let mut unseen = all.filter_map(|(at, found)| Some((*at, found.unseen?.1)));
        unseen.find(|(_, copy)| copy.target.rank == rank)
    }

    /// The mbarrier at a place.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn get(&mut self, at: Place) -> Result<&mut Mbarrier, String> {
        let invalidated = &self.invalidated;
        self.live.get_mut(&at).ok_or_else(|| {
            if invalidated.contains(&at) {
                "it was invalidated by mbarrier.inval".to_owned()
            } else {
                "it was not initialised by mbarrier.init".to_owned()
            }
        })
    }

    /// Refuses plain accesses to the bytes of an mbarrier.
    #[inline]
    pub(crate) fn guard(
        &self,
        rank: u32,
        offsets: &Row<u64>,
        mask: u32,
        bytes: usize,
        verb: &str,
    ) -> Checked<()> {
        let (first, end) = self.spans[rank as usize].get();
        if first >= end {
            return Ok(());
        }
        let near = |at: u64| at < end && at.saturating_add(bytes as u64) > first;
        if !offsets.0.iter().any(|at| near(*at)) {
            return Ok(());
        }
        for lane in Lanes(mask) {
            let offset = offsets.0[lane];
            if let Some(at) = self.within(rank, offset, bytes as u64) {
                let fault = touches_mbarrier(verb, bytes as u64, offset, at);
                return Err(fault.by(lane as u32));
            }
        }
        Ok(())
    }

    /// The offset of an mbarrier that overlaps a range of a block's memory.
    pub(crate) fn within(&self, rank: u32, offset: u64, bytes: u64) -> Option<u64> {
        let (first, end) = self.spans[rank as usize].get();
        if offset >= end || offset + bytes <= first {
            return None;
        }
        let at = |offset| Place { rank, offset };
        let from = at(offset.saturating_sub(MBARRIER_BYTES - 1));
        let found = self.live.range(from..at(offset + bytes)).next();
        found.map(|(at, _)| at.offset)
    }
}

mod advice;
#[cfg(test)]
mod tests;
