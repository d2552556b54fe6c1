//! Scans and sorts of a block.

use super::Block;
use crate::thread::{self, WARP_THREADS};
use crate::warp::{self, FULL_MASK, Words};

impl<const THREADS: u32> Block<'_, THREADS> {
    /// Inclusive scan: combines the values of the threads up to this one by `op`, in the order of their
    /// index. The same bits every run. `op` is associative; it need not be commutative.
    ///
    /// ```
    /// use cuda_std::prelude::*;
    ///
    /// /// Running sums of the rows of `x`, of up to 128 columns.
    /// #[kernel(block = 128, requires = "x.columns() == y.columns() && x.columns() <= 128")]
    /// pub fn running_sums(x: View2<'_, f32>, mut y: Disjoint<'_, f32, InRow>, mut block: Block<'_, 128>) {
    ///     for row in block.rows(y.rows()) {
    ///         let at = row.columns(y.columns()).next();
    ///         let value = at.as_ref().map_or(0.0, |at| x[(at.row(), at.column())]);
    ///         let sum = block.scan(value, |a, b| a + b);
    ///         if let Some(at) = at {
    ///             y[&at] = sum;
    ///         }
    ///     }
    /// }
    /// ```
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub fn scan<T: Words + Send>(&mut self, value: T, op: impl Fn(T, T) -> T) -> T {
        let (warps, lanes) = self.prefixes(value, &op);
        joined(warps, Some(lanes), &op).unwrap_or(lanes)
    }

    /// Exclusive scan: as [`scan`](Self::scan), of the threads before this one. `None` in thread 0.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub fn scan_before<T: Words + Send>(&mut self, value: T, op: impl Fn(T, T) -> T) -> Option<T> {
        let (warps, lanes) = self.prefixes(value, &op);
        // SAFETY: all lanes are here, as in `reduce_in_warps`.
        let before = unsafe { warp::shfl_up(FULL_MASK, lanes, 1) };
        let is_first = (self.thread() as u32).is_multiple_of(WARP_THREADS);
        joined(warps, (!is_first).then_some(before), &op)
    }

    /// The values of all warps before this one, and those of the lanes up to this one.
    #[inline(always)]
    fn prefixes<T: Words + Send>(&mut self, value: T, op: &impl Fn(T, T) -> T) -> (Option<T>, T) {
        let scratch = crate::shared_array![u64; crate::block::WARPS_MAX];
        const {
            assert!(
                THREADS.is_multiple_of(WARP_THREADS),
                "a block of whole warps"
            );
            assert!(size_of::<T>() <= 8 && align_of::<T>() <= 8);
        }
        let thread = self.thread() as u32;
        let (warp, lane) = (thread / WARP_THREADS, thread % WARP_THREADS);
        let mut lanes = value;
        let mut distance = 1;
        while distance < WARP_THREADS {
            // SAFETY: all lanes are here, as in `reduce_in_warps`.
            let other = unsafe { warp::shfl_up(FULL_MASK, lanes, distance) };
            if lane >= distance {
                lanes = op(other, lanes);
            }
            distance *= 2;
        }
        // SAFETY: a word for each warp, in memory that is for this alone. A barrier stands between the
        // writes and the reads, and another behind the reads.
        unsafe {
            if lane == WARP_THREADS - 1 {
                scratch.add(warp as usize).cast::<T>().write(lanes);
            }
            thread::sync_threads();
            let mut warps = None;
            for other in 0..THREADS / WARP_THREADS {
                let total = scratch.add(other as usize).cast::<T>().read();
                if other < warp {
                    warps = joined(warps, Some(total), op);
                }
            }
            thread::sync_threads();
            (warps, lanes)
        }
    }

    /// Sorts the values of all threads: thread `i` gets the one with `i` before it. `precedes` says
    /// whether its first argument comes before its second in a strict order. Which of two that are equal
    /// comes first is not said, but is the same every run. A bitonic network, for blocks of 32, 64, 128,
    /// 256, 512 or 1024 threads.
    ///
    /// # Panics
    /// On the host.
    #[inline(always)]
    pub fn sort<T: Words + Send>(&mut self, value: T, precedes: impl Fn(&T, &T) -> bool) -> T {
        const {
            assert!(
                THREADS.is_power_of_two() && THREADS >= WARP_THREADS,
                "a block of 32, 64, 128, 256, 512 or 1024 threads"
            );
        }
        let thread = self.thread() as u32;
        let mut value = value;
        let mut sorted = 2;
        while sorted <= THREADS {
            let mut distance = sorted / 2;
            while distance > 0 {
                let other = self.exchanged(value, distance);
                let takes_first = (thread & distance == 0) == (thread & sorted == 0);
                let is_better = match takes_first {
                    true => precedes(&other, &value),
                    false => precedes(&value, &other),
                };
                value = if is_better { other } else { value };
                distance /= 2;
            }
            sorted *= 2;
        }
        value
    }

    /// The value of the thread whose index differs in the bit `distance`.
    #[inline(always)]
    fn exchanged<T: Words + Send>(&mut self, value: T, distance: u32) -> T {
        let scratch = crate::shared_array![u64; 1024];
        const { assert!(size_of::<T>() <= 8 && align_of::<T>() <= 8) }
        if distance < WARP_THREADS {
            // SAFETY: all lanes are here, as in `reduce_in_warps`.
            return unsafe { warp::shfl_bfly(FULL_MASK, value, distance) };
        }
        let thread = self.thread();
        // SAFETY: a word for each thread, in memory that is for this alone. A barrier stands between the
        // writes and the reads, and another behind the reads. `thread ^ distance` is below `THREADS`, a
        // power of two above `distance`.
        unsafe {
            scratch.add(thread).cast::<T>().write(value);
            thread::sync_threads();
            let other = scratch.add(thread ^ distance as usize).cast::<T>().read();
            thread::sync_threads();
            other
        }
    }
}

/// Two values, of which either may be missing.
#[inline(always)]
fn joined<T>(first: Option<T>, second: Option<T>, op: &impl Fn(T, T) -> T) -> Option<T> {
    match (first, second) {
        (Some(first), Some(second)) => Some(op(first, second)),
        (first, second) => first.or(second),
    }
}
