//! The kernels that put rows to where indices say, two for each size of elements.

use abi::scatter::{ScatterEntry, ScatterFewEntry, ScatterFewParams, ScatterParams, THREADS};
use cuda_std::atomic::{Order, Scope, atom_max};
use cuda_std::barrier::bar_red_or;
use cuda_std::hint::opaque;
use cuda_std::param::ByValue;
use cuda_std::{kernel, thread};

use super::bits::Bits;
use super::walk::{offsets, wrapped};

/// Indices that a thread compares with its block's at a time.
const AT_ONCE: usize = 2;

/// The elements of a thread of the `block`-th block of a row, of which `last` is the last one;
/// which also stands for those beyond.
#[inline(always)]
fn own_elements<const N: usize>(block: u32, last: u32) -> ([u32; N], [bool; N]) {
    let first = block * (THREADS * N as u32) + thread::thread_idx_x();
    let elements = core::array::from_fn(|j| first + j as u32 * THREADS);
    (
        elements.map(|at| at.min(last)),
        elements.map(|at| at <= last),
    )
}

/// The indices at these bytes behind the first one, where `wrap` is added to negative ones.
///
/// # Safety
/// There are indices of so many bytes.
#[inline(always)]
unsafe fn indices_at<const M: usize>(
    indices: *const u8,
    offsets: [i64; M],
    (index_bytes, wrap): (u32, i64),
) -> [i64; M] {
    let at = offsets.map(|offset| indices.wrapping_offset(offset as isize));
    // SAFETY: passed on to the caller.
    let indices = unsafe {
        match index_bytes {
            8 => at.map(|at| at.cast::<i64>().read()),
            _ => at.map(|at| i64::from(at.cast::<i32>().read())),
        }
    };
    indices.map(|index| wrapped(index, wrap))
}

/// # Safety
/// The tensors are those of `params`, and all threads of the block are here.
#[inline(always)]
unsafe fn scatter_few<T: Bits, const N: usize>(
    src: *const u8,
    indices: *const u8,
    y: *mut u8,
    params: &ScatterFewParams,
) {
    let (position, block) = params.blocks.div_rem(thread::block_idx_x());
    let (columns, positions) = (&params.columns, &params.positions);
    let (elements, is_there) = own_elements::<N>(block, columns.len - 1);
    let [[_, of_row, of_index]] = offsets::<3, 1>(positions, [position]);
    let starts = offsets::<2, N>(columns, elements);
    let row = src.wrapping_offset(of_row as isize);
    // SAFETY: the launch's promise. Elements beyond the last one are the last, and so are indices:
    // loads need no condition. An element of y belongs to the block whose position is the last of
    // its index.
    unsafe {
        let [own] = indices_at(indices, [of_index], (params.index_bytes, params.wrap));
        // Asked for before it is known whether the row stays: that is a wait less.
        let values = starts.map(|[_, at]| T::load(row.wrapping_offset(at as isize)));
        // The same for all threads, which are to come to the barrier together.
        let mut first = position + 1;
        let mut is_replaced = false;
        while first < positions.len {
            let later = first + thread::thread_idx_x();
            let others: [u32; AT_ONCE] = core::array::from_fn(|j| later + j as u32 * THREADS);
            let at = offsets::<3, AT_ONCE>(positions, others.map(|at| at.min(positions.len - 1)));
            let found = indices_at(
                indices,
                at.map(|at| at[2]),
                (params.index_bytes, params.wrap),
            );
            // The last one stands for those beyond it, and is later itself.
            let equal = found.map(|index| index == own);
            is_replaced |= equal.into_iter().fold(false, |some, is| some | is);
            first = opaque(first) + AT_ONCE as u32 * THREADS;
        }
        // A negative one is larger than any extent.
        if !bar_red_or(is_replaced) & ((own as u64) < params.count) {
            let row = y.wrapping_offset(own.wrapping_mul(params.stride) as isize);
            for j in 0..N {
                if is_there[j] {
                    values[j].store(row.wrapping_offset(starts[j][0] as isize));
                }
            }
        }
    }
}

