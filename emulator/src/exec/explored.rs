//! A launch whose order an [`Explorer`](crate::Explorer) chooses.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::block::{BlockRun, Launch};
use super::cluster::{ClusterRun, QUIET_ROUNDS};
use super::fault::{Checked, Fault};
use super::path::State;
use super::warp::Stop;
use crate::explore::{Explorer, Mode, Object, Process, Visit};

/// All clusters of a launch, at the same time.
pub(super) struct Explored<'a> {
    pub(super) runs: Vec<ClusterRun<'a>>,
    explorer: Explorer,
    /// Processes that have waited since they went on last.
    waited: HashSet<Process>,
    /// What each warp visited last, if it changed nothing.
    looked: HashMap<Process, Vec<Visit>>,
    /// Warps that look at the same again and again, until that changes.
    spinning: HashMap<Process, Vec<Visit>>,
}

impl<'a> Explored<'a> {
    pub(super) fn new(launch: &'a Launch, explorer: &Explorer) -> Self {
        let clusters = 0..launch.clusters();
        let start = |linear| {
            let mut run = ClusterRun::new(launch);
            run.start(linear);
            run
        };
        explorer.search().begin();
        Self {
            runs: clusters.map(start).collect(),
            explorer: explorer.clone(),
            waited: HashSet::new(),
            looked: HashMap::new(),
            spinning: HashMap::new(),
        }
    }

    /// Runs one order, or the part of it that is new.
    ///
    /// # Errors
    /// The cluster that failed, and its fault.
    pub(super) fn run(&mut self) -> Result<(), (usize, Box<Fault>)> {
        let mut quiet = 0;
        loop {
            let enabled = self.enabled();
            if enabled.is_empty() {
                let ended = |run: &ClusterRun<'_>| run.blocks.iter().all(BlockRun::is_done);
                let Some(first) = self.runs.iter().position(|run| !ended(run)) else {
                    return Ok(());
                };
                // Those that wait for a time, or look at the same again, go on.
                let runs = self.runs.iter_mut();
                let expired = runs.fold(false, |any, run| run.expire() | any);
                let spun = !self.spinning.is_empty();
                self.spinning.clear();
                self.looked.clear();
                quiet += 1;
                if !expired && !spun || quiet > QUIET_ROUNDS {
                    return Err((first, self.runs[first].waits_for_ever()));
                }
                continue;
            }
            let effects = self.effects();
            let mut chosen = self.explorer.search().choose(&enabled);
            while let Some(process) = chosen {
                let at = self.cluster_of(process);
                let ran = self.step(process);
                if ran.map_err(|fault| (at, self.runs[at].explained(fault)))? {
                    break;
                }
                chosen = self.explorer.search().refuse(process);
            }
            if chosen.is_none() && self.explorer.was_cut_off() {
                return Ok(());
            }
            if self.effects() != effects {
                quiet = 0;
            }
        }
    }

    fn effects(&self) -> u64 {
        self.runs.iter().map(ClusterRun::effects).sum()
    }

    fn cluster_of(&self, process: Process) -> usize {
        let (Process::Warp { cluster, .. } | Process::Landing { cluster, .. }) = process;
        cluster as usize
    }

    /// The processes that may go on.
    fn enabled(&self) -> Vec<Process> {
        let mut enabled = Vec::new();
        for run in &self.runs {
            let cluster = run.linear;
            for (rank, block) in run.blocks.iter().enumerate() {
                for warp in &block.warps {
                    let mut paths = warp.paths.list.iter();
                    let process = Process::Warp {
                        cluster,
                        rank: rank as u32,
                        warp: warp.index,
                    };
                    let is_ready = paths.any(|path| path.state == State::Ready);
                    if is_ready && !self.spinning.contains_key(&process) {
                        enabled.push(process);
                    }
                }
            }
            let landings = run.cluster.engine.borrow().ready().into_iter();
            enabled.extend(landings.map(|number| Process::Landing { cluster, number }));
        }
        enabled
    }

