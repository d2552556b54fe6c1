//! The report of a deadlock, and the notes that say where each warp of a cluster is.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::block::BlockRun;
use super::cluster::ClusterRun;
use super::fault::Fault;
use crate::report::FaultKind;

impl ClusterRun<'_> {
    /// The report of a deadlock: no warp can go on.
    pub(super) fn deadlock(&self) -> Box<Fault> {
        for run in &self.blocks {
            if let Some(mut fault) = run.cannot_converge() {
                fault.rank = run.block.rank;
                return fault;
            }
        }
        if let Some(fault) = self.blocks.iter().find_map(BlockRun::registers_exhausted) {
            return self.with_waiting(fault);
        }
        if let Some(fault) = self.blocks.iter().find_map(BlockRun::abandoned_wgmma) {
            return fault;
        }
        let found = |find: fn(&BlockRun<'_>) -> Option<(u32, u32)>| {
            let place = |run: &BlockRun<'_>| {
                let (warp, pc) = find(run)?;
                Some((run.block.rank, warp, pc))
            };
            self.blocks.iter().find_map(place)
        };
        let spinning = found(|run| run.first_spinning());
        let waiting = found(|run| run.first_waiting());
        let message = if self.blocks.iter().any(BlockRun::waits_for_asynchrony) {
            "every thread that has not exited waits for what cannot come"
        } else if spinning.is_some() && waiting.is_some() {
            "some threads spin on memory that no thread will write, and the others wait for them"
        } else if waiting.is_some() {
            "every thread that has not exited waits at a barrier"
        } else {
            "every thread that has not exited spins on memory that no thread will write"
        };
        let mut fault = Fault::new(FaultKind::Deadlock, None, message.to_owned());
        let first = spinning
            .or(waiting)
            .or_else(|| found(|run| run.first_live()));
        if let Some((rank, warp, pc)) = first {
            (fault.rank, fault.warp, fault.pc) = (rank, warp, pc);
        }
        self.with_waiting(fault)
    }

    /// Adds notes that say who waits where, and why.
    fn with_waiting(&self, fault: Box<Fault>) -> Box<Fault> {
        let fault = self.with_places(fault, ", spinning");
        let reasons = self.blocks.iter().map(BlockRun::advice);
        self.with_notes(fault, reasons)
    }

    /// Adds notes that say where each warp is. `ready` describes those that can go on.
    pub(super) fn with_places(&self, fault: Box<Fault>, ready: &str) -> Box<Fault> {
        let places = self.blocks.iter().map(|run| run.who_waits(ready));
        self.with_notes(fault, places)
    }

    /// Adds the notes of each block.
    fn with_notes(
        &self,
        mut fault: Box<Fault>,
        notes: impl Iterator<Item = Vec<String>>,
    ) -> Box<Fault> {
        for (run, notes) in self.blocks.iter().zip(notes) {
            let block = match self.blocks.len() {
                1 => String::new(),
                _ => format!("block {}, ", crate::report::Triple(run.block.index)),
            };
            for note in notes {
                fault = fault.note(format!("{block}{note}"));
            }
        }
        fault
    }

    /// A hash of all that its warps do next depends on, apart from memory that other threads see.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for warp in self.blocks.iter().flat_map(|run| &run.warps) {
            for path in &warp.paths.list {
                (path.pc, path.mask, path.state, path.expired).hash(&mut hasher);
            }
            (&warp.regs, &warp.local, &warp.stack).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// The fault of a cluster that only polls for what no other cluster will write.
    pub(crate) fn waits_for_ever(&self) -> Box<Fault> {
        self.deadlock()
    }
}
