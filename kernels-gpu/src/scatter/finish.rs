//! Adds the parts of segments that have several, and the elements of y.

use cuda_std::param::ByValue;
use cuda_std::{convert, kernel, shared_array, thread, warp};
use spec::elementwise::WalkParams;
use spec::scatter::{AddParams, FINISH_THREADS, GROUP, PART, STEP};

use super::add::place;
use super::pairs::{index, offsets};
use super::segments::Sorted;
use crate::reduce::number::Number;

/// A number type, and the elements of y that are added in it.
trait Summed: Number {
    /// # Safety
    /// There is an element of the launch's dtype.
    unsafe fn load(at: *const u8, params: &AddParams) -> Self;

    /// # Safety
    /// There is an element of the launch's dtype, which this thread may write.
    unsafe fn store(self, at: *mut u8, params: &AddParams);
}

impl Summed for f32 {
    #[inline(always)]
    unsafe fn load(at: *const u8, params: &AddParams) -> Self {
        // SAFETY: passed on to the caller.
        unsafe {
            if params.size_log2 == 2 {
                return at.cast::<f32>().read();
            }
            let bits = at.cast::<u16>().read();
            match params.is_bf16 {
                1 => convert::bf16_to_f32(bits),
                _ => convert::f16_to_f32(bits),
            }
        }
    }

    #[inline(always)]
    unsafe fn store(self, at: *mut u8, params: &AddParams) {
        // SAFETY: passed on to the caller.
        unsafe {
            if params.size_log2 == 2 {
                return at.cast::<f32>().write(self);
            }
            at.cast::<u16>().write(match params.is_bf16 {
                1 => convert::f32_to_bf16(self),
                _ => convert::f32_to_f16(self),
            });
        }
    }
}

impl Summed for f64 {
    #[inline(always)]
    unsafe fn load(at: *const u8, _: &AddParams) -> Self {
        // SAFETY: passed on to the caller.
        unsafe { at.cast::<f64>().read() }
    }

    #[inline(always)]
    unsafe fn store(self, at: *mut u8, _: &AddParams) {
        // SAFETY: passed on to the caller.
        unsafe { at.cast::<f64>().write(self) }
    }
}

impl Summed for i64 {
    #[inline(always)]
    unsafe fn load(at: *const u8, params: &AddParams) -> Self {
        // SAFETY: passed on to the caller.
        unsafe {
            match params.size_log2 {
                2 => at.cast::<i32>().read().into(),
                _ => at.cast::<i64>().read(),
            }
        }
    }

    #[inline(always)]
    unsafe fn store(self, at: *mut u8, params: &AddParams) {
        // SAFETY: passed on to the caller.
        unsafe {
            match params.size_log2 {
                2 => at.cast::<i32>().write(self as i32),
                _ => at.cast::<i64>().write(self),
            }
        }
    }
}

/// Which of 32 pairs, [`STEP`] apart from `first` on, are the first of several such pairs with one
/// index: a mask.
///
/// # Safety
/// There are pairs; all lanes are here.
#[inline(always)]
unsafe fn repeated(sorted: Sorted, first: u32) -> u32 {
    let rank = first + thread::lane_idx() * STEP;
    // SAFETY: passed on to the caller.
    unsafe {
        let own = index(sorted.pair(rank));
        let is_first = rank < STEP || !sorted.has(rank - STEP, own);
        let is_repeated = (rank < sorted.len) & sorted.has(rank + STEP, own);
        warp::vote_ballot(warp::FULL_MASK, is_first & is_repeated)
    }
}

/// Bytes in y between element 0 of a row and element `number`.
#[inline(always)]
fn of_y(columns: &WalkParams, number: u32, params: &AddParams) -> i64 {
    let [[of_column, _]] = offsets::<0, 1, 1>(columns, [number >> params.lanes_log2]);
    let lane = number & ((1 << params.lanes_log2) - 1);
    of_column.wrapping_add(i64::from(lane << params.size_log2))
}

/// A segment of several parts, from one thread's point of view.
struct Segment<N> {
    sorted: Sorted,
    begin: u32,
    own: u32,
    /// The thread's number of the first part of the launch.
    parts: *const N,
}

