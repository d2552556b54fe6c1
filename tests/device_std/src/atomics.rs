//! Atomic operations, by many threads on one word each.

use core::sync::atomic::Ordering;

use cuda_std::atomic::{self, AtomicBf16, AtomicF16, AtomicF32, AtomicF64, Order, Scope};
use cuda_std::{kernel, shared_array, thread};
use half::{bf16, f16};

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

macro_rules! float_extrema {
    ($($name:ident($ty:ty, $atomic:ty);)*) => {$(
        /// The minimum and the maximum of `values` and of `out[0]` and `out[1]`, their sum in `out[2]`,
        /// and the minimum of each block in `out[3 + block]`, which the host starts.
        ///
        /// # Safety
        /// Blocks of 64 threads, as many in all as `values` has elements; `out` has `3 + blocks`.
        #[kernel(max_threads = 64)]
        pub unsafe fn $name(values: *const $ty, out: *mut $ty) {
            let shared = shared_array![$ty; 1];
            let (thread, block) = (thread::thread_idx_x(), thread::block_idx_x() as usize);
            // SAFETY: the launch's arrays are long enough; all accesses to an element of `out` are atomic
            // or a barrier apart, and an atomic has its number's layout.
            unsafe {
                let value = *values.add(thread::index_1d() as usize);
                atomic::atom_min(out, value, Order::AcqRel, Scope::Gpu);
                atomic::atom_max(out.add(1), value, Order::Relaxed, Scope::Sys);
                let sum = &*out.add(2).cast::<$atomic>();
                sum.fetch_add(value, Ordering::Relaxed);
                if thread == 0 {
                    shared.write(*out.add(3 + block));
                }
                thread::sync_threads();
                atomic::atom_min(shared, value, Order::Relaxed, Scope::Cta);
                thread::sync_threads();
                if thread == 0 {
                    let of_block = &*out.add(3 + block).cast::<$atomic>();
                    let before = of_block.swap(*shared, Ordering::Relaxed);
                    of_block.fetch_min(before, Ordering::SeqCst);
                    of_block.fetch_max(*shared, Ordering::AcqRel);
                }
            }
        }
    )*};
}

float_extrema! {
    extrema_f32(f32, AtomicF32);
    extrema_f64(f64, AtomicF64);
    extrema_f16(f16, AtomicF16);
    extrema_bf16(bf16, AtomicBf16);
}
