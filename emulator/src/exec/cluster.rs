//! A cluster: its blocks run together on one host thread. Here is what they share, and the
//! scheduler.
//!
//! Without clusters, each block is a cluster of its own. The warps of all blocks take turns. A path
//! that waits for an event is blocked; after an event that others may wait for, all blocked paths
//! run their instruction again. If no warp can go on, asynchronous operations land; if there are
//! none, waits with a time limit expire. If that does not help either, it is a deadlock, and the
//! report says who waits where.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use super::block::{Block, BlockRun, Launch};
use super::cluster_barrier::ClusterBarrier;
use super::engine::Engine;
use super::fault::{Checked, Fault};
use super::findings::Findings;
use super::groups::AllGroups;
use super::mbarrier::Mbarriers;
use super::merge::Merger;
use super::open_store::LeftOpen;
use super::path::State;
use super::random::Random;
use super::row::LANES;
use super::warp::Stop;
use crate::check::Order;
use crate::config::{Checks, LaunchStats};
use crate::fifo::Fifo;
use crate::footprint;
use crate::memory::global::{GlobalMemory, Snapshot};
use crate::memory::shared::{SHARED_BASE, SharedMemory};
use crate::profile::Tally;
use crate::report::FaultKind;
use crate::trace::Recorder;

/// Instructions that a warp runs in one turn, under seed 0.
const TURNS: u64 = 64 << 10;
/// The most that it runs in one turn under any other seed.
const SHORT_TURNS: usize = 400;
/// A lagging warp gets one in this many of its turns.
const LAG: usize = 16;
/// After one in this many turns, waits with a time limit expire early.
const EARLY: usize = 32;
/// Most asynchronous operations in flight after a turn: they take host memory.
const IN_FLIGHT: usize = 1 << 16;
/// Bits of a shared address below those that name a block of the cluster.
pub(crate) const RANK_SHIFT: u32 = 24;
/// Rounds without an effect, in which waits only expired or warps only polled, before it counts as
/// a deadlock.
pub(super) const QUIET_ROUNDS: u32 = 256;

/// What the blocks of a cluster share.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// Shared memory, by rank.
    pub(crate) shared: Vec<SharedMemory>,
    /// By rank, whether all threads of the block have exited.
    pub(crate) exited: Vec<Cell<bool>>,
    pub(crate) engine: RefCell<Engine>,
    pub(crate) order: RefCell<Order>,
    pub(crate) findings: Rc<Findings>,
    pub(crate) mbarriers: RefCell<Mbarriers>,
    pub(crate) barrier: RefCell<ClusterBarrier>,
    pub(crate) groups: RefCell<AllGroups>,
    pub(crate) global: Arc<GlobalMemory>,
    /// The allocations that were live at the launch.
    pub(crate) memory: Snapshot,
    pub(crate) checks: Checks,
    /// Whether something has happened that blocked paths may wait for.
    pub(crate) event: Cell<bool>,
    /// Number of actions that another thread can see: stores, arrivals, operations issued.
    pub(crate) effects: Cell<u64>,
    pub(crate) left_open: RefCell<LeftOpen>,
    /// The profile's counters; the blocks have clones.
    pub(crate) counters: Tally,
    pub(crate) footprint: Option<Arc<footprint::Recorder>>,
    pub(crate) trace: Option<RefCell<Recorder>>,
}

impl Cluster {
    fn new(launch: &Launch) -> Self {
        let blocks = launch.cluster_blocks();
        let bytes = launch.program.shared_bytes + u64::from(launch.config.shared_bytes);
        let findings = Rc::new(Findings::new(launch));
        Self {
            shared: (0..blocks)
                .map(|_| SharedMemory::new(SHARED_BASE + bytes))
                .collect(),
            exited: vec![Cell::new(false); blocks],
            engine: RefCell::default(),
            order: RefCell::new(Order::new(launch, &findings)),
            findings,
            mbarriers: RefCell::default(),
            barrier: RefCell::default(),
            groups: RefCell::default(),
            global: launch.global.clone(),
            memory: launch.memory.clone(),
            checks: launch.checks,
            footprint: launch.footprint.clone(),
            event: Cell::new(false),
            effects: Cell::new(0),
            left_open: RefCell::default(),
            counters: Tally::new(launch.profile.as_ref()),
            trace: Recorder::new(launch).map(RefCell::new),
        }
    }