    /// Lets a process go on. Returns false if it waits.
    fn step(&mut self, process: Process) -> Checked<bool> {
        let at = self.cluster_of(process);
        let run = &mut self.runs[at];
        let effects = run.effects();
        let issued = run.cluster.engine.borrow().issued();
        let waiting = at_barriers(run);
        let mut stop = Stop::Yielded;
        let mut has_run = true;
        match process {
            Process::Landing { number, .. } => {
                let position = run.cluster.engine.borrow().position(number);
                if let Some(position) = position {
                    run.land_at(position)?;
                }
            }
            Process::Warp { rank, warp, .. } => {
                has_run = false;
                loop {
                    let ran;
                    (stop, ran) = run.run_warp(rank as usize, warp as usize, u64::MAX)?;
                    has_run |= ran;
                    let ended = matches!(stop, Stop::Done | Stop::Blocked);
                    if ended || run.cluster.order.borrow().has_visits() {
                        break;
                    }
                }
            }
        }
        let mut visits = run.cluster.order.borrow_mut().take_visits();
        for block in &mut run.blocks {
            block.block.released = false;
        }
        if run.cluster.event.take() {
            run.blocks.iter_mut().for_each(BlockRun::wake);
        }
        if stop == Stop::Blocked && !has_run && visits.is_empty() {
            self.waited.insert(process);
            return Ok(false);
        }
        let still = at_barriers(run);
        let mut woken: Vec<Process> = waiting.difference(&still).copied().collect();
        let passes = |(object, _): &Visit| matches!(object, Object::Barrier { of: Some(_), .. });
        if stop != Stop::Done && visits.iter().any(passes) && !still.contains(&process) {
            woken.push(process);
        }
        let cluster = run.linear;
        let numbers = issued..run.cluster.engine.borrow().issued();
        let issued = numbers.map(|number| Process::Landing { cluster, number });
        let issued: Vec<Process> = issued.collect();
        if run.effects() == effects {
            for (_, mode) in visits.iter_mut().filter(|(_, mode)| *mode == Mode::Write) {
                // A write of what was there, as by a failed attempt at a lock.
                *mode = Mode::Read;
            }
        }
        self.note_spin(process, &visits);
        let waited = match stop {
            Stop::Blocked => !self.waited.insert(process),
            _ => self.waited.remove(&process),
        };
        let mut search = self.explorer.search();
        search.ran(visits, waited, &woken, &issued);
        Ok(true)
    }

    /// Notes that a warp looks at what it has looked at before, or wakes those that look at what has
    /// changed.
    fn note_spin(&mut self, process: Process, visits: &[Visit]) {
        let is_read = |(_, mode): &Visit| *mode == Mode::Read;
        if visits.is_empty() {
            return;
        }
        if visits.iter().all(is_read) {
            let visits = visits.to_vec();
            if self.looked.insert(process, visits.clone()).as_ref() == Some(&visits) {
                self.spinning.insert(process, visits);
            }
            return;
        }
        self.looked.remove(&process);
        let changed = |seen: &[Visit]| {
            let mut written = visits.iter().filter(|visit| !is_read(visit));
            written.any(|(object, _)| seen.iter().any(|(other, _)| other == object))
        };
        self.spinning.retain(|_, seen| !changed(seen));
        self.looked.retain(|_, seen| !changed(seen));
    }
}

/// The warps that wait at barriers of their blocks.
fn at_barriers(run: &ClusterRun<'_>) -> BTreeSet<Process> {
    let mut waiting = BTreeSet::new();
    for block in &run.blocks {
        for warp in &block.warps {
            let mut paths = warp.paths.list.iter();
            if paths.any(|path| path.state == State::Waiting) {
                waiting.insert(Process::Warp {
                    cluster: run.linear,
                    rank: block.block.rank,
                    warp: warp.index,
                });
            }
        }
    }
    waiting
}
