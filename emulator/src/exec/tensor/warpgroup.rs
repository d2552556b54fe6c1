//! A warpgroup: four warps that run `wgmma` instructions together.
//!
//! Each warp computes its 16 rows when it reaches the instruction. The values that all four must
//! share are kept until the last of them has run it. A `wgmma` is complete when it is complete in
//! all four warps, because a warp that has waited for it may tell others that its operands are
//! free.

use std::collections::VecDeque;

use super::mma::Operand;
use crate::check::Stamp;
use crate::exec::block::{Block, BlockRun};
use crate::exec::fault::{Checked, Fault};
use crate::exec::row::LANES;
use crate::exec::warp::Warp;
use crate::report::FaultKind;

/// Warps of a warpgroup.
pub(super) const WARPS: u32 = 4;

/// A `wgmma` that a warp has run, as far as the other warps must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(super) pc: u32,
    /// Descriptors of A (0 if A is in registers) and B.
    pub(super) descriptors: (u64, u64),
}

/// The `wgmma` steps that not all warps of a warpgroup have run.
#[derive(Debug, Default)]
pub(crate) struct Warpgroup {
    /// Number of steps that all warps have run.
    past: u64,
    steps: VecDeque<Step>,
    /// Number of steps that each warp has run.
    counts: [u64; WARPS as usize],
    /// Number of steps that each warp has waited for.
    waited: [u64; WARPS as usize],
    /// The stamp that waiting for each step acquires, from the first step that not all warps have
    /// waited for.
    ends: VecDeque<Stamp>,
    /// B of the steps that not all warps have run, from step `shared_from` on, and how many have.
    shared: VecDeque<(Operand, u32)>,
    shared_from: u64,
    /// Host memory of operands for later steps.
    spare: Vec<Operand>,
}

impl Warpgroup {
    /// Records a step of a warp. If another warp has run a different step in its place: that step.
    fn note(&mut self, warp: usize, step: Step) -> Option<Step> {
        let place = (self.counts[warp] - self.past) as usize;
        self.counts[warp] += 1;
        match self.steps.get(place) {
            None => self.steps.push_back(step),
            Some(other) if *other != step => return Some(*other),
            Some(_) => {}
        }
        let all = least(&self.counts);
        while self.past < all {
            self.steps.pop_front();
            self.past += 1;
        }
        None
    }

    /// B of a warp's latest step, and whether another warp has read it.
    pub(super) fn shared(&mut self, warp: usize) -> (Operand, bool) {
        let place = (self.counts[warp] - 1 - self.shared_from) as usize;
        match self.shared.get_mut(place) {
            Some((b, users)) if *users > 0 => (std::mem::take(b), true),
            _ => (self.spare.pop().unwrap_or_default(), false),
        }
    }

    /// Keeps B of a warp's latest step for the warps that have not run it.
    pub(super) fn share(&mut self, warp: usize, b: Operand) {
        let place = (self.counts[warp] - 1 - self.shared_from) as usize;
        if self.shared.len() <= place {
            self.shared.resize_with(place + 1, Default::default);
        }
        let (own, users) = &mut self.shared[place];
        (*own, *users) = (b, *users + 1);
        while self
            .shared
            .front()
            .is_some_and(|(_, users)| *users == WARPS)
        {
            self.spare.extend(self.shared.pop_front().map(|(b, _)| b));
            self.shared_from += 1;
        }
    }

    /// Adds to the stamp of a warp's latest step; returns the number of the step, from 1.
    pub(super) fn issued(&mut self, warp: usize, end: &Stamp) -> u64 {
        let place = (self.counts[warp] - 1 - least(&self.waited)) as usize;
        if self.ends.len() <= place {
            self.ends.resize_with(place + 1, Stamp::default);
        }
        self.ends[place].join(end);
        self.counts[warp]
    }

    /// A warp waits for all steps up to `step`. Returns the stamp that it acquires, or `None` while
    /// other warps have not run these steps.
    pub(super) fn wait(&mut self, warp: usize, step: u64) -> Option<Stamp> {
        if self.past < step {
            return None;
        }
        let first = least(&self.waited);
        let mut learned = Stamp::default();
        for place in self.waited[warp]..step {
            learned.join(&self.ends[(place - first) as usize]);
        }
        self.waited[warp] = step.max(self.waited[warp]);
        let over = least(&self.waited) - first;
        self.ends.drain(..over as usize);
        Some(learned)
    }
}

