//! A launch: distributes its clusters over host threads.
//!
//! Without clusters, each block is a cluster of its own. Blocks that cannot see each other's work
//! run in parallel. The result could depend on the order of the blocks if the program has atomics
//! on global memory, volatile or stronger loads from it, or copies that reduce. Then one host
//! thread runs the blocks, in a fixed order. A block that does not end in its turn, because it
//! waits for another one, is set aside while later ones run. At most as many threads run as an H200
//! holds at a time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::block::Launch;
use super::cluster::ClusterRun;
use super::explored::Explored;
use super::fault::Fault;
use super::merge::Merger;
use super::printing::Printing;
use super::random::Random;
use crate::config::LaunchStats;
use crate::emulator::MULTIPROCESSORS;
use crate::fifo::Fifo;
use crate::program::{Inst, Scope};
use crate::report::{Place, Report};

/// Rounds of turns of a cluster's warps before the next cluster of an ordered launch begins.
const ROUNDS: u64 = 64;
/// Threads that an H200 holds at a time: its SMs of 2048.
const RESIDENT_THREADS: u64 = MULTIPROCESSORS as u64 * 2048;

/// Clusters of which any may begin next, under a seed.
const WINDOW: usize = 64;

/// Passes over all clusters without any effect before it counts as a deadlock.
const QUIET_PASSES: usize = 1024;
/// Passes in a row that leave all warps as they were before it is one.
const SAME_PASSES: usize = 3;
/// Most passes after which this is looked for.
const COMPARED_PASSES: usize = 32;

/// The findings after which a launch has gone on, each with its cluster.
#[derive(Default)]
struct Found(Mutex<Vec<(u64, Report)>>);

impl Found {
    /// Takes what the clusters of a host thread have found. Of each kind and line, the finding of
    /// the first cluster stays.
    fn take(&self, run: &ClusterRun<'_>, source: &crate::module::Source) {
        for fault in run.findings() {
            let cluster = fault.cluster.unwrap_or(run.linear);
            let new = report(run, fault, source);
            let mut found = locked(&self.0);
            let is_same = |(_, old): &&mut (u64, Report)| {
                (old.kind, old.place.ptx_line) == (new.kind, new.place.ptx_line)
            };
            match found.iter_mut().find(is_same) {
                Some(old) if old.0 <= cluster => {}
                Some(old) => *old = (cluster, new),
                None => found.push((cluster, new)),
            }
        }
    }

    /// What the launch has come to. If a cluster has failed, later ones do not matter.
    fn end(self, ran: Result<LaunchStats, (u64, Box<Report>)>) -> Result<LaunchStats, Box<Report>> {
        let mut found = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Err((failed, _)) = &ran {
            found.retain(|(cluster, _)| cluster <= failed);
        }
        found.sort_by_key(|(cluster, _)| *cluster);
        let mut earlier: Vec<Report> = found.into_iter().map(|(_, report)| report).collect();
        let mut last = match (ran, earlier.pop()) {
            (Ok(stats), None) => return Ok(stats),
            (Ok(_), Some(last)) => Box::new(last),
            (Err((_, last)), newest) => {
                earlier.extend(newest);
                last
            }
        };
        last.earlier = earlier;
        Err(last)
    }
}

/// Runs all clusters of a launch, and adds what they print to `printed`.
pub(crate) fn run(
    launch: &Launch,
    pool: Option<&rayon::ThreadPool>,
    printed: &mut Fifo,
    source: &crate::module::Source,
) -> Result<LaunchStats, Box<Report>> {
    let clusters = launch.clusters();
    let found = Found::default();
    let ran = match pool {
        _ if launch.explorer.is_some() => {
            explored(launch, printed, source, &found).map_err(|last| (u64::MAX, last))
        }
        Some(pool) if clusters > 1 && !launch.program.ordered => {
            parallel(launch, clusters, pool, printed, source, &found)
        }
        // All that was found came before.
        _ => ordered(launch, clusters, printed, source, &found).map_err(|last| (u64::MAX, last)),
    };
    found.end(ran)
}

