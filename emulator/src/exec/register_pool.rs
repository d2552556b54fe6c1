//! `setmaxnreg`: the registers of a block, and how its warpgroups share them.

use super::block::{Block, BlockRun, Launch};
use super::fault::{Checked, Fault};
use super::path::State;
use super::row::LANES;
use super::warp::Warp;
use crate::program::{Asynchronous, Op};
use crate::report::FaultKind;

/// Warps of a warpgroup.
const GROUP: usize = 4;
/// Threads of a warpgroup.
const GROUP_THREADS: u32 = (GROUP * LANES) as u32;
/// Registers of an SM.
const FILE: u32 = 65_536;
/// Granularity in which registers per thread are allocated.
const UNIT: u32 = 8;

/// The registers of one block.
#[derive(Clone, Debug, Default)]
pub(crate) struct RegisterPool {
    /// Registers per thread, by warp.
    held: Vec<u32>,
    /// Registers that no warp holds.
    free: u32,
    /// All registers of the block.
    total: u32,
    /// Registers per thread at the start; `None` if nothing determines them.
    entry: Option<u32>,
    /// For each warp, the `setmaxnreg` instructions that it has run.
    history: Vec<Vec<Change>>,
}

/// A `setmaxnreg` that a warp has run.
#[derive(Clone, Copy, Debug)]
struct Change {
    /// Position of the instruction.
    pc: u32,
    count: u32,
    increase: bool,
}

impl RegisterPool {
    /// The pool of a block that starts.
    pub(super) fn new(launch: &Launch) -> Self {
        let threads: u32 = launch.config.block.iter().product();
        let warps = threads.div_ceil(LANES as u32);
        let entry = launch.entry_registers();
        let each = entry.unwrap_or(0);
        Self {
            held: vec![each; warps as usize],
            free: 0,
            total: each * warps * LANES as u32,
            entry,
            history: vec![Vec::new(); warps as usize],
        }
    }

    /// Records that a warp runs a `setmaxnreg`: all warps of a warpgroup must make the same changes.
    /// They may do so at several places of the text: Triton gives the warps of a partition copies.
    fn note(&mut self, warp: usize, change: Change) -> Checked<()> {
        let at = self.history[warp].len();
        self.history[warp].push(change);
        let first = warp / GROUP * GROUP;
        let end = (first + GROUP).min(self.history.len());
        let others = self.history[first..end].iter();
        let key = |change: &Change| (change.count, change.increase);
        let mut differing = others
            .filter_map(|own| own.get(at))
            .filter(|own| key(own) != key(&change));
        match differing.next() {
            None => Ok(()),
            Some(other) => {
                let message = format!(
                    "setmaxnreg to {} registers, where another warp of the warpgroup runs \
                     another one, to {}: all four warps must run the same",
                    change.count, other.count
                );
                Err(Fault::new(FaultKind::RegisterBudget, None, message))
            }
        }
    }

    /// The fault of a warpgroup in which only some warps have run a `setmaxnreg`.
    pub(super) fn left_out(&self) -> Option<Box<Fault>> {
        let groups = self.history.chunks(GROUP).enumerate();
        groups.into_iter().find_map(|(group, warps)| {
            let most = warps.iter().enumerate().max_by_key(|(_, own)| own.len())?;
            let (missing, _) = warps
                .iter()
                .enumerate()
                .find(|(_, own)| own.len() < most.1.len())?;
            let Change { pc, count, .. } = *most.1.last()?;
            let message = format!(
                "setmaxnreg to {count} registers was not run by warp {} of the warpgroup: all \
                 four warps must run it",
                group * GROUP + missing
            );
            let mut fault = Fault::new(FaultKind::RegisterBudget, None, message);
            (fault.pc, fault.warp) = (pc, (group * GROUP + most.0) as u32);
            Some(fault)
        })
    }

    /// What the warpgroups hold or request, and the total, as text.
    fn sum(&self, asks: impl Fn(usize) -> u32) -> String {
        let groups: Vec<u32> = (0..self.held.len()).step_by(GROUP).map(asks).collect();
        let list: Vec<String> = groups.iter().map(u32::to_string).collect();
        let sum: u32 = groups.iter().sum();
        format!(
            "{} registers × {GROUP_THREADS} threads = {}",
            list.join(" + "),
            sum * GROUP_THREADS
        )
    }

