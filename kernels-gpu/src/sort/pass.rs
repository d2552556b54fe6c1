//! One digit of long rows: a tile for each block.

use abi::sort::{DIGIT_BITS, DIGITS, ITEMS, SortParams, TILE};
use cuda_std::atomic::{Order as Memory, Scope, atom_add};
use cuda_std::thread;
use cuda_std::warp::{FULL_MASK, vote_ballot};

use super::back::Words;
use super::tile::{Digits, Shared, exchanged, places, slot};
use super::word::Word;
use crate::rank::before;

/// What passes read and write; results that are not wanted are null.
pub(super) struct Memories {
    pub(super) x: *const u8,
    pub(super) values: *mut u8,
    pub(super) indices: *mut i64,
    /// Elements between passes, and their indices.
    pub(super) elements: [*mut u8; 2],
    pub(super) origins: [*mut u32; 2],
    pub(super) counts: *const u32,
    pub(super) status: *mut u64,
}

/// The passes that a row takes, a bit for each digit: those of digits that not all of its elements
/// share. If there are none, the last one.
///
/// # Safety
/// Counts are those of the rows, one of which this is; all lanes are here.
#[inline(always)]
unsafe fn passes_of<T: Word>(row: u32, memories: &Memories, params: &SortParams) -> u32 {
    let digit = thread::lane_idx() % T::SIZE;
    let offset = i64::from(row).wrapping_mul(params.from_stride) as isize;
    // All elements share a digit if as many as there are have that of the first one.
    // SAFETY: the row's first element; the counts of its digit.
    let apart = unsafe {
        let first = memories.x.cast::<T>().wrapping_offset(offset).read();
        let of_first = first.digit(digit * DIGIT_BITS, &T::order(params));
        let at = (u64::from(row) * u64::from(T::SIZE) + u64::from(digit)) * u64::from(DIGITS);
        let count = memories.counts.add(at as usize + of_first as usize).read();
        vote_ballot(FULL_MASK, count != params.n)
    };
    let all = (1 << T::SIZE) - 1;
    match apart & all {
        0 => 1 << (T::SIZE - 1),
        apart => apart,
    }
}

/// The next tile of the launch.
///
/// # Safety
/// All threads of the block are here; `word` is free until the next barrier.
#[inline(always)]
unsafe fn next_tile(status: *mut u64, shift: u32, word: *mut u32) -> u32 {
    // SAFETY: passed on to the caller; a barrier is between the write and the reads.
    unsafe {
        if thread::thread_idx_x() == 0 {
            let ticket = status.wrapping_add((shift / DIGIT_BITS) as usize);
            word.write(atom_add(ticket, 1, Memory::Relaxed, Scope::Gpu) as u32);
        }
        thread::sync_threads();
        word.read()
    }
}