fn ordered(
    launch: &Launch,
    clusters: u64,
    printed: &mut Fifo,
    source: &crate::module::Source,
    found: &Found,
) -> Result<LaunchStats, Box<Report>> {
    let mut stats = LaunchStats::default();
    let threads: u64 = launch
        .config
        .block
        .iter()
        .map(|extent| u64::from(*extent))
        .product();
    let resident = RESIDENT_THREADS / (threads * launch.cluster_blocks() as u64);
    let resident = resident.max(1) as usize;
    let rounds = if launch.program.ordered {
        ROUNDS
    } else {
        u64::MAX
    };
    let merger = Merger::new(launch);
    let mut waiting = Queue::new(launch, clusters, resident);
    let mut idle = 0;
    let mut repeats = Repeats::default();
    let mut running: std::collections::VecDeque<ClusterRun<'_>> = Default::default();
    let mut spare = Vec::new();
    loop {
        // A new cluster begins only when those that were set aside have had a turn.
        let begins = if running.len() < resident {
            waiting.next()
        } else {
            None
        };
        let mut run = match (begins, running.pop_front()) {
            (Some(next), set_aside) => {
                running.extend(set_aside);
                let mut run = spare.pop().unwrap_or_else(|| ClusterRun::new(launch));
                run.start(next);
                run
            }
            (None, Some(run)) => run,
            (None, None) => break,
        };
        let before = run.effects();
        let ran = run.run(rounds);
        printed.append(&mut run.printed());
        found.take(&run, source);
        match ran {
            Ok(true) => {
                idle = 0;
                if let Err((_, fault)) = run.ended(merger.as_ref(), true) {
                    return Err(Box::new(report(&run, *fault, source)));
                }
                found.take(&run, source);
                stats.add(&run.stats());
                spare.push(run);
            }
            Ok(false) => {
                idle = if begins.is_some() || run.effects() != before {
                    0
                } else {
                    idle + 1
                };
                running.push_back(run);
                let is_over = idle > QUIET_PASSES * running.len() || repeats.after(idle, &running);
                if is_over {
                    let first = running.front().map(|run| (run, run.waits_for_ever()));
                    if let Some((run, fault)) = first {
                        return Err(Box::new(report(run, *fault, source)));
                    }
                }
            }
            Err(fault) => {
                return Err(Box::new(report(&run, *fault, source)));
            }
        }
    }
    Ok(stats)
}

/// Finds out that clusters poll for ever: a pass over all of them without any effect has left every
/// warp as it was. The next pass would do the same.
#[derive(Default)]
struct Repeats {
    last: Vec<u64>,
    same: usize,
}

impl Repeats {
    /// Called after each turn of a cluster, with the number of turns without an effect.
    fn after(&mut self, idle: usize, running: &std::collections::VecDeque<ClusterRun<'_>>) -> bool {
        let ends_pass = idle > 0 && idle.is_multiple_of(running.len());
        if !ends_pass || idle > COMPARED_PASSES * running.len() {
            return false;
        }
        let now: Vec<u64> = running.iter().map(ClusterRun::fingerprint).collect();
        self.same = if now == self.last { self.same + 1 } else { 0 };
        self.last = now;
        self.same >= SAME_PASSES
    }
}

/// Runs the clusters in the order that the explorer chooses.
fn explored(
    launch: &Launch,
    printed: &mut Fifo,
    source: &crate::module::Source,
    found: &Found,
) -> Result<LaunchStats, Box<Report>> {
    let mut stats = LaunchStats::default();
    let Some(explorer) = &launch.explorer else {
        return Ok(stats);
    };
    let mut all = Explored::new(launch, explorer);
    let ran = all.run();
    if let Err((at, fault)) = ran {
        return Err(Box::new(report(&all.runs[at], *fault, source)));
    }
    let merger = Merger::new(launch);
    for run in &mut all.runs {
        printed.append(&mut run.printed());
        found.take(run, source);
        if let Err((_, fault)) = run.ended(merger.as_ref(), true) {
            return Err(Box::new(report(run, *fault, source)));
        }
        found.take(run, source);
        stats.add(&run.stats());
    }
    explorer.search().end();
    Ok(stats)
}

/// The clusters that have not begun. Hardware promises no order: under a seed, the next is any of
/// the first few, in kernels whose blocks see each other's work.
struct Queue {
    /// The first clusters of those that have not begun.
    first: Vec<u64>,
    /// The cluster after them.
    next: u64,
    clusters: u64,
    /// Most clusters of `first`. Not more than run at a time: else those that wait for an earlier
    /// one could keep it from beginning.
    window: usize,
    random: Random,
}

impl Queue {
    fn new(launch: &Launch, clusters: u64, resident: usize) -> Self {
        let shuffles = launch.seed != 0 && launch.program.ordered;
        Self {
            first: Vec::new(),
            next: 0,
            clusters,
            window: if shuffles { resident.min(WINDOW) } else { 1 },
            random: Random::new(launch.seed, clusters),
        }
    }

    fn next(&mut self) -> Option<u64> {
        while self.first.len() < self.window && self.next < self.clusters {
            self.first.push(self.next);
            self.next += 1;
        }
        match self.first.len() {
            0 => None,
            1 => self.first.pop(),
            several => Some(self.first.swap_remove(self.random.below(several))),
        }
    }
}

/// Calls `wait`, which waits for work of the emulator's pool, so that the calling thread does
/// nothing else meanwhile. A worker of another pool would take up other tasks of that pool, with the
/// locks that its caller holds: a task that wants one of them would never end. `false` if that takes
/// a thread which the system cannot start: nothing was called.
fn blocking(wait: impl FnOnce() + Send) -> bool {
    if rayon::current_thread_index().is_none() {
        wait();
        return true;
    }
    thread::scope(|scope| thread::Builder::new().spawn_scoped(scope, wait).is_ok())
}

