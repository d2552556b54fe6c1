//! The order of one cluster: what each agent knows, and the accesses that are not ordered.

use super::stamp::Stamp;
use crate::exec::access::Intent;
use crate::exec::fault::Checked;
use crate::exec::row::Row;

/// How an access reaches memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proxy {
    /// Ordinary loads, stores and atomics; `cp.async`.
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

/// An asynchronous operation, from its issue on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Operation {
    /// What its issuer knew.
    pub(super) start: Stamp,
    pub(super) agent: u32,
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

/// Happens-before of one cluster. Every method does nothing when races are not looked for.
#[derive(Debug, Default)]
pub(crate) struct Order {
    on: bool,
}

impl Order {
    pub(crate) fn new(on: bool) -> Self {
        Self { on }
    }

    /// Whether races are looked for.
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// What `warp` (index in the cluster) hands to whoever acquires it.
    pub(crate) fn release(&mut self, _warp: u32) -> Stamp {
        Stamp::default()
    }

    /// `warp` learns what a stamp holds.
    pub(crate) fn acquire(&mut self, _warp: u32, _stamp: &Stamp) {}

    /// `bar.warp.sync` of the lanes of `mask`.
    pub(crate) fn warp_sync(&mut self, _warp: u32, _mask: u32) {}

    /// What `warp` knows becomes visible to the async proxy.
    pub(crate) fn proxy_fence(&mut self, _warp: u32) {}

    /// An asynchronous operation is issued.
    pub(crate) fn begin(&mut self, warp: u32, lane: u32, pc: u32, _channel: Channel) -> Operation {
        Operation {
            pc,
            warp,
            lane,
            ..Operation::default()
        }
    }

    /// What waiting for the end of an operation teaches.
    pub(crate) fn finish(&self, _operation: &Operation) -> Stamp {
        Stamp::default()
    }

    /// `bytes` at each offset of the lanes of `mask`.
    pub(crate) fn lanes(
        &mut self,
        _actor: Actor<'_>,
        _target: Target,
        _intent: Intent,
        _offsets: &Row<u64>,
        _mask: u32,
        _bytes: usize,
    ) -> Checked<()> {
        Ok(())
    }

    /// A range of bytes, by one actor.
    pub(crate) fn range(
        &mut self,
        _actor: Actor<'_>,
        _target: Target,
        _intent: Intent,
        _proxy: Proxy,
        _offset: u64,
        _bytes: u64,
    ) -> Checked<()> {
        Ok(())
    }
}
