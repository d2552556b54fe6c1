//! Happens-before within one cluster: the clocks of its agents, and the shadow of its accesses.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use super::flags::Handed;
use super::grid::{GridOrder, Touched};
use super::peers::Peers;
use super::shadow::Shadow;
use super::stamp::Stamp;
use super::steps::Steps;
use crate::exec::block::Launch;
use crate::exec::findings::Findings;
use crate::exec::row::{LANES, Lanes};
use crate::explore::Visit;
use crate::memory::global::Snapshot;
use crate::memory::host::Starved;
use crate::memory::shared::SHARED_BASE;
use crate::program::Scope;

/// The proxy through which an access reaches memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Proxy {
    /// Ordinary loads, stores and atomics; `cp.async`.
    #[default]
    Generic,
    /// Bulk and tensor copies, and `wgmma` on shared memory.
    Async,
}

/// The mechanism that completes asynchronous work: whoever waits on it learns that the work is
/// done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Channel {
    /// Transactions on the mbarrier at an offset in the shared memory of block `rank`.
    Mbarrier { rank: u32, offset: u32 },
    /// `cp.async` groups of a warp (index in the cluster).
    CpAsync { warp: u32 },
    /// The reads of a warp's bulk groups.
    BulkRead { warp: u32 },
    /// The writes of a warp's bulk groups.
    BulkWrite { warp: u32 },
    /// The `wgmma` groups of a warp.
    Wgmma { warp: u32 },
}

impl Channel {
    pub(super) fn proxy(self) -> Proxy {
        match self {
            Self::CpAsync { .. } => Proxy::Generic,
            _ => Proxy::Async,
        }
    }
}

/// An asynchronous operation, as it was issued.
#[derive(Clone, Debug, Default)]
pub(crate) struct Operation {
    /// What the issuing warp knew at issue.
    pub(super) start: Stamp,
    /// The part of it that the async proxy sees. For each agent, it has the epoch up to which its
    /// writes have passed a proxy fence. (Writes by the async proxy itself need none.)
    pub(super) visible: Vec<u32>,
    pub(super) agent: u16,
    pub(super) epoch: u32,
    /// Position of the instruction.
    pub(crate) pc: u32,
    /// Warp in the cluster.
    pub(crate) warp: u32,
    pub(crate) lane: u32,
}

/// The maker of an access.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Actor<'a> {
    /// Lanes of a warp (index in the cluster), at a position of the code.
    Warp { warp: u32, pc: u32 },
    /// An asynchronous operation.
    Operation(&'a Operation),
}

/// The memory that is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Shared memory of a block of the cluster.
    Shared { rank: u32 },
    /// The allocation with this index in the launch's snapshot.
    Global { allocation: usize },
}

/// The clock of a warp.
#[derive(Clone, Debug)]
pub(super) struct WarpClock {
    pub(super) clock: Stamp,
    /// Epoch of its next access; greater than any epoch that other agents know of it.
    pub(super) epoch: u32,
    /// For each lane, the epoch that began with the last `bar.warp.sync` in which it took part.
    pub(super) synced: [u32; LANES],
    /// What it knew at its fences, which later strong writes hand over. It has the last fence of
    /// each scope, but none before a wider one; the last fence is the last.
    pub(super) fences: Vec<(Scope, Stamp)>,
    /// What its strong reads have seen, by the distance of the writers. A fence will acquire it.
    pub(super) seen: [Stamp; 3],
    /// What it would know if all scopes included all threads, as far as it does not know it.
    pub(super) left_out: Stamp,
}

/// The asynchronous work that one warp issues on one channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct VirtualAgent {
    pub(super) channel: Channel,
    pub(super) warp: u32,
    epoch: u32,
}

