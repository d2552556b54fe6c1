//! A ring of stages in shared memory, between one that fills them and those that read them.
//!
//! Each stage has two [`Mbarrier`]s: `full`, which the copies into it complete, and `empty`, at which
//! its readers arrive. Who may touch a stage is a value: [`Slot`] from [`Producer::acquire`] until
//! its copies are issued, [`Stage`] from [`Consumer::wait`] until [`Stage::release`] takes it. What
//! is made of a stage borrows it, so a released stage cannot be used:
//!
//! ```compile_fail
//! use cuda_std::pipeline::{Consumer, Readers};
//! use cuda_std::tile::{KMajor, TileRing};
//! use cuda_std::wgmma::Bf16;
//! unsafe fn read(mut consumer: Consumer<4>, tiles: TileRing<Bf16, KMajor, 128>) -> u64 {
//!     unsafe {
//!         let stage = consumer.wait();
//!         let operand = tiles.operand(&stage, 0);
//!         stage.release(Readers::OneBlock);
//!         operand.descriptor().bits()
//!     }
//! }
//! ```
//! ```
//! # use cuda_std::pipeline::{Consumer, Readers};
//! # use cuda_std::tile::{KMajor, TileRing};
//! # use cuda_std::wgmma::Bf16;
//! unsafe fn read(mut consumer: Consumer<4>, tiles: TileRing<Bf16, KMajor, 128>) -> u64 {
//!     unsafe {
//!         let stage = consumer.wait();
//!         let bits = tiles.operand(&stage, 0).descriptor().bits();
//!         stage.release(Readers::OneBlock);
//!         bits
//!     }
//! }
//! ```

use crate::mbarrier::Mbarrier;
use crate::shared::SharedAddr;
use crate::thread;
use crate::warp;

/// The barriers of `STAGES` stages: all `full`, then all `empty`.
#[derive(Clone, Copy, Debug)]
pub struct Pipeline<const STAGES: u32> {
    barriers: SharedAddr,
}

impl<const STAGES: u32> Pipeline<STAGES> {
    /// Bytes of shared memory that the barriers take.
    pub const BYTES: u32 = 16 * STAGES;

    /// Barriers at `barriers`, a multiple of 8 with [`BYTES`](Self::BYTES) behind it.
    #[inline(always)]
    pub const fn at(barriers: SharedAddr) -> Self {
        Self { barriers }
    }

    /// Makes the barriers: a stage is full after one arrival and the bytes that it announced, empty
    /// after `releases` of [`Stage::release`]. By one thread; the others, and the cluster, see
    /// them after [`fence_mbarrier_init_release_cluster`] and a barrier.
    ///
    /// # Safety
    /// The memory is free for them.
    ///
    /// # Panics
    /// On the host.
    ///
    /// [`fence_mbarrier_init_release_cluster`]: crate::fence::fence_mbarrier_init_release_cluster
    #[inline(always)]
    pub unsafe fn init(self, releases: u32) {
        let mut stage = 0;
        while stage < STAGES {
            // SAFETY: passed on to the caller.
            unsafe {
                self.full(stage).init(1);
                self.empty(stage).init(releases);
            }
            stage += 1;
        }
    }

    /// The end that fills, from the first stage on.
    #[inline(always)]
    pub const fn producer(self) -> Producer<STAGES> {
        Producer {
            pipeline: self,
            // The first pass finds every stage empty: the phase before the first counts as done.
            cursor: Cursor {
                stage: 0,
                parity: 1,
            },
        }
    }

    /// The end that reads, from the first stage on.
    #[inline(always)]
    pub const fn consumer(self) -> Consumer<STAGES> {
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
        Mbarrier::at(self.barriers.add_bytes(8 * (STAGES + stage)))
    }
}

/// A place in the ring, and the parity of the phase that is waited for there.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    stage: u32,
    parity: u32,
}

impl Cursor {
    #[inline(always)]
    fn advance<const STAGES: u32>(&mut self) {
        self.stage += 1;
        if self.stage == STAGES {
            self.stage = 0;
            self.parity ^= 1;
        }
    }

    #[inline(always)]
    fn skip<const STAGES: u32>(&mut self, stages: u32) {
        let stage = self.stage + stages;
        self.parity ^= (stage / STAGES) & 1;
        self.stage = stage % STAGES;
    }
}

/// The end of a [`Pipeline`] that fills stages. One thread's.
#[derive(Debug)]
pub struct Producer<const STAGES: u32> {
    pipeline: Pipeline<STAGES>,
    cursor: Cursor,
}

