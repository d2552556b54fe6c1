//! Recording while clusters run.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Activity, CopyKind, Line, Span, Timeline, Trace, Track, Waited};
use crate::check::Order;
use crate::exec::block::Launch;
use crate::exec::mbarrier::Place;
use crate::module::Source;

/// What the recorders of a launch have recorded. Here, lines are positions in the code.
#[derive(Debug)]
pub(crate) struct Log {
    /// Clusters that are recorded: the first of the grid.
    clusters: u64,
    recorded: Mutex<(Vec<Span>, u64)>,
}

impl Log {
    pub(crate) fn new(trace: &Trace, cluster_blocks: usize) -> Arc<Self> {
        Arc::new(Self {
            clusters: trace.clusters(cluster_blocks),
            recorded: Mutex::default(),
        })
    }

    /// The timeline of the launch, once all recorders are dropped.
    pub(crate) fn finish(&self, launch: &Launch, source: &Source) -> Timeline {
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut spans, left_out) = std::mem::take(&mut *recorded);
        spans.sort_by_key(|span| {
            let [x, y, z] = span.block;
            (span.cluster, [z, y, x], span.track, span.start, span.end)
        });
        let mut lines = Vec::new();
        let mut known = BTreeMap::new();
        let mut index = |pc: usize| {
            let line = launch.program.code.get(pc).map_or(0, |inst| inst.line);
            *known.entry(line).or_insert_with(|| {
                lines.push(Line {
                    ptx_line: line,
                    ptx_text: source.line(line),
                    source: source.origin(line).first().cloned(),
                });
                lines.len() - 1
            })
        };
        for span in &mut spans {
            span.lines = (index(span.lines.0), index(span.lines.1));
        }
        let of_cluster = launch.cluster_blocks() as u64;
        Timeline {
            kernel: launch.kernel.clone(),
            seed: launch.seed,
            blocks: launch.clusters() * of_cluster,
            recorded: launch.clusters().min(self.clusters) * of_cluster,
            warps: launch.warps(),
            spans,
            left_out,
            lines,
        }
    }
}

/// A copy that has landed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Landed {
    pub(crate) kind: CopyKind,
    pub(crate) bytes: u64,
    /// Rank of the block that issued it.
    pub(crate) rank: u32,
    pub(crate) pc: u32,
    /// When it was issued.
    pub(crate) issued: u64,
}

/// The part of a warp's timeline that has no span yet.
#[derive(Debug, Default)]
struct Open {
    /// Instructions of the warp that its clock has counted.
    counted: u64,
    /// Where its last span ended.
    from: u64,
    /// The clock.
    now: u64,
    /// Positions of the first instruction since, and of the last that was seen.
    pcs: (u32, u32),
    /// Its `wgmma` that are not in a group yet, and the groups in flight.
    issued: Group,
    groups: VecDeque<Group>,
}

/// `wgmma` in flight.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    count: u32,
    start: u64,
    pcs: (u32, u32),
}

/// Records the clusters that one host thread runs, one after another.
#[derive(Debug)]
pub(crate) struct Recorder {
    log: Arc<Log>,
    warps_per_block: u32,
    entry: u32,
    cluster: u64,
    /// Index of each block of the cluster.
    blocks: Vec<[u32; 3]>,
    warps: Vec<Open>,
    /// Number of the current phase of each mbarrier, and when it began.
    phases: BTreeMap<Place, (u64, u64)>,
    spans: Vec<Span>,
    left_out: u64,
}

impl Recorder {
    /// `None` without a trace.
    pub(crate) fn new(launch: &Launch) -> Option<Self> {
        let log = launch.trace.clone()?;
        Some(Self {
            log,
            warps_per_block: launch.warps(),
            entry: launch.program.functions[0].entry,
            cluster: 0,
            blocks: Vec::new(),
            warps: Vec::new(),
            phases: BTreeMap::new(),
            spans: Vec::new(),
            left_out: 0,
        })
    }

    /// Keeps what was recorded of the previous cluster, and starts the next.
    pub(crate) fn start(&mut self, launch: &Launch, cluster: u64) {
        self.keep();
        let blocks = launch.cluster_blocks() as u32;
        let all = (0..blocks).map(|rank| launch.block_index(cluster, rank));
        self.cluster = cluster;
        self.blocks = all.collect();
        self.phases.clear();
        let fresh = || Open {
            pcs: (self.entry, self.entry),
            ..Open::default()
        };
        let warps = blocks * self.warps_per_block;
        self.warps = (0..warps).map(|_| fresh()).collect();
    }

    /// Whether the current cluster is recorded.
    fn is_on(&self) -> bool {
        self.cluster < self.log.clusters
    }

