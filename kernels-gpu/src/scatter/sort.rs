//! The kernels that sort pairs by their indices.

use cuda_std::atomic::red_shared_add_u32;
use cuda_std::param::ByValue;
use cuda_std::shared::SharedAddr;
use cuda_std::{kernel, shared_array, thread};
use spec::scatter::{DIGIT_BITS, DIGITS, ITEMS, OrderParams, THREADS, TILE};

use super::pairs::{NONE, digit, pair};
use super::rank::{SCRATCH, WORDS, before, first, rank};
use super::segments::Sorted;

/// Sorts all pairs, up to a tile of them, in one block.
///
/// # Safety
/// Launched as `spec::scatter` says, with indices of these extents and strides.
#[kernel(max_threads = THREADS)]
pub unsafe fn scatter_order(
    indices: *const u8,
    pairs: *mut u64,
    begins: *mut u32,
    params: ByValue<OrderParams, 456>,
) {
    let params = &*params;
    let (room, scratch) = (
        shared_array![u64; TILE as usize],
        shared_array![u32; SCRATCH],
    );
    let bases = shared_array![u32; DIGITS as usize];
    let (len, first) = (params.positions.len, first());
    // SAFETY: the launch's promise; between two barriers the room is for counts, or for pairs, each
    // of whose places is one thread's.
    unsafe {
        let mut place = thread::thread_idx_x();
        while place < TILE {
            let item = match place < len {
                true => pair(indices, place, params),
                false => NONE,
            };
            room.add(place as usize).write(item);
            place += THREADS;
        }
        thread::sync_threads();
        let mut items = loaded(room, first);
        thread::sync_threads();
        let mut shift = 0;
        loop {
            let (mut ranks, total) = rank(&items, shift, room.cast());
            let base = before(total, scratch);
            if thread::thread_idx_x() < DIGITS {
                bases.add(thread::thread_idx_x() as usize).write(base);
            }
            thread::sync_threads();
            for j in 0..ITEMS {
                ranks[j] += bases.add(digit(items[j], shift) as usize).read();
                room.add(ranks[j] as usize).write(items[j]);
            }
            thread::sync_threads();
            shift += DIGIT_BITS;
            if shift == params.digits * DIGIT_BITS {
                break;
            }
            items = loaded(room, first);
            thread::sync_threads();
        }
        let mut place = thread::thread_idx_x();
        while place < len {
            pairs
                .add(place as usize)
                .write(room.add(place as usize).read());
            place += THREADS;
        }
        let sorted = Sorted { pairs: room, len };
        sorted.write_parts(begins, 0, THREADS);
    }
}

/// A thread's pairs of a tile.
///
/// # Safety
/// They are readable.
#[inline(always)]
unsafe fn loaded(tile: *const u64, first: u32) -> [u64; ITEMS] {
    let mut items = [NONE; ITEMS];
    for j in 0..ITEMS {
        // SAFETY: passed on to the caller.
        items[j] = unsafe { tile.add((first + 32 * j as u32) as usize).read() };
    }
    items
}

/// Finds where parts of segments begin in sorted pairs.
///
/// # Safety
/// Launched as `spec::scatter` says.
#[kernel(max_threads = THREADS)]
pub unsafe fn scatter_parts(pairs: *const u64, begins: *mut u32, len: u32) {
    let sorted = Sorted { pairs, len };
    let (first, step) = (
        thread::block_idx_x() * THREADS,
        thread::grid_dim_x() * THREADS,
    );
    // SAFETY: the launch's promise.
    unsafe { sorted.write_parts(begins, first, step) }
}

/// Counts the digits of a block's pairs; makes the pairs, where it is the first digit.
///
/// # Safety
/// Launched as `spec::scatter` says, with indices of these extents and strides.
#[kernel(max_threads = THREADS)]
pub unsafe fn scatter_count(
    indices: *const u8,
    pairs: *mut u64,
    counts: *mut u32,
    params: ByValue<OrderParams, 456>,
) {
    let params = &*params;
    let of_digits = shared_array![u32; DIGITS as usize];
    let (thread, block) = (thread::thread_idx_x(), thread::block_idx_x());
    let own = of_digits.wrapping_add(thread as usize);
    // SAFETY: the launch's promise; a position is one thread's, and a digit's count is one thread's
    // before the first barrier and behind the last.
    unsafe {
        if thread < DIGITS {
            own.write(0);
        }
        thread::sync_threads();
        let mut position = block * params.per_block;
        let end = (position + params.per_block).min(params.positions.len);
        position += thread;
        while position < end {
            let at = pairs.add(position as usize);
            if params.shift == 0 {
                at.write(pair(indices, position, params));
            }
            let digit = digit(at.read(), params.shift);
            red_shared_add_u32(SharedAddr::of(of_digits).add_bytes(4 * digit), 1);
            position += THREADS;
        }
        thread::sync_threads();
        if thread < DIGITS {
            counts
                .add((block * DIGITS + thread) as usize)
                .write(own.read());
        }
    }
}

/// Puts a block's pairs to where their digits belong.
///
/// # Safety
/// Launched as `spec::scatter` says, with what `scatter_count` counted.
#[kernel(max_threads = THREADS)]
pub unsafe fn scatter_place(
    from: *const u64,
    to: *mut u64,
    counts: *const u32,
    params: ByValue<OrderParams, 456>,
) {
    let params = &*params;
    let (room, scratch) = (shared_array![u32; WORDS], shared_array![u32; SCRATCH]);
    let bases = shared_array![u32; DIGITS as usize];
    let (thread, block) = (thread::thread_idx_x(), thread::block_idx_x());
    let base = bases.wrapping_add(thread as usize);
    let mut tile = block * params.per_block;
    let end = (tile + params.per_block).min(params.positions.len);
    // SAFETY: the launch's promise; each pair has a place of its own.
    unsafe {
        let (mut all, mut of_earlier) = (0, 0);
        if thread < DIGITS {
            for other in 0..params.blocks {
                let count = counts.add((other * DIGITS + thread) as usize).read();
                all += count;
                if other < block {
                    of_earlier += count;
                }
            }
        }
        let smaller = before(all, scratch);
        if thread < DIGITS {
            base.write(smaller + of_earlier);
        }
        while tile < end {
            let first = tile + first();
            let mut items = [NONE; ITEMS];
            for j in 0..ITEMS {
                let position = first + 32 * j as u32;
                if position < end {
                    items[j] = from.add(position as usize).read();
                }
            }
            let (ranks, total) = rank(&items, params.shift, room);
            for j in 0..ITEMS {
                if first + 32 * (j as u32) < end {
                    let base = bases.add(digit(items[j], params.shift) as usize).read();
                    to.add((base + ranks[j]) as usize).write(items[j]);
                }
            }
            thread::sync_threads();
            if thread < DIGITS {
                base.write(base.read() + total);
            }
            tile += TILE;
        }
    }
}