    /// What a warp waits for, as a report's text.
    pub(crate) fn describe(&self, count: u32) -> String {
        format!(
            ", for {count} registers a thread: {} of {} are free",
            self.free, self.total
        )
    }

    /// The fault of warpgroups that together request more than there is. `asks` has for each warp
    /// the count that it waits for, or `None`.
    pub(super) fn exhausted(&self, asks: &[Option<u32>]) -> Box<Fault> {
        let sum = self.sum(|warp| asks[warp].unwrap_or(self.held[warp]));
        let message = format!(
            "setmaxnreg.inc waits for registers that no warp releases: {sum}, and the block has {}",
            self.total
        );
        let entry = self.entry.unwrap_or(0);
        Fault::new(FaultKind::RegisterBudget, None, message).note(format!(
            "the block got {entry} registers × {} threads of the multiprocessor's {FILE} at its \
             start",
            self.held.len() * LANES
        ))
    }
}

impl Launch {
    /// Registers per thread at the start of a kernel with `setmaxnreg`, as ptxas assigns them:
    /// `.maxnreg`, or all that the launch bounds allow. `None` without either.
    fn entry_registers(&self) -> Option<u32> {
        let bounds = &self.program.bounds;
        if let Some(registers) = bounds.max_registers {
            return Some(registers.next_multiple_of(UNIT).min(256));
        }
        let threads = bounds
            .threads?
            .div_ceil(LANES as u32)
            .saturating_mul(LANES as u32);
        let share = FILE / threads.saturating_mul(bounds.blocks).max(1) / UNIT * UNIT;
        Some(share.min(256))
    }
}

impl Warp {
    /// Runs `setmaxnreg`. Returns true if the path waits or its lanes have been split.
    pub(super) fn set_registers(
        &mut self,
        block: &mut Block<'_>,
        count: u32,
        increase: bool,
        index: usize,
        active: u32,
    ) -> Checked<bool> {
        if active != self.paths.live() {
            self.uncount(active);
            self.part(index, active, State::Converging);
            return Ok(true);
        }
        let own = self.index as usize;
        let pool = &mut block.registers;
        let wrong = |message: String| Err(Fault::new(FaultKind::RegisterBudget, None, message));
        if pool.entry.is_none() {
            return wrong(
                "setmaxnreg in a kernel without .maxntid, .reqntid or .maxnreg: ptxas ignores it, \
                 because the registers at the start are not known"
                    .to_owned(),
            );
        }
        let held = pool.held[own];
        let change = Change {
            pc: self.paths.list[index].pc,
            count,
            increase,
        };
        if !increase {
            if count > held {
                return wrong(format!(
                    "setmaxnreg.dec to {count} registers, but each thread has {held}"
                ));
            }
            pool.note(own, change)?;
            pool.held[own] = count;
            pool.free += (held - count) * LANES as u32;
            block.cluster.effect();
            block.cluster.event.set(true);
            return Ok(false);
        }
        if count < held {
            return wrong(format!(
                "setmaxnreg.inc to {count} registers, but each thread has {held}"
            ));
        }
        let more = (count - held) * LANES as u32;
        if more > pool.free {
            self.block_on(index, active);
            return Ok(true);
        }
        pool.note(own, change)?;
        pool.free -= more;
        pool.held[own] = count;
        block.cluster.effect();
        Ok(false)
    }
}

impl BlockRun<'_> {
    /// The fault of warps that wait for registers that will not be freed, if there are any.
    pub(super) fn registers_exhausted(&self) -> Option<Box<Fault>> {
        let code = &self.block.launch.program.code;
        let mut asks = vec![None; self.warps.len()];
        let mut first = None;
        for (warp, ask) in self.warps.iter().zip(&mut asks) {
            let blocked = warp
                .paths
                .list
                .iter()
                .find(|path| path.state == State::Blocked);
            let Some(path) = blocked else { continue };
            if let Op::Asynchronous(op) = &code[path.pc as usize].op
                && let Asynchronous::SetRegisters { count, .. } = **op
            {
                *ask = Some(count);
                first = first.or(Some((warp.index, path.pc)));
            }
        }
        let (warp, pc) = first?;
        let mut fault = self.block.registers.exhausted(&asks);
        (fault.rank, fault.warp, fault.pc) = (self.block.rank, warp, pc);
        Some(fault)
    }
}
