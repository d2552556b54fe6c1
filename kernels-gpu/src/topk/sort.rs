//! The collected pairs in order, and the results.

use abi::topk::TopKParams;
use cuda_std::{thread, warp};

use super::cut::Shared;
use super::key::{Pair, Pairing};

/// Most pairs whose places are counted instead of sorted: each pair is compared with all others.
pub(super) const COUNTED: u32 = 128;

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
    pub(super) unsafe fn put<P: Pair>(&self, rank: u32, pair: P) {
        // SAFETY: passed on to the caller.
        unsafe {
            if self.pairs.is_null() {
                self.put_element(rank, self.pairing.index(pair));
            } else {
                self.pairs.cast::<P>().add(rank as usize).write(pair);
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
            match self.element_bytes {
                2 => {
                    let value = self.x.cast::<u16>().add(from).read();
                    self.values.cast::<u16>().add(to).write(value);
                }
                4 => {
                    let value = self.x.cast::<u32>().add(from).read();
                    self.values.cast::<u32>().add(to).write(value);
                }
                _ => {
                    let value = self.x.cast::<u64>().add(from).read();
                    self.values.cast::<u64>().add(to).write(value);
                }
            }
        }
    }
}

/// Writes the first `k` of the `count` collected pairs. If there are fewer, the rest is 0, which is
/// not a pair.
///
/// # Safety
/// All threads of the block are here; the pairs have been collected, and nobody else uses them;
/// there is room for a power of two of them.
#[inline(always)]
pub(super) unsafe fn put_first<P: Pair>(k: u32, count: u32, results: &Results, shared: Shared) {
    let (thread, threads) = (thread::thread_idx_x(), thread::block_dim_x());
    let size = count.next_power_of_two();
    // SAFETY: passed on to the caller; each rank is one pair's.
    unsafe {
        if size <= threads && size <= COUNTED {
            put_counted::<P>(k, count, size, results, shared.pairs());
        } else {
            sort::<P>(count, size, shared.pairs());
            let mut rank = thread;
            while rank < k && rank < count {
                results.put(rank, shared.pairs::<P>().add(rank as usize).read());
                rank += threads;
            }
        }
        let mut rank = count + thread;
        while rank < k {
            results.pairs.cast::<P>().add(rank as usize).write(P::NONE);
            rank += threads;
        }
    }
}

/// Writes each pair to the place that the number of larger ones gives. Some neighbouring threads
/// share the comparisons of one pair.
///
/// # Safety
/// As for [`put_first`]; the block has `size` threads or more.
#[inline(always)]
unsafe fn put_counted<P: Pair>(k: u32, count: u32, size: u32, results: &Results, pairs: *const P) {
    let thread = thread::thread_idx_x();
    let shares_log2 = thread::block_dim_x().trailing_zeros() - size.trailing_zeros();
    let shares_log2 = if shares_log2 < 5 { shares_log2 } else { 5 };
    let (shares, slot) = (1 << shares_log2, thread >> shares_log2);
    let share = thread & (shares - 1);
    // SAFETY: pairs that were collected; all lanes shuffle together; each rank is one pair's.
    unsafe {
        let own = match slot < count {
            true => pairs.add(slot as usize).read(),
            false => P::NONE,
        };
        let is_above = |i: u32| u32::from(pairs.add(i as usize).read() > own);
        let (mut rank, mut i) = (0, share);
        while i + 3 * shares < count {
            rank += is_above(i) + is_above(i + shares);
            rank += is_above(i + 2 * shares) + is_above(i + 3 * shares);
            i += 4 * shares;
        }
        while i < count {
            rank += is_above(i);
            i += shares;
        }
        let mut apart = 1;
        while apart < shares {
            rank += warp::shfl_bfly(warp::FULL_MASK, rank, apart);
            apart *= 2;
        }
        if share == 0 && slot < count && rank < k {
            results.put(rank, own);
        }
    }
}

/// Sorts the pairs, the largest first, as a bitonic network does; `size` is a power of two.
///
/// # Safety
/// As for [`put_first`].
#[inline(always)]
unsafe fn sort<P: Pair>(count: u32, size: u32, pairs: *mut P) {
    let (thread, threads) = (thread::thread_idx_x(), thread::block_dim_x());
    let at = |i: u32| pairs.wrapping_add(i as usize);
    // SAFETY: each pair of places is one thread's between two barriers.
    unsafe {
        let mut i = count + thread;
        while i < size {
            at(i).write(P::NONE);
            i += threads;
        }
        thread::sync_threads();
        let mut run = 2;
        while run <= size {
            let mut apart = run / 2;
            // Two steps at a time, of four pairs that are half as far apart.
            while apart > 1 {
                let half = apart / 2;
                let mut i = thread;
                while i < size / 4 {
                    let low = ((i & !(half - 1)) * 4) | (i & (half - 1));
                    let four = at(low);
                    let by = |j: u32| four.wrapping_add((j * half) as usize);
                    let [a, b, c, d] = [0, 1, 2, 3].map(|j| by(j).read());
                    let descends = low & run == 0;
                    let ((a, c), (b, d)) = (ordered(a, c, descends), ordered(b, d, descends));
                    let ((a, b), (c, d)) = (ordered(a, b, descends), ordered(c, d, descends));
                    by(0).write(a);
                    by(1).write(b);
                    by(2).write(c);
                    by(3).write(d);
                    i += threads;
                }
                thread::sync_threads();
                apart /= 4;
            }
            if apart == 1 {
                let mut i = thread;
                while i < size / 2 {
                    let two = at(2 * i);
                    let (a, b) = (two.read(), two.add(1).read());
                    let (a, b) = ordered(a, b, (2 * i) & run == 0);
                    two.write(a);
                    two.add(1).write(b);
                    i += threads;
                }
                thread::sync_threads();
            }
            run *= 2;
        }
    }
}

/// The two, the larger one first if the order descends.
#[inline(always)]
fn ordered<P: Pair>(a: P, b: P, descends: bool) -> (P, P) {
    let is_turned = (a < b) == descends;
    if is_turned { (b, a) } else { (a, b) }
}
