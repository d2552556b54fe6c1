//! Rows that come through a ring: blocks, or clusters of them, that stay, and go from row to row.
//!
//! A block has a slice of a row, the same of all its rows, and a warp the same part of the slice: so
//! what belongs to columns stays in registers. The next rows are on their way all the time.
//!
//! **Roles**: each warp asks for its part of the row, by one bulk copy an input, and uses it: nobody
//! waits for a whole slice. In clusters the warps take turns at sending what all have summed up.
//!
//! **Pipelines** (row `i` of the block's; `warps` of the row in a block):
//!
//! | barrier | producer | consumer | arrivals | bytes |
//! |---|---|---|---|---|
//! | `landed`, of a warp and a stage | bulk copies of its first lanes | the warp | 1 an input | its part of all inputs |
//! | `gathered`, one for each of 16 rows, in clusters | the block's warps | the warp whose turn it is | `warps` | 0 |
//! | `posted`, one for each of 64 or 32 rows, in clusters | such a warp of every block | the block's warps | 1 | 16 a block |
//! | the same, for each of 16 rows, in single blocks | the block's warps | the same | `warps` | 0 |
//!
//! A warp gathers its sums of a row before it collects those of the row before, and sends after that:
//! an exchange has the time in which sums of a row are made. There are places for sums of as many rows
//! as there are barriers. Nothing that is sent says that the sender has read what was sent to it: so,
//! each time that half of the places are used up, all warps of a cluster arrive at its barrier, and
//! wait for it when another quarter is, and the others have arrived long since; what they have read by
//! the arrival is written again after the wait.
//!
//! **Shared memory**: barriers, places, then for each warp its stages: parts of all inputs.

use super::group::butterfly;
use super::packed::{Packed, Raw};
use super::words::{of_words, words};
use cuda_std::cluster;
use cuda_std::fence::fence_mbarrier_init_release_cluster;
use cuda_std::hint::opaque;
use cuda_std::mbarrier::Mbarrier;
use cuda_std::mem;
use cuda_std::shared::{SharedAddr, dynamic_base};
use cuda_std::thread;
use cuda_std::tma::cp_async_bulk_shared_cluster_global;
use cuda_std::warp::{FULL_MASK, Words, bar_warp_sync, uniform};
use spec::rows::{RingLayout, RowParams, VECTOR_BYTES};

/// Lanes of a warp.
const LANES: u32 = thread::WARP_THREADS;

/// A thread's place in the ring; each of its rows has `R` vectors for it.
pub(crate) struct Ring<const R: usize> {
    /// The warp in its block.
    warp: u32,
    lane: u32,
    /// Warps of the row in the block.
    warps: u32,
    rank: u32,
    /// Blocks of the row.
    blocks: u32,
    inputs: u32,
    stages: u32,
    /// Lanes that have what is posted of a row: a power of two.
    width: u32,
    /// Number in the row of the warp's first vector.
    first: u32,
    /// Vectors of the warp.
    vectors: u32,
    /// Of the launch's dynamic shared memory.
    base: SharedAddr,
    layout: RingLayout,
    /// The warp's stages.
    parts: SharedAddr,
    /// The block's, or cluster's, first row, and rows from one to the next.
    first_row: u64,
    step: u64,
    /// Rows of this block.
    pub(crate) rows: u32,
}

/// Which stage, and which of its turns.
#[derive(Clone, Copy)]
pub(crate) struct Turn {
    stage: u32,
    parity: u32,
}

impl Turn {
    /// The first.
    pub(crate) const FIRST: Self = Self {
        stage: 0,
        parity: 0,
    };
}

impl<const R: usize> Ring<R> {
    /// Of this thread.
    ///
    /// # Safety
    /// All threads call it; launched as `spec::rows` says.
    #[inline(always)]
    pub(crate) unsafe fn new<T: Packed>(params: &RowParams, inputs: u32) -> Self {
        let thread = thread::thread_idx_x();
        // SAFETY: all lanes call it; what depends on the warp is in uniform registers.
        let warp = unsafe { uniform(thread / LANES) };
        let lane = thread % LANES;
        let warps = params.threads / LANES;
        let (blocks, rank) = (cluster::cluster_nctarank(), cluster::cluster_ctarank());
        let teams = u64::from(thread::grid_dim_x() / blocks);
        let first_row = u64::from(thread::block_idx_x() / blocks);
        let in_slice = warp * LANES * R as u32;
        let first = rank * params.vectors + in_slice;
        let in_row = (params.n / T::LANES as u64) as u32;
        let of_slice = params.vectors.saturating_sub(in_slice);
        let of_row = in_row.saturating_sub(first);
        // SAFETY: the launch's shared memory.
        let base = unsafe { SharedAddr::of(dynamic_base().cast_const()) };
        let layout = RingLayout::new(R as u32, inputs, params.stages, warps, blocks);
        Self {
            warp,
            lane,
            warps,
            rank,
            blocks,
            inputs,
            stages: params.stages,
            width: layout.places().next_power_of_two(),
            first,
            vectors: of_slice.min(of_row).min(LANES * R as u32),
            base,
            layout,
            parts: base.add_bytes(layout.parts(warp)),
            first_row,
            step: teams,
            rows: ((params.rows + teams - 1 - first_row) / teams) as u32,
        }
    }

