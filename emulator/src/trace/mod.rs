//! Timelines of launches: what each warp ran and waited for, and the asynchronous work beside it.
//!
//! A [`Trace`] is part of the [configuration](crate::EmulatorConfig::trace). Each launch adds a
//! [`Timeline`] to it, also a launch that fails.
//!
//! # Steps
//! Time is not modelled, so a timeline counts *steps*. Each warp has a clock that starts at 0 with
//! its cluster.
//!
//! | event | clock |
//! |---|---|
//! | a warp is issued an instruction | its clock goes on by one |
//! | a warp goes on after a barrier, an mbarrier or a group | not before the clock of the last that arrived |
//! | an asynchronous operation lands | the latest clock of the cluster's warps |
//!
//! So warps run side by side, and a wait is as long as the others take. Under seed 0 an operation
//! lands when no warp can go on without it. Clocks of two clusters are not related.

mod recorder;

use std::sync::{Arc, Mutex, PoisonError};

pub(crate) use recorder::{Landed, Log, Recorder};

pub use crate::profile::Waited;

/// Collects the timelines of launches. Clones collect into the same place.
#[derive(Clone, Debug)]
pub struct Trace {
    blocks: u64,
    timelines: Arc<Mutex<Vec<Timeline>>>,
}

impl Trace {
    /// Most spans of one cluster.
    pub const MOST_SPANS: usize = 1 << 18;

    /// Records the first clusters of each launch that have `blocks` blocks together, and at least
    /// one cluster.
    pub fn of_blocks(blocks: u64) -> Self {
        Self {
            blocks,
            timelines: Arc::default(),
        }
    }

    /// Takes out the timelines of the launches so far, in their order.
    pub fn take(&self) -> Vec<Timeline> {
        let mut timelines = self
            .timelines
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *timelines)
    }

    /// Clusters to record, of `blocks` blocks each.
    pub(crate) fn clusters(&self, blocks: usize) -> u64 {
        (self.blocks / blocks as u64).max(1)
    }

    pub(crate) fn add(&self, timeline: Timeline) {
        let mut timelines = self
            .timelines
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        timelines.push(timeline);
    }
}

/// The timeline of one launch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeline {
    /// Kernel that was launched.
    pub kernel: String,
    /// Seed of the schedule.
    pub seed: u64,
    /// Blocks of the grid.
    pub blocks: u64,
    /// Blocks that were recorded.
    pub recorded: u64,
    /// Warps of a block.
    pub warps: u32,
    /// In the order of the blocks; of each block by track, and by start.
    pub spans: Vec<Span>,
    /// Spans that a cluster had beyond [`Trace::MOST_SPANS`].
    pub left_out: u64,
    /// The lines that the spans name.
    pub lines: Vec<Line>,
}

/// Something that lasted from one step to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Span {
    /// Index of the cluster in the grid, x fastest.
    pub cluster: u64,
    /// Block index in x, y, z.
    pub block: [u32; 3],
    /// What the span belongs to.
    pub track: Track,
    /// What happened.
    pub activity: Activity,
    /// First step.
    pub start: u64,
    /// The step after the last. Equal to `start` for a wait that was over at once.
    pub end: u64,
    /// Its first and its last instruction, as indices of [`Timeline::lines`].
    pub lines: (usize, usize),
}

/// What a span of a block belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Track {
    /// A warp, by its index in the block. Its spans do not overlap.
    Warp(u32),
    /// The `wgmma` of the warpgroup with this first warp.
    Warpgroup(u32),
    /// The asynchronous copies that threads of the block issued.
    Copies,
    /// The mbarrier at this offset in the block's shared memory. Its spans do not overlap.
    Mbarrier(u64),
}

/// What happens in a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// A warp runs instructions.
    Run,
    /// A warp waits.
    Wait(Waited),
    /// A copy of `bytes` is in flight, from its issue until it has landed.
    Copy {
        /// Its kind.
        kind: CopyKind,
        /// Bytes that it moves.
        bytes: u64,
    },
    /// A group of `wgmma` is in flight, from the first issue to the wait.
    Wgmma {
        /// Number of `wgmma.mma_async` in the group.
        count: u32,
    },
    /// A phase of an mbarrier, with its number.
    Phase(u64),
}

/// The kinds of asynchronous copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyKind {
    /// `cp.async`, of several lanes of a warp.
    Lanes,
    /// A bulk or tensor copy into shared memory.
    Load,
    /// A bulk or tensor copy out of shared memory.
    Store,
    /// A bulk copy to another block's shared memory.
    Across,
    /// `st.async` or `red.async`.
    Sent,
}

/// A line of the PTX text that has an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Line {
    /// Its number, from 1.
    pub ptx_line: u32,
    /// The line itself, trimmed.
    pub ptx_text: String,
    /// Source file and line in the kernel, if the PTX has a `.loc` for it.
    pub source: Option<(String, u32)>,
}
