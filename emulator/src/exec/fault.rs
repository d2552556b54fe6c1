//! Faults inside the executor, before they become reports.

use crate::memory::space::Space;
use crate::report::FaultKind;

/// What went wrong, as far as the executor knows it; [`block`](super::block) and
/// [`grid`](super::grid) add the rest.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    /// Position of the instruction.
    pub(crate) pc: u32,
    /// Index in the grid of the cluster; `None` for the one that hit the fault.
    pub(crate) cluster: Option<u64>,
    /// Rank of the block in the cluster.
    pub(crate) rank: u32,
    /// Warp in the block.
    pub(crate) warp: u32,
    /// The lane, if the fault is a single lane's.
    pub(crate) lane: Option<u32>,
    pub(crate) address: Option<u64>,
    /// Of a read of unwritten memory, the space, and the bytes that were read from the address on.
    pub(crate) space: Option<Space>,
    pub(crate) bytes: u64,
    pub(crate) message: String,
    pub(crate) notes: Vec<String>,
    /// Whether position, block and warp have been filled in.
    pub(crate) placed: bool,
    /// The earlier access of a race.
    pub(crate) second: Option<Second>,
    /// The bytes of shared memory that were read before anything wrote them.
    pub(crate) unwritten: Option<Unwritten>,
}

/// A range of the shared memory of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unwritten {
    /// Rank of the block in the cluster.
    pub(crate) rank: u32,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// The earlier access of a race.
#[derive(Clone, Debug)]
pub(crate) struct Second {
    /// What it did.
    pub(crate) what: String,
    /// Index in the grid of the cluster; `None` for the one that hit the fault.
    pub(crate) cluster: Option<u64>,
    /// Rank of the block in the cluster.
    pub(crate) rank: u32,
    /// Warp in the block.
    pub(crate) warp: u32,
    /// The lane, if it is a single lane's.
    pub(crate) lane: Option<u32>,
    pub(crate) pc: u32,
}

impl Fault {
    /// A fault whose warp and position are filled in later.
    #[cold]
    pub(crate) fn new(kind: FaultKind, lane: Option<u32>, message: String) -> Box<Self> {
        Box::new(Self {
            kind,
            pc: 0,
            cluster: None,
            rank: 0,
            warp: 0,
            lane,
            address: None,
            space: None,
            bytes: 0,
            message,
            notes: Vec::new(),
            placed: false,
            second: None,
            unwritten: None,
        })
    }

    /// The end of a launch for which the host has no memory; its error is made of what
    /// [`Starved`](crate::memory::host::Starved) says.
    #[cold]
    pub(crate) fn starved() -> Box<Self> {
        Self::new(FaultKind::Trap, None, "the host has no memory".to_owned())
    }

    /// Fills in the place in the block, unless it is known.
    #[cold]
    pub(crate) fn in_warp(mut self: Box<Self>, warp: u32, pc: u32) -> Box<Self> {
        if !self.placed {
            (self.warp, self.pc) = (warp, pc);
        }
        self
    }

    /// Fills in the place.
    #[cold]
    pub(crate) fn in_place(mut self: Box<Self>, rank: u32, warp: u32, pc: u32) -> Box<Self> {
        (self.rank, self.warp, self.pc) = (rank, warp, pc);
        self.placed = true;
        self
    }

    /// Fills in the block of the cluster, unless it is known.
    #[cold]
    pub(crate) fn in_block(mut self: Box<Self>, rank: u32) -> Box<Self> {
        if !self.placed {
            self.rank = rank;
        }
        self
    }

    #[cold]
    pub(crate) fn at(mut self: Box<Self>, address: u64) -> Box<Self> {
        self.address = Some(address);
        self
    }

    #[cold]
    pub(crate) fn over(mut self: Box<Self>, space: Space, address: u64, bytes: u64) -> Box<Self> {
        (self.space, self.address, self.bytes) = (Some(space), Some(address), bytes);
        self
    }

    #[cold]
    pub(crate) fn of_shared(mut self: Box<Self>, rank: u32, offset: u64, bytes: u64) -> Box<Self> {
        self.unwritten = Some(Unwritten {
            rank,
            offset,
            bytes,
        });
        self
    }

    #[cold]
    pub(crate) fn by(mut self: Box<Self>, lane: u32) -> Box<Self> {
        self.lane = Some(lane);
        self
    }

    #[cold]
    pub(crate) fn note(mut self: Box<Self>, note: String) -> Box<Self> {
        self.notes.push(note);
        self
    }

    /// Adds a note, if there is one.
    pub(crate) fn notes(mut self: Box<Self>, note: Option<String>) -> Box<Self> {
        self.notes.extend(note);
        self
    }
}

/// Result of a step.
pub(crate) type Checked<T> = Result<T, Box<Fault>>;
