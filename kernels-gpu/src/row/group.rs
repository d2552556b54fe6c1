//! The threads that share a row (a few lanes of a warp, a warp, or a block), and their reductions,
//! always in the same order.
//!
//! Within a warp, reductions are butterflies of shuffles. Then the warps exchange their values
//! through shared memory, and every warp reduces all of them once more, so there is one barrier for
//! each reduction. Two halves of the scratch memory alternate: a half is overwritten only after the
//! barrier of the reduction in between, before which all threads have read it.

use abi::rows::{RowParams, WORDS};
use cuda_std::hint::opaque;
use cuda_std::thread;
use cuda_std::warp::{FULL_MASK, Words, shfl_bfly};

/// Lanes of a warp.
const LANES: u32 = thread::WARP_THREADS;

/// Slots of a block's scratch.
const BLOCK_SLOTS: usize = 32;

/// A thread's place among the threads of its row.
pub(crate) struct Group {
    /// Threads of the row in this block: a power of two, or whole warps that have the block to
    /// themselves.
    pub(crate) threads: u32,
    /// This thread's index among them.
    pub(crate) own: u32,
    /// The row's index among those that the block has at a time.
    pub(crate) index: u32,
    /// Rows that the block has at a time.
    pub(crate) groups: u32,
    /// This block's rank among the blocks of the row.
    pub(crate) rank: u32,
    /// Blocks of the row.
    pub(crate) blocks: u32,
    scratch: *mut u32,
    buffer: u32,
}

impl Group {
    /// This thread's group, in blocks whose rows are not shared with other blocks.
    ///
    /// # Safety
    /// `scratch` is shared memory of [`abi::rows::BLOCK_SCRATCH`] words for this alone.
    #[inline(always)]
    pub(crate) unsafe fn of_block(params: &RowParams, scratch: *mut u32) -> Self {
        let (threads, thread) = (params.threads, thread::thread_idx_x());
        let groups = thread::block_dim_x() / threads;
        Self::new(threads, thread / threads, groups, scratch)
    }

    /// The same, by shifts instead of divisions. These are faster, for kernels that load vectors of
    /// rows right after this; kernels that go element by element have no registers to spare for it.
    ///
    /// # Safety
    /// As for [`Group::of_block`].
    #[inline(always)]
    pub(crate) unsafe fn of_vectors(params: &RowParams, scratch: *mut u32) -> Self {
        let (threads, thread) = (params.threads, thread::thread_idx_x());
        let group = Self::new(threads, 0, 1, scratch);
        if threads > LANES {
            return Self {
                own: thread,
                ..group
            };
        }
        let log = threads.trailing_zeros();
        Self {
            index: thread >> log,
            groups: thread::block_dim_x() >> log,
            ..group
        }
    }

    /// This thread's group, in blocks that have one row each, with any number of threads. It cannot
    /// reduce.
    #[inline(always)]
    pub(crate) fn of_whole_block(params: &RowParams) -> Self {
        Self {
            own: thread::thread_idx_x(),
            ..Self::new(params.threads, 0, 1, core::ptr::null_mut())
        }
    }

    #[inline(always)]
    fn new(threads: u32, index: u32, groups: u32, scratch: *mut u32) -> Self {
        Self {
            threads,
            own: thread::thread_idx_x() & (threads - 1),
            index,
            groups,
            rank: 0,
            blocks: 1,
            scratch,
            buffer: 0,
        }
    }

    /// The row, in launches where every row has its own group.
    #[inline(always)]
    pub(crate) fn row(&self) -> u64 {
        let block = u64::from(thread::block_idx_x() / self.blocks);
        block * u64::from(self.groups) + u64::from(self.index)
    }

    /// The block's first row in its first iteration, and the number of rows that all blocks have at
    /// a time.
    #[inline(always)]
    pub(crate) fn rows(&self) -> (u64, u64) {
        let groups = u64::from(self.groups);
        let block = u64::from(thread::block_idx_x());
        (block * groups, u64::from(thread::grid_dim_x()) * groups)
    }

    /// Reduces by `op` over the lanes of the warp that share the row; all of them get the result.
    ///
    /// # Safety
    /// The warp calls it, converged.
    #[inline(always)]
    pub(crate) unsafe fn in_warp<S: Words>(&self, value: S, op: &impl Fn(S, S) -> S) -> S {
        // SAFETY: passed on to the caller.
        unsafe { butterfly::<S, true>(value, self.threads.min(LANES), op) }
    }

    /// Reduces by `op` over the warps of the row; `value` is the same in all lanes of a warp.
    /// `UNROLLED` is as for [`butterfly`], `none` as for [`Group::exchange`].
    ///
    /// # Safety
    /// All threads of the row call it.
    #[inline(always)]
    pub(crate) unsafe fn across<S: Words, const UNROLLED: bool>(
        &mut self,
        value: S,
        none: Option<S>,
        op: &impl Fn(S, S) -> S,
    ) -> S {
        if self.threads <= LANES {
            return value;
        }
        // SAFETY: passed on to the caller.
        unsafe {
            let (of_warp, width) = self.exchange(value, none);
            butterfly::<S, UNROLLED>(of_warp, width, op)
        }
    }

