//! One digit of long rows: a tile for each block.

use abi::sort::{DIGIT_BITS, DIGITS, ITEMS, SortParams, TILE};
use cuda_std::atomic::{Order as Memory, Scope, atom_add};
use cuda_std::thread;

use super::back::Words;
use super::tile::{Digits, Shared, exchanged, places, slot};
use super::word::Word;
use crate::rank::before;

/// What a pass reads and writes; of indices and elements, what is null is not there.
pub(super) struct Memories {
    pub(super) from: *const u8,
    pub(super) from_indices: *const u32,
    pub(super) to: *mut u8,
    pub(super) to_indices: *mut u32,
    pub(super) indices: *mut i64,
    pub(super) counts: *const u32,
    pub(super) status: *mut u64,
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
    // SAFETY: all threads are here, and a barrier follows before the scratch is used again.
    let number = unsafe { next_tile(memories.status, shift, shared.scratch_of_row) };
    let (row, tile) = params.row.div_rem(number);
    let begin = tile * TILE;
    let len = params.n - begin;
    let row_offset = |stride: i64| i64::from(row).wrapping_mul(stride) as isize;
    let of_row = (u64::from(row) * u64::from(params.n)) as usize;
    let from = memories
        .from
        .cast::<T>()
        .wrapping_offset(row_offset(params.from_stride));
    let from = from.wrapping_add(begin as usize);
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
        let to = memories
            .to
            .cast::<T>()
            .wrapping_offset(row_offset(params.to_stride));
        for j in 0..ITEMS {
            let slot = slot(j);
            if slot < len {
                let start = shared
                    .starts
                    .add(words[j].digit(shift, &order) as usize)
                    .read();
                targets[j] = start.wrapping_add(slot);
                if !memories.to.is_null() {
                    to.add(targets[j] as usize).write(words[j]);
                }
            }
        }
        if memories.to_indices.is_null() & memories.indices.is_null() {
            return;
        }
        let mut origins = [0; ITEMS];
        for j in 0..ITEMS {
            let at = begin + slot(j);
            origins[j] = at;
            if !memories.from_indices.is_null() & (slot(j) < len) {
                origins[j] = memories.from_indices.add(of_row + at as usize).read();
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
                if memories.indices.is_null() {
                    memories.to_indices.add(of_row + target).write(origins[j]);
                } else {
                    indices.add(target).write(i64::from(origins[j]));
                }
            }
        }
    }
}