    /// Forgets the previous cluster and starts the next.
    fn start(&self, launch: &Launch, linear: u64) {
        self.shared.iter().for_each(SharedMemory::reset);
        self.exited.iter().for_each(|exited| exited.set(false));
        self.engine.replace(Engine::default());
        self.order.borrow_mut().start(linear);
        let blocks = self.shared.len();
        let threads = launch.threads();
        let warps = blocks * threads.div_ceil(LANES as u32) as usize;
        self.mbarriers.replace(Mbarriers::new(blocks));
        self.barrier.replace(ClusterBarrier::new(blocks, threads));
        self.groups.replace(AllGroups::new(warps));
        self.event.set(false);
        self.effects.set(0);
        self.left_open.take();
        if let Some(trace) = &self.trace {
            trace.borrow_mut().start(launch, linear);
        }
    }

    /// Records an action that another thread can see.
    #[inline(always)]
    pub(crate) fn effect(&self) {
        self.effects.set(self.effects.get() + 1);
    }

    /// Resolves a shared address that a block of rank `own` uses to a rank and an offset.
    ///
    /// # Errors
    /// The rank in the address, if the cluster has no such block.
    pub(crate) fn place(&self, own: u32, address: u64) -> Result<(u32, u64), u64> {
        let offset = address & ((1 << RANK_SHIFT) - 1);
        match address >> RANK_SHIFT {
            0 => Ok((own, offset)),
            named if named <= self.shared.len() as u64 => Ok((named as u32 - 1, offset)),
            named => Err(named - 1),
        }
    }
}

/// The outcome of one round of turns.
pub(super) struct Round {
    /// A warp has run, exited, or been let go on.
    pub(super) progress: bool,
    /// Every warp that ran only polled.
    pub(super) polling: bool,
}

impl Round {
    /// A round in which nothing has happened so far.
    pub(super) fn new() -> Self {
        Self {
            progress: false,
            polling: true,
        }
    }
}

/// A cluster with the warps of its blocks; reused for one cluster after another.
#[derive(Debug)]
pub(crate) struct ClusterRun<'a> {
    pub(crate) launch: &'a Launch,
    /// Index in the grid of the current cluster.
    pub(crate) linear: u64,
    pub(crate) blocks: Vec<BlockRun<'a>>,
    pub(super) cluster: Rc<Cluster>,
    random: Random,
    /// Block and warp, in the order of their turns.
    pub(super) turns: Vec<(usize, usize)>,
    /// The block, or the one warp of it, that lags behind the others.
    laggard: Option<(usize, Option<usize>)>,
    /// Warp instructions that its warps have run.
    ran: u64,
    /// The number of effects when the quiet rounds began, and the number of quiet rounds.
    quiet: (u64, u32),
}

impl<'a> ClusterRun<'a> {
    pub(crate) fn new(launch: &'a Launch) -> Self {
        let cluster = Rc::new(Cluster::new(launch));
        let blocks: Vec<_> = (0..launch.cluster_blocks() as u32)
            .map(|rank| BlockRun::new(launch, &cluster, rank))
            .collect();
        let turns = blocks
            .iter()
            .enumerate()
            .flat_map(|(b, block)| (0..block.warps.len()).map(move |w| (b, w)))
            .collect();
        Self {
            launch,
            linear: 0,
            blocks,
            cluster,
            random: Random::new(launch.seed, 0),
            turns,
            laggard: None,
            ran: 0,
            quiet: (0, 0),
        }
    }

    /// Starts cluster `linear` of the grid; clusters are numbered x fastest.
    pub(crate) fn start(&mut self, linear: u64) {
        self.linear = linear;
        self.cluster.start(self.launch, linear);
        for run in &mut self.blocks {
            run.start(linear);
        }
        self.random = Random::new(self.launch.seed, linear);
        self.laggard = self.choose_laggard();
        self.ran = 0;
        self.quiet = (0, 0);
    }

    /// Runs until the cluster has ended (true), or until every warp has had `rounds` turns or only
    /// waits for other clusters (false).
    pub(crate) fn run(&mut self, rounds: u64) -> Checked<bool> {
        self.run_rounds(rounds)
            .map_err(|fault| self.explained(fault))
    }