    /// Number of row `i` of this block.
    #[inline(always)]
    pub(crate) fn row(&self, i: u32) -> u64 {
        self.first_row + u64::from(i) * self.step
    }

    /// Whether the thread has a vector `j`.
    #[inline(always)]
    pub(crate) fn has(&self, j: usize) -> bool {
        j as u32 * LANES + self.lane < self.vectors
    }

    /// Number in the row of vector `j` of the thread.
    #[inline(always)]
    pub(crate) fn number(&self, j: usize) -> u32 {
        self.first + j as u32 * LANES + self.lane
    }

    /// Vectors of the warp.
    #[inline(always)]
    pub(crate) fn vectors(&self) -> u32 {
        self.vectors
    }

    /// Vectors of the block.
    #[inline(always)]
    pub(crate) fn vectors_of_block<T: Packed>(&self, params: &RowParams) -> u32 {
        let in_row = (params.n / T::LANES as u64) as u32;
        let first = self.rank * params.vectors;
        in_row.saturating_sub(first).min(params.vectors)
    }

    /// Whether this thread writes what there is once a row.
    #[inline(always)]
    pub(crate) fn is_first(&self) -> bool {
        self.rank == 0 && self.warp == 0 && self.lane == 0
    }

    #[inline(always)]
    fn landed(&self, stage: u32) -> Mbarrier {
        Mbarrier::at(self.base.add_bytes(self.layout.landed(self.warp, stage)))
    }

    #[inline(always)]
    fn posted(&self, i: u32) -> Mbarrier {
        Mbarrier::at(self.base.add_bytes(self.layout.posted(i)))
    }

    #[inline(always)]
    fn gathered(&self, i: u32) -> Mbarrier {
        Mbarrier::at(self.base.add_bytes(RingLayout::gathered(i)))
    }

    /// A part of a row, in the stage that it is in.
    #[inline(always)]
    fn part(&self, stage: u32, input: u32) -> SharedAddr {
        let part = LANES * R as u32 * VECTOR_BYTES;
        self.parts.add_bytes((stage * self.inputs + input) * part)
    }

    /// Makes the barriers, and fills the places of vectors that are not there with zeros.
    ///
    /// # Safety
    /// All threads call it, once, before anything else.
    #[inline(always)]
    pub(crate) unsafe fn begin(&self) {
        // SAFETY: barriers and stages for this alone; others use them after the barriers below.
        unsafe {
            if self.lane == 0 {
                let mut stage = 0;
                while stage < self.stages {
                    self.landed(stage).init(self.inputs);
                    stage += 1;
                }
            }
            if self.warp == 0 && self.lane == 0 {
                let mut i = 0;
                while i < opaque(self.layout.turns()) {
                    let arrivals = if self.blocks > 1 { 1 } else { self.warps };
                    self.posted(i).init(arrivals);
                    i += 1;
                }
                let mut i = 0;
                while i < opaque(RingLayout::GATHER_TURNS) {
                    self.gathered(i).init(self.warps);
                    i += 1;
                }
            }
            fence_mbarrier_init_release_cluster();
            let mut j = 0;
            while j < R {
                let mut part = 0;
                while part < self.stages * self.inputs && !self.has(j) {
                    let at = (part * R as u32 + j as u32) * LANES + self.lane;
                    mem::st_shared_v4_u32(self.parts.add_bytes(at * VECTOR_BYTES), [0; 4]);
                    part += 1;
                }
                j += 1;
            }
            thread::sync_threads();
            if self.blocks > 1 {
                cluster::barrier_cluster_arrive_release_aligned();
                // All blocks run, and have their barriers.
                cluster::barrier_cluster_wait_acquire_aligned();
            }
        }
    }

    /// Rows from one time that a cluster meets to the next, and those since the last time, at turn `i`.
    #[inline(always)]
    fn meeting(&self, i: u32) -> (u32, u32) {
        let meet = self.layout.turns() / 2;
        (meet, i & (meet - 1))
    }

