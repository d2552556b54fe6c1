//! The kernels of [`crate::safe`] by pointers, as one would write them without its types: nothing is
//! checked. The program `compare_safe` measures both (`vector_add` has its twin in
//! [`crate::vector_add`]).

use core::sync::atomic::{AtomicU32, Ordering};

use cuda_std::prelude::*;

/// Threads of a block of the stencil.
const STENCIL: usize = 256;
/// Elements on each side that a result depends on.
const HALO: usize = 2;

/// Mean of each element and its two neighbours on each side; outside of `x` there are zeros.
///
/// # Safety
/// Blocks of 256 threads; `x` and `y` have `len` elements.
#[kernel(block = 256)]
pub unsafe fn unsafe_stencil(x: *const f32, y: *mut f32, len: usize) {
    let tile = shared_array![f32; STENCIL + 2 * HALO];
    let thread = thread::thread_idx_x() as usize;
    let i = thread::index_1d() as usize;
    let mut k = thread;
    while k < STENCIL + 2 * HALO {
        let at = (i - thread + k).wrapping_sub(HALO);
        // SAFETY: an element of the tile, and of `x` where `at < len`.
        unsafe { *tile.add(k) = if at < len { *x.add(at) } else { 0.0 } };
        k += STENCIL;
    }
    thread::sync_threads();
    if i < len {
        let mut sum = 0.0;
        for k in 0..=2 * HALO {
            // SAFETY: an element of the tile, which the barrier has behind its write.
            sum += unsafe { *tile.add(thread + k) };
        }
        // SAFETY: i < len, and no other thread writes y[i].
        unsafe { *y.add(i) = sum / 5.0 };
    }
}

/// Rows and columns of a tile of the transposition.
const SIDE: usize = 32;

/// `y = x^T`, by tiles of 32 x 32 through shared memory.
///
/// # Safety
/// Blocks of 32 x 8 threads, one for each tile of `y`. `x` has `rows` times `columns` elements, whose
/// rows are `x_stride` elements apart; `y` has `columns` rows, which are `y_stride` elements apart.
#[kernel(block = (32, 8))]
pub unsafe fn unsafe_transpose(
    x: *const f32,
    y: *mut f32,
    rows: usize,
    columns: usize,
    x_stride: usize,
    y_stride: usize,
) {
    let tile = shared_array![f32; SIDE * SIDE];
    let (lane, first) = (
        thread::thread_idx_x() as usize,
        thread::thread_idx_y() as usize,
    );
    let (y_row, y_column) = (
        thread::block_idx_y() as usize * SIDE,
        thread::block_idx_x() as usize * SIDE,
    );
    for step in 0..4 {
        let row = first + 8 * step;
        let (from, at) = (y_column + row, y_row + lane);
        if from < rows && at < columns {
            // SAFETY: an element of `x`, and a place of the tile in the bank of both its row and column.
            unsafe { *tile.add(row * SIDE + (lane ^ row)) = *x.add(from * x_stride + at) };
        }
    }
    thread::sync_threads();
    for step in 0..4 {
        let row = first + 8 * step;
        let (to, at) = (y_row + row, y_column + lane);
        if to < columns && at < rows {
            // SAFETY: an element of `y` of this thread alone, and one of the tile that was written.
            unsafe { *y.add(to * y_stride + at) = *tile.add(lane * SIDE + (row ^ lane)) };
        }
    }
}

/// Softmax of each row, a block a row.
///
/// # Safety
/// Blocks of 128 threads; `x` and `y` have `rows` rows of `columns` elements.
#[kernel(block = 128)]
pub unsafe fn unsafe_softmax(x: *const f32, y: *mut f32, rows: usize, columns: usize) {
    let scratch = shared_array![f32; block::WARPS_MAX];
    let thread = thread::thread_idx_x() as usize;
    let mut row = thread::block_idx_x() as usize;
    while row < rows {
        // SAFETY: row < rows.
        let (x, y) = unsafe { (x.add(row * columns), y.add(row * columns)) };
        let mut largest = f32::NEG_INFINITY;
        let mut column = thread;
        while column < columns {
            // SAFETY: column < columns.
            largest = math::max_nan(largest, unsafe { *x.add(column) });
            column += 128;
        }
        // SAFETY: all 128 threads are here, and the scratch is for this alone.
        let largest = unsafe { block::reduce(largest, scratch, math::max_nan) };
        let mut sum = 0.0;
        let mut column = thread;
        while column < columns {
            // SAFETY: column < columns, and no other thread has this column.
            unsafe {
                let power = math::exp(*x.add(column) - largest);
                *y.add(column) = power;
                sum += power;
            }
            column += 128;
        }
        // SAFETY: as above.
        let sum = unsafe { block::reduce(sum, scratch, |a, b| a + b) };
        let mut column = thread;
        while column < columns {
            // SAFETY: as above.
            unsafe { *y.add(column) /= sum };
            column += 128;
        }
        row += thread::grid_dim_x() as usize;
    }
}

/// How often each value occurs. A value that has no counter is counted in the last one.
///
/// # Safety
/// `values` has `len` elements, `counts` has `counters`, at least one.
#[kernel]
pub unsafe fn unsafe_histogram(values: *const u32, counts: *mut u32, len: usize, counters: usize) {
    let step = thread::block_dim_x() as usize * thread::grid_dim_x() as usize;
    let mut i = thread::index_1d() as usize;
    while i < len {
        // SAFETY: i < len.
        let value = unsafe { *values.add(i) } as usize;
        // SAFETY: a counter, which all threads access as an atomic.
        let counter = unsafe { AtomicU32::from_ptr(counts.add(value.min(counters - 1))) };
        counter.fetch_add(1, Ordering::Relaxed);
        i += step;
    }
}

/// `sums[s]` is the sum of `x[starts[s]..starts[s + 1]]`, a block a segment.
///
/// # Safety
/// Blocks of 128 threads. `starts` has `segments + 1` elements, which do not decrease and are indices
/// of `x` or its end; `sums` has `segments`.
#[kernel(block = 128)]
pub unsafe fn unsafe_segmented_sum(
    x: *const f32,
    starts: *const u32,
    sums: *mut f32,
    segments: usize,
) {
    let scratch = shared_array![f32; block::WARPS_MAX];
    let thread = thread::thread_idx_x() as usize;
    let mut segment = thread::block_idx_x() as usize;
    while segment < segments {
        // SAFETY: segment < segments.
        let (start, end) = unsafe {
            (
                *starts.add(segment) as usize,
                *starts.add(segment + 1) as usize,
            )
        };
        let mut sum = 0.0;
        let mut at = start + thread;
        while at < end {
            // SAFETY: an index of `x`.
            sum += unsafe { *x.add(at) };
            at += 128;
        }
        // SAFETY: all 128 threads are here, and the scratch is for this alone.
        let sum = unsafe { block::reduce(sum, scratch, |a, b| a + b) };
        if thread == 0 {
            // SAFETY: segment < segments, and no other block writes it.
            unsafe { *sums.add(segment) = sum };
        }
        segment += thread::grid_dim_x() as usize;
    }
}
