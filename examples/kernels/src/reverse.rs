//! Example 05: a race.

use cuda_std::prelude::*;

/// Reverses rows of 256 elements through shared memory, with a bug for example 05 to find.
///
/// # Safety
/// It cannot be called soundly: a barrier is missing. One block of 256 threads; `x` and `y` have
/// `256 * rows` elements.
#[kernel(max_threads = 256)]
pub unsafe fn reverse_rows(x: *const f32, y: *mut f32, rows: usize) {
    let tile = shared_array![f32; 256];
    let i = thread::thread_idx_x() as usize;
    for row in 0..rows {
        // SAFETY: this thread's element of the row and of the tile.
        unsafe { *tile.add(i) = *x.add(row * 256 + i) };
        thread::sync_threads();
        // SAFETY: the barrier orders this read after the write by the other thread.
        unsafe { *y.add(row * 256 + i) = *tile.add(255 - i) };
        // The bug: the next row may overwrite the tile while other threads read it.
    }
}