    /// Arrives at the cluster's barrier, or waits for it, after turn `i` where it is time for that.
    ///
    /// # Safety
    /// All threads of the cluster call it after each turn, converged.
    #[inline(always)]
    pub(crate) unsafe fn meet(&self, i: u32) {
        if self.blocks == 1 {
            return;
        }
        // SAFETY: passed on to the caller; arrivals and waits alternate.
        unsafe {
            let (meet, since) = self.meeting(i);
            if since == meet - 1 {
                cluster::barrier_cluster_arrive_release_aligned();
            } else if since == meet / 2 - 1 && i > meet {
                cluster::barrier_cluster_wait_acquire_aligned();
            }
        }
    }

    /// Waits for all blocks: none sends to one that has ended.
    ///
    /// # Safety
    /// All threads call it, once, converged, after turn `rows`, which was the last.
    #[inline(always)]
    pub(crate) unsafe fn end(&self) {
        if self.blocks == 1 {
            return;
        }
        let (meet, since) = self.meeting(self.rows + 1);
        // SAFETY: passed on to the caller; who has arrived waits before the next arrival.
        unsafe {
            if self.rows + 1 >= meet && since < meet / 2 {
                cluster::barrier_cluster_wait_acquire_aligned();
            }
            cluster::barrier_cluster_arrive_release_aligned();
            cluster::barrier_cluster_wait_acquire_aligned();
        }
    }

    /// The stage after `turn`'s.
    #[inline(always)]
    pub(crate) fn after(&self, turn: Turn) -> Turn {
        if turn.stage + 1 < self.stages {
            return Turn {
                stage: turn.stage + 1,
                ..turn
            };
        }
        Turn {
            stage: 0,
            parity: turn.parity ^ 1,
        }
    }

    /// Asks for the first rows. `row_of` gives where row `row` of an input begins.
    ///
    /// # Safety
    /// All warps call it, once; rows are readable and aligned to vectors.
    #[inline(always)]
    pub(crate) unsafe fn fill<T: Packed>(&self, row_of: &impl Fn(u32, u64) -> *const T) {
        let mut i = 0;
        while i < self.stages {
            // SAFETY: passed on to the caller; nothing uses the stages yet.
            unsafe { self.ask(i, i, row_of) };
            i += 1;
        }
    }

    /// Asks for the row that comes into the stage of row `i`, which the warp does not need any more.
    ///
    /// # Safety
    /// All warps call it, converged; as of [`Ring::fill`].
    #[inline(always)]
    pub(crate) unsafe fn refill<T: Packed>(
        &self,
        i: u32,
        turn: Turn,
        row_of: &impl Fn(u32, u64) -> *const T,
    ) {
        // SAFETY: passed on to the caller; all lanes have read what they need.
        unsafe {
            bar_warp_sync(FULL_MASK);
            self.ask(i + self.stages, turn.stage, row_of);
        }
    }

    /// Asks for row `i`, where there is one: a lane an input.
    #[inline(always)]
    unsafe fn ask<T: Packed>(&self, i: u32, stage: u32, row_of: &impl Fn(u32, u64) -> *const T) {
        if self.lane >= self.inputs || i >= self.rows {
            return;
        }
        let bytes = self.vectors * VECTOR_BYTES;
        let landed = self.landed(stage);
        let row = row_of(self.lane, self.row(i));
        let from = row.wrapping_add(self.first as usize * T::LANES);
        let to = self.part(stage, self.lane);
        // SAFETY: passed on to the caller; the part has room for the bytes, which lie in the row.
        unsafe {
            landed.arrive_expect_tx(bytes);
            if bytes > 0 {
                cp_async_bulk_shared_cluster_global(to, from.cast(), bytes, landed);
            }
        }
    }

    /// Waits for the warp's part of the row in a stage.
    ///
    /// # Safety
    /// It was asked for.
    #[inline(always)]
    pub(crate) unsafe fn wait(&self, turn: Turn) {
        // SAFETY: the stage's barrier.
        unsafe { self.landed(turn.stage).wait_parity(turn.parity) };
    }

    /// Vector `j` of the thread, of an input's row; zeros where there is none.
    ///
    /// # Safety
    /// The row is in the stage.
    #[inline(always)]
    pub(crate) unsafe fn read(&self, turn: Turn, input: u32, j: usize) -> Raw {
        let at = (j as u32 * LANES + self.lane) * VECTOR_BYTES;
        // SAFETY: passed on to the caller.
        unsafe { mem::ld_shared_v4_u32(self.part(turn.stage, input).add_bytes(at)) }
    }

