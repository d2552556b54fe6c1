//! Adds the parts of segments that have several, and the elements of y.

use cuda_std::hint::opaque;
use cuda_std::param::ByValue;
use cuda_std::{kernel, shared_array, thread, warp};
use spec::scatter::{AddParams, CHUNK, FINISH_THREADS, GROUP, PART, STEP};

use super::add::place;
use super::pairs::{index, lane_idx, offsets, warp_idx};
use super::segments::Sorted;
use super::single;

/// Which of 32 pairs, [`STEP`] apart from `first` on, are the first of several such pairs with one
/// index: a mask.
///
/// # Safety
/// There are pairs; all lanes are here.
#[inline(always)]
unsafe fn repeated(sorted: Sorted, first: u32) -> u32 {
    let rank = first + lane_idx() * STEP;
    // SAFETY: passed on to the caller.
    unsafe {
        let own = index(sorted.pair(rank));
        let is_first = (rank < STEP) | (index(sorted.pair(rank.saturating_sub(STEP))) != own);
        let is_repeated = sorted.has(rank + STEP, own);
        warp::vote_ballot(warp::FULL_MASK, is_first & is_repeated)
    }
}

/// The rank of the last part that begins up to `rank`.
///
/// # Safety
/// `begins` says where parts begin.
#[inline(always)]
unsafe fn begin(begins: *const u32, rank: u32) -> u32 {
    let (mut word, mut mask) = (rank / CHUNK, u32::MAX >> (CHUNK - 1 - rank % CHUNK));
    loop {
        // SAFETY: passed on to the caller; the first pair begins a part.
        let parts = unsafe { begins.add(word as usize).read() } & mask;
        if parts != 0 {
            return word * CHUNK + (CHUNK - 1 - parts.leading_zeros());
        }
        (word, mask) = (word - 1, u32::MAX);
    }
}

/// A segment of several parts, from one thread's point of view.
struct Segment<'a> {
    sorted: Sorted,
    begin: u32,
    own: u32,
    parts: *const u8,
    /// The thread's number in a part.
    number: u32,
    params: &'a AddParams,
}

impl Segment<'_> {
    /// Whether it has this group of parts.
    ///
    /// # Safety
    /// The pairs are sorted.
    #[inline(always)]
    unsafe fn has(&self, group: u32) -> bool {
        // SAFETY: passed on to the caller.
        unsafe {
            self.sorted
                .has(self.begin + group * (GROUP * PART), self.own)
        }
    }

    /// The sum of the parts of a group.
    ///
    /// # Safety
    /// `scatter_add` has written them.
    #[inline(always)]
    unsafe fn group(&self, group: u32) -> u64 {
        let code = self.params.code;
        let (mut sum, mut begin) = (self.params.nothing, self.begin + group * (GROUP * PART));
        let end = begin + GROUP * PART;
        // SAFETY: passed on to the caller.
        unsafe {
            while begin < end && self.sorted.has(begin, self.own) {
                let place = place(begin, begin == self.begin, self.params);
                let part = single::number(self.parts, place + u64::from(self.number), code);
                sum = single::plus(sum, part, code);
                begin = opaque(begin) + PART;
            }
        }
        sum
    }

    /// The sum of all parts, in the first warp.
    ///
    /// # Safety
    /// As for [`Segment::group`]; all threads of the block are here, for the same segment; `room` is
    /// shared memory for a number of each.
    #[inline(always)]
    unsafe fn sum(&self, room: *mut u64) -> u64 {
        let (warp, code) = (warp_idx(), self.params.code);
        let (mut sum, mut first) = (self.params.nothing, 0);
        // SAFETY: passed on to the caller; barriers are between writes and reads of the room.
        unsafe {
            while self.has(first) {
                let own = self.group(first + warp);
                room.add(thread::thread_idx_x() as usize).write(own);
                thread::sync_threads();
                let mut other = 0;
                while warp == 0 && other < GROUP && self.has(first + other) {
                    let place = other * thread::WARP_THREADS + lane_idx();
                    sum = single::plus(sum, room.add(place as usize).read(), code);
                    other = opaque(other) + 1;
                }
                thread::sync_threads();
                first += GROUP;
            }
        }
        sum
    }
}

/// Adds the parts of segments.
///
/// # Safety
/// Launched as `spec::scatter` says, with tensors of these extents and strides.
#[kernel(max_threads = FINISH_THREADS)]
pub unsafe fn scatter_finish(
    pairs: *const u64,
    begins: *const u32,
    y: *mut u8,
    parts: *const u8,
    params: ByValue<AddParams, 920>,
) {
    let params = &*params;
    let room = shared_array![u64; FINISH_THREADS as usize];
    let (len, code) = (params.positions.len, params.code);
    let sorted = Sorted { pairs, len };
    let (block, of_row) = params.warps.div_rem(thread::block_idx_x());
    let number = of_row * thread::WARP_THREADS + lane_idx();
    let is_there = number < params.numbers as u32;
    // Beyond the last one the last, which is not stored there.
    let number = number.min(params.numbers as u32 - 1);
    let [[of_column, _]] = offsets::<0, 1, 1>(&params.columns, [number >> params.lanes_log2]);
    let lane = number & ((1 << params.lanes_log2) - 1);
    let y = y.wrapping_offset(of_column as isize);
    let y = y.wrapping_add((lane << params.size_log2) as usize);
    // SAFETY: the launch's promise. All threads of the block find the same, so they come to the same
    // barriers; an element of y is one thread's of the first warp.
    unsafe {
        let first = block * (thread::WARP_THREADS * STEP);
        let mut found = repeated(sorted, first);
        while found != 0 {
            let rank = first + found.trailing_zeros() * STEP;
            found &= found - 1;
            let own = index(sorted.pair(rank));
            let begin = begin(begins, rank);
            if own >= params.extent || !sorted.has(begin + PART, own) {
                continue;
            }
            let segment = Segment {
                sorted,
                begin,
                own,
                parts,
                number,
                params,
            };
            let sum = segment.sum(room);
            if (warp_idx() == 0) & is_there {
                let row = i64::from(own).wrapping_mul(params.y_stride);
                let at = y.wrapping_offset(row as isize);
                single::store(
                    at,
                    single::plus(sum, single::load(at, params), code),
                    params,
                );
            }
        }
    }
}