    /// Adds to a fault what else is known of it.
    pub(super) fn explained(&mut self, fault: Box<Fault>) -> Box<Fault> {
        let left_open = &self.cluster.left_open;
        let fault = left_open.borrow().explain(&self.launch.program.code, fault);
        match fault.kind {
            FaultKind::InstructionBudget | FaultKind::TimeLimit => {
                self.with_places(fault, ", running")
            }
            _ => self.with_aftermath(fault),
        }
    }

    fn run_rounds(&mut self, rounds: u64) -> Checked<bool> {
        for _ in 0..rounds {
            if self.launch.starved.get().is_some() {
                return Err(Fault::starved());
            }
            let round = self.round()?;
            if self.blocks.iter().all(BlockRun::is_done) {
                while self.land()? {}
                return Ok(true);
            }
            if round.progress && !round.polling {
                continue;
            }
            if self.land()? {
                continue;
            }
            if round.progress && rounds != u64::MAX {
                return Ok(false);
            }
            let expired = !round.progress && self.expire();
            if !round.progress && !expired {
                return Err(self.deadlock());
            }
            if self.is_quiet_for_good() {
                return Err(self.deadlock());
            }
        }
        Ok(false)
    }

    /// One turn for each warp.
    fn round(&mut self) -> Checked<Round> {
        let mut round = Round::new();
        if self.launch.seed != 0 {
            self.random.shuffle(&mut self.turns);
        }
        let mut behind = false;
        for i in 0..self.turns.len() {
            let (b, w) = self.turns[i];
            if self.lags(b, w) && self.random.below(LAG) != 0 {
                behind = true;
            } else {
                self.turn(b, w, &mut round)?;
            }
        }
        if behind && (!round.progress || round.polling) {
            for i in 0..self.turns.len() {
                let (b, w) = self.turns[i];
                if self.lags(b, w) {
                    self.turn(b, w, &mut round)?;
                }
            }
        }
        Ok(round)
    }

    /// Whether a warp of a block lags behind the others.
    fn lags(&self, b: usize, w: usize) -> bool {
        self.laggard
            .is_some_and(|(block, warp)| block == b && warp.is_none_or(|warp| warp == w))
    }

    /// Chooses what lags behind: nothing, one warp, or a whole block. Warps that keep pace hide
    /// bugs that show only when one of them is late.
    fn choose_laggard(&mut self) -> Option<(usize, Option<usize>)> {
        if self.launch.seed == 0 {
            return None;
        }
        let block = self.random.below(self.blocks.len());
        let warp = self.random.below(self.blocks[block].warps.len());
        match self.random.below(4) {
            0 | 1 => None,
            2 if self.blocks.len() > 1 => Some((block, None)),
            _ => Some((block, Some(warp))),
        }
    }

    /// The turn of one warp.
    pub(super) fn turn(&mut self, b: usize, w: usize, round: &mut Round) -> Checked<()> {
        if self.blocks[b].done[w] {
            return Ok(());
        }
        let turns = match self.launch.seed {
            0 => TURNS,
            _ => 1 + self.random.below(SHORT_TURNS) as u64,
        };
        let (stop, ran) = self.run_warp(b, w, turns)?;
        match stop {
            Stop::Done | Stop::Yielded => (round.progress, round.polling) = (true, false),
            Stop::Blocked => round.progress |= ran,
            Stop::Polling => round.progress = true,
        }
        while self.cluster.engine.borrow().len() > IN_FLIGHT {
            self.land()?;
        }
        if std::mem::take(&mut self.blocks[b].block.released) {
            (round.progress, round.polling) = (true, false);
        }
        if self.launch.seed != 0 {
            if self.random.below(4) == 0 {
                self.land()?;
            }
            // A wait with a time limit may expire at any time, whatever it waits for.
            if self.random.below(EARLY) == 0 {
                self.expire();
            }
        }
        if self.cluster.event.take() {
            self.blocks.iter_mut().for_each(BlockRun::wake);
            (round.progress, round.polling) = (true, false);
        }
        Ok(())
    }

