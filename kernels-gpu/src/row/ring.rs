//! Rows that come through a ring: persistent blocks, or clusters of them, go from row to row, and
//! the loads of the next rows are always in flight.
//!
//! A block has the same slice of each row, and a warp the same part of the slice, so what belongs
//! to columns (weights, their gradients) stays in registers.
//!
//! **Roles**: each warp loads its own part of the row, by one bulk copy an input, so nobody waits
//! for a whole slice. In clusters one warp at a time sends the block's sums to all blocks.
//!
//! **Short rows**, of gradients: a block of eight warps has several at a time, each by one, two or
//! four warps. They wait for each other as the warps of one row do, though they have nothing to
//! exchange. So the memory that the block reads lies close together, which is faster.
//!
//! **Pipelines** (for row `i` of the block's; `warps` of the row in a block):
//!
//! | barrier | producer | consumer | arrivals | bytes |
//! |---|---|---|---|---|
//! | `landed`, one for each warp and stage | bulk copies issued by its first lanes | the warp | 1 an input | its part of all inputs |
//! | `gathered`, one for each of 16 rows, in clusters | the block's warps | the warp that sends | `warps` | 0 |
//! | `posted`, one for each of 64 or 32 rows, in clusters | the sending warp of every block | the block's warps | 1 | 16 a block |
//! | `posted`, one for each of 16 rows, in single blocks | the block's warps | the same | `warps` | 0 |
//!
//! **Timeline** of a warp, in clusters: gather its sums of row `i`; collect the sums of row `i - 1`
//! and finish that row. Then send the sums of row `i`, if it is its turn. So an exchange overlaps a
//! row's sums. In wide rings the last warp to gather sends at once, which takes 2 % less time
//! there. The narrow ones, of fewer registers or blocks of four warps, lose 1 to 22 % by it.
//!
//! There are places for the sums of as many rows as there are barriers. A message does not prove
//! that its sender has read what was sent to it, so the cluster also synchronises. Each time that
//! half of the places are used up, all warps arrive at its barrier. They wait for it when another
//! quarter is used up; by then the others have arrived long since. Places that were read before the
//! arrival are overwritten only after the wait.
//!
//! **Rows that begin anywhere** (`ANY`): `ring::any`.
//!
//! **Shared memory**: barriers, places, then for each warp its stages: its parts of all inputs.

mod any;
mod exchange;
mod stage;

pub(crate) use stage::Stage;

use super::packed::{Packed, Raw};
use super::policy::of_rows;
use abi::rows::{RING_VECTORS, RingLayout, RowParams, VECTOR_BYTES};
use cuda_std::cluster;
use cuda_std::fence::{fence_mbarrier_init_release_cluster, fence_proxy_async_shared_cta};
use cuda_std::hint::opaque;
use cuda_std::mbarrier::Mbarrier;
use cuda_std::mem;
use cuda_std::shared::{SharedAddr, dynamic_base};
use cuda_std::thread;
use cuda_std::tma::{CachePolicy, cp_async_bulk_shared_cluster_global_l2_cache_hint};
use cuda_std::warp::{FULL_MASK, bar_warp_sync, uniform};

/// Lanes of a warp.
const LANES: u32 = thread::WARP_THREADS;

/// A thread's view of the ring; each of its rows has `R` vectors for it. With `ANY`, rows begin at any
/// element.
pub(crate) struct Ring<const R: usize, const ANY: bool = false> {
    /// Index of the warp in its block.
    warp: u32,
    /// Where the sums of the warp's rows are posted, for the first of each [`RingLayout::rounds`].
    first_slot: u32,
    /// Places of a row.
    slots: u32,
    lane: u32,
    /// Warps of this block.
    warps: u32,
    rank: u32,
    /// Blocks of the row.
    blocks: u32,
    inputs: u32,
    stages: u32,
    /// Lanes that read what was posted of a row: the places, rounded up to a power of two.
    width: u32,
    /// Index in the row of the warp's first vector.
    first: u32,
    /// Number of vectors of the warp; with `ANY`, the last one may be a part of one.
    vectors: u32,
    /// With `ANY`: index in the row of the warp's first element.
    first_element: u32,
    /// With `ANY`: elements of the warp.
    elements: u32,
    /// With `ANY`: bytes from the warp's first element to the row's end, or some number that is more
    /// than the warp's part and a vector.
    rest_bytes: u32,
    /// Start of the launch's dynamic shared memory.
    base: SharedAddr,
    layout: RingLayout,
    /// The warp's stages.
    parts: SharedAddr,
    /// The warp's first row, and the distance from one of its rows to the next.
    first_row: u32,
    step: u32,
    /// Number of rows of this warp.
    pub(crate) rows: u32,
    policy: CachePolicy,
}

