//! Instructions of Hopper's asynchrony: mbarriers, copies, cluster barriers, register budgets.

use super::{Base, Reg};
use crate::exec::registers::Slot;
use crate::memory::space::Space;

/// An address operand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pointer {
    pub(crate) space: Space,
    pub(crate) base: Base,
    pub(crate) offset: u64,
}

/// One instruction of these families.
#[derive(Clone, Debug)]
pub(crate) enum Asynchronous {
    Mbarrier(Mbarrier),
    TensorCopy(TensorCopy),
    /// `cp.async.bulk.commit_group`
    CommitGroup(GroupKind),
    WaitGroup {
        kind: GroupKind,
        /// Groups that may stay in flight; `None` waits for everything, committed or not.
        leave: Option<u32>,
        /// Only for the reads of the sources.
        read: bool,
    },
    /// `fence.proxy.*` that makes generic writes known to the async proxy.
    ProxyFence,
    ClusterBarrier {
        wait: bool,
        aligned: bool,
        /// Hands over what the thread knows, or takes up what others know.
        ordered: bool,
    },
    /// `getctarank`
    RankOf {
        d: Reg,
        a: Reg,
    },
    SetRegisters {
        count: u32,
        increase: bool,
    },
}

/// Which groups: those of `cp.async`, or those of the bulk copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupKind {
    CpAsync,
    Bulk,
}

/// What an `mbarrier` instruction does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MbarrierKind {
    Init {
        count: Slot,
    },
    Inval,
    Arrive {
        /// `None` is 1.
        count: Option<Slot>,
        /// Transaction bytes to expect first.
        expect: Option<Slot>,
        /// The thread leaves the phases to come.
        drop: bool,
        /// The phase must not complete.
        no_complete: bool,
    },
    ExpectTx {
        bytes: Slot,
    },
    CompleteTx {
        bytes: Slot,
    },
    Wait {
        p: Slot,
        until: Until,
        /// `try_wait`: the thread may sleep.
        blocks: bool,
    },
}

/// Which phase a wait waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    /// That of the state in a 64-bit register.
    State(Slot),
    /// That of the parity in a 32-bit register.
    Parity(Slot),
}

/// `mbarrier`
#[derive(Clone, Debug)]
pub(crate) struct Mbarrier {
    pub(crate) kind: MbarrierKind,
    pub(crate) at: Pointer,
    /// It may lie in another block of the cluster.
    pub(crate) remote: bool,
    /// Hands over what the thread knows, or takes up what others know.
    pub(crate) ordered: bool,
    /// The state before an arrival.
    pub(crate) d: Option<Slot>,
}

/// A reduction of bulk and tensor copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From global memory, completed by an mbarrier.
    Load,
    /// To global memory, completed by a group.
    Store,
    /// Into the L2 cache.
    Prefetch,
}

/// `cp.async.bulk.tensor` and its relatives.
#[derive(Clone, Debug)]
pub(crate) struct TensorCopy {
    pub(crate) direction: Direction,
    pub(crate) map: Pointer,
    /// Coordinates, innermost first.
    pub(crate) coordinates: Box<[Slot]>,
    /// Shared memory; `None` for a prefetch.
    pub(crate) shared: Option<Pointer>,
    /// The destination may lie in another block of the cluster.
    pub(crate) remote: bool,
    pub(crate) mbarrier: Option<Pointer>,
    /// Blocks of the cluster that receive it.
    pub(crate) multicast: Option<Slot>,
}
