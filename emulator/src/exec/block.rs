//! One thread block: its warps and its barriers.

use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::barrier::BarrierState;
use super::cluster::{Cluster, waits};
use super::fault::{Checked, Fault};
use super::path::{Path, State};
use super::register_pool::RegisterPool;
use super::row::{LANES, Row};
use super::tensor::Warpgroup;
use super::warp::{Stop, Warp};
use crate::check::GridOrder;
use crate::config::{Checks, Ignored, LaunchConfig};
use crate::explore::Explorer;
use crate::fifo::Fifo;
use crate::footprint::Recorder;
use crate::image::ObjectSnapshot;
use crate::memory::global::{GlobalMemory, Snapshot};
use crate::memory::host::Starved;
use crate::profile::{Collector, Tally};
use crate::program::{Op, Program};
use crate::trace::Log;

/// Barriers of a block (ids 0 to 15).
pub(crate) const BARRIERS: usize = 16;
/// Number of recently used allocations that a block remembers.
pub(crate) const RECENT: usize = 4;

/// What all blocks of a launch share.
#[derive(Debug)]
pub(crate) struct Launch {
    pub(crate) kernel: String,
    pub(crate) program: Arc<Program>,
    pub(crate) config: LaunchConfig,
    /// Size of a cluster in blocks: x, y, z; the grid is a multiple of it.
    pub(crate) cluster: [u32; 3],
    pub(crate) params: Vec<u8>,
    /// Address of the grid's workspace, if the kernel reads it.
    pub(crate) grid_workspace: Option<u64>,
    pub(crate) global: Arc<GlobalMemory>,
    /// The allocations that were live at the launch.
    pub(crate) memory: Snapshot,
    /// The textures and surfaces at the launch.
    pub(crate) objects: ObjectSnapshot,
    pub(crate) seed: u64,
    pub(crate) checks: Checks,
    /// See [`EmulatorConfig`](crate::EmulatorConfig).
    pub(crate) keep_going: bool,
    pub(crate) ignored: Vec<Ignored>,
    /// Accesses of all clusters to global memory, for finding races between clusters.
    pub(crate) between: Arc<Mutex<GridOrder>>,
    /// Most warp instructions that the warps of a cluster may run.
    pub(crate) budget: u64,
    /// How long the launch may take, and when that is over.
    pub(crate) limit: Option<(Duration, Instant)>,
    /// Set when the host has no memory for what the launch needs.
    pub(crate) starved: Arc<Starved>,
    /// Where counters are collected; `None` without a profile.
    pub(crate) profile: Option<Arc<Collector>>,
    /// Where timelines are collected; `None` without a trace.
    pub(crate) trace: Option<Arc<Log>>,
    /// Where accesses to global memory are recorded; `None` if they are not wanted.
    pub(crate) footprint: Option<Arc<Recorder>>,
    /// Chooses the order of warps and landings; `None` follows the seed.
    pub(crate) explorer: Option<Explorer>,
}

impl Launch {
    pub(super) fn threads(&self) -> u32 {
        self.config.block.iter().product()
    }

    /// Warps of a block.
    pub(crate) fn warps(&self) -> u32 {
        self.threads().div_ceil(LANES as u32)
    }

    /// Blocks of a cluster.
    pub(crate) fn cluster_blocks(&self) -> usize {
        self.cluster.iter().product::<u32>() as usize
    }

    /// Clusters of the grid.
    pub(crate) fn clusters(&self) -> u64 {
        let blocks: u64 = self.config.grid.iter().map(|e| u64::from(*e)).product();
        blocks / self.cluster_blocks() as u64
    }

    /// Grid index of block `rank` of cluster `linear`; clusters are numbered x fastest.
    pub(crate) fn block_index(&self, linear: u64, rank: u32) -> [u32; 3] {
        let [cx, cy, _] = self.cluster;
        let [gx, gy] = [0, 1].map(|axis| u64::from(self.config.grid[axis] / self.cluster[axis]));
        let first = [linear % gx, linear / gx % gy, linear / (gx * gy)];
        let within = [rank % cx, rank / cx % cy, rank / (cx * cy)];
        std::array::from_fn(|axis| first[axis] as u32 * self.cluster[axis] + within[axis])
    }
}

