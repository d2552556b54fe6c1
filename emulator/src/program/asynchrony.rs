//! Instructions of Hopper's asynchrony: mbarriers, copies, cluster barriers, register budgets.

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

/// One instruction of these families.
#[derive(Clone, Debug)]
pub(crate) enum Asynchronous {
    Mbarrier(Mbarrier),
    BulkCopy(BulkCopy),
    LaneCopy(LaneCopy),
    /// `cp.async.mbarrier.arrive`
    ArriveAfterCopies {
        at: Pointer,
        /// The arrival is one of those that the mbarrier was initialised for.
        expected: bool,
    },
    RemoteStore(RemoteStore),
    ReplaceField(ReplaceField),
    /// `tensormap.cp_fenceproxy`: from shared to global memory.
    CopyMap {
        to: Pointer,
        from: Pointer,
    },
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

/// Between which memories a bulk or tensor copy moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From global to shared memory, completed by an mbarrier.
    Load,
    /// From shared to global memory, completed by a group.
    Store,
    /// From the block's shared memory to another's, completed by an mbarrier there.
    Across,
    /// From global memory into the L2 cache.
    Prefetch,
}

/// What a copy does where it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Combine {
    Replace,
    /// A reduction of elements of this type.
    Reduce(AtomicOp, AtomicType),
    /// A reduction of elements of the tensor map's type.
    ReduceMapped(AtomicOp),
}

/// The global side of a copy.
#[derive(Clone, Debug)]
pub(crate) enum GlobalSide {
    /// So many bytes from an address on.
    Linear { at: Pointer, bytes: Slot },
    /// A box of a tensor; coordinates are innermost first.
    Tensor {
        map: Pointer,
        coordinates: Box<[Slot]>,
        /// For an im2col map, the offsets in 16-bit registers.
        im2col: Option<Box<[Slot]>>,
    },
    /// There is none: so many bytes of the block's shared memory.
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
    /// The destination may lie in another block of the cluster.
    pub(crate) remote: bool,
    pub(crate) mbarrier: Option<Pointer>,
    /// Blocks of the cluster that receive it.
    pub(crate) multicast: Option<Slot>,
}

/// `cp.async`
#[derive(Clone, Debug)]
pub(crate) struct LaneCopy {
    pub(crate) to: Pointer,
    pub(crate) from: Pointer,
    /// 4, 8 or 16.
    pub(crate) bytes: u32,
    /// Bytes that are read; the others are zero.
    pub(crate) source_bytes: Option<Slot>,
    /// Where it holds, nothing is read.
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
    /// In units of so many bytes.
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
