//! Example 04.

use cuda_std::prelude::*;

/// Threads of a block.
const THREADS: u32 = 128;

/// Euclidean length of each row of a matrix, one block a row.
///
/// # Safety
/// Blocks of 128 threads, one for each of the matrix's rows of `columns` elements; `norms` holds
/// one element a row.
#[kernel(max_threads = THREADS)]
pub unsafe fn row_norms(x: *const f32, norms: *mut f32, columns: usize) {
    let scratch = shared_array![f32; block::WARPS_MAX];
    let row = thread::block_idx_x() as usize;
    let mut squares = 0.0;
    let mut i = thread::thread_idx_x() as usize;
    while i < columns {
        // SAFETY: an element of this block's row.
        let value = unsafe { *x.add(row * columns + i) };
        squares = math::fma(value, value, squares);
        i += THREADS as usize;
    }
    // SAFETY: every thread of the block is here, and the array is for this alone.
    let sum = unsafe { block::reduce(squares, scratch, |a, b| a + b) };
    if thread::thread_idx_x() == 0 {
        // SAFETY: this block's element.
        unsafe { *norms.add(row) = math::sqrt(sum) };
    }
}
