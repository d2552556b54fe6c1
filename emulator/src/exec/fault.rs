//! Faults inside the executor, before they become reports.

use crate::report::FaultKind;

/// What went wrong, where the executor knows it; [`block`](super::block) adds the rest.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    /// Position of the instruction.
    pub(crate) pc: u32,
    /// Cluster of the grid, if it is not the one that ran into the fault.
    pub(crate) cluster: Option<u64>,
    /// Block of the cluster.
    pub(crate) rank: u32,
    /// Warp of the block.
    pub(crate) warp: u32,
    /// Lane, where the fault is one lane's.
    pub(crate) lane: Option<u32>,
    pub(crate) address: Option<u64>,
    pub(crate) message: String,
    pub(crate) notes: Vec<String>,
    /// Position, block and warp are known.
    pub(crate) placed: bool,
    /// The other access of a race.
    pub(crate) second: Option<Second>,
}

/// An access that was there before.
#[derive(Clone, Debug)]
pub(crate) struct Second {
    /// What it did.
    pub(crate) what: String,
    /// Cluster of the grid, if it is another one.
    pub(crate) cluster: Option<u64>,
    /// Block of the cluster.
    pub(crate) rank: u32,
    /// Warp of the block.
    pub(crate) warp: u32,
    /// Lane, where it is one lane's.
    pub(crate) lane: Option<u32>,
    pub(crate) pc: u32,
}

impl Fault {
    /// A fault of which warp and position are filled in later.
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
            message,
            notes: Vec::new(),
            placed: false,
            second: None,
        })
    }

    /// Says where in its block the fault is, unless that is known.
    #[cold]
    pub(crate) fn in_warp(mut self: Box<Self>, warp: u32, pc: u32) -> Box<Self> {
        if !self.placed {
            (self.warp, self.pc) = (warp, pc);
        }
        self
    }

    /// Says in which block of the cluster the fault is, unless that is known.
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
    pub(crate) fn by(mut self: Box<Self>, lane: u32) -> Box<Self> {
        self.lane = Some(lane);
        self
    }

    #[cold]
    pub(crate) fn note(mut self: Box<Self>, note: String) -> Box<Self> {
        self.notes.push(note);
        self
    }
}

/// Result of a step.
pub(crate) type Checked<T> = Result<T, Box<Fault>>;
