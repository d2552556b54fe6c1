//! Where the pairs of a tile go: behind those with smaller digits, and behind those before them.

use abi::scatter_add::{DIGITS, ITEMS, THREADS};
use cuda_std::hint::opaque;
use cuda_std::{thread, warp};

use super::pairs::{digit, lane_idx, warp_idx};

/// Warps of a block.
const WARPS: u32 = THREADS / thread::WARP_THREADS;

/// Words of shared memory in which warps count digits.
pub(super) const WORDS: usize = (WARPS * DIGITS) as usize;

/// Words of shared memory for [`before`].
pub(super) const SCRATCH: usize = WARPS as usize;

/// The place of a thread's first pair in its tile; its others are 32 apart.
#[inline(always)]
pub(super) fn first() -> u32 {
    warp_idx() * (thread::WARP_THREADS * ITEMS as u32) + lane_idx()
}

/// How many pairs with the same digit come before each of the thread's in the tile; and, in thread d
/// below 256, how many pairs have digit d.
///
/// # Safety
/// All threads of the block are here; `counts` is shared memory of [`WORDS`] that nobody uses, and
/// nobody may before a barrier.
#[inline(always)]
pub(super) unsafe fn rank(
    pairs: &[u64; ITEMS],
    shift: u32,
    counts: *mut u32,
) -> ([u32; ITEMS], u32) {
    let (thread, lane) = (thread::thread_idx_x(), lane_idx());
    let own = counts.wrapping_add((warp_idx() * DIGITS) as usize);
    let mut ranks = [0; ITEMS];
    // SAFETY: a warp's counts are its own up to the barrier; then a digit's are one thread's up to
    // the next. All lanes match and wait together.
    unsafe {
        let mut word = lane;
        while word < DIGITS {
            own.add(opaque(word) as usize).write(0);
            word += thread::WARP_THREADS;
        }
        warp::bar_warp_sync(warp::FULL_MASK);
        for j in 0..ITEMS {
            let digit = digit(pairs[j], shift);
            let peers = warp::match_any(warp::FULL_MASK, digit);
            let below = (peers & ((1 << lane) - 1)).count_ones();
            let count = own.wrapping_add(digit as usize);
            let before = count.read();
            warp::bar_warp_sync(warp::FULL_MASK);
            if below == 0 {
                count.write(before + peers.count_ones());
            }
            warp::bar_warp_sync(warp::FULL_MASK);
            ranks[j] = before + below;
        }
        thread::sync_threads();
        let mut total = 0;
        if thread < DIGITS {
            let mut word = thread;
            while word < opaque(WARPS * DIGITS) {
                let count = counts.add(word as usize);
                let of_warp = count.read();
                count.write(total);
                total += of_warp;
                word += DIGITS;
            }
        }
        thread::sync_threads();
        for j in 0..ITEMS {
            ranks[j] += own.add(digit(pairs[j], shift) as usize).read();
        }
        (ranks, total)
    }
}

/// The sum of the values of all threads before this one.
///
/// # Safety
/// All threads of the block are here; `scratch` is shared memory of [`SCRATCH`] words that nobody
/// uses, and nobody may before a barrier.
#[inline(always)]
pub(super) unsafe fn before(value: u32, scratch: *mut u32) -> u32 {
    let (lane, own) = (lane_idx(), warp_idx());
    let (mut sum, mut apart) = (value, 1);
    // SAFETY: all lanes shuffle together; a barrier is between writes and reads.
    unsafe {
        while apart < thread::WARP_THREADS {
            let below = warp::shfl_up(warp::FULL_MASK, sum, apart);
            if lane >= apart {
                sum += below;
            }
            apart = opaque(apart) * 2;
        }
        if lane == thread::WARP_THREADS - 1 {
            scratch.add(own as usize).write(sum);
        }
        thread::sync_threads();
        let mut warp = 0;
        while warp < own {
            sum += scratch.add(warp as usize).read();
            warp = opaque(warp) + 1;
        }
        sum - value
    }
}