    /// Writes vector `j` of the thread to a row, where there is one.
    ///
    /// # Safety
    /// The row at `row` is writable, and aligned to vectors.
    #[inline(always)]
    pub(crate) unsafe fn store<T: Packed>(&self, row: *mut T, j: usize, raw: Raw) {
        // From one address on: its vectors are constants apart.
        let own = row.wrapping_add(self.number(0) as usize * T::LANES);
        let at = own.wrapping_add(j * LANES as usize * T::LANES);
        // SAFETY: passed on to the caller.
        unsafe { mem::st_global_v4_u32_if(at.cast(), raw, self.has(j)) };
    }

    /// Posts, or gathers, what the warp has of row `i`, the same in all its lanes.
    ///
    /// # Safety
    /// All warps call it for each row in turn, converged.
    #[inline(always)]
    pub(crate) unsafe fn post<S: Words>(&self, i: u32, value: S) {
        if self.lane != 0 {
            return;
        }
        let (place, barrier) = if self.blocks > 1 {
            (self.layout.gather(i, self.warp), self.gathered(i))
        } else {
            (self.layout.post(i, self.warp), self.posted(i))
        };
        // SAFETY: passed on to the caller; the warp's own place, free as said above.
        unsafe {
            mem::st_shared_v4_u32(self.base.add_bytes(place), words(value));
            barrier.arrive();
        }
    }

    /// What was posted of row `i`, of all its warps or blocks: `whole` makes it of a value a lane;
    /// `nothing` is what does not change it.
    ///
    /// # Safety
    /// All warps call it for each row in turn, converged, after they posted of it.
    #[inline(always)]
    pub(crate) unsafe fn collect<S: Words>(
        &self,
        i: u32,
        nothing: S,
        whole: &impl Fn(S, u32) -> S,
    ) -> S {
        let places = self.layout.places();
        // SAFETY: passed on to the caller; places that have been written.
        unsafe {
            self.posted(i).wait_parity(self.layout.posted_parity(i));
            let own = self.lane & (self.width - 1);
            let place = self.base.add_bytes(self.layout.post(i, own));
            whole(at(place, own < places, nothing), self.width)
        }
    }

    /// Sends what the block's warps gathered of row `i` to all blocks, where it is the warp's turn.
    ///
    /// # Safety
    /// All warps call it for each row in turn, converged, after they gathered of it.
    #[inline(always)]
    pub(crate) unsafe fn send<S: Words>(
        &self,
        i: u32,
        sender: u32,
        nothing: S,
        whole: &impl Fn(S, u32) -> S,
    ) {
        if self.blocks == 1 || sender != self.warp {
            return;
        }
        // SAFETY: places that have been written; those of other blocks, which have not ended, are free
        // as said above.
        unsafe {
            self.gathered(i).wait_parity(RingLayout::gathered_parity(i));
            let place = self.base.add_bytes(self.layout.gather(i, self.lane));
            let value = whole(at(place, self.lane < self.warps, nothing), LANES);
            if self.lane == 0 {
                self.posted(i).arrive_expect_tx(self.blocks * VECTOR_BYTES);
            }
            if self.lane < self.blocks {
                let place = self.base.add_bytes(self.layout.post(i, self.rank));
                let there = cluster::mapa_shared_cluster(place, self.lane);
                let barrier = self.posted(i).of_rank(self.lane);
                cluster::st_async_shared_cluster_v4_u32(there, words(value), barrier);
            }
        }
    }

    /// The warp whose turn it is to send, after `sender`'s.
    #[inline(always)]
    pub(crate) fn next_sender(&self, sender: u32) -> u32 {
        if sender + 1 < self.warps {
            sender + 1
        } else {
            0
        }
    }
}

/// `op` over the values of `width` neighbouring lanes, a power of two, in each of them.
///
/// # Safety
/// The warp calls it, converged.
#[inline(always)]
pub(crate) unsafe fn of_lanes<S: Words>(value: S, width: u32, op: &impl Fn(S, S) -> S) -> S {
    // SAFETY: passed on to the caller.
    unsafe { butterfly::<S, true>(value, width, op) }
}

/// The value at a place, where there is one.
///
/// # Safety
/// Then it has been written.
#[inline(always)]
unsafe fn at<S: Words>(place: SharedAddr, is_there: bool, nothing: S) -> S {
    if !is_there {
        return nothing;
    }
    // SAFETY: passed on to the caller.
    of_words(unsafe { mem::ld_shared_v4_u32(place) }, nothing)
}
