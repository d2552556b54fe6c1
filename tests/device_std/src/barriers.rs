//! Barriers of a block, and what it reduces.

use cuda_std::{barrier, block, dynamic_shared, kernel, shared_array, thread};

/// Threads of a block.
const THREADS: u32 = 128;

/// `out[question * 128 + thread]`.
///
/// # Safety
/// One block of 128 threads with 512 bytes of dynamic shared memory; `out` holds 6 * 128 words.
#[kernel(max_threads = THREADS, min_blocks = 2, dynamic_shared = 4 * THREADS)]
pub unsafe fn block_answers(out: *mut u32) {
    let scratch = shared_array![f32; block::WARPS_MAX];
    let words = dynamic_shared![u32];
    let thread = thread::thread_idx_x();
    let mut at = out.wrapping_add(thread as usize);
    let mut answer = |word: u32| {
        // SAFETY: the launch's array is long enough.
        unsafe { at.write(word) };
        at = at.wrapping_add(THREADS as usize);
    };
    // SAFETY: all threads are here; each word is written by one and read after a barrier.
    unsafe {
        answer(barrier::bar_red_popc(thread % 4 == 1));
        answer(u32::from(barrier::bar_red_and(thread < 200)));
        answer(u32::from(barrier::bar_red_or(thread == 77)));
        answer(block::reduce(thread as f32, scratch, |a, b| a + b) as u32);
        words.add(thread as usize).write(thread * 3);
        barrier::bar_sync(1, THREADS);
        answer(words.add((THREADS - 1 - thread) as usize).read());
        thread::sync_threads();
        // The first two warps produce, the others consume.
        if thread < THREADS / 2 {
            words.add(thread as usize).write(thread + 1000);
            barrier::bar_arrive(2, THREADS);
            answer(0);
        } else {
            barrier::bar_sync(2, THREADS);
            answer(words.add((thread - THREADS / 2) as usize).read());
        }
    }
}