    fn keep(&mut self) {
        for agent in 0..self.warps.len() as u32 {
            let end = self.warps[agent as usize].now;
            self.run_until(agent, end);
        }
        self.warps.clear();
        let recorded = self.log.recorded.lock();
        let mut recorded = recorded.unwrap_or_else(PoisonError::into_inner);
        recorded.0.append(&mut self.spans);
        recorded.1 += std::mem::take(&mut self.left_out);
    }

    fn push(
        &mut self,
        rank: u32,
        track: Track,
        activity: Activity,
        ends: (u64, u64),
        pcs: (u32, u32),
    ) {
        if !self.is_on() {
            return;
        }
        if self.spans.len() >= Trace::MOST_SPANS {
            self.left_out += 1;
            return;
        }
        self.spans.push(Span {
            cluster: self.cluster,
            block: self.blocks[rank as usize],
            track,
            activity,
            start: ends.0,
            end: ends.1,
            lines: (pcs.0 as usize, pcs.1 as usize),
        });
    }

    fn track(&self, agent: u32) -> (u32, Track) {
        let (rank, warp) = (agent / self.warps_per_block, agent % self.warps_per_block);
        (rank, Track::Warp(warp))
    }

    /// Ends what a warp has been running at a step.
    fn run_until(&mut self, agent: u32, end: u64) {
        let open = &mut self.warps[agent as usize];
        let (start, pcs) = (open.from, open.pcs);
        open.from = end;
        if end > start {
            let (rank, track) = self.track(agent);
            self.push(rank, track, Activity::Run, (start, end), pcs);
        }
    }

    /// A warp has run `instructions` in all, the last of them at `pc`. Its clock goes on. Returns the
    /// clock.
    pub(crate) fn ran(&mut self, order: &mut Order, agent: u32, instructions: u64, pc: u32) -> u64 {
        let open = &mut self.warps[agent as usize];
        let more = instructions.saturating_sub(open.counted);
        order.steps.advance(agent, more);
        open.counted = open.counted.max(instructions);
        open.now = order.steps.of(agent);
        open.pcs.1 = pc;
        open.now
    }

    /// A warp goes on after a wait at `pc`, which began at step `since`.
    pub(crate) fn waited(&mut self, order: &Order, agent: u32, what: Waited, since: u64, pc: u32) {
        let end = order.steps.of(agent);
        self.run_until(agent, since);
        let (rank, track) = self.track(agent);
        self.push(rank, track, Activity::Wait(what), (since, end), (pc, pc));
        let open = &mut self.warps[agent as usize];
        (open.from, open.now, open.pcs) = (end, end, (pc + 1, pc + 1));
    }

    /// An asynchronous copy has landed.
    pub(crate) fn landed(&mut self, order: &Order, copy: Landed) {
        let end = order.steps.latest();
        let activity = Activity::Copy {
            kind: copy.kind,
            bytes: copy.bytes,
        };
        let pcs = (copy.pc, copy.pc);
        self.push(copy.rank, Track::Copies, activity, (copy.issued, end), pcs);
    }

    /// A phase of an mbarrier has ended; the last arrival was by the instruction at `pc`.
    pub(crate) fn phase(&mut self, at: Place, end: u64, pc: u32) {
        let (number, start) = self.phases.get(&at).copied().unwrap_or_default();
        self.phases.insert(at, (number + 1, end));
        let track = Track::Mbarrier(at.offset);
        let activity = Activity::Phase(number);
        self.push(at.rank, track, activity, (start.min(end), end), (pc, pc));
    }

    /// A warp issues a `wgmma.mma_async`.
    pub(crate) fn wgmma(&mut self, agent: u32, pc: u32) {
        let open = &mut self.warps[agent as usize];
        let group = &mut open.issued;
        if group.count == 0 {
            (group.start, group.pcs.0) = (open.now, pc);
        }
        group.count += 1;
        group.pcs.1 = pc;
    }

    /// `wgmma.commit_group`
    pub(crate) fn wgmma_commit(&mut self, agent: u32) {
        let open = &mut self.warps[agent as usize];
        let group = std::mem::take(&mut open.issued);
        open.groups.push_back(group);
    }

    /// A warp has waited for all groups but the latest `most`. The first warp of a warpgroup stands
    /// for all four.
    pub(crate) fn wgmma_wait(&mut self, agent: u32, most: u32) {
        let warp = agent % self.warps_per_block;
        while self.warps[agent as usize].groups.len() > most as usize {
            let open = &mut self.warps[agent as usize];
            let Some(group) = open.groups.pop_front() else {
                return;
            };
            let ends = (group.start, open.now);
            if warp.is_multiple_of(4) && group.count > 0 {
                let activity = Activity::Wgmma { count: group.count };
                let rank = agent / self.warps_per_block;
                self.push(rank, Track::Warpgroup(warp), activity, ends, group.pcs);
            }
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.keep();
    }
}
