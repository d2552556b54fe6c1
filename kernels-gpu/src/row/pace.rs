//! Persistent blocks that keep pace with each other.
//!
//! All have as many rows, but some get their bytes sooner than others. If nothing held these back,
//! they would be many rows ahead. The device would then read and write over far more memory at a
//! time than it has to. At the end the others would run alone, which cannot use all of the memory's
//! bandwidth. So now and then blocks wait until all have received as many rows as they themselves
//! had an iteration ago.
//!
//! A counter in global memory has how many iterations of rows all blocks have received together. Who
//! waits looks at it before the iteration's rows are stored, and needs the answer after that.
//!
//! This is about time alone: if a block waits too long, because not all of them run, all go on
//! without it.

use abi::rows::RowParams;
use cuda_std::atomic::{Order, Scope, atom_add, atom_exch, atom_or, ld_relaxed_gpu};
use cuda_std::hint::opaque;
use cuda_std::thread;

/// Turns from one wait to the next; a power of two.
const EVERY: u32 = 4;

/// Times that a block looks whether the others have come.
const LOOKS: u32 = 64;

/// In the counter: no block waits from here on. All blocks of a launch have fewer iterations.
const ALONE: u32 = 1 << 31;

/// A thread's view of the launch's pace.
pub(crate) struct Pace {
    /// The launch's counters: iterations of rows that have been received, and blocks that have ended.
    /// Null if blocks do not keep pace.
    counters: *mut u32,
    /// Whether this is the thread that counts and waits for its block.
    leads: bool,
    /// Turns of this block; others have one more or less.
    iterations: u32,
}

impl Pace {
    /// Of a block with `iterations` iterations; its first thread leads.
    #[inline(always)]
    pub(crate) fn new(params: &RowParams, iterations: u32) -> Self {
        let counters = params.pace as *mut u32;
        Self {
            counters,
            leads: thread::thread_idx_x() == 0 && !counters.is_null(),
            iterations,
        }
    }

    /// Counts an iteration whose rows have been received.
    ///
    /// # Safety
    /// The launch's counters, if it has any, are there. The first thread calls it for each iteration.
    #[inline(always)]
    pub(crate) unsafe fn count(&self) {
        if self.leads {
            // SAFETY: passed on to the caller.
            unsafe { atom_add(self.counters, 1, Order::Relaxed, Scope::Gpu) };
        }
    }

    /// Whether blocks wait in iteration `i`.
    #[inline(always)]
    fn is_due(&self, i: u32) -> bool {
        i & (EVERY - 1) == EVERY - 1 && i + 1 < self.iterations
    }

    /// Looks at the counter, if blocks wait in iteration `i`.
    ///
    /// # Safety
    /// As for [`Pace::count`].
    #[inline(always)]
    pub(crate) unsafe fn look(&self, i: u32) -> u32 {
        if !self.leads || !self.is_due(i) {
            return 0;
        }
        // SAFETY: passed on to the caller.
        unsafe { ld_relaxed_gpu(self.counters) }
    }

    /// If it is time for it, waits until all blocks have received the rows of the iteration before `i`;
    /// the counter was at `seen` lately.
    ///
    /// # Safety
    /// As for [`Pace::count`]; all threads of the block call it.
    #[inline(always)]
    pub(crate) unsafe fn keep(&self, i: u32, seen: u32) {
        if self.counters.is_null() || !self.is_due(i) {
            return;
        }
        if self.leads {
            let all = i * thread::grid_dim_x();
            let (mut seen, mut looks) = (seen, 0);
            while seen < all && looks < opaque(LOOKS) {
                // SAFETY: passed on to the caller.
                seen = unsafe { ld_relaxed_gpu(self.counters) };
                looks += 1;
            }
            if seen < all {
                // SAFETY: passed on to the caller.
                unsafe { atom_or(self.counters, ALONE, Order::Relaxed, Scope::Gpu) };
            }
        }
        thread::sync_threads();
    }

    /// Resets the counters, if this is the last block that needs them.
    ///
    /// # Safety
    /// As for [`Pace::count`], but once, after the last iteration.
    #[inline(always)]
    pub(crate) unsafe fn leave(&self) {
        if !self.leads {
            return;
        }
        let ended = self.counters.wrapping_add(1);
        // SAFETY: passed on to the caller; the last one, which sees what the others did, is alone.
        unsafe {
            if atom_add(ended, 1, Order::AcqRel, Scope::Gpu) + 1 == thread::grid_dim_x() {
                // Both.
                atom_exch(self.counters.cast::<u64>(), 0, Order::Relaxed, Scope::Gpu);
            }
        }
    }
}
