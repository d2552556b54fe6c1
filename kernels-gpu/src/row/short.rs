//! Short rows: each warp of persistent blocks has one, two or four at a time, and the loads of its
//! next rows are always in flight.
//!
//! In an *iteration* a block has as many rows as all of its warps together; they are neighbours,
//! and those of the next block come after them. A lane has the same columns in each iteration.
//!
//! **Pipeline** (for iteration `i`):
//!
//! | barrier | producer | consumer | arrivals | bytes |
//! |---|---|---|---|---|
//! | `landed`, one for each warp and stage | bulk copies, a row of an input each, by as many lanes as the warp has rows | the warp | 1 | its rows |
//!
//! **Shared memory**: the stages of each warp, each with its rows of all inputs; then the barriers.
//! A row has the same room in a stage whatever its length; what it does not have is 0.

mod any;

use super::packed::{Packed, Raw};
use super::policy::of_rows;
use super::ring::Stage;
use abi::rows::{RowParams, ShortLayout, VECTOR_BYTES};
use cuda_std::fence::{fence_mbarrier_init_release_cluster, fence_proxy_async_shared_cta};
use cuda_std::hint::opaque;
use cuda_std::mbarrier::Mbarrier;
use cuda_std::mem;
use cuda_std::shared::{SharedAddr, dynamic_base};
use cuda_std::thread;
use cuda_std::tma::cp_async_bulk_shared_cluster_global_l2_cache_hint;
use cuda_std::warp::{FULL_MASK, bar_warp_sync, uniform};

/// Lanes of a warp.
const LANES: u32 = thread::WARP_THREADS;

/// A thread's view of its warp's rows, of which each has `R` vectors for a lane. With `ANY`, rows begin at
/// any element (`short::any`).
pub(crate) struct Short<const R: usize, const ANY: bool = false> {
    lane: u32,
    /// Lanes of a row.
    pub(crate) lanes: u32,
    /// The lane's index among them.
    own: u32,
    /// Vectors of a row, or elements with `ANY`.
    vectors: u32,
    inputs: u32,
    stages: u32,
    /// Start of the launch's dynamic shared memory.
    base: SharedAddr,
    /// The warp's stages, and its barriers.
    parts: SharedAddr,
    landed: SharedAddr,
    /// First row of the warp in the first iteration.
    first: u32,
    /// Rows of all blocks in an iteration.
    step: u32,
    /// All rows.
    rows: u64,
    /// Turns of this block.
    pub(crate) iterations: u32,
}

