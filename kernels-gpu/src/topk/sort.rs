//! The collected pairs in order, and the results.

use cuda_std::{thread, warp};
use spec::topk::TopKParams;

use super::cut::Shared;
use super::key::Pairing;

/// Most pairs whose places are counted instead of sorted: each pair is compared with all others.
const COUNTED: u32 = 256;

/// Where the results of a row go.
pub(super) struct Results {
    /// The row's element 0.
    pub(super) x: *const u8,
    pub(super) values: *mut u8,
    pub(super) indices: *mut i64,
    /// Where pairs go instead, unless it is null.
    pub(super) pairs: *mut u64,
    pub(super) pairing: Pairing,
    pub(super) element_bytes: u32,
}

impl Results {
    /// Those of row `row`.
    #[inline(always)]
    pub(super) fn of_row(
        row: u64,
        x: *const u8,
        values: *mut u8,
        indices: *mut i64,
        params: &TopKParams,
    ) -> Self {
        let size = params.element_bytes as isize;
        let from = |stride: i64| (row as i64).wrapping_mul(stride) as isize;
        Self {
            x: x.wrapping_offset(from(params.x_row_stride) * size),
            values: values.wrapping_offset(from(params.values_row_stride) * size),
            indices: indices.wrapping_offset(from(params.indices_row_stride)),
            pairs: core::ptr::null_mut(),
            pairing: Pairing {
                turn: params.turn,
                key_bits: params.key_bits,
                index_bits: params.index_bits,
            },
            element_bytes: params.element_bytes,
        }
    }

    /// Writes the result of this rank.
    ///
    /// # Safety
    /// The place is this thread's to write; the pair is one of the row's, which is readable.
    #[inline(always)]
    pub(super) unsafe fn put(&self, rank: u32, pair: u64) {
        // SAFETY: passed on to the caller.
        unsafe {
            if self.pairs.is_null() {
                self.put_element(rank, self.pairing.index(pair));
            } else {
                self.pairs.add(rank as usize).write(pair);
            }
        }
    }

    /// Writes the element of this index, and the index.
    ///
    /// # Safety
    /// As for [`Results::put`].
    #[inline(always)]
    pub(super) unsafe fn put_element(&self, rank: u32, index: u32) {
        let (from, to) = (index as usize, rank as usize);
        // SAFETY: passed on to the caller.
        unsafe {
            self.indices.add(to).write(i64::from(index));
            if self.element_bytes == 2 {
                let value = self.x.cast::<u16>().add(from).read();
                self.values.cast::<u16>().add(to).write(value);
            } else {
                let value = self.x.cast::<u32>().add(from).read();
                self.values.cast::<u32>().add(to).write(value);
            }
        }
    }
}

/// Writes the first `k` of the `count` collected pairs. If there are fewer, what is left is 0, which
/// is no pair.
///
/// # Safety
/// All threads of the block are here; the pairs have been collected, and nobody else uses them; there
/// is room for a power of two of them.
#[inline(always)]
pub(super) unsafe fn put_first(k: u32, count: u32, results: &Results, shared: Shared) {
    let (thread, threads) = (thread::thread_idx_x(), thread::block_dim_x());
    let size = count.next_power_of_two();
    // SAFETY: passed on to the caller; each rank is one pair's.
    unsafe {
        if size <= threads && size <= COUNTED {
            put_counted(k, count, size, results, shared.pairs());
        } else {
            sort(count, size, shared.pairs());
            let mut rank = thread;
            while rank < k && rank < count {
                results.put(rank, shared.pairs().add(rank as usize).read());
                rank += threads;
            }
        }
        let mut rank = count + thread;
        while rank < k {
            results.pairs.add(rank as usize).write(0);
            rank += threads;
        }
    }
}

/// Writes each pair to the place that the number of larger ones gives. Some neighbouring threads share
/// the comparisons of one pair.
///
/// # Safety
/// As for [`put_first`]; the block has `size` threads or more.
#[inline(always)]
unsafe fn put_counted(k: u32, count: u32, size: u32, results: &Results, pairs: *const u64) {
    let thread = thread::thread_idx_x();
    let shares_log2 = thread::block_dim_x().trailing_zeros() - size.trailing_zeros();
    let shares_log2 = if shares_log2 < 5 { shares_log2 } else { 5 };
    let (shares, place) = (1 << shares_log2, thread >> shares_log2);
    let share = thread & (shares - 1);
    // SAFETY: pairs that were collected; all lanes shuffle together; each rank is one pair's.
    unsafe {
        let own = match place < count {
            true => pairs.add(place as usize).read(),
            false => 0,
        };
        let (mut rank, mut i) = (0, share);
        while i < count {
            rank += u32::from(pairs.add(i as usize).read() > own);
            i += shares;
        }
        let mut apart = 1;
        while apart < shares {
            rank += warp::shfl_bfly(warp::FULL_MASK, rank, apart);
            apart *= 2;
        }
        if share == 0 && place < count && rank < k {
            results.put(rank, own);
        }
    }
}

/// Sorts the pairs, the largest first, as a bitonic network does; `size` is a power of two.
///
/// # Safety
/// As for [`put_first`].
#[inline(always)]
unsafe fn sort(count: u32, size: u32, pairs: *mut u64) {
    let (thread, threads) = (thread::thread_idx_x(), thread::block_dim_x());
    let at = |i: u32| pairs.wrapping_add(i as usize);
    // SAFETY: each pair of places is one thread's between two barriers.
    unsafe {
        let mut i = count + thread;
        while i < size {
            at(i).write(0);
            i += threads;
        }
        thread::sync_threads();
        let mut run = 2;
        while run <= size {
            let mut apart = run / 2;
            while apart > 0 {
                let mut i = thread;
                while i < size / 2 {
                    let low = (i & !(apart - 1)) * 2 | i & (apart - 1);
                    let (a, b) = (at(low).read(), at(low + apart).read());
                    if (a < b) == (low & run == 0) {
                        at(low).write(b);
                        at(low + apart).write(a);
                    }
                    i += threads;
                }
                thread::sync_threads();
                apart /= 2;
            }
            run *= 2;
        }
    }
}
