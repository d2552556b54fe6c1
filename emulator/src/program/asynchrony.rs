//! Hopper's asynchronous instructions: mbarriers, copies, cluster barriers, `setmaxnreg`.

use super::{AtomicOp, AtomicType, Base, Guard, Reg};
use crate::exec::registers::Slot;
use crate::memory::space::Space;

/// An address operand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pointer {
    pub(crate) space: Space,
    pub(crate) base: Base,
    pub(crate) offset: u64,
}

/// An instruction of these families.
#[derive(Clone, Debug)]
pub(crate) enum Asynchronous {
    Mbarrier(Mbarrier),
    BulkCopy(BulkCopy),
    LaneCopy(LaneCopy),
    /// `cp.async.mbarrier.arrive`
    ArriveAfterCopies {
        at: Pointer,
        /// Whether the arrival counts among those that the mbarrier was initialised for (`.noinc`).
        expected: bool,
    },
    RemoteStore(RemoteStore),
    ReplaceField(ReplaceField),
    /// `tensormap.cp_fenceproxy`: copies a map from shared to global memory.
    CopyMap {
        to: Pointer,
        from: Pointer,
    },
    /// `cp.async.bulk.commit_group`
    CommitGroup(GroupKind),
    WaitGroup {
        kind: GroupKind,
        /// How many of the latest groups may stay in flight; `None` waits for everything, committed
        /// or not.
        leave: Option<u32>,
        /// Whether to wait only until the sources have been read.
        read: bool,
    },
    /// A `fence.proxy.*` that makes generic writes visible to the async proxy.
    ProxyFence,
    ClusterBarrier {
        wait: bool,
        aligned: bool,
        /// Whether it releases (arrive) or acquires (wait); not with `.relaxed`.
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

/// The groups of `cp.async`, or those of bulk copies.
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
        /// Arrivals; `None` is 1.
        count: Option<Slot>,
        /// Transaction bytes to expect before the arrival.
        expect: Option<Slot>,
        /// Whether the thread drops out of the phases to come (`arrive_drop`).
        drop: bool,
        /// Whether the arrival must not complete the phase (`.noComplete`).
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
        /// Whether it is `try_wait`, which may suspend the thread.
        blocks: bool,
    },
}

/// How a wait names its phase.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    /// By a state in a 64-bit register.
    State(Slot),
    /// By a parity in a 32-bit register.
    Parity(Slot),
}

/// `mbarrier`
#[derive(Clone, Debug)]
pub(crate) struct Mbarrier {
    pub(crate) kind: MbarrierKind,
    pub(crate) at: Pointer,
    /// Whether it may lie in another block of the cluster.
    pub(crate) remote: bool,
    /// Whether it releases (arrive) or acquires (wait); not with `.relaxed`.
    pub(crate) ordered: bool,
    /// Destination of the state before an arrival.
    pub(crate) d: Option<Slot>,
}

/// Between which memories a bulk or tensor copy moves data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From global to shared memory; an mbarrier counts the bytes.
    Load,
    /// From shared to global memory; completes with its bulk group.
    Store,
    /// From the block's own shared memory to that of a block of the cluster; an mbarrier there
    /// counts the bytes.
    Across,
    /// From global memory into the L2 cache.
    Prefetch,
}

/// What a copy does at its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Combine {
    Replace,
    /// A reduction of elements of this type.
    Reduce(AtomicOp, AtomicType),
    /// A reduction of elements of the tensor map's type.
    ReduceMapped(AtomicOp),
}

/// The side of a copy that is not the `shared` operand.
#[derive(Clone, Debug)]
pub(crate) enum GlobalSide {
    /// A number of bytes from an address on.
    Linear { at: Pointer, bytes: Slot },
    /// A box of a tensor; coordinates are listed innermost first.
    Tensor {
        map: Pointer,
        coordinates: Box<[Slot]>,
        /// The offsets of an im2col copy, in 16-bit registers.
        im2col: Option<Box<[Slot]>>,
    },
    /// None: a number of bytes of the block's shared memory is the source.
    Shared { from: Pointer, bytes: Slot },
}

/// `cp.async.bulk`, `cp.reduce.async.bulk` and their tensor forms.
#[derive(Clone, Debug)]
pub(crate) struct BulkCopy {
    pub(crate) direction: Direction,
    pub(crate) combine: Combine,
    pub(crate) global: GlobalSide,
    /// Destination of loads, source of stores; `None` for a prefetch.
    pub(crate) shared: Option<Pointer>,
    /// Whether the destination may lie in another block of the cluster.
    pub(crate) remote: bool,
    pub(crate) mbarrier: Option<Pointer>,
    /// Mask of the blocks of the cluster that receive it.
    pub(crate) multicast: Option<Slot>,
}

/// `cp.async`
#[derive(Clone, Debug)]
pub(crate) struct LaneCopy {
    pub(crate) to: Pointer,
    pub(crate) from: Pointer,
    /// Bytes for each lane: 4, 8 or 16.
    pub(crate) bytes: u32,
    /// Bytes that are read; the rest is filled with zeros.
    pub(crate) source_bytes: Option<Slot>,
    /// Predicate under which nothing is read and zeros are written.
    pub(crate) ignore: Option<Guard>,
}

/// `st.async` and `red.async`
#[derive(Clone, Debug)]
pub(crate) struct RemoteStore {
    pub(crate) to: Pointer,
    pub(crate) mbarrier: Pointer,
    pub(crate) values: Box<[Reg]>,
    pub(crate) combine: Combine,
}

/// A field of a tensor map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MapField {
    GlobalAddress,
    Rank,
    BoxDim(usize),
    GlobalDim(usize),
    /// The stride of a dimension, in units of the second number's bytes.
    GlobalStride(usize, u64),
    ElementStride(usize),
    ElementType,
    Interleave,
    Swizzle,
    Fill,
}

/// `tensormap.replace`
#[derive(Clone, Debug)]
pub(crate) struct ReplaceField {
    pub(crate) map: Pointer,
    pub(crate) field: MapField,
    pub(crate) value: Reg,
}