fn least(of_warps: &[u64; WARPS as usize]) -> u64 {
    of_warps.iter().min().copied().unwrap_or_default()
}

impl BlockRun<'_> {
    /// The fault of a `wgmma` that a warp of the warpgroup has exited without running.
    pub(crate) fn abandoned_wgmma(&self) -> Option<Box<Fault>> {
        self.block.unfinished_wgmma(&self.done)
    }

    /// Refuses the exit of a block with `wgmma` that are not complete or not waited for.
    pub(crate) fn check_wgmma_exit(&self) -> Checked<()> {
        if let Some(fault) = self.abandoned_wgmma() {
            return Err(fault);
        }
        for warp in &self.warps {
            let Some((pc, committed)) = warp.flight.left() else {
                continue;
            };
            let missing = if committed {
                "`wgmma.wait_group`"
            } else {
                "`wgmma.commit_group` and `wgmma.wait_group`"
            };
            let message = format!("the block exits without {missing} for this `wgmma.mma_async`");
            let mut fault = Fault::new(FaultKind::LeftInFlight, None, message);
            (fault.pc, fault.warp) = (pc, warp.index);
            (fault.rank, fault.placed) = (self.block.rank, true);
            return Err(fault);
        }
        Ok(())
    }
}

impl Block<'_> {
    /// The fault of a `wgmma` that a warp of the warpgroup has exited without running.
    fn unfinished_wgmma(&self, exited: &[bool]) -> Option<Box<Fault>> {
        let is_missing = |group: &Warpgroup, first: u32, warp: u32| {
            exited[(first + warp) as usize] && group.counts[warp as usize] == group.past
        };
        let groups = (0..).step_by(WARPS as usize).zip(&self.warpgroups);
        let (first, group) = groups.into_iter().find(|(first, group)| {
            let any_missing = (0..WARPS).any(|warp| is_missing(group, *first, warp));
            !group.steps.is_empty() && any_missing
        })?;
        let step = group.steps.front()?;
        let missing: Vec<String> = (0..WARPS)
            .filter(|warp| is_missing(group, first, *warp))
            .map(|warp| (first + warp).to_string())
            .collect();
        let message = format!(
            "`wgmma` takes all four warps of a warpgroup, but warp {} exited without it",
            missing.join(", ")
        );
        let mut fault = Fault::new(FaultKind::DivergentBarrier, None, message);
        fault.pc = step.pc;
        let ran = (0..WARPS).find(|warp| group.counts[*warp as usize] > group.past);
        fault.warp = first + ran.unwrap_or_default();
        (fault.rank, fault.placed) = (self.rank, true);
        Some(fault)
    }
}

impl Warp {
    /// Records that this warp runs a step of its warpgroup.
    pub(super) fn join_warpgroup(&self, block: &mut Block<'_>, step: Step) -> Checked<()> {
        let threads: u32 = block.launch.config.block.iter().product();
        let warps = threads.div_ceil(LANES as u32);
        let first = self.index / WARPS * WARPS;
        if first + WARPS > warps {
            let message = format!(
                "`wgmma` takes four warps, the first a multiple of four: warp {} needs warps \
                 {first} to {}, but the block has {warps}",
                self.index,
                first + WARPS - 1
            );
            return Err(Fault::new(FaultKind::BarrierMisuse, None, message));
        }
        let group = (self.index / WARPS) as usize;
        if block.warpgroups.len() <= group {
            block.warpgroups.resize_with(group + 1, Warpgroup::default);
        }
        let other = block.warpgroups[group].note((self.index % WARPS) as usize, step);
        block.cluster.event.set(true);
        let Some(other) = other else { return Ok(()) };
        let message = if other.pc == step.pc {
            format!(
                "the warps of a warpgroup give different descriptors: A 0x{:016x} and 0x{:016x}, B \
                 0x{:016x} and 0x{:016x}",
                step.descriptors.0, other.descriptors.0, step.descriptors.1, other.descriptors.1
            )
        } else {
            "the warps of a warpgroup run different `wgmma`".to_owned()
        };
        let line = block.launch.program.code[other.pc as usize].line;
        let fault = Fault::new(FaultKind::DivergentBarrier, None, message);
        Err(fault.note(format!(
            "another warp of warps {first} to {} ran PTX line {line}",
            first + 3
        )))
    }
}
