//! Short rows: some lanes of a warp have one in registers, each of them its elements in order, and
//! give away the first of all their firsts k times.

use abi::topk::{SHORT_HELD, SHORT_THREADS, TopKParams};
use cuda_std::warp::{self, Words};
use cuda_std::{mem, thread, warp::FULL_MASK};

use super::key::Narrow;
use super::sort::Results;

/// A pair in as few bits as the elements and indices of short rows need.
pub(super) trait Packed: Words + Ord {
    /// No pair.
    const NONE: Self;
    /// The pair of an element.
    fn new<T: Narrow>(bits: u32, index: u32, turn: u32) -> Self;
    /// Its index.
    fn index(self) -> u32;
    /// The two, the larger one first.
    fn ordered(a: Self, b: Self) -> (Self, Self);
}

impl Packed for u32 {
    const NONE: Self = 0;

    #[inline(always)]
    fn new<T: Narrow>(bits: u32, index: u32, turn: u32) -> Self {
        T::key(bits, turn) | (0xffff - index)
    }
    #[inline(always)]
    fn index(self) -> u32 {
        0xffff - (self & 0xffff)
    }
    #[inline(always)]
    fn ordered(a: Self, b: Self) -> (Self, Self) {
        (a.max(b), a.min(b))
    }
}

impl Packed for u64 {
    const NONE: Self = 0;

    #[inline(always)]
    fn new<T: Narrow>(bits: u32, index: u32, turn: u32) -> Self {
        u64::from(T::key(bits, turn)) << 32 | u64::from(u32::MAX - index)
    }
    #[inline(always)]
    fn index(self) -> u32 {
        u32::MAX - self as u32
    }
    #[inline(always)]
    fn ordered(a: Self, b: Self) -> (Self, Self) {
        // One comparison for both; a maximum and a minimum would each have their own.
        if a > b { (a, b) } else { (b, a) }
    }
}

/// Sorts 16 pairs, the largest first: Green's network of 60 comparisons (Knuth, The Art of Computer
/// Programming 3, 5.3.4).
#[inline(always)]
fn sorted<P: Packed>(mut held: [P; SHORT_HELD]) -> [P; SHORT_HELD] {
    macro_rules! compare {
        ($($a:literal $b:literal),*) => {$(
            (held[$a], held[$b]) = P::ordered(held[$a], held[$b]);
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

/// This lane's elements, from index `first` on. Those that the row does not have come last: their
/// value does, and their index.
///
/// # Safety
/// The row has `n` elements, which are readable; if `are_vectors`, whole ones at multiples of 16 bytes.
#[inline(always)]
unsafe fn elements<T: Narrow>(
    row: *const u8,
    first: u32,
    n: u32,
    are_vectors: bool,
    turn: u32,
) -> [u32; SHORT_HELD] {
    let last = if turn == 0 { T::LEAST_WORD } else { !T::SIGNS };
    let at = |i: usize| row.wrapping_add((first as usize + i) * T::SIZE as usize);
    if are_vectors {
        let raws: [[u32; 4]; SHORT_HELD / 4] = core::array::from_fn(|u| {
            let (i, is_there) = (u * T::LANES, first + ((u * T::LANES) as u32) < n);
            match i < SHORT_HELD {
                // SAFETY: a vector of the row, which nobody writes while the kernel runs.
                true => unsafe { mem::ld_global_nc_v4_u32_or(at(i).cast(), is_there, last) },
                false => [0; 4],
            }
        });
        core::array::from_fn(|i| T::of(raws[i / T::LANES], i % T::LANES))
    } else {
        core::array::from_fn(|i| match first + (i as u32) < n {
            // SAFETY: an element of the row.
            true => unsafe { T::read(at(i)) },
            false => last & T::LAST,
        })
    }
}

/// Takes the first of all lanes' pairs `k` times, and writes them. A lane has its pairs in order;
/// all but the first `DEPTH` of them cannot be among the first `k`.
///
/// # Safety
/// All lanes of the warp are here, with the same `k` and `lanes`; the results are those of a row, or
/// the row `is_there` not.
#[inline(always)]
unsafe fn give<P: Packed, const DEPTH: usize>(
    mut held: [P; SHORT_HELD],
    k: u32,
    lanes: u32,
    results: &Results,
    is_there: bool,
) {
    let own = thread::thread_idx_x() & (lanes - 1);
    let mut rank = 0;
    while rank < k {
        // Lanes keep a result each, so that they write neighbouring ones together.
        let (mut kept, mut turn) = (P::NONE, 0);
        while turn < lanes && rank + turn < k {
            let mut first = held[0];
            let mut apart = 1;
            while apart < lanes {
                // SAFETY: all lanes of the warp are here.
                first = first.max(unsafe { warp::shfl_bfly(FULL_MASK, first, apart) });
                apart *= 2;
            }
            // Pairs of a row are different, so one lane gives its first.
            let is_own = held[0] == first;
            for i in 0..DEPTH {
                let next = if i + 1 < DEPTH { held[i + 1] } else { P::NONE };
                held[i] = if is_own { next } else { held[i] };
            }
            kept = if turn == own { first } else { kept };
            turn += 1;
        }
        if own < turn && is_there {
            // SAFETY: this lane's result of the row.
            unsafe { results.put_element(rank + own, kept.index()) };
        }
        rank += turn;
    }
}

/// The kernel: a row for each `1 << params.lanes_log2` lanes.
///
/// # Safety
/// Launched as `abi::topk` says.
#[inline(always)]
pub(super) unsafe fn short<T: Narrow, P: Packed>(
    x: *const u8,
    values: *mut u8,
    indices: *mut i64,
    params: &TopKParams,
) {
    let (lanes_log2, turn) = (params.lanes_log2, params.turn);
    let lanes = 1 << lanes_log2;
    let rows_before = u64::from(thread::block_idx_x()) * u64::from(SHORT_THREADS >> lanes_log2);
    let row = rows_before + u64::from(thread::thread_idx_x() >> lanes_log2);
    let is_there = row < params.rows;
    let n = if is_there { params.n as u32 } else { 0 };
    let results = Results::of_row(row, x, values, indices, params);
    let bytes = (params.x_row_stride as usize | params.n as usize) * T::SIZE as usize;
    let are_vectors = (x.addr() | bytes).is_multiple_of(16);
    let first = (thread::thread_idx_x() & (lanes - 1)) * SHORT_HELD as u32;
    // SAFETY: the row's elements and results; all lanes of the warp are here.
    unsafe {
        let bits = elements::<T>(results.x, first, n, are_vectors, turn);
        let held = core::array::from_fn(|i| P::new::<T>(bits[i], first + i as u32, turn));
        let held = sorted::<P>(held);
        if params.k <= 8 {
            give::<P, 8>(held, params.k, lanes, &results, is_there);
        } else {
            give::<P, SHORT_HELD>(held, params.k, lanes, &results, is_there);
        }
    }
}
