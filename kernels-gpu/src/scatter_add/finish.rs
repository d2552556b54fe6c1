//! Adds the parts of segments that have several, and the elements of y.

use abi::scatter_add::{AddParams, FINISH_THREADS, GROUP, PART};
use cuda_std::hint::opaque;
use cuda_std::param::ByValue;
use cuda_std::{kernel, shared_array, thread};

use super::add::slot;
use super::pairs::{index, offsets};
use super::segments::Sorted;
use super::single;
use crate::rank::{lane_idx, warp_idx};

/// Parts on their way to a thread at a time.
const AT_ONCE: usize = 3;

/// How many parts the segment has that begins at rank `begin`; it has two or more.
///
/// # Safety
/// The pairs are sorted.
#[inline(always)]
unsafe fn count(sorted: Sorted, begin: u32, own: u32) -> u32 {
    let (mut low, mut high) = (2, (sorted.len - begin).div_ceil(PART));
    while low < high {
        let middle = (low + high) / 2;
        // SAFETY: passed on to the caller; `high` is one of no pair.
        match index(unsafe { sorted.next(begin + middle * PART) }) == own {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    low
}

/// A segment of several parts, from one thread's point of view; parts are added if `IS_SUM`.
struct Segment<'a, const IS_SUM: bool> {
    count: u32,
    /// Where the thread's number of the first part would be if it began no segment; and bytes
    /// between parts, half of which it is before that.
    parts: *const u8,
    step: u64,
    params: &'a AddParams,
}

impl<const IS_SUM: bool> Segment<'_, IS_SUM> {
    /// The sum of the parts of a group, of which it has none or some.
    ///
    /// # Safety
    /// `scatter_add` has written them.
    #[inline(always)]
    unsafe fn group(&self, group: u32) -> u64 {
        let (code, nothing) = (self.params.code, self.params.nothing);
        let (mut sum, mut part) = (nothing, group * GROUP);
        let end = (part + GROUP).min(self.count);
        while part < end {
            let mut numbers = [nothing; AT_ONCE];
            for j in 0..AT_ONCE {
                let part = part + j as u32;
                if part < end {
                    let back = if part == 0 { self.step / 2 } else { 0 };
                    let bytes = u64::from(part) * self.step;
                    let at = self.parts.wrapping_add(bytes.wrapping_sub(back) as usize);
                    // SAFETY: passed on to the caller.
                    numbers[j] = unsafe { single::number(at, code) };
                }
            }
            for j in 0..AT_ONCE {
                sum = single::combined::<IS_SUM>(sum, numbers[j], self.params);
            }
            part += AT_ONCE as u32;
        }
        sum
    }

    /// The sum of all parts, in the first warp.
    ///
    /// # Safety
    /// As for [`Segment::group`]; all threads of the block are here, for the same segment; `room`
    /// is shared memory for a number of each.
    #[inline(always)]
    unsafe fn sum(&self, room: *mut u64) -> u64 {
        let (warp, params) = (warp_idx(), self.params);
        let (mut sum, mut first) = (params.nothing, 0);
        // SAFETY: passed on to the caller; barriers are between writes and reads of the room.
        unsafe {
            while first * GROUP < self.count {
                let own = self.group(first + warp);
                room.add(thread::thread_idx_x() as usize).write(own);
                thread::sync_threads();
                let mut other = 0;
                while warp == 0 && other < GROUP {
                    // What has no parts changes nothing.
                    let slot = other * thread::WARP_THREADS + lane_idx();
                    let other_sum = room.add(slot as usize).read();
                    sum = single::combined::<IS_SUM>(sum, other_sum, params);
                    other = opaque(other) + 1;
                }
                thread::sync_threads();
                first += GROUP;
            }
        }
        sum
    }
}

/// # Safety
/// The tensors are those of `params`; all threads of the block are here; `room` is shared memory for
/// a number of each.
#[inline(always)]
unsafe fn finish<const IS_SUM: bool>(
    (pairs, longs): (*const u64, *const u32),
    y: *mut u8,
    parts: *const u8,
    params: &AddParams,
    room: *mut u64,
) {
    let (len, code) = (params.positions.len, params.code);
    let sorted = Sorted { pairs, len };
    let log2 = single::number_log2(code);
    let last = params.numbers as u32 - 1;
    // SAFETY: the launch's promise. All threads of the block have the same segment, so they come to
    // the same barriers; an element of y is one thread's of the first warp.
    unsafe {
        let items = longs.read() * params.warps.divisor;
        let mut item = thread::block_idx_x();
        while item < items {
            let (long, of_row) = params.warps.div_rem(item);
            let begin = longs.add(1 + long as usize).read();
            let own = index(sorted.next(begin));
            // Beyond the last one the last, which is not stored there.
            let number = (of_row * thread::WARP_THREADS + lane_idx()).min(last);
            let slot = slot(begin, false, params) + u64::from(number);
            let segment = Segment::<IS_SUM> {
                count: count(sorted, begin, own),
                parts: parts.wrapping_add((slot << log2) as usize),
                step: (2 * params.numbers) << log2,
                params,
            };
            let sum = segment.sum(room);
            // Recomputed, so that it takes no register meanwhile.
            let (_, of_row) = params.warps.div_rem(opaque(item));
            let number = of_row * thread::WARP_THREADS + lane_idx();
            if (warp_idx() == 0) & (number <= last) {
                let column = number >> params.lanes_log2;
                let [[of_column, _]] = offsets::<0, 1, 1>(&params.columns, [column]);
                let lane = number & ((1 << params.lanes_log2) - 1);
                let in_row = of_column.wrapping_add(i64::from(lane << params.size_log2));
                let row = i64::from(own).wrapping_mul(params.y_stride);
                let at = y.wrapping_offset(row.wrapping_add(in_row) as isize);
                let old = single::load(at, params);
                single::store(at, single::combined::<IS_SUM>(sum, old, params), params);
            }
            item += thread::grid_dim_x();
        }
    }
}

/// Adds the parts of segments.
///
/// # Safety
/// Launched as `abi::scatter_add` says, with tensors of these extents and strides.
#[kernel(max_threads = FINISH_THREADS, min_blocks = 4)]
pub unsafe fn scatter_add_finish(
    pairs: *const u64,
    longs: *const u32,
    y: *mut u8,
    parts: *const u8,
    params: ByValue<AddParams, 928>,
) {
    let room = shared_array![u64; FINISH_THREADS as usize];
    // SAFETY: the launch's promise; the room is for this alone.
    unsafe { finish::<true>((pairs, longs), y, parts, &params, room) }
}

/// Combines the parts of segments by the launch's operation.
///
/// # Safety
/// Launched as `abi::scatter_add` says, with tensors of these extents and strides.
#[kernel(max_threads = FINISH_THREADS, min_blocks = 2)]
pub unsafe fn scatter_reduce_finish(
    pairs: *const u64,
    longs: *const u32,
    y: *mut u8,
    parts: *const u8,
    params: ByValue<AddParams, 928>,
) {
    let room = shared_array![u64; FINISH_THREADS as usize];
    // SAFETY: the launch's promise; the room is for this alone.
    unsafe { finish::<false>((pairs, longs), y, parts, &params, room) }
}
