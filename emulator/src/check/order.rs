//! The order of one cluster: what each agent knows, and the accesses that are not ordered.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::grid::{GridOrder, Touched};
use super::shadow::Shadow;
use super::stamp::Stamp;
use crate::exec::block::Launch;
use crate::exec::row::{LANES, Lanes};
use crate::memory::global::Snapshot;
use crate::memory::shared::SHARED_BASE;

/// How an access reaches memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Proxy {
    /// Ordinary loads, stores and atomics; `cp.async`.
    #[default]
    Generic,
    /// Bulk and tensor copies, and `wgmma` on shared memory.
    Async,
}

/// What completes asynchronous work, and so teaches those who wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Channel {
    /// Transactions on the mbarrier at a shared address of a rank.
    Mbarrier { rank: u32, offset: u32 },
    /// `cp.async` groups of a warp (index in the cluster).
    CpAsync { warp: u32 },
    /// What the bulk groups of a warp read.
    BulkRead { warp: u32 },
    /// What the bulk groups of a warp write.
    BulkWrite { warp: u32 },
    /// wgmma groups of a warp.
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

/// An asynchronous operation, from its issue on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Operation {
    /// What its issuer knew.
    pub(super) start: Stamp,
    /// What its issuer knew of writes that the async proxy sees.
    pub(super) visible: Vec<u32>,
    pub(super) agent: u16,
    pub(super) epoch: u32,
    /// Position of the instruction.
    pub(crate) pc: u32,
    /// Warp in the cluster.
    pub(crate) warp: u32,
    pub(crate) lane: u32,
}

/// Who accesses memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Actor<'a> {
    /// The lanes of a warp (index in the cluster), at a position.
    Warp { warp: u32, pc: u32 },
    /// An asynchronous operation.
    Operation(&'a Operation),
}

/// What is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Shared memory of a rank.
    Shared { rank: u32 },
    /// The allocation at this place of the launch's snapshot.
    Global { allocation: usize },
}

/// What a warp knows, and where it is.
#[derive(Clone, Debug)]
pub(super) struct WarpClock {
    pub(super) clock: Stamp,
    /// Epoch of its next access; greater than what anybody else knows of it.
    pub(super) epoch: u32,
    /// Epoch after the `bar.warp.sync` in which each lane last took part.
    pub(super) synced: [u32; LANES],
    /// What it knew at its last fence.
    pub(super) fenced: Option<Stamp>,
    /// What its strong reads have seen, which its next fence makes known.
    pub(super) seen: Stamp,
}

/// Asynchronous work that one warp issues on one channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct VirtualAgent {
    pub(super) channel: Channel,
    pub(super) warp: u32,
    epoch: u32,
}

/// Happens-before of one cluster. Every method does nothing when races are not looked for.
#[derive(Debug, Default)]
pub(crate) struct Order {
    pub(super) on: bool,
    pub(super) warps: Vec<WarpClock>,
    /// Agents behind the warps.
    pub(super) virtuals: Vec<VirtualAgent>,
    by_channel: HashMap<(Channel, u32), u16>,
    pub(super) shadow: Shadow,
    pub(super) warps_per_block: u32,
    /// Blocks of the cluster, and bytes of shared memory of each.
    pub(super) ranks: usize,
    pub(super) shared_bytes: u64,
    pub(super) memory: Option<Snapshot>,
    /// Index in the grid of the cluster that runs.
    pub(super) cluster: u32,
    /// What strong writes have handed over, by region and word.
    pub(super) flags: HashMap<(usize, u64), Stamp>,
    /// Accesses of all clusters, where clusters may wait for each other.
    pub(super) between: Option<Arc<Mutex<GridOrder>>>,
}

impl Order {
    pub(crate) fn new(launch: &Launch) -> Self {
        let threads: u32 = launch.config.block.iter().product();
        let mut order = Self {
            on: launch.checks.races,
            warps_per_block: threads.div_ceil(LANES as u32),
            ranks: launch.cluster_blocks(),
            shared_bytes: SHARED_BASE
                + launch.program.shared_bytes
                + u64::from(launch.config.shared_bytes),
            memory: Some(launch.memory.clone()),
            between: (launch.program.ordered && launch.clusters() > 1)
                .then(|| launch.between.clone()),
            ..Self::default()
        };
        order.start(0);
        order
    }