/// Happens-before of one cluster. Without the race check only the clocks of a trace are kept, and
/// without a trace nothing is.
#[derive(Debug, Default)]
pub(crate) struct Order {
    pub(super) on: bool,
    pub(super) warps: Vec<WarpClock>,
    /// The virtual agents; their numbers follow those of the warps.
    pub(super) virtuals: Vec<VirtualAgent>,
    by_channel: HashMap<(Channel, u32), u16>,
    pub(super) shadow: Shadow,
    pub(super) warps_per_block: u32,
    /// Number of blocks in the cluster, and shared memory of each in bytes.
    pub(super) ranks: usize,
    pub(super) shared_bytes: u64,
    pub(super) memory: Option<Snapshot>,
    /// Index in the grid of the current cluster.
    pub(super) cluster: u32,
    /// What strong writes have released to each word, by region and word.
    pub(super) flags: HashMap<(usize, u64), Vec<Handed>>,
    /// Where a lack of host memory is recorded.
    pub(super) starved: Arc<Starved>,
    /// Accesses of all clusters of the launch, if clusters may communicate.
    pub(super) between: Option<Arc<Mutex<GridOrder>>>,
    /// Where races are noted.
    pub(super) findings: Rc<Findings>,
    pub(crate) steps: Steps,
    pub(super) peers: Peers,
    /// Accesses that others can see, since they were taken out; `None` unless orders are explored.
    pub(super) visits: Option<Vec<Visit>>,
}

impl Order {
    pub(crate) fn new(launch: &Launch, findings: &Rc<Findings>) -> Self {
        let threads: u32 = launch.config.block.iter().product();
        let mut order = Self {
            on: launch.checks.races,
            warps_per_block: threads.div_ceil(LANES as u32),
            ranks: launch.cluster_blocks(),
            shared_bytes: SHARED_BASE
                + launch.program.shared_bytes
                + u64::from(launch.config.shared_bytes),
            memory: Some(launch.memory.clone()),
            shadow: Shadow::new(&launch.starved),
            starved: launch.starved.clone(),
            between: (launch.program.ordered && launch.clusters() > 1)
                .then(|| launch.between.clone()),
            findings: findings.clone(),
            steps: Steps::new(launch),
            visits: launch.explorer.as_ref().map(|_| Vec::new()),
            ..Self::default()
        };
        order.start(0);
        order
    }

    /// Forgets the previous cluster and starts the next.
    pub(crate) fn start(&mut self, cluster: u64) {
        self.steps.start();
        if !self.on {
            return;
        }
        let fresh = WarpClock {
            clock: Stamp::default(),
            epoch: 1,
            synced: [0; LANES],
            fences: Vec::new(),
            seen: Default::default(),
            left_out: Stamp::default(),
        };
        self.cluster = cluster as u32;
        self.flags.clear();
        self.peers.clear();
        self.warps.clear();
        self.warps
            .resize(self.ranks * self.warps_per_block as usize, fresh);
        self.virtuals.clear();
        self.by_channel.clear();
        self.shadow.clear();
    }

    /// Whether races are checked for.
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// Releases: the stamp that `warp` (index in the cluster) hands to whoever acquires it.
    pub(crate) fn release(&mut self, warp: u32) -> Stamp {
        let mut stamp = Stamp::default();
        if let Some(own) = self.warps.get_mut(warp as usize) {
            stamp = own.clock.clone();
            stamp.learn(warp as usize, own.epoch);
            own.epoch = next(own.epoch);
        }
        stamp.steps = self.steps.of(warp);
        stamp
    }

    /// Acquires: `warp` knows what the stamp holds.
    pub(crate) fn acquire(&mut self, warp: u32, stamp: &Stamp) {
        self.steps.reach(warp, stamp.steps);
        if let Some(own) = self.warps.get_mut(warp as usize) {
            own.clock.join(stamp);
        }
    }

    /// `bar.warp.sync` of the lanes of `mask`, in which exited lanes are set too.
    pub(crate) fn warp_sync(&mut self, warp: u32, mask: u32) {
        let Some(own) = self.warps.get_mut(warp as usize) else {
            return;
        };
        if mask == u32::MAX {
            own.clock.learn(warp as usize, own.epoch);
        }
        own.epoch = next(own.epoch);
        for lane in Lanes(mask) {
            own.synced[lane] = own.epoch;
        }
    }

