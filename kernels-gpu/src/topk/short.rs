//! Short rows: some lanes of a warp have one in registers, each of them its elements in order, and
//! give away the first of all their firsts k times.

use cuda_std::warp::{self, Words};
use cuda_std::{thread, warp::FULL_MASK};
use spec::topk::{SHORT_HELD, SHORT_THREADS, TopKParams};

use super::key::{Value, key};
use super::sort::Results;

/// A pair in as few bits as the elements and indices of short rows need.
pub(super) trait Packed: Words + Ord {
    /// No pair.
    const NONE: Self;
    /// The pair of an element.
    fn new<T: Value>(bits: u32, index: u32, turn: u32) -> Self;
    /// Its index.
    fn index(self) -> u32;
}

impl Packed for u32 {
    const NONE: Self = 0;

    #[inline(always)]
    fn new<T: Value>(bits: u32, index: u32, turn: u32) -> Self {
        key::<T>(bits, turn) & 0xffff_0000 | (0xffff - index)
    }
    #[inline(always)]
    fn index(self) -> u32 {
        0xffff - (self & 0xffff)
    }
}

impl Packed for u64 {
    const NONE: Self = 0;

    #[inline(always)]
    fn new<T: Value>(bits: u32, index: u32, turn: u32) -> Self {
        u64::from(key::<T>(bits, turn)) << 32 | u64::from(u32::MAX - index)
    }
    #[inline(always)]
    fn index(self) -> u32 {
        u32::MAX - self as u32
    }
}

/// Sorts 16 pairs, the largest first: Green's network of 60 comparisons (Knuth, The Art of Computer
/// Programming 3, 5.3.4).
#[inline(always)]
fn sorted<P: Packed>(mut held: [P; SHORT_HELD]) -> [P; SHORT_HELD] {
    macro_rules! compare {
        ($($a:literal $b:literal),*) => {$(
            (held[$a], held[$b]) = (held[$a].max(held[$b]), held[$a].min(held[$b]));
        )*};
    }
    compare!(0 13, 1 12, 2 15, 3 14, 4 8, 5 6, 7 11, 9 10);
    compare!(0 5, 1 7, 2 9, 3 4, 6 13, 8 14, 10 15, 11 12);
    compare!(0 1, 2 3, 4 5, 6 8, 7 9, 10 11, 12 13, 14 15);
    compare!(0 2, 1 3, 4 10, 5 11, 6 7, 8 9, 12 14, 13 15);
    compare!(1 2, 3 12, 4 6, 5 7, 8 10, 9 11, 13 14);
    compare!(1 4, 2 6, 5 8, 7 10, 9 13, 11 14);
    compare!(2 4, 3 6, 9 12, 11 13);
    compare!(3 5, 6 8, 7 9, 10 12);
    compare!(3 4, 5 6, 7 8, 9 10, 11 12);
    compare!(6 7, 8 9);
    held
}

/// The kernel: a row for each `1 << params.lanes_log2` lanes.
///
/// # Safety
/// Launched as `spec::topk` says.
#[inline(always)]
pub(super) unsafe fn short<T: Value, P: Packed>(
    x: *const u8,
    values: *mut u8,
    indices: *mut i64,
    params: &TopKParams,
) {
    let (lanes_log2, k) = (params.lanes_log2, params.k);
    let lanes = 1 << lanes_log2;
    let own = thread::thread_idx_x() & (lanes - 1);
    let rows_before = u64::from(thread::block_idx_x()) * u64::from(SHORT_THREADS >> lanes_log2);
    let row = rows_before + u64::from(thread::thread_idx_x() >> lanes_log2);
    let is_there = row < params.rows;
    let n = if is_there { params.n as u32 } else { 0 };
    let results = Results::of_row(row, x, values, indices, params);
    let raw: [u32; SHORT_HELD] = core::array::from_fn(|i| {
        let index = own + i as u32 * lanes;
        let at = results.x.wrapping_add((index * T::SIZE) as usize);
        match index < n {
            // SAFETY: an element of the row.
            true => unsafe { T::read(at) },
            false => 0,
        }
    });
    let mut held = sorted(core::array::from_fn(|i| {
        let index = own + i as u32 * lanes;
        match index < n {
            true => P::new::<T>(raw[i], index, params.turn),
            false => P::NONE,
        }
    }));
    let (mut kept, mut rank) = (P::NONE, 0);
    while rank < k {
        let mut first = held[0];
        let mut apart = 1;
        while apart < lanes {
            // SAFETY: all lanes of the warp are here.
            first = first.max(unsafe { warp::shfl_bfly(FULL_MASK, first, apart) });
            apart *= 2;
        }
        // Pairs of a row are different, so one lane gives its first.
        let is_own = held[0] == first;
        for i in 0..SHORT_HELD {
            let next = if i + 1 < SHORT_HELD {
                held[i + 1]
            } else {
                P::NONE
            };
            held[i] = if is_own { next } else { held[i] };
        }
        // Lanes keep a result each, so that they write neighbouring ones together.
        let turn = rank & (lanes - 1);
        kept = if turn == own { first } else { kept };
        rank += 1;
        if (turn == lanes - 1 || rank == k) && own <= turn && is_there {
            // SAFETY: this lane's result of the row.
            unsafe { results.put_element(rank - 1 - turn + own, kept.index()) };
        }
    }
}