impl<const R: usize, const ANY: bool> Ring<R, ANY> {
    /// Whether a thread has more vectors than in other rings: blocks fill a multiprocessor each.
    const IS_WIDE: bool = R > RING_VECTORS;

    /// This thread's view.
    ///
    /// # Safety
    /// All threads call it; launched as `abi::rows` says.
    #[inline(always)]
    pub(crate) unsafe fn new<T: Packed>(params: &RowParams, inputs: u32) -> Self {
        let thread = thread::thread_idx_x();
        // SAFETY: all lanes call it; what depends on the warp is in uniform registers.
        let warp = unsafe { uniform(thread / LANES) };
        let lane = thread % LANES;
        let row_warps = params.threads / LANES;
        let warps = thread::block_dim_x() / LANES;
        // SAFETY: as above.
        let (thread_group, block_groups) =
            unsafe { (uniform(warp / row_warps), uniform(warps / row_warps)) };
        let first_warp = thread_group * row_warps;
        let (blocks, rank) = (cluster::cluster_nctarank(), cluster::cluster_ctarank());
        let thread_groups = u64::from(thread::grid_dim_x() / blocks * block_groups);
        let first_of_block = u64::from(thread::block_idx_x() / blocks * block_groups);
        let first_row = first_of_block + u64::from(thread_group);
        let in_slice = (warp - first_warp) * LANES * R as u32;
        let first = rank * params.vectors + in_slice;
        let in_row = Self::vectors_of_row::<T>(params);
        let of_slice = params.vectors.saturating_sub(in_slice);
        let of_row = in_row.saturating_sub(first);
        // SAFETY: the launch's shared memory.
        let base = unsafe { SharedAddr::of(dynamic_base().cast_const()) };
        let part_bytes = RingLayout::part_bytes(R as u32, ANY);
        let layout = RingLayout::new(part_bytes, inputs, params.stages, warps, blocks);
        let (first_slot, slots) = if blocks > 1 {
            (0, blocks)
        } else {
            (first_warp, row_warps)
        };
        let width = slots.next_power_of_two();
        let vectors = of_slice.min(of_row).min(LANES * R as u32);
        let lanes = T::LANES as u32;
        let rest = params.n.saturating_sub(u64::from(first * lanes));
        let elements = rest.min(u64::from(vectors * lanes)) as u32;
        let rest = rest.min(u64::from(elements + 2 * lanes)) as u32;
        Self {
            warp,
            lane,
            warps,
            first_slot: layout.post(0, first_slot),
            slots,
            rank,
            blocks,
            inputs,
            stages: params.stages,
            width,
            first,
            vectors,
            first_element: first * lanes,
            elements,
            rest_bytes: rest * size_of::<T>() as u32,
            base,
            layout,
            parts: base.add_bytes(layout.parts(warp)),
            first_row: first_row as u32,
            step: thread_groups as u32,
            policy: of_rows(params),
            rows: ((params.rows + thread_groups - 1 - first_row) / thread_groups) as u32,
        }
    }

    /// Vectors of a row, the last of which may be a part of one.
    #[inline(always)]
    fn vectors_of_row<T: Packed>(params: &RowParams) -> u32 {
        let lanes = T::LANES as u64;
        match ANY {
            false => (params.n / lanes) as u32,
            true => params.n.div_ceil(lanes) as u32,
        }
    }

    /// The index, where LLVM unrolls loops over the thread's vectors; opaque where there are so
    /// many of them that the kernel would grow by more than it gains.
    #[inline(always)]
    pub(crate) fn rolled(j: usize) -> usize {
        match Self::IS_WIDE {
            true => opaque(j as u32) as usize,
            false => j,
        }
    }

    /// Index in the tensor of row `i` of this warp.
    #[inline(always)]
    pub(crate) fn row(&self, i: u32) -> u64 {
        u64::from(self.first_row) + u64::from(i) * u64::from(self.step)
    }