    /// A proxy fence: what `warp` knows becomes visible to the async proxy.
    pub(crate) fn proxy_fence(&mut self, warp: u32) {
        let Some(own) = self.warps.get_mut(warp as usize) else {
            return;
        };
        let mut known = own.clock.generic.clone();
        if known.len() <= warp as usize {
            known.resize(warp as usize + 1, 0);
        }
        known[warp as usize] = own.epoch;
        own.epoch = next(own.epoch);
        own.clock.fence(&known);
    }

    /// Issues an asynchronous operation.
    pub(crate) fn begin(&mut self, warp: u32, lane: u32, pc: u32, channel: Channel) -> Operation {
        let mut operation = Operation {
            pc,
            warp,
            lane,
            ..Operation::default()
        };
        if !self.on {
            operation.start.steps = self.steps.of(warp);
            return operation;
        }
        let agents = self.warps.len();
        let full = agents + self.virtuals.len() >= MOST_AGENTS;
        let agent = *self.by_channel.entry((channel, warp)).or_insert_with(|| {
            // The last agents share one, which may hide a race but never reports a false one.
            if !full {
                self.virtuals.push(VirtualAgent {
                    channel,
                    warp,
                    epoch: 0,
                });
            }
            (agents + self.virtuals.len() - 1) as u16
        });
        let virtual_agent = &mut self.virtuals[usize::from(agent) - agents];
        virtual_agent.epoch = next(virtual_agent.epoch);
        let epoch = virtual_agent.epoch;
        let start = self.release(warp);
        let mut visible = start.fenced.clone();
        visible.resize(start.generic.len().max(visible.len()), 0);
        for (other, known) in start.generic.iter().enumerate() {
            let generic = match other.checked_sub(agents) {
                None => true,
                Some(at) => self.virtuals[at].channel.proxy() == Proxy::Generic,
            };
            if !generic {
                visible[other] = *known;
            }
        }
        Operation {
            start,
            visible,
            agent,
            epoch,
            ..operation
        }
    }

    /// The clock of a trace at which an operation was issued.
    pub(crate) fn issued(operation: &Operation) -> u64 {
        operation.start.steps
    }

    /// The stamp that whoever waits for the end of an operation acquires.
    pub(crate) fn finish(&self, operation: &Operation) -> Stamp {
        let mut stamp = Stamp::default();
        if self.on {
            stamp.learn(usize::from(operation.agent), operation.epoch);
        }
        stamp
    }

    /// The channel that completes an operation.
    pub(super) fn channel_of(&self, operation: &Operation) -> Channel {
        self.virtuals[usize::from(operation.agent) - self.warps.len()].channel
    }

    /// The region of the shadow for a memory, and its length in bytes.
    pub(super) fn region(&self, target: Target) -> (usize, u64) {
        match target {
            Target::Shared { rank } => (rank as usize, self.shared_bytes),
            Target::Global { allocation } => {
                let memory = self.memory.as_ref();
                let len = memory.map_or(0, |memory| memory[allocation].len);
                (self.ranks + allocation, len)
            }
        }
    }

    /// Takes out the accesses of a cluster that has ended.
    pub(crate) fn take_touched(&mut self) -> Touched {
        let agents = self.warps.len() + self.virtuals.len();
        Touched {
            shadow: std::mem::replace(&mut self.shadow, Shadow::new(&self.starved)),
            cluster: self.cluster,
            ranks: self.ranks,
            warps: (0..agents)
                .map(|agent| self.warp_of(agent as u16).0 as u16)
                .collect(),
        }
    }

    /// Takes back the host memory of such accesses, to use it again.
    pub(crate) fn reuse(&mut self, touched: Touched) {
        self.shadow = touched.shadow;
    }

    /// The warp behind an agent: itself, or the issuer of asynchronous work with its channel.
    pub(super) fn warp_of(&self, agent: u16) -> (u32, Option<Channel>) {
        match usize::from(agent).checked_sub(self.warps.len()) {
            None => (u32::from(agent), None),
            Some(at) => (self.virtuals[at].warp, Some(self.virtuals[at].channel)),
        }
    }
}

/// Most agents of a cluster that are kept apart.
const MOST_AGENTS: usize = u16::MAX as usize;

/// The next epoch. The counter saturates, which may hide a race but never reports a false one.
fn next(epoch: u32) -> u32 {
    epoch.saturating_add(1)
}
