//! The lowered form of a kernel, which the executor runs.

mod asynchrony;
mod image;
mod strength;
pub(crate) mod tensor;
mod watch;

pub(crate) use asynchrony::*;
pub(crate) use image::*;
pub(crate) use strength::{Scope, Strength};
pub(crate) use watch::*;

use std::sync::Arc;

use crate::exec::kernel::{Args, Kernel};
use crate::exec::registers::{Constants, Extent, Slot};
use crate::memory::space::Space;
use crate::profile::Kind;

/// Width of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Width {
    Pred,
    B16,
    B32,
    B64,
}

impl Width {
    /// Bits of the register.
    pub(crate) fn bits(self) -> u32 {
        match self {
            Self::Pred => 1,
            Self::B16 => 16,
            Self::B32 => 32,
            Self::B64 => 64,
        }
    }
}

/// A register or constant with its width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reg {
    pub(crate) slot: Slot,
    pub(crate) width: Width,
}

/// Guard predicate of an instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guard {
    pub(crate) pred: Slot,
    pub(crate) negated: bool,
}

/// One operation.
#[derive(Clone, Debug)]
pub(crate) struct Inst {
    pub(crate) op: Op,
    pub(crate) guard: Option<Guard>,
    /// Line in the PTX text.
    pub(crate) line: u32,
    /// 1, or 0 for all but the last of the operations that one PTX instruction is lowered to:
    /// counts PTX instructions.
    pub(crate) weight: u32,
    /// Its role in synchronisation through memory.
    pub(crate) strength: Strength,
    /// The scope of a strong access or a fence.
    pub(crate) scope: Scope,
    /// Whether its result depends on all of its sources, as that of arithmetic does.
    pub(crate) computes: bool,
}

/// What an operation does.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Lane by lane, from registers to registers.
    Lanes(Kernel, Args),
    /// Reads a special register.
    Special {
        d: Reg,
        source: Special,
    },
    /// Address of a variable in the frame of the current function.
    FrameAddress {
        d: Reg,
        offset: u64,
    },
    /// `mov` of a vector into one register; the first part is the lowest.
    Pack {
        d: Reg,
        parts: Box<[Reg]>,
    },
    /// `mov` of one register into a vector; the first part is the lowest.
    Unpack {
        parts: Box<[Reg]>,
        a: Reg,
    },
    Load(Box<Access>),
    Store(Box<Access>),
    /// The same for registers of which some may be unwritten.
    OpenStore(Box<OpenStore>),
    Atomic(Box<Atomic>),
    /// Textures and surfaces.
    Image(Box<ImageOp>),
    /// To a position in the code.
    Branch {
        target: u32,
    },
    BranchIndexed {
        index: Slot,
        /// Shared by all branches through one `.branchtargets`.
        targets: Arc<[u32]>,
    },
    Call(Box<Call>),
    /// `alloca` and its companions.
    Stack(Box<StackOp>),
    Return,
    Exit,
    Trap,
    Barrier(Box<Barrier>),
    Collective(Box<Collective>),
    Tensor(Box<tensor::TensorOp>),
    Asynchronous(Box<Asynchronous>),
    Printf(Box<Printf>),
    /// `malloc` and `free`
    Heap(HeapCall),
    /// `__assertfail`, or what cuda_builder calls instead.
    AssertFail(Box<AssertFail>),
    /// `membar`, and `fence` of the memory consistency model.
    Fence,
    /// Gives up the turn: `nanosleep`.
    Yield,
    /// An instruction that only hints, or orders what is in order here anyway.
    Nothing,
    /// Before the instruction proper: which registers are written.
    Watch(Box<Watch>),
}

impl Op {
    /// Whether the wait may end before what it waits for has happened.
    pub(crate) fn has_time_limit(&self) -> bool {
        match self {
            Self::Asynchronous(op) => op.has_time_limit(),
            _ => false,
        }
    }
}

/// A special register, as the executor computes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    /// `%tid`: thread index in x, y or z.
    Tid(u8),
    /// `%ntid`: block size in x, y or z.
    Ntid(u8),
    /// `%ctaid`: block index in x, y or z.
    Ctaid(u8),
    /// `%nctaid`: grid size in x, y or z.
    Nctaid(u8),
    Laneid,
    Warpid,
    Nwarpid,
    LanemaskEq,
    LanemaskLe,
    LanemaskLt,
    LanemaskGe,
    LanemaskGt,
    Smid,
    Nsmid,
    Gridid,
    /// Warp instructions that the warp has run; the high half with `true`.
    Clock(bool),
    DynamicSharedSize,
    /// Index of the block in its cluster, in x, y or z.
    ClusterCtaid(u8),
    /// Size of the cluster in x, y or z.
    ClusterNctaid(u8),
    ClusterCtarank,
    ClusterNctarank,
    /// Index of the cluster in the grid, in x, y or z.
    Clusterid(u8),
    /// Number of clusters in the grid, in x, y or z.
    Nclusterid(u8),
    /// Whether the launch or the kernel names a cluster size.
    IsExplicitCluster,
    TotalSharedSize,
    /// Address of the launch's [`GRID_WORKSPACE_BYTES`]: its high or its low half.
    GridWorkspace {
        high: bool,
    },
}

