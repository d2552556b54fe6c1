//! Adds the rows of sorted pairs: segments of one part to y, parts of longer ones to `parts`.

use cuda_std::param::ByValue;
use cuda_std::{kernel, thread};
use half::{bf16, f16};
use spec::scatter::{ADD_THREADS, AddParams, CHUNK, PART};

use super::lanes::Lanes;
use super::pairs::{index, offsets};
use super::segments::Sorted;

/// Rows on their way to a thread at a time.
const AT_ONCE: usize = 4;

/// A thread's column.
#[derive(Clone, Copy)]
struct Column {
    /// Its number; there is none beyond the last.
    number: u32,
    is_there: bool,
    /// Its bytes in y and in src.
    of_y: i64,
    of_src: i64,
}

impl Column {
    /// That of a lane of warp `warp` of a row.
    #[inline(always)]
    fn new(warp: u32, params: &AddParams) -> Self {
        let own = warp * thread::WARP_THREADS + thread::lane_idx();
        let is_there = own < params.columns.len;
        let number = own.min(params.columns.len - 1);
        let [[of_y, of_src]] = offsets::<0, 1, 1>(&params.columns, [number]);
        Self {
            number,
            is_there,
            of_y,
            of_src,
        }
    }

    /// Where it is in y.
    #[inline(always)]
    fn in_y(&self, y: *mut u8, index: u32, params: &AddParams) -> *mut u8 {
        let row = i64::from(index).wrapping_mul(params.y_stride);
        y.wrapping_offset(self.of_y.wrapping_add(row) as isize)
    }

    /// Writes the sums of the part that begins at rank `begin`.
    ///
    /// # Safety
    /// There is room for parts, and this one is the warp's.
    #[inline(always)]
    unsafe fn write<T: Lanes<V>, const V: usize>(
        &self,
        parts: *mut u8,
        sums: [T::Number; V],
        (begin, is_first): (u32, bool),
        params: &AddParams,
    ) {
        let number = place(begin, is_first, params) + (u64::from(self.number) << params.lanes_log2);
        let at = parts.cast::<T::Number>().wrapping_add(number as usize);
        // SAFETY: passed on to the caller.
        unsafe {
            match params.lanes_log2 {
                0 => at.write(sums[0]),
                _ => at.cast::<[T::Number; V]>().write(sums),
            }
        }
    }
}

/// The number in `parts` with which the part begins that begins at rank `begin`.
#[inline(always)]
pub(super) fn place(begin: u32, is_first: bool, params: &AddParams) -> u64 {
    (u64::from(begin / PART) * 2 + u64::from(!is_first)) * params.numbers
}

/// The sums of the part that begins at rank `begin`, and the rank behind it.
///
/// # Safety
/// The tensors are those of `params`, and the pairs are sorted; the pair there has an index in range.
#[inline(always)]
unsafe fn part<T: Lanes<V>, const V: usize>(
    sorted: Sorted,
    begin: u32,
    own: u32,
    (src, column): (*const u8, &Column),
    params: &AddParams,
) -> ([T::Number; V], u32) {
    let end = begin + PART;
    let (mut sums, mut rank) = (T::nothing(), begin);
    loop {
        let (mut positions, mut are_there) = ([0; AT_ONCE], [false; AT_ONCE]);
        for j in 0..AT_ONCE {
            // SAFETY: there are pairs.
            let pair = unsafe { sorted.pair(rank + j as u32) };
            are_there[j] = (rank + (j as u32) < sorted.len) & (index(pair) == own);
            positions[j] = pair as u32;
        }
        let rows = offsets::<0, 1, AT_ONCE>(&params.positions, positions);
        let (mut at, mut are_read) = ([src; AT_ONCE], [false; AT_ONCE]);
        for j in 0..AT_ONCE {
            at[j] = src.wrapping_offset(column.of_src.wrapping_add(rows[j][1]) as isize);
            are_read[j] = are_there[j] & column.is_there;
        }
        // SAFETY: a pair with this index has a row in src.
        let raws = unsafe { T::rows(at, are_read, params.lanes_log2 != 0) };
        for j in 0..AT_ONCE {
            sums = T::plus(sums, raws[j]);
            rank += u32::from(are_there[j]);
        }
        // Parts are whole multiples of what is loaded at once.
        if !are_there[AT_ONCE - 1] | (rank == end) {
            return (sums, rank);
        }
    }
}

const _: () = assert!((PART as usize).is_multiple_of(AT_ONCE));

/// # Safety
/// The tensors are those of `params`, and the pairs are sorted.
#[inline(always)]
unsafe fn add<T: Lanes<V>, const V: usize>(
    (pairs, begins): (*const u64, *const u32),
    src: *const u8,
    y: *mut u8,
    parts: *mut u8,
    params: &AddParams,
) {
    let len = params.positions.len;
    let sorted = Sorted { pairs, len };
    let warp = thread::block_idx_x() * (ADD_THREADS / thread::WARP_THREADS) + thread::warp_idx();
    let (chunk, warp) = (warp / params.warps, warp % params.warps);
    let first = chunk * params.chunk;
    if first >= len {
        return;
    }
    let column = Column::new(warp, params);
    // SAFETY: the whole warp is here; a part is one warp's, and so is a segment of one part.
    unsafe {
        let word = begins.add((first / CHUNK) as usize).read();
        let mut begins = word >> (first % CHUNK) & (u32::MAX >> (CHUNK - params.chunk));
        while begins != 0 {
            let begin = first + begins.trailing_zeros();
            begins &= begins - 1;
            let own = index(sorted.pair(begin));
            if own >= params.extent {
                return;
            }
            let at = column.in_y(y, own, params);
            let is_first = begin == 0 || index(sorted.pair(begin - 1)) != own;
            let is_vector = params.lanes_log2 != 0;
            let mut old = [0; 4];
            if column.is_there & is_first {
                old = T::load(at, is_vector);
            }
            let (sums, end) = part::<T, V>(sorted, begin, own, (src, &column), params);
            let is_whole = is_first & !sorted.has(end, own);
            if column.is_there & is_whole {
                T::store(at, T::packed(T::plus(sums, old)), is_vector);
            }
            if column.is_there & !is_whole {
                column.write::<T, V>(parts, sums, (begin, is_first), params);
            }
        }
    }
}

macro_rules! entries {
    ($($name:ident: $ty:ty, $lanes:literal;)*) => {$(
        #[doc = concat!("Adds rows of ", stringify!($ty), ".")]
        ///
        /// # Safety
        /// Launched as `spec::scatter` says, with tensors of these extents and strides.
        #[kernel(max_threads = ADD_THREADS)]
        pub unsafe fn $name(
            pairs: *const u64,
            begins: *const u32,
            src: *const u8,
            y: *mut u8,
            parts: *mut u8,
            params: ByValue<AddParams, 904>,
        ) {
            // SAFETY: the launch's promise.
            unsafe { add::<$ty, $lanes>((pairs, begins), src, y, parts, &params) }
        }
    )*};
}

entries! {
    scatter_add_f32: f32, 4;
    scatter_add_f16: f16, 8;
    scatter_add_bf16: bf16, 8;
    scatter_add_f64: f64, 2;
    scatter_add_i32: i32, 4;
    scatter_add_i64: i64, 2;
}
