//! `core::sync::atomic`: patterns that need an order, and values smaller than a word.

use core::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{
    AtomicBool, AtomicI8, AtomicI32, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, fence,
};

use cuda_std::{kernel, shared_array, thread};

/// The thread's number among those that take part, their count, and the memory that they share:
/// the first thread of each block, and global memory.
macro_rules! global {
    ($ty:ty, $memory:ident) => {{
        let part = (thread::thread_idx_x() == 0).then(thread::block_idx_x);
        (part, thread::grid_dim_x(), $memory)
    }};
}

/// The same for the first thread of each warp of a block, and shared memory.
macro_rules! shared {
    ($ty:ty, $memory:ident) => {{
        let words = shared_array![$ty; 16];
        let thread = thread::thread_idx_x();
        if thread < 16 {
            words.add(thread as usize).write(0);
        }
        thread::sync_threads();
        let part = (thread % 32 == 0).then_some(thread / 32);
        (part, thread::block_dim_x() / 32, words)
    }};
}

macro_rules! patterns {
    ($($name:ident: $ty:ty, $atomic:ident, $space:ident, $orders:expr;)*) => {$(
        /// Pattern 0: the last to count itself sums what all wrote. Pattern 1: a message behind a
        /// flag. Pattern 2: a sum under a lock. Part 0 begins with 1, part 1 with 2, and so on.
        ///
        /// # Safety
        /// 2 to 12 blocks of a warp each, or one block of 2 to 12 warps; `memory` has 16 zeros,
        /// `out` one value.
        #[kernel(max_threads = 384)]
        pub unsafe fn $name(pattern: u32, memory: *mut $ty, out: *mut $ty) {
            const ORDERS: [Ordering; 3] = $orders;
            const ACQUIRE: Ordering = ORDERS[0];
            const RELEASE: Ordering = ORDERS[1];
            const ACQ_REL: Ordering = ORDERS[2];
            // SAFETY: the arrays are long enough. The atomic orders all accesses to the others, or
            // this is a variant that the emulator must refuse.
            unsafe {
                let (part, parts, memory) = $space!($ty, memory);
                let Some(part) = part else { return };
                let word = $atomic::from_ptr(memory);
                let data = memory.add(1);
                let value = part as $ty + 1;
                match pattern {
                    0 => {
                        data.add(part as usize).write(value);
                        if word.fetch_add(1, ACQ_REL) == parts as $ty - 1 {
                            let mut sum = 0;
                            for other in 0..parts as usize {
                                sum += data.add(other).read();
                            }
                            out.write(sum);
                        }
                    }
                    1 => {
                        if part == 0 {
                            data.write(77);
                            word.store(1, RELEASE);
                        } else if part == 1 {
                            while word.load(ACQUIRE) == 0 {}
                            out.write(data.read());
                        }
                    }
                    _ => {
                        while word.compare_exchange(0, 1, ACQUIRE, Relaxed).is_err() {}
                        let (sum, count) = (data.read() + value, data.add(1).read() + 1);
                        data.write(sum);
                        data.add(1).write(count);
                        if count == parts as $ty {
                            out.write(sum);
                        }
                        word.store(0, RELEASE);
                    }
                }
            }
        }
    )*};
}

patterns! {
    ordered_u32_global: u32, AtomicU32, global, [Acquire, Release, AcqRel];
    ordered_u32_shared: u32, AtomicU32, shared, [Acquire, Release, AcqRel];
    ordered_i32_global: i32, AtomicI32, global, [Acquire, Release, AcqRel];
    ordered_i32_shared: i32, AtomicI32, shared, [Acquire, Release, AcqRel];
    ordered_u64_global: u64, AtomicU64, global, [Acquire, Release, AcqRel];
    ordered_u64_shared: u64, AtomicU64, shared, [Acquire, Release, AcqRel];
    sequential_u32_global: u32, AtomicU32, global, [SeqCst, SeqCst, SeqCst];
    sequential_u64_shared: u64, AtomicU64, shared, [SeqCst, SeqCst, SeqCst];
    relaxed_u32_global: u32, AtomicU32, global, [Relaxed, Relaxed, Relaxed];
    relaxed_u32_shared: u32, AtomicU32, shared, [Relaxed, Relaxed, Relaxed];
    relaxed_i32_global: i32, AtomicI32, global, [Relaxed, Relaxed, Relaxed];
    relaxed_i32_shared: i32, AtomicI32, shared, [Relaxed, Relaxed, Relaxed];
    relaxed_u64_global: u64, AtomicU64, global, [Relaxed, Relaxed, Relaxed];
    relaxed_u64_shared: u64, AtomicU64, shared, [Relaxed, Relaxed, Relaxed];
}

/// Relaxed accesses between fences; what [`fence`] and an `AtomicPtr` hand over.
///
/// # Safety
/// 2 blocks; `data` has two words, `slot` is null, `out` has one word.
#[kernel(max_threads = 32)]
pub unsafe fn handed_by_pointer(data: *mut u32, slot: *mut *mut u32, out: *mut u32) {
    if thread::thread_idx_x() != 0 {
        return;
    }
    // SAFETY: the pointer hands over the second word; the fences order its accesses.
    unsafe {
        let slot = AtomicPtr::from_ptr(slot);
        if thread::block_idx_x() == 0 {
            data.add(1).write(99);
            fence(Release);
            slot.store(data.add(1), Relaxed);
        } else {
            let mut found = slot.load(Relaxed);
            while found.is_null() {
                found = slot.load(Relaxed);
            }
            fence(Acquire);
            out.write(found.read());
        }
    }
}

/// Operations of all threads on bytes and halves of the same words.
///
/// # Safety
/// `bytes` has 8 bytes at a multiple of 4: two sums, a bool, a minimum, and 4 that are not written.
/// `halves` has two 16-bit values; `words` has 3 words.
#[kernel(max_threads = 256)]
pub unsafe fn small_answers(bytes: *mut u8, halves: *mut u16, words: *mut u32) {
    let thread = thread::thread_idx_x();
    // SAFETY: the arrays are long enough, and all accesses are atomic.
    unsafe {
        AtomicU8::from_ptr(bytes).fetch_add(3, Relaxed);
        let update = |sum: u8| Some(sum.wrapping_add(5));
        let _ = AtomicU8::from_ptr(bytes.add(1)).fetch_update(AcqRel, Acquire, update);
        if !AtomicBool::from_ptr(bytes.add(2).cast()).swap(true, AcqRel) {
            AtomicU32::from_ptr(words).fetch_add(1, Relaxed);
        }
        AtomicI8::from_ptr(bytes.add(3).cast()).fetch_min(-(thread as i8 & 63), SeqCst);
        AtomicU16::from_ptr(halves).fetch_max(thread as u16 * 200, Release);
        AtomicU16::from_ptr(halves.add(1)).fetch_xor(1 << (thread % 16), Acquire);
        AtomicU32::from_ptr(words.add(1)).fetch_nand(u32::MAX, AcqRel);
        AtomicU32::from_ptr(words.add(2)).fetch_sub(thread, SeqCst);
    }
}