    /// Whether the row has a vector `j` for this thread.
    #[inline(always)]
    pub(crate) fn has(&self, j: usize) -> bool {
        j as u32 * LANES + self.lane < self.vectors
    }

    /// Index in the row of the thread's vector `j`.
    #[inline(always)]
    pub(crate) fn number(&self, j: usize) -> u32 {
        self.first + j as u32 * LANES + self.lane
    }

    /// Index of the cluster in the grid; of the block, if it has none.
    #[inline(always)]
    pub(crate) fn cluster(&self) -> u64 {
        u64::from(thread::block_idx_x() / self.blocks)
    }

    /// Where the stages of all warps begin, which have room for two rows or more.
    #[inline(always)]
    pub(crate) fn first_stage(&self) -> SharedAddr {
        self.base.add_bytes(self.layout.parts(0))
    }

    /// Inputs, whose rows are read together.
    #[inline(always)]
    pub(crate) fn inputs(&self) -> u32 {
        self.inputs
    }

    /// Number of vectors of the warp.
    #[inline(always)]
    pub(crate) fn vectors(&self) -> u32 {
        self.vectors
    }

    /// Number of vectors of the block.
    #[inline(always)]
    pub(crate) fn vectors_of_block<T: Packed>(&self, params: &RowParams) -> u32 {
        let in_row = Self::vectors_of_row::<T>(params);
        let first = self.rank * params.vectors;
        in_row.saturating_sub(first).min(params.vectors)
    }