    /// Gives each lane the value of a warp of the row. It is the warp that has the lane's index
    /// among `width` neighbouring lanes, or `none` if there is no such warp. `width` is a power of
    /// two; if that is always the number of warps, there need be no such value.
    ///
    /// # Safety
    /// All threads of the row call it, in a row of several warps; `value` is the same in all lanes
    /// of a warp.
    #[inline(always)]
    pub(crate) unsafe fn exchange<S: Words>(&mut self, value: S, none: Option<S>) -> (S, u32) {
        let thread = thread::thread_idx_x();
        let (warp, lane) = (thread / LANES, thread % LANES);
        let buffer = self
            .scratch
            .wrapping_add(self.buffer as usize * WORDS * BLOCK_SLOTS);
        self.buffer ^= 1;
        // SAFETY: each warp has a slot. Slots are read after the barrier, and written again only
        // after the next one.
        unsafe {
            if lane == 0 {
                store(buffer.wrapping_add(warp as usize), BLOCK_SLOTS, value);
            }
            thread::sync_threads();
            let warps = self.threads / LANES;
            let read = |slot: u32| load(buffer.wrapping_add(slot as usize), BLOCK_SLOTS, value);
            let Some(none) = none else {
                return (read(lane & (warps - 1)), warps);
            };
            let width = warps.next_power_of_two();
            let slot = lane & (width - 1);
            let of_slot = read(slot.min(warps - 1));
            (if slot < warps { of_slot } else { none }, width)
        }
    }

    /// Reduces by `op` over all threads of the row, a power of two; all of them get the result.
    ///
    /// # Safety
    /// As [`Group::across`]; warps are converged.
    #[inline(always)]
    pub(crate) unsafe fn reduce<S: Words, const UNROLLED: bool>(
        &mut self,
        value: S,
        op: impl Fn(S, S) -> S,
    ) -> S {
        // SAFETY: passed on to the caller.
        unsafe {
            let of_warp = butterfly::<S, UNROLLED>(value, self.threads.min(LANES), &op);
            self.across::<S, UNROLLED>(of_warp, None, &op)
        }
    }

    /// The same for rows in registers, of any number of warps; `none` is the value of no elements.
    /// The butterfly within a warp is unrolled.
    ///
    /// # Safety
    /// As [`Group::reduce`].
    #[inline(always)]
    pub(crate) unsafe fn reduce_held<S: Words>(
        &mut self,
        value: S,
        none: S,
        op: impl Fn(S, S) -> S,
    ) -> S {
        // SAFETY: passed on to the caller.
        unsafe {
            let of_warp = self.in_warp(value, &op);
            self.across::<S, false>(of_warp, Some(none), &op)
        }
    }

    /// A barrier of the row's threads: what they wrote to shared memory can be read.
    ///
    /// # Safety
    /// All threads of the block call it.
    #[inline(always)]
    pub(crate) unsafe fn sync(&self) {
        // SAFETY: passed on to the caller.
        unsafe {
            if self.threads > LANES {
                thread::sync_threads();
            } else {
                cuda_std::warp::bar_warp_sync(FULL_MASK);
            }
        }
    }
}

/// A butterfly reduction by `op` over `width` neighbouring lanes, a power of two; all of them get
/// the result. It is unrolled if `UNROLLED`, from which kernels that go element by element gain
/// nothing.
///
/// # Safety
/// The warp calls it, converged, with one width.
#[inline(always)]
pub(crate) unsafe fn butterfly<S: Words, const UNROLLED: bool>(
    value: S,
    width: u32,
    op: &impl Fn(S, S) -> S,
) -> S {
    let mut value = value;
    let mut step = if UNROLLED { LANES / 2 } else { width / 2 };
    while step > 0 {
        // SAFETY: passed on to the caller.
        let merged = op(value, unsafe { shfl_bfly(FULL_MASK, value, step) });
        if !UNROLLED || step < width {
            value = merged;
        }
        step = if UNROLLED { step / 2 } else { opaque(step / 2) };
    }
    value
}

/// The same, unrolled.
///
/// # Safety
/// As for [`butterfly`].
#[inline(always)]
pub(crate) unsafe fn of_lanes<S: Words>(value: S, width: u32, op: &impl Fn(S, S) -> S) -> S {
    // SAFETY: passed on to the caller.
    unsafe { butterfly::<S, true>(value, width, op) }
}

/// Writes a value's words, `slots` words apart.
///
/// # Safety
/// They are writable.
#[inline(always)]
unsafe fn store<S: Words>(at: *mut u32, slots: usize, value: S) {
    let mut plane = 0;
    value.map_words(|word| {
        // SAFETY: passed on to the caller.
        unsafe { at.wrapping_add(plane * slots).write(word) };
        plane += 1;
        word
    });
}

/// Reads a value as [`store`] wrote it. `like` only gives the type.
///
/// # Safety
/// They are readable.
#[inline(always)]
unsafe fn load<S: Words>(at: *const u32, slots: usize, like: S) -> S {
    let mut plane = 0;
    like.map_words(|_| {
        // SAFETY: passed on to the caller.
        let word = unsafe { at.wrapping_add(plane * slots).read() };
        plane += 1;
        word
    })
}