/// The state of one block, apart from its warps.
#[derive(Debug)]
pub(crate) struct Block<'a> {
    pub(crate) launch: &'a Launch,
    pub(crate) index: [u32; 3],
    pub(crate) linear: u64,
    /// Rank in the cluster.
    pub(crate) rank: u32,
    pub(crate) cluster: Rc<Cluster>,
    pub(crate) barriers: [BarrierState; BARRIERS],
    /// Whether barriers have to be looked at: lanes have exited or arrived since.
    pub(crate) exited: bool,
    /// Whether a barrier has let warps go on.
    pub(crate) released: bool,
    /// Indices in the snapshot of the allocations that were found last.
    pub(crate) recent: [usize; RECENT],
    /// Which of them is replaced next.
    pub(crate) turn: usize,
    pub(crate) registers: RegisterPool,
    /// For each warpgroup, the `wgmma` instructions that not all of its warps have run.
    pub(crate) warpgroups: Vec<Warpgroup>,
    /// What `vprintf` wrote.
    pub(crate) printed: Fifo,
    /// The profile's counters.
    pub(crate) counters: Tally,
}

/// A block with its warps; reused for one block after another.
#[derive(Debug)]
pub(crate) struct BlockRun<'a> {
    pub(crate) block: Block<'a>,
    pub(crate) warps: Vec<Warp>,
    pub(super) done: Vec<bool>,
}

