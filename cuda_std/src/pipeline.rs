//! A multi-stage producer/consumer pipeline: a ring of stages in shared memory that one thread
//! fills by asynchronous copies and consumer warpgroups read.
//!
//! Each stage has two [`Mbarrier`]s:
//!
//! | barrier | a phase completes after | waited for by |
//! |---|---|---|
//! | `full` | the producer's arrival, and the transaction bytes that it announced | consumers |
//! | `empty` | one arrival per release, as many as [`Pipeline::init`] was given | the producer |
//!
//! The right to access a stage is a value. [`Producer::acquire`] returns a [`Slot`], which the
//! copies are issued with. [`Consumer::wait`] returns a [`Stage`], which [`Stage::release`]
//! consumes. Views such as operands borrow the stage, so a released stage cannot be read:
//!
//! ```compile_fail
//! use cuda_std::pipeline::{Consumer, Readers, Stages};
//! use cuda_std::tile::{KMajor, TileRing};
//! use cuda_std::wgmma::Bf16;
//! unsafe fn read(mut consumer: Consumer<Stages<4>>, tiles: TileRing<Bf16, KMajor, 128>) -> u64 {
//!     unsafe {
//!         let stage = consumer.wait();
//!         let operand = tiles.operand(&stage, 0);
//!         stage.release(Readers::OneBlock);
//!         operand.descriptor().bits()
//!     }
//! }
//! ```
//! ```
//! # use cuda_std::pipeline::{Consumer, Readers, Stages};
//! # use cuda_std::tile::{KMajor, TileRing};
//! # use cuda_std::wgmma::Bf16;
//! unsafe fn read(mut consumer: Consumer<Stages<4>>, tiles: TileRing<Bf16, KMajor, 128>) -> u64 {
//!     unsafe {
//!         let stage = consumer.wait();
//!         let bits = tiles.operand(&stage, 0).descriptor().bits();
//!         stage.release(Readers::OneBlock);
//!         bits
//!     }
//! }
//! ```

use core::fmt::Debug;
use core::marker::PhantomData;

use crate::hint::opaque;
use crate::mbarrier::Mbarrier;
use crate::shared::SharedAddr;
use crate::thread;
use crate::warp;

/// A number of stages as a type, so that a kernel's configuration can name it: an associated type
/// may be an argument of a type, an associated const may not.
pub trait StageCount: Copy + Debug {
    /// The number.
    const STAGES: u32;
}

/// `N` stages.
#[derive(Clone, Copy, Debug)]
pub struct Stages<const N: u32>;

impl<const N: u32> StageCount for Stages<N> {
    const STAGES: u32 = N;
}

/// The mbarriers of a ring of stages in shared memory: all `full` barriers, then all `empty` ones.
#[derive(Clone, Copy, Debug)]
pub struct Pipeline<S: StageCount> {
    barriers: SharedAddr,
    stages: PhantomData<S>,
}

impl<S: StageCount> Pipeline<S> {
    /// Bytes of shared memory that the mbarriers occupy.
    pub const BYTES: u32 = 16 * S::STAGES;

    /// The pipeline whose mbarriers occupy the [`BYTES`](Self::BYTES) from `barriers` on, a
    /// multiple of 8.
    #[inline(always)]
    pub const fn at(barriers: SharedAddr) -> Self {
        Self {
            barriers,
            stages: PhantomData,
        }
    }

    /// Initialises the mbarriers: `full` with an arrival count of 1, `empty` with one of
    /// `releases`.
    ///
    /// `releases` is the number of arrivals at this block's `empty` barrier each time a stage is
    /// read. It counts one for each warpgroup that releases the stage, in all blocks of the
    /// cluster.
    ///
    /// One thread calls it. The block's other threads, the async proxy and the cluster may use the
    /// mbarriers after [`fence_mbarrier_init_release_cluster`] by that thread and then a barrier of
    /// the block (or the cluster).
    ///
    /// # Safety
    /// The memory of the mbarriers is not in use for anything else.
    ///
    /// # Panics
    /// On the host.
    ///
    /// [`fence_mbarrier_init_release_cluster`]: crate::fence::fence_mbarrier_init_release_cluster
    #[inline(always)]
    pub unsafe fn init(self, releases: u32) {
        // Runs once: of many stages, a loop is less code.
        let stages = match S::STAGES {
            few @ ..4 => few,
            many => opaque(many),
        };
        let mut stage = 0;
        while stage < stages {
            // SAFETY: passed on to the caller.
            unsafe {
                self.full(stage).init(1);
                self.empty(stage).init(releases);
            }
            stage += 1;
        }
    }

    /// The producer's end, at the first stage.
    #[inline(always)]
    pub const fn producer(self) -> Producer<S> {
        Producer {
            pipeline: self,
            // In the first round every stage is empty: a wait for parity 1 of a fresh mbarrier
            // succeeds at once, as the phase before the first counts as completed.
            cursor: Cursor {
                stage: 0,
                parity: 1,
            },
        }
    }