impl<const STAGES: u32> Producer<STAGES> {
    /// Waits until the next stage is empty, and announces `bytes` of copies into it.
    ///
    /// # Safety
    /// The barriers are made. Copies of just so many bytes are issued to the slot's barrier, in all
    /// blocks that copy into it together.
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

    /// The same of the next stage of `pipeline`, where several are filled in step, without going on
    /// to the one after.
    ///
    /// # Safety
    /// As for [`acquire`](Self::acquire); once for each before [`advance`](Self::advance).
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub unsafe fn acquire_of(&self, pipeline: Pipeline<STAGES>, bytes: u32) -> Slot {
        // SAFETY: passed on to the caller.
        unsafe { self.acquire_by_warp(pipeline, bytes, true) }
    }

    /// The same for a warp whose lanes all go through the loop that fills: all wait, the one that is
    /// the leader announces, and is to issue the copies. What counts stages is then the same in all
    /// lanes, and takes uniform registers.
    ///
    /// # Safety
    /// As for [`acquire_of`](Self::acquire_of); one lane is the leader.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub unsafe fn acquire_by_warp(
        &self,
        pipeline: Pipeline<STAGES>,
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

    /// Goes on to the next stage.
    #[inline(always)]
    pub fn advance(&mut self) {
        self.cursor.advance::<STAGES>();
    }
}

/// A stage to be filled.
#[derive(Debug)]
pub struct Slot {
    stage: u32,
    full: Mbarrier,
}

impl Slot {
    /// Its number in the ring.
    #[inline(always)]
    pub const fn index(&self) -> u32 {
        self.stage
    }

    /// The barrier that its copies complete.
    #[inline(always)]
    pub const fn barrier(&self) -> Mbarrier {
        self.full
    }
}

/// The end of a [`Pipeline`] that reads stages. Each reader has one.
#[derive(Debug)]
pub struct Consumer<const STAGES: u32> {
    pipeline: Pipeline<STAGES>,
    cursor: Cursor,
}

impl<const STAGES: u32> Consumer<STAGES> {
    /// Waits until the next stage is full.
    ///
    /// # Safety
    /// The barriers are made.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub unsafe fn wait(&mut self) -> Stage {
        let Cursor { stage, parity } = self.cursor;
        self.cursor.advance::<STAGES>();
        // SAFETY: passed on to the caller.
        unsafe { self.pipeline.full(stage).wait_parity(parity) }; // its copies landed
        Stage {
            stage,
            empty: self.pipeline.empty(stage),
        }
    }

    /// Waits until the next stage is full, in place of one that was released before it was let go
    /// ([`Stage::release_early`]).
    ///
    /// # Safety
    /// The barriers are made.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub unsafe fn wait_into(&mut self, stage: &mut Stage) {
        // SAFETY: passed on to the caller.
        *stage = unsafe { self.wait() };
    }

    /// Lets ptxas see that all lanes are at the same stage ([`warp::uniform`]): what is made of it, as
    /// descriptors are, then takes uniform registers. Nobody waits for the shuffle where it stands well
    /// before the next [`wait`](Self::wait).
    ///
    /// # Safety
    /// Whole warps call it, converged; their lanes are at the same stage.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub unsafe fn agree(&mut self) {
        // SAFETY: passed on to the caller.
        self.cursor.stage = unsafe { warp::uniform(self.cursor.stage) };
    }

    /// Leaves the next `stages` to another reader.
    #[inline(always)]
    pub fn skip(&mut self, stages: u32) {
        self.cursor.skip::<STAGES>(stages);
    }
}

/// In which blocks the stage of a [`Stage`] is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// The reader's own alone.
    OneBlock,
    /// The blocks of ranks below this, which copy into each other's stages.
    Cluster(u32),
}

/// A stage that is full, for the one who waited for it.
#[derive(Debug)]
#[must_use = "a stage that is not released is never filled again"]
pub struct Stage {
    stage: u32,
    empty: Mbarrier,
}

impl Stage {
    /// Its number in the ring.
    #[inline(always)]
    pub const fn index(&self) -> u32 {
        self.stage
    }

    /// Says to those that fill it that this warpgroup has read it.
    ///
    /// # Safety
    /// A warpgroup calls it, whose reads are complete: after the wait for the products that read it.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub unsafe fn release(self, readers: Readers) {
        // SAFETY: passed on to the caller.
        unsafe { self.release_early(readers) }
    }

    /// The same, of a stage that a loop keeps until it puts the next one in its place
    /// ([`Consumer::wait_into`]).
    ///
    /// # Safety
    /// As for [`release`](Self::release), once, and nothing is read of the stage any more.
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