    /// Whether this thread is the one that writes what is written once a row.
    #[inline(always)]
    pub(crate) fn is_first(&self) -> bool {
        self.rank == 0 && self.first == 0 && self.lane == 0
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

    /// The warp's part of an input's row, in a stage.
    #[inline(always)]
    fn part(&self, stage: u32, input: u32) -> SharedAddr {
        let part = RingLayout::part_bytes(R as u32, ANY);
        self.parts.add_bytes((stage * self.inputs + input) * part)
    }

    /// Initialises the barriers, and zeros the places of vectors that the row does not have.
    ///
    /// # Safety
    /// All threads call it, once, before anything else.
    #[inline(always)]
    pub(crate) unsafe fn begin(&self) {
        // SAFETY: nobody else uses these barriers and stages before the barriers below.
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
                while i < opaque(self.layout.rounds()) {
                    let arrivals = if self.blocks > 1 { 1 } else { self.warps };
                    self.posted(i).init(arrivals);
                    i += 1;
                }
                let mut i = 0;
                while i < opaque(RingLayout::GATHER_ROUNDS) {
                    self.gathered(i).init(self.warps);
                    i += 1;
                }
            }
            fence_mbarrier_init_release_cluster();
            if ANY {
                self.clear();
            }
            let mut j = 0;
            while j < R {
                let mut part = 0;
                while !ANY && part < self.stages * self.inputs && !self.has(j) {
                    let at = (part * R as u32 + j as u32) * LANES + self.lane;
                    mem::st_shared_v4_u32(self.parts.add_bytes(at * VECTOR_BYTES), [0; 4]);
                    part += 1;
                }
                j = Self::rolled(j + 1);
            }
            thread::sync_threads();
            if self.blocks > 1 {
                cluster::barrier_cluster_arrive_release_aligned();
                // All blocks run now, and have initialised their barriers.
                cluster::barrier_cluster_wait_acquire_aligned();
            }
        }
    }

    /// Rows between two arrivals at the cluster's barrier, and rows since the last one, at row `i`.
    #[inline(always)]
    fn meeting(&self, i: u32) -> (u32, u32) {
        let meet = self.layout.rounds() / 2;
        (meet, i & (meet - 1))
    }

    /// After row `i`, arrives at the cluster's barrier or waits for it, if it is time for that.
    ///
    /// # Safety
    /// All threads of the cluster call it after each iteration, converged.
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

    /// Waits for all blocks, so that none sends to a block that has exited.
    ///
    /// # Safety
    /// All threads call it, once, converged, after row `rows`, which was the last.
    #[inline(always)]
    pub(crate) unsafe fn end(&self, params: &RowParams) {
        if self.blocks == 1 {
            let next = self.row(self.rows) - u64::from(self.warp / (params.threads / LANES));
            if next < params.rows && self.lane == 0 {
                // SAFETY: the barrier's phase waits for all warps of the block.
                unsafe { self.posted(self.rows).arrive() };
            }
            return;
        }
        let (meet, since) = self.meeting(self.rows + 1);
        // SAFETY: passed on to the caller; whoever has arrived waits before it arrives again.
        unsafe {
            if self.rows + 1 >= meet && since < meet / 2 {
                cluster::barrier_cluster_wait_acquire_aligned();
            }
            cluster::barrier_cluster_arrive_release_aligned();
            cluster::barrier_cluster_wait_acquire_aligned();
        }
    }

    /// The stage after `stage`.
    #[inline(always)]
    pub(crate) fn after(&self, stage: Stage) -> Stage {
        stage.next(self.stages)
    }

    /// The stage before `stage`; what phase it is in is not told.
    #[inline(always)]
    pub(crate) fn before(&self, stage: Stage) -> Stage {
        let next = if stage.index > 0 {
            stage.index
        } else {
            self.stages
        };
        Stage {
            index: next - 1,
            ..stage
        }
    }

    /// Issues the loads of the first rows. `row_of` returns the address of row `row` of an input.
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

    /// Issues the loads of the row that comes into the stage of row `i`, which is free.
    ///
    /// # Safety
    /// All warps call it, converged; as for [`Ring::fill`].
    #[inline(always)]
    pub(crate) unsafe fn refill<T: Packed>(
        &self,
        i: u32,
        stage: Stage,
        row_of: &impl Fn(u32, u64) -> *const T,
    ) {
        // SAFETY: passed on to the caller; all lanes have read what they need.
        unsafe {
            if ANY && self.may_have_ends() {
                // Before bulk copies write where lanes have put the ends of a row.
                fence_proxy_async_shared_cta();
            }
            bar_warp_sync(FULL_MASK);
            self.ask(i + self.stages, stage.index, row_of);
        }
    }

    /// Issues the loads of row `i`, if there is one; each input's by one lane.
    #[inline(always)]
    unsafe fn ask<T: Packed>(&self, i: u32, stage: u32, row_of: &impl Fn(u32, u64) -> *const T) {
        if self.lane >= self.inputs || i >= self.rows {
            return;
        }
        let landed = self.landed(stage);
        let row = row_of(self.lane, self.row(i));
        let from = row.wrapping_add(self.first as usize * T::LANES);
        let to = self.part(stage, self.lane);
        let (from, to, bytes) = match ANY {
            false => (from, to, self.vectors * VECTOR_BYTES),
            true => self.span().whole_vectors(from, to),
        };
        // SAFETY: passed on to the caller; the part has room for the bytes, which the row has.
        unsafe {
            landed.arrive_expect_tx(bytes);
            if bytes > 0 {
                cp_async_bulk_shared_cluster_global_l2_cache_hint(
                    to,
                    from.cast(),
                    bytes,
                    landed,
                    self.policy,
                );
            }
        }
    }

    /// Waits until the warp's part of the row in a stage has landed.
    ///
    /// # Safety
    /// Its loads have been issued.
    #[inline(always)]
    pub(crate) unsafe fn wait(&self, stage: Stage) {
        // SAFETY: the stage's barrier.
        unsafe { self.landed(stage.index).wait_parity(stage.parity) };
    }

    /// Vector `j` of the thread, of an input's row; zeros if the row does not have it.
    ///
    /// # Safety
    /// The row is in the stage.
    #[inline(always)]
    pub(crate) unsafe fn read(&self, stage: Stage, input: u32, j: usize) -> Raw {
        let at = (j as u32 * LANES + self.lane) * VECTOR_BYTES;
        // SAFETY: passed on to the caller.
        unsafe { mem::ld_shared_v4_u32(self.part(stage.index, input).add_bytes(at)) }
    }

    /// Stores vector `j` of the thread to a row, if the row has it.
    ///
    /// # Safety
    /// The row at `row` is writable, and aligned to vectors.
    #[inline(always)]
    pub(crate) unsafe fn store<T: Packed>(&self, row: *mut T, j: usize, raw: Raw) {
        // From one address, so that the thread's vectors are at constant distances.
        let own = row.wrapping_add(self.number(0) as usize * T::LANES);
        let at = own.wrapping_add(j * LANES as usize * T::LANES);
        // SAFETY: passed on to the caller.
        unsafe { mem::st_global_v4_u32_if(at.cast(), raw, self.has(j)) };
    }
}