    /// A consumer's end, at the first stage.
    #[inline(always)]
    pub const fn consumer(self) -> Consumer<S> {
        Consumer {
            pipeline: self,
            cursor: Cursor {
                stage: 0,
                parity: 0,
            },
        }
    }

    #[inline(always)]
    const fn full(self, stage: u32) -> Mbarrier {
        Mbarrier::at(self.barriers.add_bytes(8 * stage))
    }

    #[inline(always)]
    const fn empty(self, stage: u32) -> Mbarrier {
        Mbarrier::at(self.barriers.add_bytes(8 * (S::STAGES + stage)))
    }
}

/// A stage of the ring, and the phase parity to wait for there.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    stage: u32,
    parity: u32,
}

impl Cursor {
    #[inline(always)]
    fn advance(&mut self, stages: u32) {
        self.stage += 1;
        if self.stage == stages {
            self.stage = 0;
            self.parity ^= 1;
        }
    }

    #[inline(always)]
    fn skip(&mut self, skipped: u32, stages: u32) {
        let stage = self.stage + skipped;
        self.parity ^= (stage / stages) & 1;
        self.stage = stage % stages;
    }
}

/// The end of a [`Pipeline`] that fills stages. It belongs to one thread, or to one warp whose
/// leader issues the copies ([`acquire_by_warp`](Self::acquire_by_warp)).
#[derive(Debug)]
pub struct Producer<S: StageCount> {
    pipeline: Pipeline<S>,
    cursor: Cursor,
}

impl<S: StageCount> Producer<S> {
    /// Waits until the next stage is empty, and arrives at its `full` barrier with `bytes` expected
    /// transaction bytes.
    ///
    /// # Safety
    /// The mbarriers are initialised. The copies that complete on the slot's barrier amount to
    /// exactly `bytes`, those that other blocks of the cluster multicast into it included.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub unsafe fn acquire(&mut self, bytes: u32) -> Slot {
        // SAFETY: passed on to the caller.
        let slot = unsafe { self.acquire_of(self.pipeline, bytes) };
        self.advance();
        slot
    }

    /// As [`acquire`](Self::acquire), but of the next stage of `pipeline`, and without advancing:
    /// for several pipelines that are filled in lockstep by one producer state.
    ///
    /// # Safety
    /// As for [`acquire`](Self::acquire). It is called once for each pipeline before
    /// [`advance`](Self::advance).
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub unsafe fn acquire_of(&self, pipeline: Pipeline<S>, bytes: u32) -> Slot {
        // SAFETY: passed on to the caller.
        unsafe { self.acquire_by_warp(pipeline, bytes, true) }
    }

    /// As [`acquire_of`](Self::acquire_of), for a producer warp whose lanes all execute the loop.
    /// All lanes wait; only the leader arrives with the expected bytes, and it must issue the
    /// copies. The stage index is then the same in all lanes, so ptxas can keep it in uniform
    /// registers.
    ///
    /// # Safety
    /// As for [`acquire_of`](Self::acquire_of); exactly one lane is the leader.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub unsafe fn acquire_by_warp(
        &self,
        pipeline: Pipeline<S>,
        bytes: u32,
        is_leader: bool,
    ) -> Slot {
        let Cursor { stage, parity } = self.cursor;
        let full = pipeline.full(stage);
        // SAFETY: passed on to the caller.
        unsafe {
            pipeline.empty(stage).wait_parity(parity); // all have released it
            if is_leader {
                full.arrive_expect_tx(bytes);
            }
        }
        Slot { stage, full }
    }

    /// Advances to the next stage.
    #[inline(always)]
    pub fn advance(&mut self) {
        self.cursor.advance(S::STAGES);
    }

    /// Waits until every stage is empty. No consumer then arrives at a barrier of this block any more,
    /// and all that was multicast to or from it has landed: the block may exit.
    ///
    /// # Safety
    /// The mbarriers are initialised; no stage is acquired afterwards.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub unsafe fn drain(&mut self) {
        let mut stages = S::STAGES;
        while stages > 0 {
            let Cursor { stage, parity } = self.cursor;
            // SAFETY: passed on to the caller.
            unsafe { self.pipeline.empty(stage).wait_parity(parity) }; // all have released it
            self.advance();
            stages -= 1;
        }
    }
}

/// An empty stage, which the producer may fill.
#[derive(Debug)]
pub struct Slot {
    stage: u32,
    full: Mbarrier,
}

impl Slot {
    /// Its index in the ring.
    #[inline(always)]
    pub const fn index(&self) -> u32 {
        self.stage
    }

    /// The `full` barrier, on which the copies into the stage count their bytes.
    #[inline(always)]
    pub const fn barrier(&self) -> Mbarrier {
        self.full
    }
}

/// The end of a [`Pipeline`] that reads stages. Each consumer thread has its own.
#[derive(Debug)]
pub struct Consumer<S: StageCount> {
    pipeline: Pipeline<S>,
    cursor: Cursor,
}

