//! Atomic operations, by many threads on one word each.

use cuda_std::atomic::{self, Order, Scope};
use cuda_std::{kernel, shared_array, thread};

/// `words[i]` is one operation's, started by the host; `wide[i]` likewise.
///
/// # Safety
/// One block of 64 threads; `words` holds 10 words, `wide` 4 doublewords.
#[kernel(max_threads = 64)]
pub unsafe fn atomic_answers(words: *mut u32, wide: *mut u64) {
    let thread = thread::thread_idx_x();
    let shared = shared_array![u32; 1];
    // SAFETY: the launch's arrays are long enough; all accesses to a word are atomic or a barrier
    // apart.
    unsafe {
        atomic::atom_add(words, thread, Order::Relaxed, Scope::Gpu);
        atomic::atom_min(
            words.add(1).cast::<i32>(),
            -(thread as i32),
            Order::AcqRel,
            Scope::Cta,
        );
        atomic::atom_max(words.add(2), thread, Order::Acquire, Scope::Sys);
        atomic::atom_and(
            words.add(3),
            !(1 << (thread % 32)),
            Order::Release,
            Scope::Gpu,
        );
        atomic::atom_or(words.add(4), 1 << (thread % 16), Order::Relaxed, Scope::Gpu);
        atomic::atom_xor(words.add(5), 1 << (thread % 32), Order::Relaxed, Scope::Gpu);
        if thread == 9 {
            let before = atomic::atom_exch(words.add(6), 4, Order::Relaxed, Scope::Gpu);
            words.add(7).write(before);
        }
        atomic::atom_cas(words.add(8), 100, thread, Order::Relaxed, Scope::Gpu);
        atomic::atom_add(wide, 1 << 33, Order::Relaxed, Scope::Gpu);
        atomic::atom_max(
            wide.add(1).cast::<i64>(),
            -5 - i64::from(thread),
            Order::Relaxed,
            Scope::Gpu,
        );
        atomic::atom_add(wide.add(2).cast::<f64>(), 0.25, Order::Relaxed, Scope::Gpu);
        atomic::atom_add(wide.add(3).cast::<f32>(), 0.5, Order::Relaxed, Scope::Gpu);
        if thread == 0 {
            shared.write(1);
        }
        thread::sync_threads();
        atomic::atom_add(shared, 2, Order::Relaxed, Scope::Cta);
        thread::sync_threads();
        if thread == 0 {
            words.add(9).write(shared.read());
        }
    }
}