    /// Forgets the cluster before.
    pub(crate) fn start(&mut self, cluster: u64) {
        if !self.on {
            return;
        }
        let fresh = WarpClock {
            clock: Stamp::default(),
            epoch: 1,
            synced: [0; LANES],
            fenced: None,
            seen: Stamp::default(),
        };
        self.cluster = cluster as u32;
        self.flags.clear();
        self.warps.clear();
        self.warps
            .resize(self.ranks * self.warps_per_block as usize, fresh);
        self.virtuals.clear();
        self.by_channel.clear();
        self.shadow.clear();
    }

    /// Whether races are looked for.
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// What `warp` (index in the cluster) hands to whoever acquires it.
    pub(crate) fn release(&mut self, warp: u32) -> Stamp {
        let Some(own) = self.warps.get_mut(warp as usize) else {
            return Stamp::default();
        };
        let mut stamp = own.clock.clone();
        stamp.learn(warp as usize, own.epoch);
        own.epoch = next(own.epoch);
        stamp
    }

    /// `warp` learns what a stamp holds.
    pub(crate) fn acquire(&mut self, warp: u32, stamp: &Stamp) {
        if let Some(own) = self.warps.get_mut(warp as usize) {
            own.clock.join(stamp);
        }
    }

    /// `bar.warp.sync` of the lanes of `mask`, which also has the lanes that have exited.
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

    /// What `warp` knows becomes visible to the async proxy.
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

    /// An asynchronous operation is issued.
    pub(crate) fn begin(&mut self, warp: u32, lane: u32, pc: u32, channel: Channel) -> Operation {
        let operation = Operation {
            pc,
            warp,
            lane,
            ..Operation::default()
        };
        if !self.on {
            return operation;
        }
        let agents = self.warps.len();
        let full = agents + self.virtuals.len() >= MOST_AGENTS;
        let agent = *self.by_channel.entry((channel, warp)).or_insert_with(|| {
            // The last agents share one, which may hide a race and never invents one.
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

    /// What waiting for the end of an operation teaches.
    pub(crate) fn finish(&self, operation: &Operation) -> Stamp {
        let mut stamp = Stamp::default();
        if self.on {
            stamp.learn(usize::from(operation.agent), operation.epoch);
        }
        stamp
    }

    /// What completes an operation.
    pub(super) fn channel_of(&self, operation: &Operation) -> Channel {
        self.virtuals[usize::from(operation.agent) - self.warps.len()].channel
    }

    /// The region of the shadow that memory is, and its length.
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

    /// Takes out what the cluster touched, when it has ended.
    pub(crate) fn take_touched(&mut self) -> Touched {
        let agents = self.warps.len() + self.virtuals.len();
        Touched {
            shadow: std::mem::take(&mut self.shadow),
            cluster: self.cluster,
            ranks: self.ranks,
            warps: (0..agents)
                .map(|agent| self.warp_of(agent as u16).0 as u16)
                .collect(),
        }
    }

    /// Takes back the host memory of what was touched.
    pub(crate) fn reuse(&mut self, touched: Touched) {
        self.shadow = touched.shadow;
    }

    /// Warp that acts for an agent: itself, or the issuer.
    pub(super) fn warp_of(&self, agent: u16) -> (u32, Option<Channel>) {
        match usize::from(agent).checked_sub(self.warps.len()) {
            None => (u32::from(agent), None),
            Some(at) => (self.virtuals[at].warp, Some(self.virtuals[at].channel)),
        }
    }
}

/// Agents of a cluster that are told apart.
const MOST_AGENTS: usize = u16::MAX as usize;

/// The epoch after; the last one stays, which may hide a race and never invents one.
fn next(epoch: u32) -> u32 {
    epoch.saturating_add(1)
}
