//! The kernels that sort pairs by their indices.

use abi::scatter_add::{DIGIT_BITS, DIGITS, ITEMS, OrderParams, PAD, THREADS, TILE};
use cuda_std::atomic::red_shared_add_u32;
use cuda_std::hint::opaque;
use cuda_std::param::ByValue;
use cuda_std::shared::SharedAddr;
use cuda_std::{kernel, shared_array, thread};

use super::pairs::{NONE, digit, pair};
use super::segments::Sorted;
use crate::rank::{before, first, rank, words};

/// Warps of a block.
const WARPS: u32 = THREADS / thread::WARP_THREADS;

/// Counts the digits of a block's pairs; makes the pairs, where it is the first digit.
///
/// # Safety
/// Launched as `abi::scatter_add` says, with indices of these extents and strides.
#[kernel(max_threads = THREADS)]
pub unsafe fn scatter_add_count(
    indices: *const u8,
    pairs: *mut u64,
    counts: *mut u32,
    longs: *mut u32,
    params: ByValue<OrderParams, 464>,
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
        if (block == 0) & (thread == 0) {
            longs.write(0);
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

/// How many pairs have digit d, and how many of earlier blocks have, in thread d.
///
/// # Safety
/// All threads of the block are here; `scatter_add_count` has counted; `room` is shared memory for
/// two numbers of each digit, which is free until the next barrier.
#[inline(always)]
unsafe fn counted(counts: *const u32, room: *mut u32, params: &OrderParams) -> (u32, u32) {
    let (thread, block) = (thread::thread_idx_x(), thread::block_idx_x());
    let (mut all, mut of_earlier, mut slot) = (0, 0, thread);
    // SAFETY: passed on to the caller; additions of integers are atomic.
    unsafe {
        let own = room.wrapping_add(thread as usize);
        if thread < 2 * DIGITS {
            own.write(0);
        }
        thread::sync_threads();
        // Four blocks at a time.
        while slot < params.blocks * DIGITS {
            let count = counts.add(slot as usize).read();
            all += count;
            if slot / DIGITS < block {
                of_earlier += count;
            }
            slot = opaque(slot) + THREADS;
        }
        let sums = SharedAddr::of(room).add_bytes(thread % DIGITS * 4);
        red_shared_add_u32(sums, all);
        red_shared_add_u32(sums.add_bytes(DIGITS * 4), of_earlier);
        thread::sync_threads();
        if thread < DIGITS {
            (all, of_earlier) = (own.read(), own.add(DIGITS as usize).read());
        }
    }
    (all, of_earlier)
}

/// Puts a block's pairs to where their digits belong; by all digits, where there is one block.
/// Then, and where no digits are left, finds where parts begin.
///
/// # Safety
/// Launched as `abi::scatter_add` says, with indices of these extents and strides, and with what
/// `scatter_add_count` counted.
#[kernel(max_threads = THREADS)]
pub unsafe fn scatter_add_sort(
    indices: *const u8,
    from: *const u64,
    to: *mut u64,
    counts: *const u32,
    begins: *mut u32,
    longs: *mut u32,
    params: ByValue<OrderParams, 464>,
) {
    let params = &*params;
    // First the counts of warps, then, of one block, the pairs.
    let room = shared_array![u64; TILE as usize];
    let scratch = shared_array![u32; WARPS as usize];
    let bases = shared_array![u32; DIGITS as usize];
    let thread = thread::thread_idx_x();
    let own_base = bases.wrapping_add(thread as usize);
    let (len, is_whole) = (params.positions.len, params.blocks == 1);
    let mut tile = thread::block_idx_x() * params.per_block;
    let end = (tile + params.per_block).min(len);
    let (mut shift, mut source, mut target) = (params.shift, from, to);
    let (mut all, mut of_earlier, mut is_first) = (0, 0, true);
    // SAFETY: the launch's promise; each pair has a place of its own, and a barrier is between the
    // two uses of a room. All threads of the block go the same ways.
    unsafe {
        if is_whole {
            (source, target) = (room, room);
            let mut slot = thread;
            if thread == 0 {
                longs.write(0);
            }
            while slot < len {
                room.add(slot as usize).write(pair(indices, slot, params));
                slot = opaque(slot) + THREADS;
            }
            thread::sync_threads();
        } else if shift < params.bits {
            (all, of_earlier) = counted(counts, room.cast(), params);
        }
        while shift < params.bits {
            let first = tile + first::<ITEMS>();
            let mut items = [NONE; ITEMS];
            for j in 0..ITEMS {
                let slot = first + 32 * j as u32;
                if slot < end {
                    items[j] = source.add(slot as usize).read();
                }
            }
            thread::sync_threads();
            let (mut ranks, total) = rank::<WARPS, ITEMS>(|j| digit(items[j], shift), room.cast());
            if is_whole {
                all = total;
            }
            if is_whole | is_first {
                // Only digits have counts; what other threads have comes behind them.
                let base = before(all, scratch) + of_earlier;
                if thread < DIGITS {
                    own_base.write(base);
                }
                is_first = false;
            }
            thread::sync_threads();
            for j in 0..ITEMS {
                ranks[j] += bases.add(digit(items[j], shift) as usize).read();
                if first + 32 * (j as u32) < end {
                    target.add(ranks[j] as usize).write(items[j]);
                }
            }
            thread::sync_threads();
            if is_whole {
                shift += DIGIT_BITS;
            } else {
                if thread < DIGITS {
                    own_base.write(own_base.read() + total);
                }
                tile += TILE;
                if tile >= end {
                    break;
                }
            }
        }
        if is_whole {
            let mut slot = thread;
            while slot < len {
                let item = room.add(slot as usize).read();
                to.add(slot as usize).write(item);
                slot = opaque(slot) + THREADS;
            }
        }
        if shift >= params.bits {
            let (first, step) = (thread::block_idx_x(), thread::grid_dim_x());
            let (first, step) = (first * THREADS, step * THREADS);
            let sorted = Sorted { pairs: source, len };
            sorted.write_parts(begins, longs, params.extent, (first, step));
        }
        if (thread::block_idx_x() == 0) & (thread < PAD) {
            to.add((len + thread) as usize).write(NONE);
        }
    }
}

const _: () = assert!(words(WARPS) * size_of::<u32>() <= TILE as usize * size_of::<u64>());
