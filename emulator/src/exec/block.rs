//! One block: its warps take turns until all have exited.

use std::sync::Arc;

use super::barrier::BarrierState;
use super::fault::{Checked, Fault};
use super::path::State;
use super::row::{LANES, Row};
use super::warp::{Stop, Warp};
use crate::config::LaunchConfig;
use crate::memory::global::{GlobalMemory, Snapshot};
use crate::memory::shared::{SHARED_BASE, SharedMemory};
use crate::program::{Op, Program};
use crate::report::FaultKind;

/// Barriers of a block.
pub(crate) const BARRIERS: usize = 16;
/// Instructions that a warp runs before the next one gets a turn.
const TURNS: u64 = 64 << 10;

/// Allocations that a block remembers.
pub(crate) const RECENT: usize = 4;

/// What all blocks of a launch share.
#[derive(Debug)]
pub(crate) struct Launch {
    pub(crate) kernel: String,
    pub(crate) program: Arc<Program>,
    pub(crate) config: LaunchConfig,
    pub(crate) params: Vec<u8>,
    pub(crate) global: Arc<GlobalMemory>,
    /// The allocations that were live at the launch.
    pub(crate) memory: Snapshot,
    pub(crate) seed: u64,
    /// Warp instructions that one warp may run.
    pub(crate) budget: u64,
}

impl Launch {
    fn threads(&self) -> u32 {
        self.config.block.iter().product()
    }
}

/// State of one block, apart from its warps.
#[derive(Debug)]
pub(crate) struct Block<'a> {
    pub(crate) launch: &'a Launch,
    pub(crate) index: [u32; 3],
    pub(crate) linear: u64,
    pub(crate) shared: SharedMemory,
    pub(crate) barriers: [BarrierState; BARRIERS],
    /// Lanes have exited since barriers were last looked at.
    pub(crate) exited: bool,
    /// A barrier let warps go on.
    pub(crate) released: bool,
    /// Places in the snapshot of the allocations that were last found.
    pub(crate) recent: [usize; RECENT],
    /// Which of them is replaced next.
    pub(crate) turn: usize,
    /// What `vprintf` wrote.
    pub(crate) printed: Vec<u8>,
}

/// A block with its warps; used again for one block after another.
#[derive(Debug)]
pub(crate) struct BlockRun<'a> {
    pub(crate) block: Block<'a>,
    pub(crate) warps: Vec<Warp>,
    done: Vec<bool>,
}

impl<'a> BlockRun<'a> {
    pub(crate) fn new(launch: &'a Launch) -> Self {
        let bytes = launch.program.shared_bytes + u64::from(launch.config.shared_bytes);
        let block = Block {
            launch,
            index: [0; 3],
            linear: 0,
            shared: SharedMemory::new(SHARED_BASE + bytes),
            barriers: Default::default(),
            exited: false,
            released: false,
            recent: [0; RECENT],
            turn: 0,
            printed: Vec::new(),
        };
        let threads = launch.threads();
        let warps = (0..threads.div_ceil(LANES as u32))
            .map(|i| new_warp(launch, i))
            .collect();
        Self {
            block,
            warps,
            done: Vec::new(),
        }
    }

    /// Begins block `linear` of the grid, x fastest.
    pub(crate) fn start(&mut self, linear: u64) {
        let [x, y, _] = self.block.launch.config.grid.map(u64::from);
        self.block.linear = linear;
        self.block.index = [
            (linear % x) as u32,
            (linear / x % y) as u32,
            (linear / (x * y)) as u32,
        ];
        self.block.shared.reset();
        self.block.barriers = Default::default();
        self.block.exited = false;
        self.block.printed.clear();
        for warp in &mut self.warps {
            warp.start(&self.block);
        }
        self.done = vec![false; self.warps.len()];
    }