impl<N: Summed> Segment<N> {
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
    unsafe fn group(&self, group: u32, params: &AddParams) -> N {
        let (mut sum, mut begin) = (N::NOTHING, self.begin + group * (GROUP * PART));
        let end = begin + GROUP * PART;
        // SAFETY: passed on to the caller.
        unsafe {
            while begin < end && self.sorted.has(begin, self.own) {
                let place = place(begin, begin == self.begin, params);
                sum = sum.plus(self.parts.wrapping_add(place as usize).read());
                begin += PART;
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
    unsafe fn sum(&self, room: *mut N, params: &AddParams) -> N {
        let warp = thread::warp_idx();
        let (mut sum, mut first) = (N::NOTHING, 0);
        // SAFETY: passed on to the caller; barriers are between writes and reads of the room.
        unsafe {
            while self.has(first) {
                let own = self.group(first + warp, params);
                room.add(thread::thread_idx_x() as usize).write(own);
                thread::sync_threads();
                let mut other = 0;
                while warp == 0 && other < GROUP && self.has(first + other) {
                    let place = other * thread::WARP_THREADS + thread::lane_idx();
                    sum = sum.plus(room.add(place as usize).read());
                    other += 1;
                }
                thread::sync_threads();
                first += GROUP;
            }
        }
        sum
    }
}

/// # Safety
/// The tensors are those of `params`, the pairs are sorted, and `scatter_add` has been there; `room`
/// is shared memory for a number of each thread.
#[inline(always)]
unsafe fn finish<N: Summed>(
    pairs: *const u64,
    y: *mut u8,
    parts: *const N,
    params: &AddParams,
    room: *mut N,
) {
    let len = params.positions.len;
    let sorted = Sorted { pairs, len };
    let (block, of_row) = (
        thread::block_idx_x() / params.warps,
        thread::block_idx_x() % params.warps,
    );
    let number = of_row * thread::WARP_THREADS + thread::lane_idx();
    let is_there = u64::from(number) < params.numbers;
    // Beyond the last one the last, which is not stored there.
    let number = if is_there {
        number
    } else {
        params.numbers as u32 - 1
    };
    let y = y.wrapping_offset(of_y(&params.columns, number, params) as isize);
    let parts = parts.wrapping_add(number as usize);
    // SAFETY: all threads of the block find the same, so they come to the same barriers; an element
    // of y is one thread's of the first warp.
    unsafe {
        let first = block * (thread::WARP_THREADS * STEP);
        let mut found = repeated(sorted, first);
        while found != 0 {
            let rank = first + found.trailing_zeros() * STEP;
            found &= found - 1;
            let own = index(sorted.pair(rank));
            let begin = sorted.begin(rank, own);
            if own >= params.extent || !sorted.has(begin + PART, own) {
                continue;
            }
            let segment = Segment {
                sorted,
                begin,
                own,
                parts,
            };
            let sum = segment.sum(room, params);
            if (thread::warp_idx() == 0) & is_there {
                let row = i64::from(own).wrapping_mul(params.y_stride);
                let at = y.wrapping_offset(row as isize);
                sum.plus(N::load(at, params)).store(at, params);
            }
        }
    }
}

macro_rules! entries {
    ($($name:ident: $number:ty;)*) => {$(
        #[doc = concat!("Adds the parts of segments in ", stringify!($number), ".")]
        ///
        /// # Safety
        /// Launched as `spec::scatter` says, with tensors of these extents and strides.
        #[kernel(max_threads = FINISH_THREADS)]
        pub unsafe fn $name(
            pairs: *const u64,
            y: *mut u8,
            parts: *const u8,
            params: ByValue<AddParams, 904>,
        ) {
            let room = shared_array![$number; FINISH_THREADS as usize];
            // SAFETY: the launch's promise.
            unsafe { finish::<$number>(pairs, y, parts.cast(), &params, room) }
        }
    )*};
}

entries! {
    scatter_finish_f32: f32;
    scatter_finish_f64: f64;
    scatter_finish_i64: i64;
}