impl<'a> BlockRun<'a> {
    pub(crate) fn new(launch: &'a Launch, cluster: &Rc<Cluster>, rank: u32) -> Self {
        let block = Block {
            launch,
            index: [0; 3],
            linear: 0,
            rank,
            cluster: cluster.clone(),
            barriers: Default::default(),
            exited: false,
            released: false,
            recent: [0; RECENT],
            turn: 0,
            registers: RegisterPool::default(),
            warpgroups: Vec::new(),
            printed: Fifo::default(),
            counters: cluster.counters.clone(),
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

    /// Starts the block with this rank in cluster `linear` of the grid.
    pub(crate) fn start(&mut self, linear: u64) {
        let index = self.block.launch.block_index(linear, self.block.rank);
        let [x, y, _] = self.block.launch.config.grid.map(u64::from);
        self.block.index = index;
        let [i, j, k] = index.map(u64::from);
        self.block.linear = i + x * (j + y * k);
        self.block.barriers = Default::default();
        self.block.exited = false;
        self.block.released = false;
        self.block.registers = RegisterPool::new(self.block.launch);
        self.block.printed = Fifo::default();
        self.block.warpgroups.clear();
        for warp in &mut self.warps {
            warp.start(&self.block);
        }
        self.done.clear();
        self.done.resize(self.warps.len(), false);
    }

    /// Whether every warp has exited.
    pub(crate) fn is_done(&self) -> bool {
        self.done.iter().all(|done| *done)
    }

    /// Runs warp `w` for at most `turns` instructions.
    pub(crate) fn turn(&mut self, w: usize, turns: u64) -> Checked<Stop> {
        let ran = self.warps[w].run(&mut self.block, turns);
        self.record_turn(w);
        let stop = ran?;
        if stop == Stop::Done {
            self.done[w] = true;
            if self.is_done() {
                self.check_exit(w)?;
                self.check_wgmma_exit()?;
                self.block.cluster.exited[self.block.rank as usize].set(true);
                self.block.cluster.event.set(true);
            }
        }
        self.complete_barriers();
        Ok(stop)
    }

    /// Makes blocked paths ready, so that they run their instruction again.
    pub(crate) fn wake(&mut self) {
        for path in self.paths_mut() {
            if path.state == State::Blocked {
                path.state = State::Ready;
            }
        }
    }

    /// Ends the waits that have a time limit; false if there are none.
    pub(crate) fn expire(&mut self) -> bool {
        let code = &self.block.launch.program.code;
        let mut any = false;
        for path in self.warps.iter_mut().flat_map(|warp| &mut warp.paths.list) {
            if path.state == State::Blocked && code[path.pc as usize].op.has_time_limit() {
                path.state = State::Ready;
                path.expired = true;
                any = true;
            }
        }
        any
    }

    fn paths_mut(&mut self) -> impl Iterator<Item = &mut Path> {
        self.warps.iter_mut().flat_map(|warp| &mut warp.paths.list)
    }

    /// The deadlock of lanes that wait for each other at different instructions, if there are any.
    pub(crate) fn cannot_converge(&self) -> Option<Box<Fault>> {
        // Lanes that spin may come, once what they wait for is there.
        let stuck = |warp: &&Warp| {
            let has = |state| warp.paths.list.iter().any(|path| path.state == state);
            has(State::Converging) && !has(State::Ready)
        };
        let warp = self.warps.iter().find(stuck)?;
        Some(warp.cannot_converge(&self.block))
    }

    /// Warp and position of the first waiting path.
    pub(crate) fn first_waiting(&self) -> Option<(u32, u32)> {
        let (warp, path) = self.waiting().find(|(_, path)| waits(path.state))?;
        Some((warp, self.waits_at(path)))
    }

    /// The same for the first path that spins.
    pub(crate) fn first_spinning(&self) -> Option<(u32, u32)> {
        let (warp, path) = self
            .waiting()
            .find(|(_, path)| path.state == State::Ready)?;
        Some((warp, self.waits_at(path)))
    }

    /// The same for the first path that has not exited.
    pub(crate) fn first_live(&self) -> Option<(u32, u32)> {
        let (warp, path) = self.waiting().next()?;
        Some((warp, self.waits_at(path)))
    }

    /// The instruction at which a path waits: the one at its position, or the one before it, if
    /// that was an mbarrier wait that has just returned false.
    fn waits_at(&self, path: &Path) -> u32 {
        let code = &self.block.launch.program.code;
        let asks = |pc: u32| match &code[pc as usize].op {
            Op::Asynchronous(op) => op.asks(),
            _ => false,
        };
        match path.pc.checked_sub(1) {
            Some(before) if path.state == State::Ready && !asks(path.pc) && asks(before) => before,
            _ => path.pc,
        }
    }

    /// Whether a path waits at an asynchronous instruction.
    pub(crate) fn waits_for_asynchrony(&self) -> bool {
        let code = &self.block.launch.program.code;
        self.waiting().any(|(_, path)| {
            let pc = self.waits_at(path) as usize;
            matches!(code[pc].op, Op::Asynchronous(_))
        })
    }

    fn waiting(&self) -> impl Iterator<Item = (u32, &Path)> {
        self.warps
            .iter()
            .flat_map(|warp| warp.paths.list.iter().map(|path| (warp.index, path)))
    }

    /// A line for all warps that wait alike: where they wait, and for what. `ready` describes those
    /// that can go on.
    pub(crate) fn who_waits(&self, ready: &str) -> Vec<String> {
        let code = &self.block.launch.program.code;
        let mut alike: Vec<(String, Vec<u32>)> = Vec::new();
        for (warp, path) in self.waiting() {
            let inst = &code[self.waits_at(path) as usize];
            let what = match &inst.op {
                Op::Barrier(barrier) => self.describe_wait(warp, barrier, path.mask),
                Op::Asynchronous(op) => self.describe_asynchronous(path, warp, op),
                _ if path.state == State::Ready => ready.to_owned(),
                _ => String::new(),
            };
            let place = format!("lanes 0x{:08x}: PTX line {}{what}", path.mask, inst.line);
            match alike.iter_mut().find(|(known, _)| *known == place) {
                Some((_, warps)) => warps.push(warp),
                None => alike.push((place, vec![warp])),
            }
        }
        let of_group = |(place, warps): &(String, Vec<u32>)| format!("{}, {place}", named(warps));
        let mut lines: Vec<String> = alike.iter().map(of_group).collect();
        let exited = self.done.iter().filter(|done| **done).count();
        if exited > 0 {
            lines.push(format!(
                "{exited} of {} warps have exited",
                self.warps.len()
            ));
        }
        lines
    }

    /// Why those who wait at an mbarrier wait for ever, most probably; each reason once.
    pub(crate) fn advice(&self) -> Vec<String> {
        let code = &self.block.launch.program.code;
        let mut reasons = Vec::new();
        for (warp, path) in self.waiting() {
            let Op::Asynchronous(op) = &code[self.waits_at(path) as usize].op else {
                continue;
            };
            let reason = self.advise(path, warp, op);
            reasons.extend(reason.filter(|reason| !reasons.contains(reason)));
        }
        reasons
    }

    /// Statistics of the block that has just ended.
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

/// The names of warps, which ascend: `warps 0-2, 5`.
fn named(warps: &[u32]) -> String {
    let runs = warps.chunk_by(|one, next| one + 1 == *next);
    let names: Vec<String> = runs
        .map(|run| match run {
            [first, .., last] => format!("{first}-{last}"),
            one => format!("{}", one[0]),
        })
        .collect();
    let plural = if warps.len() == 1 { "" } else { "s" };
    format!("warp{plural} {}", names.join(", "))
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