    /// Runs until the block is over (true), or every warp has had `rounds` turns or waits for
    /// other blocks.
    pub(crate) fn run(&mut self, rounds: u64) -> Checked<bool> {
        let count = self.warps.len();
        // The seed decides which warp begins.
        let first =
            (self.block.launch.seed.wrapping_add(self.block.linear) % count as u64) as usize;
        let first = if self.block.launch.seed == 0 {
            0
        } else {
            first
        };
        for _ in 0..rounds {
            let (mut progress, mut polling) = (false, true);
            for i in 0..count {
                let w = (first + i) % count;
                if self.done[w] {
                    continue;
                }
                let before = self.warps[w].warp_instructions;
                match self.warps[w].run(&mut self.block, TURNS)? {
                    Stop::Done => {
                        self.done[w] = true;
                        (progress, polling) = (true, false);
                    }
                    Stop::Blocked => progress |= self.warps[w].warp_instructions != before,
                    Stop::Yielded => (progress, polling) = (true, false),
                    Stop::Polling => progress = true,
                }
                self.over_budget(w)?;
                self.complete_barriers();
            }
            if self.done.iter().all(|done| *done) {
                return Ok(true);
            }
            if !progress && !self.block.released {
                return Err(self.deadlock());
            }
            polling &= !std::mem::take(&mut self.block.released);
            if polling && rounds != u64::MAX {
                return Ok(false);
            }
        }
        Ok(false)
    }

    fn over_budget(&self, w: usize) -> Checked<()> {
        let warp = &self.warps[w];
        if warp.warp_instructions < warp.budget {
            return Ok(());
        }
        let message = format!("warp {w} ran {} instructions", warp.warp_instructions);
        let mut fault = Fault::new(FaultKind::InstructionBudget, None, message);
        fault.pc = warp.paths.list.first().map_or(0, |path| path.pc);
        fault.warp = w as u32;
        Err(fault)
    }

    /// No warp can go on: says who waits where.
    fn deadlock(&self) -> Box<Fault> {
        let code = &self.block.launch.program.code;
        for warp in &self.warps {
            if warp
                .paths
                .list
                .iter()
                .any(|path| path.state == State::Converging)
            {
                return warp.cannot_converge(&self.block);
            }
        }
        let mut waiting = Vec::new();
        for warp in &self.warps {
            for path in &warp.paths.list {
                waiting.push((warp.index, path.mask, path.pc));
            }
        }
        let (warp, _, pc) = waiting.first().copied().unwrap_or((0, 0, 0));
        let message = "every thread that has not exited waits at a barrier".to_owned();
        let mut fault = Fault::new(FaultKind::Deadlock, None, message);
        fault.pc = pc;
        fault.warp = warp;
        for (warp, mask, pc) in waiting {
            let inst = &code[pc as usize];
            let what = match &inst.op {
                Op::Barrier(barrier) => self.describe_wait(warp, barrier, mask),
                _ => String::new(),
            };
            fault = fault.note(format!(
                "warp {warp}, lanes 0x{mask:08x}: PTX line {}{what}",
                inst.line
            ));
        }
        let exited = self.done.iter().filter(|done| **done).count();
        if exited > 0 {
            fault = fault.note(format!(
                "{exited} of {} warps have exited",
                self.warps.len()
            ));
        }
        fault
    }

    /// Statistics of the block that just ran.
    pub(crate) fn stats(&self) -> crate::config::LaunchStats {
        let mut stats = crate::config::LaunchStats::default();
        for warp in &self.warps {
            stats.lane_instructions += warp.lane_instructions;
            stats.warp_instructions += warp.warp_instructions;
        }
        stats
    }

    /// Thread index of a lane.
    pub(crate) fn thread(&self, warp: u32, lane: u32) -> Option<[u32; 3]> {
        let warp = self.warps.get(warp as usize)?;
        (warp.lanes >> lane & 1 != 0).then(|| {
            let lane = lane as usize;
            [
                warp.tid[0].0[lane],
                warp.tid[1].0[lane],
                warp.tid[2].0[lane],
            ]
        })
    }
}

fn new_warp(launch: &Launch, index: u32) -> Warp {
    let [x, y, _] = launch.config.block;
    let threads = launch.threads();
    let mut warp = Warp {
        index,
        ..Warp::default()
    };
    let mut tid = [Row::default(); 3];
    for lane in 0..LANES as u32 {
        let thread = index * LANES as u32 + lane;
        if thread < threads {
            warp.lanes |= 1 << lane;
        }
        tid[0].0[lane as usize] = thread % x;
        tid[1].0[lane as usize] = thread / x % y;
        tid[2].0[lane as usize] = thread / (x * y);
    }
    warp.tid = tid;
    warp
}