/// Bytes of zeroed global memory that a launch gets if its kernel reads `%envreg1` or `%envreg2`.
/// Cooperative groups keep the size of the workspace and the barrier of the grid there.
pub(crate) const GRID_WORKSPACE_BYTES: u64 = 8;

/// What an address is relative to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Base {
    /// A 32- or 64-bit register.
    Register(Reg),
    /// Nothing: the offset is the address.
    Absolute,
    /// The frame of the current function call.
    Frame,
}

/// A load or a store.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) space: Space,
    pub(crate) base: Base,
    pub(crate) offset: u64,
    /// Bytes of one element: 1, 2, 4 or 8.
    pub(crate) element: usize,
    /// Bytes of the whole access.
    pub(crate) bytes: usize,
    /// Whether it is a load of what another block may write: volatile, relaxed or stronger.
    pub(crate) strong: bool,
    /// Whether loads sign-extend.
    pub(crate) signed: bool,
    /// Destinations or sources, one for each element; `None` for `_`.
    pub(crate) regs: Box<[Option<Reg>]>,
}

/// An operation of `atom` and `red`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtomicOp {
    Exch,
    Cas,
    Add,
    Min,
    Max,
    Inc,
    Dec,
    And,
    Or,
    Xor,
}

/// How the bits of an atomic's operands are interpreted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtomicType {
    B16,
    B32,
    B64,
    S32,
    S64,
    F32,
    F64,
    F16,
    Bf16,
    F16x2,
    Bf16x2,
    /// 128 bits, in two registers of 64.
    B128,
}

impl AtomicType {
    /// Width of the registers that hold a value.
    pub(crate) fn width(self) -> Width {
        match self.bytes() {
            2 => Width::B16,
            4 => Width::B32,
            _ => Width::B64,
        }
    }

    /// Bytes of the value in one register.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::B16 | Self::F16 | Self::Bf16 => 2,
            Self::B32 | Self::S32 | Self::F32 | Self::F16x2 | Self::Bf16x2 => 4,
            Self::B64 | Self::S64 | Self::F64 | Self::B128 => 8,
        }
    }
}

/// `atom` or `red`.
#[derive(Clone, Debug)]
pub(crate) struct Atomic {
    pub(crate) space: Space,
    pub(crate) base: Base,
    pub(crate) offset: u64,
    pub(crate) op: AtomicOp,
    pub(crate) ty: AtomicType,
    /// Destinations of the old value, one for each part; empty for `red`.
    pub(crate) d: Box<[Reg]>,
    /// The operand; for `cas`, the value to compare with. A vector has a register for each element.
    pub(crate) b: Box<[Reg]>,
    /// For `cas`, the new value.
    pub(crate) c: Box<[Reg]>,
}

/// An operation on the dynamic part of the stack.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StackOp {
    /// `alloca`
    Alloc { d: Reg, bytes: Reg, align: u64 },
    /// `stacksave`
    Save(Reg),
    /// `stackrestore`
    Restore(Reg),
}

/// The function that a call reaches.
#[derive(Clone, Debug)]
pub(crate) enum Callee {
    /// A function of the program.
    Direct(u32),
    /// The function whose handle is in a register.
    Indirect(Slot),
}

/// `call`
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) callee: Callee,
    /// Frame offsets and sizes of the arguments, in the caller's frame.
    pub(crate) args: Box<[(u64, u64)]>,
    /// The same for the results.
    pub(crate) results: Box<[(u64, u64)]>,
}

/// A call of `vprintf`.
#[derive(Clone, Debug)]
pub(crate) struct Printf {
    /// Frame offset of the format pointer.
    pub(crate) format: u64,
    /// Frame offset of the argument pointer.
    pub(crate) arguments: u64,
    /// Frame offset of the result.
    pub(crate) result: Option<u64>,
}

/// A call of `malloc` or `free`: frame offsets of the argument and, for `malloc`, the result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeapCall {
    pub(crate) argument: u64,
    pub(crate) result: Option<u64>,
}