/// The kernel.
///
/// # Safety
/// Launched as `abi::sort` says.
#[inline(always)]
pub(super) unsafe fn pass<T: Word>(memories: &Memories, params: &SortParams, shared: Shared) {
    let (order, shift) = (T::order(params), params.bits);
    let thread = thread::thread_idx_x();
    // Mostly the block's row is the one that its index has. Then its passes are found while the tile
    // is.
    let (likely, _) = params.row.div_rem(thread::block_idx_x());
    // SAFETY: all threads are here, and a barrier follows before the scratch is used again. There are
    // as many blocks as tiles.
    let (mut passes, number) = unsafe {
        (
            passes_of::<T>(likely, memories, params),
            next_tile(memories.status, shift, shared.scratch_of_row),
        )
    };
    let (row, tile) = params.row.div_rem(number);
    if row != likely {
        // SAFETY: as above.
        passes = unsafe { passes_of::<T>(row, memories, params) };
    }
    let own = 1 << (shift / DIGIT_BITS);
    if passes & own == 0 {
        return;
    }
    let earlier = (passes & (own - 1)).count_ones();
    let (is_first, is_last) = (earlier == 0, passes < 2 * own);
    let begin = tile * TILE;
    let len = params.n - begin;
    let row_offset = |stride: i64| i64::from(row).wrapping_mul(stride) as isize;
    let of_row = (u64::from(row) * u64::from(params.n)) as isize;
    // Passes write to one memory and the other in turn.
    let is_even = earlier.is_multiple_of(2);
    let [even, odd] = memories.elements;
    let (left, next) = if is_even { (odd, even) } else { (even, odd) };
    let [even, odd] = memories.origins;
    let origins = if is_even { (odd, even) } else { (even, odd) };
    let (from, offset) = match is_first {
        true => (memories.x, row_offset(params.from_stride)),
        false => (left.cast_const(), of_row),
    };
    let from = from.cast::<T>().wrapping_offset(offset);
    let from = from.wrapping_add(begin as usize);
    let (to, offset) = match is_last {
        true => (memories.values, row_offset(params.to_stride)),
        false => (next, of_row),
    };
    let to_base = to.cast::<T>().wrapping_offset(offset);
    let mut words = [T::ZERO; ITEMS];
    for j in 0..ITEMS {
        if slot(j) < len {
            // SAFETY: an element of the row.
            words[j] = unsafe { from.add(slot(j) as usize).read() };
        }
    }
    // Places without an element are behind the last one.
    let digit = |j: usize| match slot(j) < len {
        true => words[j].digit(shift, &order),
        false => DIGITS - 1,
    };
    let starts = |total: u32, base: u32| {
        let first = (row * params.row.divisor, thread, shift);
        // SAFETY: this tile's words, of which digit d is thread d's; the row's counts.
        unsafe {
            let (mut own, mut earlier) = (0, 0);
            if thread < DIGITS {
                let missing = TILE.saturating_sub(len);
                let missing = if thread == DIGITS - 1 { missing } else { 0 };
                let words = Words::of(memories.status, first.0, first.1, first.2);
                earlier = words.before(tile, total - missing);
                let digits = u64::from(row) * u64::from(T::SIZE) + u64::from(shift / DIGIT_BITS);
                let at = digits * u64::from(DIGITS) + u64::from(thread);
                own = memories.counts.add(at as usize).read();
            }
            let start = before(own, shared.scratch_of_row) + earlier;
            if thread < DIGITS {
                shared
                    .starts
                    .add(thread as usize)
                    .write(start.wrapping_sub(base));
            }
        }
    };
    // SAFETY: all threads are here, and barriers are between the uses of the room. Each element has
    // its own place in the row.
    unsafe {
        let places = places(Digits::of(digit), starts, shared);
        let words = exchanged(words, &places, shared);
        let mut targets = [0; ITEMS];
        for j in 0..ITEMS {
            let slot = slot(j);
            if slot < len {
                let start = shared
                    .starts
                    .add(words[j].digit(shift, &order) as usize)
                    .read();
                targets[j] = start.wrapping_add(slot);
                if !to.is_null() {
                    to_base.add(targets[j] as usize).write(words[j]);
                }
            }
        }
        let (from_origins, to_origins) = origins;
        let is_wanted = match is_last {
            true => !memories.indices.is_null(),
            false => !to_origins.is_null(),
        };
        if !is_wanted {
            return;
        }
        let from_origins = from_origins.wrapping_offset(of_row);
        let to_origins = to_origins.wrapping_offset(of_row);
        let mut origins = [0; ITEMS];
        for j in 0..ITEMS {
            let at = begin + slot(j);
            origins[j] = at;
            if !is_first & (slot(j) < len) {
                origins[j] = from_origins.add(at as usize).read();
            }
        }
        thread::sync_threads();
        let origins = exchanged(origins, &places, shared);
        let indices = memories
            .indices
            .wrapping_offset(row_offset(params.indices_stride));
        for j in 0..ITEMS {
            if slot(j) < len {
                let target = targets[j] as usize;
                match is_last {
                    true => indices.add(target).write(i64::from(origins[j])),
                    false => to_origins.add(target).write(origins[j]),
                }
            }
        }
    }
}