impl<const R: usize, const ANY: bool> Short<R, ANY> {
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
        let lanes = params.threads;
        let warps = thread::block_dim_x() / LANES;
        let warp_rows = LANES / lanes;
        let step = thread::grid_dim_x() * warps * warp_rows;
        let first_of_block = thread::block_idx_x() * warps * warp_rows;
        // SAFETY: the launch's shared memory.
        let base = unsafe { SharedAddr::of(dynamic_base().cast_const()) };
        let layout = ShortLayout::new(inputs, params.stages, warps, ANY);
        Self {
            lane,
            lanes,
            own: lane & (lanes - 1),
            vectors: match ANY {
                false => (params.n / T::LANES as u64) as u32,
                true => params.n as u32,
            },
            inputs,
            stages: params.stages,
            base,
            parts: base.add_bytes(layout.parts(warp)),
            landed: base.add_bytes(layout.landed(warp)),
            first: first_of_block + warp * warp_rows,
            step,
            rows: params.rows,
            // A block without a row is less than a step behind the last one.
            iterations: ((params.rows + u64::from(step - 1) - u64::from(first_of_block))
                / u64::from(step)) as u32,
        }
    }

    /// Bytes of an input's rows in a stage of a warp.
    const PART_BYTES: u32 = ShortLayout::new(1, 1, 1, ANY).part_bytes();

    /// Rows of the warp in iteration `i`.
    #[inline(always)]
    fn rows_of(&self, i: u32) -> u32 {
        let left = self.rows.saturating_sub(self.first(i));
        left.min(u64::from(LANES / self.lanes)) as u32
    }

    /// First row of the warp in iteration `i`.
    #[inline(always)]
    pub(crate) fn first(&self, i: u32) -> u64 {
        u64::from(self.first) + u64::from(i) * u64::from(self.step)
    }

    /// The lane's row in iteration `i`.
    #[inline(always)]
    pub(crate) fn row(&self, i: u32) -> u64 {
        self.first(i) + u64::from(self.lane / self.lanes)
    }

    /// Whether there is such a row.
    #[inline(always)]
    pub(crate) fn has_row(&self, i: u32) -> bool {
        self.row(i) < self.rows
    }

    /// Whether a row has a vector `j` for this lane.
    #[inline(always)]
    pub(crate) fn has(&self, j: usize) -> bool {
        self.number(j) < self.vectors
    }

    /// Index in a row of the lane's vector `j`.
    #[inline(always)]
    pub(crate) fn number(&self, j: usize) -> u32 {
        j as u32 * self.lanes + self.own
    }

    #[inline(always)]
    fn barrier(&self, stage: u32) -> Mbarrier {
        Mbarrier::at(self.landed.add_bytes(stage * 8))
    }

    /// Where the rows of an input are in a stage.
    #[inline(always)]
    fn part(&self, stage: u32, input: u32) -> SharedAddr {
        let part = stage * self.inputs + input;
        self.parts.add_bytes(part * Self::PART_BYTES)
    }

    /// Where row `index` of the warp is among them.
    #[inline(always)]
    fn offset(&self, index: u32) -> u32 {
        index * self.lanes * (R as u32 * VECTOR_BYTES)
    }

    /// Where the lane's vector `j` is among them.
    #[inline(always)]
    fn at(&self, j: usize) -> u32 {
        self.offset(self.lane / self.lanes) + self.number(j) * VECTOR_BYTES
    }

    /// Initialises the warp's barriers. Zeros its stages where they would not be filled otherwise:
    /// vectors that rows do not have, and rows that there are not, are 0, or of an earlier
    /// iteration.
    ///
    /// # Safety
    /// All threads call it, once, before anything else.
    #[inline(always)]
    pub(crate) unsafe fn begin(&self) {
        // SAFETY: nobody else uses the warp's barriers and stages.
        unsafe {
            if self.lane == 0 {
                let mut stage = 0;
                while stage < self.stages {
                    self.barrier(stage).init(if ANY { self.inputs } else { 1 });
                    stage += opaque(1);
                }
            }
            fence_mbarrier_init_release_cluster();
            // All iterations but the last have all rows.
            let is_filled = self.vectors == R as u32 * self.lanes && self.iterations > self.stages;
            let parts = match ANY || is_filled {
                true => 0,
                false => self.stages * self.inputs * Self::PART_BYTES,
            };
            let mut at = self.lane * VECTOR_BYTES;
            while at < parts {
                mem::st_shared_v4_u32(self.parts.add_bytes(at), [0; 4]);
                at += LANES * VECTOR_BYTES;
            }
            fence_proxy_async_shared_cta();
            bar_warp_sync(FULL_MASK);
        }
    }

    /// The stage after `stage`.
    #[inline(always)]
    pub(crate) fn after(&self, stage: Stage) -> Stage {
        stage.next(self.stages)
    }

    /// Issues the loads of the first iterations. `row_of` returns the address of row `row` of an
    /// input.
    ///
    /// # Safety
    /// All lanes call it, once; rows are readable and aligned to vectors.
    #[inline(always)]
    pub(crate) unsafe fn fill<T: Packed>(
        &self,
        row_of: &impl Fn(u32, u64) -> *const T,
        params: &RowParams,
    ) {
        let mut i = 0;
        while i < self.stages {
            // SAFETY: passed on to the caller; nothing uses the stages yet.
            unsafe { self.ask(i, i, row_of, params) };
            i += opaque(1);
        }
    }

    /// Issues the loads of the iteration that comes into the stage of iteration `i`, which is free.
    ///
    /// # Safety
    /// All lanes call it, converged; as for [`Short::fill`].
    #[inline(always)]
    pub(crate) unsafe fn refill<T: Packed>(
        &self,
        i: u32,
        stage: Stage,
        row_of: &impl Fn(u32, u64) -> *const T,
        params: &RowParams,
    ) {
        // SAFETY: passed on to the caller; all lanes have read what they need.
        unsafe {
            if ANY {
                // Before bulk copies write where lanes have put the ends of rows.
                fence_proxy_async_shared_cta();
            }
            bar_warp_sync(FULL_MASK);
            self.ask(i + self.stages, stage.index(), row_of, params);
        }
    }

    /// Issues the loads of iteration `i`, as far as there are rows.
    #[inline(always)]
    unsafe fn ask<T: Packed>(
        &self,
        i: u32,
        stage: u32,
        row_of: &impl Fn(u32, u64) -> *const T,
        params: &RowParams,
    ) {
        let first = self.first(i);
        if first >= self.rows {
            return;
        }
        if ANY {
            // SAFETY: passed on to the caller.
            return unsafe { self.ask_runs(i, stage, row_of, params) };
        }
        let rows = self.rows_of(i);
        let bytes = self.vectors * VECTOR_BYTES;
        let landed = self.barrier(stage);
        // Made here, as there are no registers for it.
        let policy = of_rows(params);
        // SAFETY: passed on to the caller; the part has room for the rows.
        unsafe {
            if self.lane == 0 {
                landed.arrive_expect_tx(rows * self.inputs * bytes);
            }
            bar_warp_sync(FULL_MASK);
            let mut input = 0;
            while input < self.inputs && self.lane < rows {
                cp_async_bulk_shared_cluster_global_l2_cache_hint(
                    self.part(stage, input).add_bytes(self.offset(self.lane)),
                    row_of(input, first + u64::from(self.lane)).cast(),
                    bytes,
                    landed,
                    policy,
                );
                input += opaque(1);
            }
        }
    }

    /// Waits until the warp's rows of iteration `i` have landed, if there are any.
    ///
    /// # Safety
    /// Their loads have been issued.
    #[inline(always)]
    pub(crate) unsafe fn wait(&self, i: u32, stage: Stage) {
        if self.first(i) < self.rows {
            // SAFETY: the stage's barrier.
            unsafe { self.barrier(stage.index()).wait_parity(stage.parity()) };
        }
    }

    /// Vector `j` of the lane, of an input's row; zeros if the row does not have it.
    ///
    /// # Safety
    /// The row is in the stage.
    #[inline(always)]
    pub(crate) unsafe fn read(&self, stage: Stage, input: u32, j: usize) -> Raw {
        // SAFETY: passed on to the caller.
        unsafe { mem::ld_shared_v4_u32(self.part(stage.index(), input).add_bytes(self.at(j))) }
    }

    /// Stores vector `j` of the lane to a row, if the row has it and `row` is not null.
    ///
    /// # Safety
    /// The row at `row` is writable, and aligned to vectors.
    #[inline(always)]
    pub(crate) unsafe fn store<T: Packed>(&self, row: *mut T, j: usize, raw: Raw) {
        let at = row.wrapping_add(self.number(j) as usize * T::LANES);
        // SAFETY: the caller's promise.
        unsafe { mem::st_global_v4_u32_if(at.cast(), raw, self.has(j) && !row.is_null()) };
    }
}
