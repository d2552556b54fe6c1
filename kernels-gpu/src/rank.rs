//! Where the items of a tile go: behind those with smaller digits, and behind those before them. Of
//! kernels that sort by digits.

use abi::sort::DIGITS;
use cuda_std::hint::opaque;
use cuda_std::{thread, warp};

/// Words of shared memory in which so many warps count digits.
pub(crate) const fn words(warps: u32) -> usize {
    (warps * DIGITS) as usize
}

/// The thread's lane, of a block of one dimension.
#[inline(always)]
pub(crate) fn lane_idx() -> u32 {
    thread::thread_idx_x() % thread::WARP_THREADS
}

/// The thread's warp, of a block of one dimension.
#[inline(always)]
pub(crate) fn warp_idx() -> u32 {
    thread::thread_idx_x() / thread::WARP_THREADS
}

/// The place of a thread's first of `N` items in its tile; its others are 32 apart.
#[inline(always)]
pub(crate) fn first<const N: usize>() -> u32 {
    warp_idx() * (thread::WARP_THREADS * N as u32) + lane_idx()
}

/// How many items with the same digit come before each of the thread's in the tile; and, in thread
/// d below 256, how many items have digit d. `digit` is the digit of the thread's item j.
///
/// # Safety
/// All threads of the block are here: `WARPS` warps, 256 threads at least. `counts` is shared memory
/// of as many [`words`], which are free until the next barrier.
#[inline(always)]
pub(crate) unsafe fn rank<const WARPS: u32, const N: usize>(
    digit: impl Fn(usize) -> u32,
    counts: *mut u32,
) -> ([u32; N], u32) {
    let (thread, lane) = (thread::thread_idx_x(), lane_idx());
    let own = counts.wrapping_add((warp_idx() * DIGITS) as usize);
    let mut ranks = [0; N];
    // SAFETY: a warp's counts are its own up to the barrier; then a digit's are one thread's up to
    // the next. All lanes match and wait together.
    unsafe {
        let mut word = lane;
        while word < DIGITS {
            own.add(opaque(word) as usize).write(0);
            word += thread::WARP_THREADS;
        }
        warp::bar_warp_sync(warp::FULL_MASK);
        for (j, rank) in ranks.iter_mut().enumerate() {
            let digit = digit(j);
            let peers = warp::match_any(warp::FULL_MASK, digit);
            let below = (peers & ((1 << lane) - 1)).count_ones();
            let count = own.wrapping_add(digit as usize);
            let before = count.read();
            warp::bar_warp_sync(warp::FULL_MASK);
            if below == 0 {
                count.write(before + peers.count_ones());
            }
            warp::bar_warp_sync(warp::FULL_MASK);
            *rank = before + below;
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
        for (j, rank) in ranks.iter_mut().enumerate() {
            *rank += own.add(digit(j) as usize).read();
        }
        (ranks, total)
    }
}

/// The sum of the values of all threads before this one.
///
/// # Safety
/// All threads of the block are here; `scratch` is shared memory of a word for each warp,
/// which is free until the next barrier.
#[inline(always)]
pub(crate) unsafe fn before(value: u32, scratch: *mut u32) -> u32 {
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
