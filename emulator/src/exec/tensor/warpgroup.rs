//! Four warps that run `wgmma` together.
//!
//! Each warp computes its 16 rows when it comes to the instruction; what the four must agree on is
//! remembered until the last of them was there.

use std::collections::VecDeque;

use crate::exec::block::{Block, BlockRun};
use crate::exec::fault::{Checked, Fault};
use crate::exec::row::LANES;
use crate::exec::warp::Warp;
use crate::report::FaultKind;

/// Warps of a warpgroup.
pub(super) const WARPS: u32 = 4;

/// What a warp ran, as far as the others must run the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(super) pc: u32,
    /// Descriptors of A (0 if in registers) and B.
    pub(super) descriptors: (u64, u64),
}

/// The steps of a warpgroup that not all of its warps have run.
#[derive(Debug, Default)]
pub(crate) struct Warpgroup {
    /// Steps that all have run.
    past: u64,
    steps: VecDeque<Step>,
    /// Steps that each warp has run.
    counts: [u64; WARPS as usize],
}

impl Warpgroup {
    /// Notes a step of a warp; the other step that some warp has run in its place, if it differs.
    fn note(&mut self, warp: usize, step: Step) -> Option<Step> {
        let place = (self.counts[warp] - self.past) as usize;
        self.counts[warp] += 1;
        match self.steps.get(place) {
            None => self.steps.push_back(step),
            Some(other) if *other != step => return Some(*other),
            Some(_) => {}
        }
        let all = self.counts.iter().min().copied().unwrap_or_default();
        while self.past < all {
            self.steps.pop_front();
            self.past += 1;
        }
        None
    }
}

impl BlockRun<'_> {
    /// Refuses the exit of a block that leaves `wgmma` behind.
    pub(crate) fn check_wgmma_exit(&self) -> Checked<()> {
        if let Some(fault) = self.block.unfinished_wgmma() {
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
    /// The fault of a `wgmma` that not every warp of its warpgroup ran, once the block is over.
    fn unfinished_wgmma(&self) -> Option<Box<Fault>> {
        let (index, group) = self
            .warpgroups
            .iter()
            .enumerate()
            .find(|(_, group)| !group.steps.is_empty())?;
        let step = group.steps.front()?;
        let first = index as u32 * WARPS;
        let missing: Vec<String> = (0..WARPS)
            .filter(|warp| group.counts[*warp as usize] == group.past)
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
    /// Notes that this warp runs a step of its warpgroup.
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
