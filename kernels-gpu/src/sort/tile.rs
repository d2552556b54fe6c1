//! A tile of a block: its order by a digit, and the exchange of what its threads have.

use abi::sort::{DIGITS, ITEMS, THREADS, TILE};
use cuda_std::hint::opaque;
use cuda_std::thread;

use crate::rank::{before, first, rank, words};

/// Warps of a block.
pub(super) const WARPS: u32 = THREADS / thread::WARP_THREADS;

/// Words of shared memory for the counts of warps, or for a tile's elements of so many bytes, or its
/// indices.
pub(super) const fn room(bytes: usize) -> usize {
    let bytes = if bytes == 8 { bytes } else { 4 };
    let of_tile = TILE as usize * bytes / 8;
    let of_counts = words(WARPS) / 2;
    if of_tile > of_counts {
        of_tile
    } else {
        of_counts
    }
}

/// Shared memory of a block.
#[derive(Clone, Copy)]
pub(super) struct Shared {
    /// Counts of warps, elements or indices.
    pub(super) room: *mut u64,
    /// Where each digit begins in the tile.
    pub(super) bases: *mut u32,
    /// Where each digit begins in the row, less that.
    pub(super) starts: *mut u32,
    /// A word for each warp.
    pub(super) scratch: *mut u32,
    /// The same.
    pub(super) scratch_of_row: *mut u32,
}

/// The place of the thread's item j.
#[inline(always)]
pub(super) fn slot(j: usize) -> u32 {
    first::<ITEMS>() + thread::WARP_THREADS * j as u32
}

/// The digits of a thread's items, in as few registers as they need.
#[derive(Clone, Copy)]
pub(super) struct Digits([u32; ITEMS / 4]);

impl Digits {
    #[inline(always)]
    pub(super) fn of(digit: impl Fn(usize) -> u32) -> Self {
        let mut words = [0; ITEMS / 4];
        for j in 0..ITEMS {
            words[j / 4] |= digit(j) << (8 * (j % 4));
        }
        Self(words)
    }

    #[inline(always)]
    fn get(&self, j: usize) -> u32 {
        // Taken out where it is needed: the compiler would keep all of them.
        opaque(self.0[j / 4]) >> (8 * (j % 4)) & (DIGITS - 1)
    }
}

/// The place of each of the thread's items, in the order of their digits; and, in thread d below
/// 256, how many items have digit d. There is a barrier between the last use of `bases` and the end.
///
/// # Safety
/// All threads of the block are here, and its shared memory is free. `starts`, which is called
/// with the number of items of digit d by thread d, and with the digit's first place, may have
/// barriers.
#[inline(always)]
pub(super) unsafe fn places(
    digits: Digits,
    starts: impl FnOnce(u32, u32),
    shared: Shared,
) -> [u32; ITEMS] {
    let thread = thread::thread_idx_x();
    // SAFETY: passed on to the caller; a barrier is between writes and reads.
    unsafe {
        let (mut ranks, total) = rank::<WARPS, ITEMS>(|j| digits.get(j), shared.room.cast());
        let base = before(total, shared.scratch);
        if thread < DIGITS {
            shared.bases.add(thread as usize).write(base);
        }
        starts(total, base);
        thread::sync_threads();
        for j in 0..ITEMS {
            ranks[j] += shared.bases.add(digits.get(j) as usize).read();
        }
        ranks
    }
}

/// What the other threads have for this thread's places.
///
/// # Safety
/// All threads of the block are here; the room is free until the next barrier. All places
/// are different, and below those of a tile.
#[inline(always)]
pub(super) unsafe fn exchanged<T: Copy>(
    mut items: [T; ITEMS],
    places: &[u32; ITEMS],
    shared: Shared,
) -> [T; ITEMS] {
    let room = shared.room.cast::<T>();
    // SAFETY: passed on to the caller; a place is written by one thread.
    unsafe {
        for j in 0..ITEMS {
            room.add(places[j] as usize).write(items[j]);
        }
        thread::sync_threads();
        for j in 0..ITEMS {
            items[j] = room.add(slot(j) as usize).read();
        }
    }
    items
}