/// Writes the largest position of each index, and one more.
///
/// # Safety
/// Launched as `abi::scatter` says, with indices of these extents and strides, and a table of
/// `count` numbers.
#[kernel(max_threads = THREADS)]
pub unsafe fn scatter_last(
    indices: *const u8,
    last: *mut u32,
    params: ByValue<ScatterParams, 472>,
) {
    let params = &*params;
    let element = thread::block_idx_x() * THREADS + thread::thread_idx_x();
    if element >= params.walk.len {
        return;
    }
    let [[_, _, at]] = offsets::<3, 1>(&params.walk, [element]);
    // SAFETY: the launch's promise; the index is below the length of the table, which launches of
    // this kernel alone change, atomically.
    unsafe {
        let [index] = indices_at(indices, [at], (params.index_bytes as u32, params.wrap));
        if (index as u64) < params.count {
            let position = params.first as u32 + element;
            atom_max(
                last.wrapping_offset(index as isize),
                position + 1,
                Order::Relaxed,
                Scope::Gpu,
            );
        }
    }
}

/// # Safety
/// The tensors are those of `params`; `scatter_last` has written the table.
#[inline(always)]
unsafe fn put<T: Bits, const N: usize>(
    src: *const u8,
    indices: *const u8,
    y: *mut u8,
    last: *const u32,
    params: &ScatterParams,
) {
    let (elements, is_there) = own_elements::<N>(thread::block_idx_x(), params.walk.len - 1);
    let starts = offsets::<4, N>(&params.walk, elements);
    let mut stays = [false; N];
    // SAFETY: the launch's promise. Elements beyond the last one become the last, and an invalid
    // place becomes the first, so that loads need no condition and come one after the other. An
    // element of y belongs to the last position that has its index.
    unsafe {
        let found = indices_at(
            indices,
            starts.map(|at| at[2]),
            (params.index_bytes as u32, params.wrap),
        );
        // Asked for before it is known whether the row stays: that is a wait less.
        let values = starts.map(|at| T::load(src.wrapping_offset(at[0] as isize)));
        let mut last_ones = [0; N];
        for j in 0..N {
            // A negative one is larger than any extent.
            stays[j] = is_there[j] & ((found[j] as u64) < params.count);
            let at = if stays[j] { found[j] } else { 0 };
            last_ones[j] = last.wrapping_offset(at as isize).read();
        }
        for j in 0..N {
            let position = params.first.wrapping_add(starts[j][3] as u64) as u32;
            stays[j] &= last_ones[j] == position + 1;
        }
        for j in 0..N {
            if stays[j] {
                let row = found[j].wrapping_mul(params.stride);
                let to = starts[j][1].wrapping_add(row);
                values[j].store(y.wrapping_offset(to as isize));
            }
        }
    }
}

macro_rules! few {
    ($($name:ident($ty:ty);)*) => {$(
        #[doc = concat!("Puts rows of few indices, in elements as wide as ", stringify!($ty), ".")]
        ///
        /// # Safety
        /// Launched as `abi::scatter` says, with tensors of these extents and strides.
        #[kernel(max_threads = THREADS)]
        pub unsafe fn $name(
            src: *const u8,
            indices: *const u8,
            y: *mut u8,
            params: ByValue<ScatterFewParams, 904>,
        ) {
            const PER_THREAD: usize = ScatterFewEntry::PER_THREAD as usize;
            // SAFETY: the launch's promise.
            unsafe { scatter_few::<$ty, PER_THREAD>(src, indices, y, &params) }
        }
    )*};
}

macro_rules! rows {
    ($($name:ident($ty:ty);)*) => {$(
        #[doc = concat!("Puts rows of last positions, in elements as wide as ", stringify!($ty), ".")]
        ///
        /// # Safety
        /// Launched as `abi::scatter` says, with tensors of these extents and strides, and with
        /// what
        /// `scatter_last` wrote.
        #[kernel(max_threads = THREADS)]
        pub unsafe fn $name(
            src: *const u8,
            indices: *const u8,
            y: *mut u8,
            last: *const u32,
            params: ByValue<ScatterParams, 472>,
        ) {
            const PER_THREAD: usize = ScatterEntry::read(stringify!($name)).per_thread() as usize;
            // SAFETY: the launch's promise.
            unsafe { put::<$ty, PER_THREAD>(src, indices, y, last, &params) }
        }
    )*};
}

abi::scatter_few!(few);
abi::scatter_rows!(rows);