/// Frame offsets of the arguments of `__assertfail`.
#[derive(Clone, Debug)]
pub(crate) struct AssertFail {
    pub(crate) message: u64,
    pub(crate) file: u64,
    pub(crate) line: u64,
    pub(crate) function: u64,
    /// Index and length, or start, end and length, where these were compared.
    pub(crate) values: Box<[u64]>,
}

/// What a barrier instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BarrierKind {
    Sync,
    Arrive,
    /// `bar.red`, which reduces a predicate.
    RedAnd,
    RedOr,
    RedPopc,
}

/// `bar` and `barrier`.
#[derive(Clone, Debug)]
pub(crate) struct Barrier {
    pub(crate) kind: BarrierKind,
    /// Whether all threads of the warp must arrive together.
    pub(crate) aligned: bool,
    pub(crate) id: Slot,
    pub(crate) count: Option<Slot>,
    /// Destination of a reduction.
    pub(crate) d: Option<Reg>,
    /// Its predicate operand.
    pub(crate) operand: Option<Guard>,
}

/// Mode of `shfl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shuffle {
    Up,
    Down,
    Butterfly,
    Index,
}

/// Integer operation of `redux`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Redux {
    Add,
    MinU,
    MaxU,
    MinS,
    MaxS,
    And,
    Or,
    Xor,
}

/// The operations that lanes of a warp execute together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CollectiveKind {
    Shuffle(Shuffle),
    VoteAll,
    VoteAny,
    VoteUni,
    Ballot,
    MatchAny,
    MatchAll,
    Redux(Redux),
    Elect,
    SyncWarp,
    /// Does not wait for other lanes: the result is the lanes that run it now.
    ActiveMask,
}

/// A warp-wide instruction.
#[derive(Clone, Debug)]
pub(crate) struct Collective {
    pub(crate) kind: CollectiveKind,
    pub(crate) d: Option<Reg>,
    /// Predicate destination.
    pub(crate) p: Option<Slot>,
    pub(crate) a: Option<Reg>,
    pub(crate) b: Option<Slot>,
    pub(crate) c: Option<Slot>,
    /// Predicate source of votes.
    pub(crate) source: Option<Guard>,
    /// Member mask; `None` for `activemask`.
    pub(crate) members: Option<Slot>,
}

/// A function of a program.
#[derive(Clone, Debug)]
pub(crate) struct FunctionInfo {
    pub(crate) name: String,
    /// Position of its first instruction.
    pub(crate) entry: u32,
    /// Size of its registers.
    pub(crate) registers: Extent,
    /// Size of its frame in bytes: parameters, results, local variables.
    pub(crate) frame_bytes: u64,
    /// Frame offsets and sizes of the parameters.
    pub(crate) params: Vec<(u64, u64)>,
    /// The same for the results.
    pub(crate) results: Vec<(u64, u64)>,
}

/// Directives that bound the registers per thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bounds {
    /// Most threads of a block, by `.maxntid` or `.reqntid`.
    pub(crate) threads: Option<u32>,
    /// `.minnctapersm`
    pub(crate) blocks: u32,
    /// `.maxnreg`
    pub(crate) max_registers: Option<u32>,
    /// Whether the kernel's directives give a cluster size.
    pub(crate) explicit_cluster: bool,
}

/// A kernel with every function that it may reach.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) code: Vec<Inst>,
    /// Kind of each instruction, by its position.
    pub(crate) kinds: Vec<Kind>,
    pub(crate) constants: Constants,
    /// Registers that the operation at each position names.
    pub(crate) touched: Vec<Box<[Reg]>>,
    /// Function 0 is the kernel.
    pub(crate) functions: Vec<FunctionInfo>,
    /// The function behind each handle, by handle minus [`FUNCTION_HANDLES`]; `None` for functions
    /// that the kernel cannot reach.
    pub(crate) handles: Vec<Option<u32>>,
    /// Static shared memory in bytes, from [`SHARED_BASE`](crate::memory::shared::SHARED_BASE).
    pub(crate) shared_bytes: u64,
    /// Lowest shared address that the kernel may use: 0 if it asks where the system's reserved part
    /// is.
    pub(crate) shared_from: u64,
    /// What the kernel's directives promise of its launches.
    pub(crate) bounds: Bounds,
    /// Whether it reads where the grid's workspace is.
    pub(crate) grid_workspace: bool,
    /// Whether it calls `malloc` or `free`.
    pub(crate) heap: bool,
    /// Whether blocks may communicate through global memory. They then run on one host thread, in a
    /// fixed order, so that results are deterministic.
    pub(crate) ordered: bool,
}

/// Handle of the module's function 0; each further function's is one higher. A handle is what `mov`
/// of a function's name gives. It is the same in all kernels of a module, since module variables
/// may hold handles.
pub(crate) const FUNCTION_HANDLES: u64 = 0x0500_0000_0000;