fn parallel(
    launch: &Launch,
    clusters: u64,
    pool: &rayon::ThreadPool,
    printed: &mut Fifo,
    source: &crate::module::Source,
    found: &Found,
) -> Result<LaunchStats, (u64, Box<Report>)> {
    let next = AtomicU64::new(0);
    // Clusters with a higher index need not run: an earlier one has failed.
    let failed = AtomicU64::new(u64::MAX);
    let fault: Mutex<Option<(u64, Box<Report>)>> = Mutex::new(None);
    let total = Mutex::new(LaunchStats::default());
    let printing = Printing::new(printed);
    let merger = Merger::new(launch);
    let worker = || {
        let mut run = ClusterRun::new(launch);
        let mut stats = LaunchStats::default();
        loop {
            let linear = next.fetch_add(1, Ordering::Relaxed);
            if linear >= clusters || linear >= failed.load(Ordering::Relaxed) {
                break;
            }
            let mut turn = printing.turn(linear);
            run.start(linear);
            let result = run.run(u64::MAX);
            turn.printed = run.printed();
            let ended = run.ended(merger.as_ref(), result.is_ok());
            found.take(&run, source);
            if result.is_ok() {
                stats.add(&run.stats());
            }
            let own = result.err().map(|error| (linear, error));
            for (linear, error) in ended.err().into_iter().chain(own) {
                turn.failed = turn.failed.min(linear);
                failed.fetch_min(linear, Ordering::Relaxed);
                let mut first = locked(&fault);
                if first.as_ref().is_none_or(|(before, _)| linear < *before) {
                    *first = Some((linear, Box::new(report(&run, *error, source))));
                }
            }
        }
        locked(&total).add(&stats);
    };
    let workers = pool
        .current_num_threads()
        .min(usize::try_from(clusters).unwrap_or(usize::MAX));
    let waited = blocking(|| {
        pool.scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|_| worker());
            }
        });
    });
    if !waited {
        // One worker alone goes through all clusters.
        worker();
    }
    let fault = fault.into_inner().unwrap_or_else(PoisonError::into_inner);
    match fault {
        Some(failed) => Err(failed),
        None => Ok(total.into_inner().unwrap_or_else(PoisonError::into_inner)),
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A note, with the line of Rust behind each line of PTX that it names and that has one.
fn with_origins(note: &str, source: &crate::module::Source) -> String {
    const NAMES: &str = "PTX line ";
    let mut parts = note.split(NAMES);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (line, rest) = part.split_at(digits);
        text.extend([NAMES, line]);
        let origin = line
            .parse()
            .ok()
            .and_then(|line| source.origin(line).first());
        if let Some((file, line)) = origin {
            text += &format!(" ({file}:{line})");
        }
        text += rest;
    }
    text
}

/// A note about strong accesses of a race whose scopes leave out the other thread.
fn too_narrow(code: &[Inst], fault: &Fault) -> Option<String> {
    let second = fault.second.as_ref()?;
    let distance = match second.cluster {
        Some(_) => Scope::Device,
        None if second.rank != fault.rank => Scope::Cluster,
        None => return None,
    };
    let places = [(1, fault.pc), (2, second.pc)];
    let named: Vec<String> = places
        .iter()
        .filter_map(|(number, pc)| {
            let inst = code.get(*pc as usize)?;
            let is_narrow = inst.strength.is_strong() && inst.scope < distance;
            is_narrow.then(|| format!("({number}) has scope {}", inst.scope.name()))
        })
        .collect();
    (!named.is_empty()).then(|| {
        format!(
            "{}, so it is weak for the other block: {} includes both",
            named.join(" and "),
            distance.name()
        )
    })
}

/// Makes a report of a fault: adds kernel, source lines and indices.
fn report(run: &ClusterRun<'_>, fault: Fault, source: &crate::module::Source) -> Report {
    let launch = run.launch;
    let place = |cluster: Option<u64>, rank: u32, warp: u32, lane: Option<u32>, pc: u32| {
        let code = &launch.program.code;
        let line = code.get(pc as usize).map_or(0, |inst| inst.line);
        let block = &run.blocks[rank as usize];
        Place {
            ptx_line: line,
            ptx_text: source.line(line),
            source: source.origin(line).first().cloned(),
            inlined: source.origin(line).iter().skip(1).cloned().collect(),
            block: match cluster {
                Some(cluster) => launch.block_index(cluster, rank),
                None => block.block.index,
            },
            warp,
            thread: lane.and_then(|lane| block.thread(warp, lane)),
        }
    };
    let mut notes = fault.notes.clone();
    notes.extend(too_narrow(&launch.program.code, &fault));
    let second = fault.second.map(|other| {
        let at = place(other.cluster, other.rank, other.warp, other.lane, other.pc);
        (other.what, at)
    });
    Report {
        kind: fault.kind,
        kernel: launch.kernel.clone(),
        place: place(fault.cluster, fault.rank, fault.warp, fault.lane, fault.pc),
        second,
        address: fault.address,
        message: fault.message,
        notes: notes
            .iter()
            .map(|note| with_origins(note, source))
            .collect(),
        seed: launch.seed,
        earlier: Vec::new(),
    }
}