impl<S: StageCount> Consumer<S> {
    /// Waits until the next stage is full. The bytes that the copies wrote are then visible to the
    /// thread.
    ///
    /// # Safety
    /// The mbarriers are initialised.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub unsafe fn wait(&mut self) -> Stage {
        let Cursor { stage, parity } = self.cursor;
        self.cursor.advance(S::STAGES);
        // SAFETY: passed on to the caller.
        unsafe { self.pipeline.full(stage).wait_parity(parity) }; // the stage's copies landed
        Stage {
            stage,
            empty: self.pipeline.empty(stage),
        }
    }

    /// As [`wait`](Self::wait), but for the next stage of `pipeline`, and without advancing: for
    /// several pipelines that are read in lockstep by one consumer state.
    ///
    /// # Safety
    /// As for [`wait`](Self::wait). It is called once for each pipeline before
    /// [`advance`](Self::advance).
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub unsafe fn wait_of(&self, pipeline: Pipeline<S>) -> Stage {
        let Cursor { stage, parity } = self.cursor;
        // SAFETY: passed on to the caller.
        unsafe { pipeline.full(stage).wait_parity(parity) }; // the stage's copies landed
        Stage {
            stage,
            empty: pipeline.empty(stage),
        }
    }

    /// The stage that [`wait_of`](Self::wait_of) gave, again: what belongs to it is computed anew, so
    /// that a kernel with no registers left need not keep it.
    ///
    /// # Safety
    /// The stage has been waited for and not been advanced from; of all that stand for it one is
    /// released.
    #[inline(always)]
    pub unsafe fn held_of(&self, pipeline: Pipeline<S>) -> Stage {
        let stage = opaque(self.cursor.stage);
        Stage {
            stage,
            empty: pipeline.empty(stage),
        }
    }

    /// Advances to the next stage.
    #[inline(always)]
    pub fn advance(&mut self) {
        self.cursor.advance(S::STAGES);
    }

    /// Waits until the next stage is full, and puts it in the place of one that
    /// [`Stage::release_early`] released.
    ///
    /// # Safety
    /// The mbarriers are initialised.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub unsafe fn wait_into(&mut self, stage: &mut Stage) {
        // SAFETY: passed on to the caller.
        *stage = unsafe { self.wait() };
    }

    /// Makes the stage index warp-uniform in a way that ptxas recognises ([`warp::uniform`]).
    /// Values that are computed from it, such as descriptors, can then live in uniform registers.
    /// Call it well before the next [`wait`](Self::wait), so that the latency of the shuffle is
    /// hidden.
    ///
    /// # Safety
    /// All lanes of the warp call it, converged, and are at the same stage.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub unsafe fn agree(&mut self) {
        // SAFETY: passed on to the caller.
        self.cursor.stage = unsafe { warp::uniform(self.cursor.stage) };
    }

    /// Skips the next `stages` stages, which another consumer reads.
    #[inline(always)]
    pub fn skip(&mut self, stages: u32) {
        self.cursor.skip(stages, S::STAGES);
    }
}

/// The blocks whose `empty` barrier a release arrives at: those whose producers write into this
/// block's stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// The consumer's own block only.
    OneBlock,
    /// The blocks of the cluster with ranks below this, which multicast into each other's stages.
    Cluster(u32),
}

/// A full stage, which the consumer that waited for it may read.
#[derive(Debug)]
#[must_use = "a stage that is not released is never filled again"]
pub struct Stage {
    stage: u32,
    empty: Mbarrier,
}

impl Stage {
    /// Its index in the ring.
    #[inline(always)]
    pub const fn index(&self) -> u32 {
        self.stage
    }

    /// Releases the stage: this warpgroup arrives once at the `empty` barrier of each block in
    /// `readers`.
    ///
    /// # Safety
    /// All threads of a warpgroup call it. Its reads of the stage are complete: it has waited for
    /// the wgmma groups that read it. If its threads read by ordinary loads, a barrier of the
    /// warpgroup lies behind these, as one thread arrives for all.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub unsafe fn release(self, readers: Readers) {
        // SAFETY: passed on to the caller.
        unsafe { self.release_early(readers) }
    }

    /// As [`release`](Self::release), without consuming the value: for a loop that keeps it in a
    /// variable until [`Consumer::wait_into`] replaces it.
    ///
    /// # Safety
    /// As for [`release`](Self::release). It is called once per stage, and the stage is not read
    /// afterwards.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub unsafe fn release_early(&self, readers: Readers) {
        let thread = thread::thread_idx_x() % 128;
        // SAFETY: passed on to the caller; the blocks of a cluster end together.
        unsafe {
            match readers {
                Readers::OneBlock => {
                    if thread == 0 {
                        self.empty.arrive();
                    }
                }
                Readers::Cluster(blocks) => {
                    if thread < blocks {
                        self.empty.of_rank(thread).arrive();
                    }
                }
            }
        }
    }
}