    /// Runs a warp for at most `turns` instructions. Tells whether it has run any.
    pub(super) fn run_warp(&mut self, b: usize, w: usize, turns: u64) -> Checked<(Stop, bool)> {
        self.check_time(b, w)?;
        let run = &mut self.blocks[b];
        let before = run.warps[w].warp_instructions;
        run.warps[w].budget = before.saturating_add(self.launch.budget - self.ran);
        let stop = run
            .turn(w, turns)
            .map_err(|fault| fault.in_block(b as u32))?;
        let ran = run.warps[w].warp_instructions - before;
        self.ran += ran;
        Ok((stop, ran > 0))
    }

    /// Ends a launch that has taken too long, at a warp that could go on.
    fn check_time(&self, b: usize, w: usize) -> Checked<()> {
        let Some((timeout, end)) = self.launch.limit else {
            return Ok(());
        };
        if Instant::now() < end {
            return Ok(());
        }
        let seconds = timeout.as_secs_f64();
        let message =
            format!("the launch is not done after {seconds} s, the time that it may take");
        let warp = &self.blocks[b].warps[w];
        let pc = warp.paths.list.first().map_or(0, |path| path.pc);
        let fault = Fault::new(FaultKind::TimeLimit, None, message);
        Err(fault.in_warp(warp.index, pc).in_block(b as u32))
    }

    /// Lets one asynchronous operation land; false if none is in flight.
    pub(super) fn land(&mut self) -> Checked<bool> {
        let flying = self.cluster.engine.borrow().len();
        if flying == 0 {
            return Ok(false);
        }
        let index = match self.launch.seed {
            0 => 0,
            _ => self.random.below(flying),
        };
        self.land_at(index)?;
        Ok(true)
    }

    /// Lets the asynchronous operation at `index` land, or one that has to land before it.
    pub(super) fn land_at(&mut self, index: usize) -> Checked<()> {
        let operation = self.cluster.engine.borrow_mut().take(index);
        let copy = self.cluster.trace.as_ref().and(operation.copy());
        operation.land(&self.cluster)?;
        if let (Some(trace), Some(copy)) = (&self.cluster.trace, copy) {
            let order = self.cluster.order.borrow();
            trace.borrow_mut().landed(&order, copy);
        }
        self.cluster.effect();
        self.cluster.event.set(true);
        Ok(())
    }

    /// Lets waits with a time limit expire; false if there are none.
    pub(super) fn expire(&mut self) -> bool {
        let mut any = false;
        for run in &mut self.blocks {
            any |= run.expire();
        }
        any
    }

    /// Whether nothing has happened for so long that it counts as a deadlock.
    fn is_quiet_for_good(&mut self) -> bool {
        let effects = self.cluster.effects.get();
        if self.quiet.0 != effects {
            self.quiet = (effects, 0);
        }
        self.quiet.1 += 1;
        self.quiet.1 > QUIET_ROUNDS
    }

    /// Number of effects so far; tells whether a turn did anything.
    pub(crate) fn effects(&self) -> u64 {
        self.cluster.effects.get()
    }

    /// Statistics of the cluster that has just ended.
    pub(crate) fn stats(&self) -> LaunchStats {
        let mut stats = LaunchStats::default();
        for run in &self.blocks {
            stats.add(&run.stats());
        }
        stats
    }

    /// Tells `merger` that the cluster has ended, and whether it failed.
    pub(super) fn ended(
        &self,
        merger: Option<&Merger<'_>>,
        well: bool,
    ) -> Result<(), (u64, Box<Fault>)> {
        let Some(merger) = merger else {
            return Ok(());
        };
        let touched = well.then(|| self.cluster.order.borrow_mut().take_touched());
        if let Some(spare) = merger.ended(self.linear, touched, &self.cluster.findings)? {
            self.cluster.order.borrow_mut().reuse(spare);
        }
        Ok(())
    }

    /// Takes out what the blocks printed, in the order of blocks.
    pub(crate) fn printed(&mut self) -> Fifo {
        let mut printed = Fifo::default();
        for run in &mut self.blocks {
            printed.append(&mut run.block.printed);
        }
        printed
    }
}

impl Block<'_> {
    /// The block's own shared memory.
    #[inline(always)]
    pub(crate) fn shared(&self) -> &SharedMemory {
        &self.cluster.shared[self.rank as usize]
    }
}

/// Whether a path in this state waits, so that a deadlock's report lists it.
pub(crate) fn waits(state: State) -> bool {
    matches!(state, State::Waiting | State::Blocked)
}
